// LinkServer: the DPU's side of the host link: file data, and metadata at rate, of the mounts that
// sessions have. Mounts and open files come from the control plane, which works on the same tables.
//
//     request ─ session ─ mount, handle, rights ─ FileSystem ─ payload into or out of the host's
//     windows ─ answer
//
// Owned by who composes; reactor, sessions and mounts outlive it, and it the rpc::Servers that use
// it. Used on the file systems' core.
//
// Invariants
// - A host reaches the mounts and handles of its own session alone.
// - What is read goes through memory of this process; what is written is checked there, against the
//   host's checksum, before the file system sees it. Memory of the host is read once.
// - An update that has begun is done, whatever becomes of its connection, and its answer is kept
//   for whoever asks again.
#pragma once
#include <memory>
#include <vector>

#include "ros2s/hostlink/stored_replies.h"
#include "ros2s/hostlink/wire.h"
#include "ros2s/rpc/server.h"
#include "ros2s/session/mounts.h"

namespace ros2s::hostlink {

struct LinkServerMetrics {
    Counter reads, read_bytes, writes, written_bytes, lookups, bad_checksums;
    void visit(const MetricVisitor& visit) const;
};

class LinkServer final : public rpc::Service, public session::SessionWatcher {
  public:
    LinkServer(Reactor& reactor, session::SessionTable& sessions, session::Mounts& mounts);
    ~LinkServer() override;
    LinkServer(const LinkServer&) = delete;
    LinkServer& operator=(const LinkServer&) = delete;

    [[nodiscard]] uint32_t number() const override { return file_service; }
    Task<> serve(rpc::Request& request) override;
    [[nodiscard]] std::string_view name() const override { return "dpu.serve"; }
    Task<> session_ending(session::Session& session) override;

    [[nodiscard]] const LinkServerMetrics& metrics() const { return metrics_; }
    // Updates that were answered again instead of being done again.
    [[nodiscard]] uint64_t replies_returned() const { return replies_.returned().value(); }

  private:
    // Memory of a request, kept for the next one.
    struct Scratch {
        Buffer answer;
        std::vector<fs::ReadManyItem> items;
        std::vector<uint32_t> crcs;
    };
    // The session and the mount that a request works in, kept while it does.
    struct Using {
        session::SessionUse session;
        session::MountUse mount;
        [[nodiscard]] fs::FileSystem& fs() const { return mount->file_system(); }
    };
    Task<Result<>> answer(rpc::Request& request, Scratch& scratch);
    Result<Using> enter(const rpc::Request& request, session::MountId mount);
    Result<Using> enter(const rpc::Request& request, const FileBody& file);

    Task<Result<>> read(rpc::Request& request, Scratch& scratch);
    Task<Result<>> update(rpc::Request& request, Scratch& scratch);
    Task<Result<rpc::PayloadMemory>> take_payload(rpc::Request& request, const FileBody& file);
    Task<StoredReplies::Reply> apply(rpc::Request& request, fs::FileSystem& fs,
                                     const FileBody& file, ConstBytes payload);
    Task<Result<>> sync(rpc::Request& request);
    Task<Result<>> node(rpc::Request& request, Scratch& scratch);
    Task<Result<>> readdir(rpc::Request& request, Scratch& scratch);
    Task<Result<>> read_many(rpc::Request& request, Scratch& scratch);
    Task<Result<>> reply_items(rpc::Request& request, Scratch& scratch, Bytes memory);

    session::SessionTable& sessions_;
    session::Mounts& mounts_;
    LinkServerMetrics metrics_;
    StoredReplies replies_;
    std::vector<std::unique_ptr<Scratch>> unused_;
};

}  // namespace ros2s::hostlink
