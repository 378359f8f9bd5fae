// LinkServer: the DPU's side of the host link: the file systems of the sessions' mounts. Mounts
// come from the control plane, which uses the same tables. Requests about names go through
// session::MountNames, as the control plane's do.
//
// What differs between methods is in one table (link_methods.cc).
//
//     request ─ session ─ mount, handle, rights ─ FileSystem ─ payload into or out of the host's
//     windows ─ answer
//
// Owned by the composing code. Reactor, sessions and mounts outlive it, and it outlives the
// rpc::Servers that use it. Used on the file systems' core.
//
// Invariants
// - A host can use the mounts and handles of its own session only.
// - Written data is compared with the host's checksum, here or by the store, before it is written.
// - With placement `dpu` the file system works on memory of this process, and memory of the host is
//   read once. With placement `host` it works on the host's memory, which the host can change at
//   any time. Stores check copies of their own (object::Window::shared), so the host can damage
//   only its own data. A file system decides whether the caller may read before it puts bytes
//   there.
// - An update that has begun is finished, whatever happens to its connection. Its answer is kept
//   for a repetition.
#pragma once
#include <array>
#include <memory>
#include <string_view>
#include <vector>

#include "ros2s/fs/payload_checksums.h"
#include "ros2s/hostlink/stored_replies.h"
#include "ros2s/hostlink/wire.h"
#include "ros2s/rpc/rpc_metrics.h"
#include "ros2s/rpc/server.h"
#include "ros2s/runtime/slices.h"
#include "ros2s/session/mounts.h"

namespace ros2s::hostlink {

// The memory that has a host's payload while the file system works on it. Payload that travels in
// the request or its answer is always in the DPU's memory.
enum class Placement : uint8_t {
    dpu,   // in memory of this process: copied once from or to the host's memory
    host,  // in the host's memory, if the provider has it mapped; otherwise as `dpu`
};

// Why a read of a file does not go straight (straight_read.h).
enum class NotStraight : uint8_t {
    node,      // it names a node, which has to be opened
    traced,    // its steps are recorded
    deadline,  // its host waits for a limited time
    large,     // its reply does not fit a frame
    rights,    // the rights wait for news of the engine
    invalid,   // its body, session, mount or handle
    file,      // not one chunk before the file's known end, or not of a container on an engine
    store,     // encrypted, or no connection, credit or room at this moment
    lost,      // it began, and was stopped, or the store's reply was an error or not whole
};
inline constexpr std::array<std::string_view, 9> not_straight_names{
    "node", "traced", "deadline", "large", "rights", "invalid", "file", "store", "lost"};

struct LinkServerMetrics {
    Counter straight_reads;
    std::array<Counter, not_straight_names.size()> not_straight;  // by reason
    Counter reads, read_bytes, writes, written_bytes, lookups, changes, bad_checksums;
    Counter dpu_bytes, host_bytes;  // of reads and writes, by the location of the payload
    void visit(const MetricVisitor& visit) const;
};

class StraightRead;

class LinkServer final : public rpc::Service, public session::SessionWatcher {
  public:
    LinkServer(Reactor& reactor, session::SessionTable& sessions, session::Mounts& mounts,
               Placement placement = Placement::dpu);
    ~LinkServer() override;
    LinkServer& operator=(LinkServer&&) = delete;

    [[nodiscard]] uint32_t number() const override { return file_service; }
    Task<> serve(rpc::Request& request) override;
    bool serve_straight(rpc::Request& request, std::coroutine_handle<> waiter) override;
    void refused(const rpc::Request& request, const Error& why) override;
    [[nodiscard]] admission::Work work(const rpc::Request& request) const override;
    [[nodiscard]] bool is_awaited(const rpc::Request& request) const override {
        return request.method() == static_cast<uint16_t>(Method::listen);
    }
    [[nodiscard]] uint64_t reply_memory_bytes(const rpc::Request& request) const override;
    [[nodiscard]] std::string_view name() const override { return "dpu.serve"; }
    [[nodiscard]] std::string_view method_name(uint16_t method) const override {
        return times_.name(method);
    }
    Task<> session_ending(session::Session& session) override;

    [[nodiscard]] const LinkServerMetrics& metrics() const { return metrics_; }
    void visit_times(const HistogramVisitor& visit) const { times_.visit(visit); }
    // Repeated updates that were answered and not done again.
    [[nodiscard]] uint64_t replies_returned() const { return replies_.returned().value(); }
    // Memory of requests that are done, kept for later ones.
    [[nodiscard]] size_t kept_bytes() const;

  private:
    friend class StraightRead;
    // Memory of a request, reused by the next one, unless it is large.
    struct Scratch {
        explicit Scratch(SliceTurns& turns) : checksums(turns) {}
        static constexpr size_t kept_max = 64;
        static constexpr size_t kept_bytes_max = size_t{64} << 10;
        // Without texts in `items`, which are removed before it is kept.
        [[nodiscard]] size_t bytes() const {
            return answer.capacity() + items.capacity() * sizeof(items[0]) +
                   (checksums.pieces.capacity() + checksums.items.capacity()) * sizeof(uint32_t);
        }
        Buffer answer;
        std::vector<fs::ReadManyItem> items;
        fs::PayloadChecksums checksums;
        fs::UserClaim user;
    };
    // The session and the mount of a request, held while it runs.
    struct MountInUse {
        session::SessionUse session;
        session::MountUse mount;
        [[nodiscard]] fs::FileSystem& fs() const { return mount->file_system(); }
    };
    // A request's payload: in our memory or in the host's.
    struct Payload {
        rpc::PayloadMemory ours;
        fabric::Mapping theirs;
        fs::Window window;
        [[nodiscard]] bool in_place() const { return window.shared; }
    };
    // Answers, or returns the error to answer with.
    using Handler = Task<Result<>> (LinkServer::*)(rpc::Request&, Scratch&);
    enum Property : unsigned {
        plain = 0,
        has_node = 1,    // behind the mount, for audit lines; others have a handle or a path there
        is_change = 2,   // for admission
        gives_back = 4,  // needs no rights: it is done for every user
    };
    struct MethodRow {
        Method method;
        std::string_view name;  // for metrics and people
        unsigned properties;
        Handler handler;
        // The most memory that the reply's body may need, with what it is made from. Null: little.
        uint64_t (*reply_bytes)(const rpc::Request&) = nullptr;
        [[nodiscard]] bool has(Property property) const { return (properties & property) != 0; }
    };
    static const std::array<MethodRow, method_count> methods;
    static const MethodRow* find_method(uint16_t number);  // null: there is none
    static std::span<const std::string_view> method_names();

    Result<MountInUse> enter(const rpc::Request& request, session::MountId mount);
    Result<MountInUse> enter(const rpc::Request& request, const FileBody& file);
    // The user as whom it acts. Errors: denied, with an audit line.
    static Result<fs::Caller> caller_for(rpc::Request& request, const MountInUse& entered,
                                         fs::UserClaim& claim);

    Task<Result<>> read(rpc::Request& request, Scratch& scratch);
    Task<Result<>> read_node(rpc::Request& request, Scratch& scratch);
    Task<Result<>> read_file(rpc::Request& request, Scratch& scratch, fs::FileSystem& files,
                             fs::FileHandle handle, uint64_t offset);
    Task<Result<>> update(rpc::Request& request, Scratch& scratch);
    Task<Result<Payload>> sink(rpc::Request& request);
    Task<Result<Payload>> source(rpc::Request& request);
    [[nodiscard]] Result<Payload> in_place(Result<fabric::Mapping> mapping);
    void count(const Payload& payload, uint64_t bytes) {
        (payload.in_place() ? metrics_.host_bytes : metrics_.dpu_bytes).add(bytes);
    }
    Task<StoredReplies::Reply> apply(rpc::Request& request, const MountInUse& entered,
                                     const FileBody& file, fs::Window payload,
                                     fs::PayloadChecksums& checksums);
    Task<Result<>> seek(rpc::Request& request, Scratch& scratch);
    Task<Result<>> lock(rpc::Request& request, Scratch& scratch);
    Task<Result<>> sync(rpc::Request& request, Scratch& scratch);
    // Decodes the body, and answers with the result of `apply(names, call, body)`.
    template <auto apply>
    Task<Result<>> ask(rpc::Request& request, Scratch& scratch);
    // The same for a request that is done once: opens a file, or changes names or attributes.
    template <auto apply>
    Task<Result<>> change(rpc::Request& request, Scratch& scratch);
    template <auto apply>
    static constexpr Handler asks = &LinkServer::ask<apply>;
    template <auto apply>
    static constexpr Handler changes = &LinkServer::change<apply>;
    Task<Result<>> readdir(rpc::Request& request, Scratch& scratch);
    Task<Result<>> readdir_many(rpc::Request& request, Scratch& scratch);
    Task<Result<>> listen(rpc::Request& request, Scratch& scratch);
    Task<Result<>> read_many(rpc::Request& request, Scratch& scratch);
    Task<Result<>> blocks(rpc::Request& request, Scratch& scratch);
    // Receives the bytes of a put, and verifies them.
    Task<Result<>> receive_blocks(rpc::Request& request, std::span<const SentBlock> sent,
                                  Bytes memory, std::span<fs::BlockItem> items);
    Task<Result<>> sum_items(const Call& call, Scratch& scratch);
    Task<Result<>> reply_items(rpc::Request& request, Scratch& scratch, Payload& payload);
    // For more than a slice. Errors: cancelled, deadline.
    Task<Result<uint32_t>> long_checksum(const Call& call, ConstBytes bytes);

    Reactor& reactor_;
    session::SessionTable& sessions_;
    session::Mounts& mounts_;
    const Placement placement_;
    LinkServerMetrics metrics_;
    rpc::MethodTimes times_{method_names()};
    StoredReplies replies_;
    SliceTurns summing_;
    std::vector<std::unique_ptr<Scratch>> unused_;
    // As many as were in progress at the same time: at most the credits of all hosts.
    std::vector<std::unique_ptr<StraightRead>> straight_;
    std::vector<StraightRead*> straight_unused_;
};

}  // namespace ros2s::hostlink
