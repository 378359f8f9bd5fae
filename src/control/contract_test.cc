// The contract of FileSystem with its namespace over gRPC. The data operations go to the server's
// file system directly, by the handles that were opened over the wire: as the data plane of the
// session does.
#include "ros2s/fs/contract/contract.h"

#include <poll.h>

#include "remote_namespace.h"
#include "test_rig.h"

namespace ros2s::control {
namespace {

using fs::Attributes;
using fs::FileHandle;
using fs::NodeId;
using fs::Owner;

// The cases run in a simulated world. Each call leaves it, and blocks this thread until the real
// reactors have done it.
class OverTheWire final : public fs::FileSystem {
  public:
    OverTheWire() : client_(rig_.client()), session_(rig_.open(*client_).id) {
        names_ =
            std::make_unique<RemoteNamespace>(*client_, session_, rig_.mount(*client_, session_));
        rig_.do_there([&] {
            const auto session = rig_.sessions.find(session_, "CN=alice");
            data_ = &(*rig_.mounts.find(*session.value(), names_->mount()))->file_system();
        });
    }

    Task<> close_all() override {
        const Call call;
        Report report;
        EXPECT_TRUE(rig_.here([&] { return names_->send_forgotten(call); }));
        EXPECT_TRUE(rig_.here([&] {
            return client_->unmount(call, session_, names_->mount(), report);
        })) << report.text();
        co_return;
    }
    Task<Result<Attributes>> lookup(const Call& call, NodeId parent,
                                    std::string_view name) override {
        co_return rig_.here([&] { return names_->lookup(call, parent, name); });
    }
    Task<Result<Attributes>> mkdir(const Call& call, NodeId parent, std::string_view name,
                                   mode_t mode, Owner owner) override {
        co_return rig_.here([&] { return names_->mkdir(call, parent, name, mode, owner); });
    }
    Task<Result<Attributes>> mknod(const Call& call, NodeId parent, std::string_view name,
                                   mode_t mode, dev_t device, Owner owner) override {
        co_return rig_.here([&] { return names_->mknod(call, parent, name, mode, device, owner); });
    }
    Task<Result<Attributes>> symlink(const Call& call, NodeId parent, std::string_view name,
                                     std::string_view target, Owner owner) override {
        co_return rig_.here([&] { return names_->symlink(call, parent, name, target, owner); });
    }
    Task<Result<Attributes>> link(const Call& call, NodeId node, NodeId parent,
                                  std::string_view name) override {
        co_return rig_.here([&] { return names_->link(call, node, parent, name); });
    }
    Task<Result<>> unlink(const Call& call, NodeId parent, std::string_view name) override {
        co_return rig_.here([&] { return names_->unlink(call, parent, name); });
    }
    Task<Result<>> rmdir(const Call& call, NodeId parent, std::string_view name) override {
        co_return rig_.here([&] { return names_->rmdir(call, parent, name); });
    }
    Task<Result<>> rename(const Call& call, NodeId parent, std::string_view name, NodeId new_parent,
                          std::string_view new_name, RenameFlags flags) override {
        co_return rig_.here(
            [&] { return names_->rename(call, parent, name, new_parent, new_name, flags); });
    }
    Task<Result<std::string>> readlink(const Call& call, NodeId node) override {
        co_return rig_.here([&] { return names_->readlink(call, node); });
    }
    Task<Result<Attributes>> get_attributes(const Call& call, NodeId node) override {
        co_return rig_.here([&] { return names_->get_attributes(call, node); });
    }
    Task<Result<Attributes>> set_attributes(const Call& call, NodeId node,
                                            const fs::SetAttributes& changes) override {
        co_return rig_.here([&] { return names_->set_attributes(call, node, changes); });
    }
    Task<Result<std::string>> get_xattr(const Call& call, NodeId node,
                                        std::string_view name) override {
        co_return rig_.here([&] { return names_->get_xattr(call, node, name); });
    }
    Task<Result<>> set_xattr(const Call& call, NodeId node, std::string_view name, ConstBytes value,
                             fs::SetXattr how) override {
        co_return rig_.here([&] { return names_->set_xattr(call, node, name, value, how); });
    }
    Task<Result<>> remove_xattr(const Call& call, NodeId node, std::string_view name) override {
        co_return rig_.here([&] { return names_->remove_xattr(call, node, name); });
    }
    Task<Result<std::vector<std::string>>> list_xattrs(const Call& call, NodeId node) override {
        co_return rig_.here([&] { return names_->list_xattrs(call, node); });
    }
    Task<Result<fs::Opened>> open(const Call& call, NodeId node, fs::OpenFlags flags) override {
        co_return rig_.here([&] { return names_->open(call, node, flags); });
    }
    Task<Result<fs::Opened>> create(const Call& call, NodeId parent, std::string_view name,
                                    mode_t mode, fs::OpenFlags flags, Owner owner) override {
        co_return rig_.here([&] { return names_->create(call, parent, name, mode, flags, owner); });
    }
    Task<Result<>> close(const Call& call, FileHandle handle) override {
        co_return rig_.here([&] { return names_->close(call, handle); });
    }
    Task<Result<std::vector<fs::DirectoryEntry>>> readdir(const Call& call, FileHandle handle,
                                                          uint64_t cookie, size_t limit) override {
        co_return rig_.here([&] { return names_->readdir(call, handle, cookie, limit); });
    }
    Task<Result<fs::FileSystemSpace>> space(const Call& call) override {
        co_return rig_.here([&] { return names_->space(call); });
    }
    void forget(NodeId node, uint64_t count) override {
        run_on(*rig_.client_reactor, [&] { names_->forget(node, count); });
    }

    Task<Result<uint64_t>> pread(const Call& call, FileHandle handle, fs::Window into,
                                 uint64_t offset) override {
        co_return rig_.there([&] { return data_->pread(call, handle, into, offset); });
    }
    Task<Result<uint64_t>> pwrite(const Call& call, FileHandle handle, fs::Window from,
                                  uint64_t offset) override {
        co_return rig_.there([&] { return data_->pwrite(call, handle, from, offset); });
    }
    Task<Result<>> fsync(const Call& call, FileHandle handle) override {
        co_return rig_.there([&] { return data_->fsync(call, handle); });
    }
    Task<Result<>> punch_hole(const Call& call, FileHandle handle, uint64_t offset,
                              uint64_t length) override {
        co_return rig_.there([&] { return data_->punch_hole(call, handle, offset, length); });
    }
    Result<fs::PathReport> path_report(FileHandle handle) const override {
        return data_->path_report(handle);
    }
    Task<Result<>> read_many(const Call& call, NodeId directory,
                             std::span<fs::ReadManyItem> items) override {
        co_return rig_.there([&] { return data_->read_many(call, directory, items); });
    }

  private:
    mutable Rig rig_;
    std::unique_ptr<ControlClient> client_;
    session::SessionId session_;
    std::unique_ptr<RemoteNamespace> names_;
    fs::FileSystem* data_ = nullptr;
};

class RemoteSubject final : public fs::contract::Subject {
  public:
    explicit RemoteSubject(uint64_t seed) : world_(seed) {}
    fs::FileSystem& file_system() override { return remote_; }
    sim::World& world() override { return world_; }
    // Times come from the server's clock, not from the world's.
    void let_time_pass() override { (void)::poll(nullptr, 0, 2); }

  private:
    sim::World world_;
    OverTheWire remote_;
};

const bool registered = fs::contract::register_contract(
    "RemoteNamespace", {.property_runs = 3, .property_steps = 100},
    [](uint64_t seed) { return std::make_unique<RemoteSubject>(seed); });

}  // namespace
}  // namespace ros2s::control
