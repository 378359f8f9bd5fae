// The contract of FileSystem for clients of a DPU, on shared memory. Hosts use only the host link.
// Generic clients use gRPC for names and the host link for data, in one session.
#include "ros2s/fs/contract/contract.h"

#include <poll.h>

#include <map>

#include "ros2s/control/test_support/remote_namespace.h"
#include "ros2s/fabric/shm/shm.h"
#include "ros2s/hostlink/link_client.h"
#include "ros2s/hostlink/link_server.h"
#include "ros2s/session/gate.h"
#include "ros2s/session/test_support/fixed_mount.h"
#include "test_support/test_rig.h"

namespace ros2s::control {
namespace {

using fs::Attributes;
using fs::FileHandle;
using fs::NodeId;
using fs::Owner;

// The data plane of the rig's server: a link server on shared memory.
struct DataPlane {
    DataPlane(Rig& rig, hostlink::Placement placement)
        : service(*rig.server_reactor, rig.sessions, rig.mounts, placement),
          gate(rig.sessions, session::Purpose::link) {}
    Task<> start(Reactor& reactor, Report& report) {
        domain = fabric::shm::open_domain(reactor);
        auto listening =
            co_await rpc::Server::listen(reactor, *domain, address, service, gate, {}, report);
        EXPECT_TRUE(listening) << report.text();
        server = std::move(*listening);
        gate.add(*server);
    }
    Task<> stop() {
        gate.remove(*server);
        co_await server->close();
        server.reset();
        co_await domain->close();
        domain.reset();
    }
    TemporaryDirectory directory;
    std::string address = directory.path() + "/link.sock";
    hostlink::LinkServer service;
    session::SessionGate gate;
    std::unique_ptr<fabric::Domain> domain;
    std::unique_ptr<rpc::Server> server;
};

// Asks the control plane.
class Tickets final : public rpc::TicketSource {
  public:
    Tickets(ControlClient& client, session::SessionId session)
        : client_(client), session_(session) {}
    Task<Result<std::string>> take(Report& report) override {
        const Call call;
        ROS2S_CO_TRY_ASSIGN(const GivenTicket given,
                            co_await client_.issue_ticket(call, session_, report));
        co_return std::string(given.ticket.view());
    }

  private:
    ControlClient& client_;
    session::SessionId session_;
};

enum class Names : uint8_t { by_link, by_grpc };

// The cases run in a simulated world. Each call leaves it, and blocks this thread until the real
// reactors have finished. Files are opened by the link, where their bytes are read.
class OverTheWire final : public fs::FileSystem {
  public:
    OverTheWire(hostlink::Placement placement, Names names)
        : data_(rig_, placement),
          client_(rig_.client()),
          session_(rig_.open(*client_).id),
          tickets_(*client_, session_) {
        Report report;
        names_ = std::make_unique<RemoteNamespace>(*client_, locator_, alice);
        rig_.there([&] { return data_.start(*rig_.server_reactor, report); });
        rig_.here([&] { return connect(report); });
        by_ = names == Names::by_link ? static_cast<fs::Namespace*>(link_.get()) : names_.get();
    }
    ~OverTheWire() override {
        rig_.here([&] { return disconnect(); });
        rig_.there([&] { return data_.stop(); });
    }

    Task<> close_all() override {
        const Call call;
        Report report;
        rig_.here([&] { return link_->close_all(); });
        EXPECT_TRUE(rig_.here([&] { return names_->send_forgotten(call); }));
        EXPECT_TRUE(rig_.here([&] {
            return client_->unmount(call, session_, locator_.location().mount, report);
        })) << report.text();
        co_return;
    }
    Task<Result<Attributes>> lookup(const Call& call, NodeId parent,
                                    std::string_view name) override {
        co_return rig_.here([&] { return by_->lookup(call, parent, name); });
    }
    Task<Result<Attributes>> mkdir(const Call& call, NodeId parent, std::string_view name,
                                   mode_t mode, Owner owner) override {
        co_return rig_.here([&] { return by_->mkdir(call, parent, name, mode, owner); });
    }
    Task<Result<Attributes>> mknod(const Call& call, NodeId parent, std::string_view name,
                                   mode_t mode, dev_t device, Owner owner) override {
        co_return rig_.here([&] { return by_->mknod(call, parent, name, mode, device, owner); });
    }
    Task<Result<Attributes>> symlink(const Call& call, NodeId parent, std::string_view name,
                                     std::string_view target, Owner owner) override {
        co_return rig_.here([&] { return by_->symlink(call, parent, name, target, owner); });
    }
    Task<Result<Attributes>> link(const Call& call, NodeId node, NodeId parent,
                                  std::string_view name) override {
        co_return rig_.here([&] { return by_->link(call, node, parent, name); });
    }
    Task<Result<>> unlink(const Call& call, NodeId parent, std::string_view name) override {
        co_return rig_.here([&] { return by_->unlink(call, parent, name); });
    }
    Task<Result<>> rmdir(const Call& call, NodeId parent, std::string_view name) override {
        co_return rig_.here([&] { return by_->rmdir(call, parent, name); });
    }
    Task<Result<>> rename(const Call& call, NodeId parent, std::string_view name, NodeId new_parent,
                          std::string_view new_name, RenameFlags flags) override {
        co_return rig_.here(
            [&] { return by_->rename(call, parent, name, new_parent, new_name, flags); });
    }
    Task<Result<std::string>> readlink(const Call& call, NodeId node) override {
        co_return rig_.here([&] { return by_->readlink(call, node); });
    }
    Task<std::vector<Result<Attributes>>> lookup_many(
        const Call& call, NodeId parent, std::span<const std::string_view> names) override {
        co_return rig_.here([&] { return by_->lookup_many(call, parent, names); });
    }
    Task<std::vector<Result<>>> create_many(const Call& call, NodeId parent,
                                            std::span<const std::string_view> names, mode_t mode,
                                            Owner owner) override {
        co_return rig_.here([&] { return by_->create_many(call, parent, names, mode, owner); });
    }
    Task<std::vector<Result<>>> unlink_many(const Call& call, NodeId parent,
                                            std::span<const std::string_view> names) override {
        co_return rig_.here([&] { return by_->unlink_many(call, parent, names); });
    }
    Task<Result<Attributes>> get_attributes(const Call& call, NodeId node) override {
        co_return rig_.here([&] { return by_->get_attributes(call, node); });
    }
    Task<Result<Attributes>> set_attributes(const Call& call, NodeId node,
                                            const fs::SetAttributes& changes) override {
        co_return rig_.here([&] { return by_->set_attributes(call, node, changes); });
    }
    Task<Result<std::string>> get_xattr(const Call& call, NodeId node,
                                        std::string_view name) override {
        co_return rig_.here([&] { return by_->get_xattr(call, node, name); });
    }
    Task<Result<>> set_xattr(const Call& call, NodeId node, std::string_view name, ConstBytes value,
                             fs::SetXattr how) override {
        co_return rig_.here([&] { return by_->set_xattr(call, node, name, value, how); });
    }
    Task<Result<>> remove_xattr(const Call& call, NodeId node, std::string_view name) override {
        co_return rig_.here([&] { return by_->remove_xattr(call, node, name); });
    }
    Task<Result<std::vector<std::string>>> list_xattrs(const Call& call, NodeId node) override {
        co_return rig_.here([&] { return by_->list_xattrs(call, node); });
    }
    Task<Result<fs::Opened>> open(const Call& call, NodeId node, fs::OpenFlags flags) override {
        const auto opened = rig_.here([&] { return link_->open(call, node, flags); });
        if (opened && by_ == names_.get() && S_ISDIR(opened->attributes.mode)) {
            const auto listed = rig_.here([&] { return names_->open(call, node, flags); });
            EXPECT_TRUE(listed);
            if (listed) directories_[opened->handle] = listed->handle;
        }
        co_return opened;
    }
    Task<Result<fs::Opened>> create(const Call& call, NodeId parent, std::string_view name,
                                    mode_t mode, fs::OpenFlags flags, Owner owner) override {
        co_return rig_.here([&] { return link_->create(call, parent, name, mode, flags, owner); });
    }
    Task<Result<fs::Opened>> open_path(const Call& call, std::string_view path,
                                       fs::PathOpen how) override {
        co_return rig_.here([&] { return link_->open_path(call, path, how); });
    }
    Task<Result<>> close(const Call& call, FileHandle handle) override {
        if (const auto listed = directories_.extract(handle)) {
            EXPECT_TRUE(rig_.here([&] { return names_->close(call, listed.mapped()); }));
        }
        co_return rig_.here([&] { return link_->close(call, handle); });
    }
    Task<Result<std::vector<fs::DirectoryEntry>>> readdir(const Call& call, FileHandle handle,
                                                          uint64_t cookie, size_t limit) override {
        if (const auto listed = directories_.find(handle); listed != directories_.end()) {
            co_return rig_.here(
                [&] { return names_->readdir(call, listed->second, cookie, limit); });
        }
        co_return rig_.here([&] { return link_->readdir(call, handle, cookie, limit); });
    }
    Task<Result<fs::FileSystemSpace>> space(const Call& call) override {
        co_return rig_.here([&] { return by_->space(call); });
    }
    void forget(NodeId node, uint64_t count) override {
        run_on(*rig_.client_reactor, [&] { by_->forget(node, count); });
    }

    Task<Result<uint64_t>> pread(const Call& call, FileHandle handle, fs::Window into,
                                 uint64_t offset) override {
        co_return rig_.here([&] { return link_->pread(call, handle, into, offset); });
    }
    Task<Result<uint64_t>> pwrite(const Call& call, FileHandle handle, fs::Window from,
                                  uint64_t offset) override {
        co_return rig_.here([&] { return link_->pwrite(call, handle, from, offset); });
    }
    Task<Result<>> fsync(const Call& call, FileHandle handle) override {
        co_return rig_.here([&] { return link_->fsync(call, handle); });
    }
    Task<Result<>> allocate(const Call& call, FileHandle handle, uint64_t offset, uint64_t length,
                            bool keeps_size) override {
        co_return rig_.here(
            [&] { return link_->allocate(call, handle, offset, length, keeps_size); });
    }
    Task<Result<>> punch_hole(const Call& call, FileHandle handle, uint64_t offset,
                              uint64_t length) override {
        co_return rig_.here([&] { return link_->punch_hole(call, handle, offset, length); });
    }
    Task<Result<uint64_t>> seek(const Call& call, FileHandle handle, uint64_t offset,
                                fs::SeekFor what) override {
        co_return rig_.here([&] { return link_->seek(call, handle, offset, what); });
    }
    Result<fs::PathReport> path_report(FileHandle handle) const override {
        Result<fs::PathReport> report = fail(Code::stale);
        auto ask = [&] { report = link_->path_report(handle); };
        run_on(*rig_.client_reactor, ask);
        return report;
    }
    Task<Result<>> read_many(const Call& call, NodeId directory,
                             std::span<fs::ReadManyItem> items) override {
        co_return rig_.here([&] { return link_->read_many(call, directory, items); });
    }

  private:
    Task<> connect(Report& report) {
        Reactor& reactor = *rig_.client_reactor;
        domain_ = fabric::shm::open_domain(reactor);
        auto connected = co_await rpc::Channel::open(
            reactor, *domain_, data_.address, tickets_,
            {.service = hostlink::file_service, .client = alice}, report);
        EXPECT_TRUE(connected) << report.text();
        channel_ = std::move(*connected);
        link_ = std::make_unique<hostlink::LinkClient>(
            reactor, *channel_, locator_,
            hostlink::LinkClient::Options{.client = alice, .behind = "the rig"});
    }
    Task<> disconnect() {
        link_.reset();
        co_await channel_->close();
        channel_.reset();
        co_await domain_->close();
        domain_.reset();
    }
    // On a busy machine gRPC reports the end of a call late. More than 256 in a row were counted.
    mutable Rig rig_{{.control = {.calls_per_subject_max = 4096}}};
    DataPlane data_;
    std::unique_ptr<ControlClient> client_;
    session::SessionId session_;
    session::FixedMountLocator locator_{{session_, rig_.mount(*client_, session_)}};
    Tickets tickets_;
    std::unique_ptr<RemoteNamespace> names_;
    std::unique_ptr<fabric::Domain> domain_;
    std::unique_ptr<rpc::Channel> channel_;
    std::unique_ptr<hostlink::LinkClient> link_;
    fs::Namespace* by_ = nullptr;
    std::map<FileHandle, FileHandle> directories_;  // opened by the link, and by gRPC for readdir
};

class RemoteSubject final : public fs::contract::Subject {
  public:
    RemoteSubject(uint64_t seed, hostlink::Placement placement, Names names)
        : world_(seed), remote_(placement, names) {}
    fs::FileSystem& file_system() override { return remote_; }
    sim::World& world() override { return world_; }
    // Times come from the server's clock, not from the world's.
    void let_time_pass() override { (void)::poll(nullptr, 0, 12); }

  private:
    sim::World world_;
    OverTheWire remote_;
};

// A call blocks this thread, so a lock that waits would wait for ever (hostlink has these cases).
const fs::contract::Traits traits{.locks = false, .property_runs = 3, .property_steps = 100};

const bool registered = fs::contract::register_contract("HostOverShm", traits, [](uint64_t seed) {
    return std::make_unique<RemoteSubject>(seed, hostlink::Placement::dpu, Names::by_link);
});

// Only bytes are placed.
const fs::contract::Traits traits_of_bytes{.locks = false,
                                           .suites = {"Files", "Append", "ReadMany", "Property"},
                                           .property_runs = 3,
                                           .property_steps = 100};
const bool in_place_registered =
    fs::contract::register_contract("HostOverShmInPlace", traits_of_bytes, [](uint64_t seed) {
        return std::make_unique<RemoteSubject>(seed, hostlink::Placement::host, Names::by_link);
    });

// Bytes go over the host link.
const fs::contract::Traits traits_of_names{
    .lacks = {{"ListOfAnotherGroupsFileClearsSetGroupBit", "a kernel asks for it, over the link"}},
    .locks = false,
    .suites = {"Names", "Directories", "Rename", "Links", "Open", "Attributes", "Xattrs",
               "AccessLists", "Walk", "Many", "Property"},
    .property_runs = 3,
    .property_steps = 100};
const bool names_registered =
    fs::contract::register_contract("NamesOverGrpc", traits_of_names, [](uint64_t seed) {
        return std::make_unique<RemoteSubject>(seed, hostlink::Placement::dpu, Names::by_grpc);
    });

}  // namespace
}  // namespace ros2s::control
