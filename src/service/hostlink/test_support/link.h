// For this module's tests: a DPU with one container, and a host that has it mounted, on the
// simulated network. The control plane's part is done by plain calls on the same tables.
#pragma once
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <optional>

#include "link_client.h"
#include "link_server.h"
#include "ros2s/access/checked_file_system.h"
#include "ros2s/fabric/sim/network.h"
#include "ros2s/fs/dfs.h"
#include "ros2s/object/forwarding_store.h"
#include "ros2s/object/test_support/memory_store.h"
#include "ros2s/runtime/sim/world.h"
#include "ros2s/session/gate.h"
#include "ros2s/session/mount_names.h"
#include "ros2s/session/test_support/fixed_mount.h"

namespace ros2s::hostlink {

// The way to a store, which can change the first byte of arrays' data, hold up requests, and run
// out of space.
class WireToStore final : public object::ForwardingStore {
  public:
    using ForwardingStore::ForwardingStore;
    bool flips_fetched = false, flips_written = false;
    bool has_checksums = true;
    uint64_t lists = 0;
    uint64_t room = UINT64_MAX;  // for bytes of arrays; what is too much is refused
    Reactor* held_on = nullptr;  // if set, requests wait there for a minute, or until they stop
    static constexpr Duration held_for = std::chrono::minutes(1);

    [[nodiscard]] object::Features features() const override {
        object::Features features = below().features();
        features.checksums = features.checksums && has_checksums;
        return features;
    }
    Task<Result<>> fetch(const Call& call, object::ContainerId container,
                         std::span<object::FetchItem> items) override {
        ROS2S_CO_TRY(co_await hold(call));
        ROS2S_CO_TRY(co_await below().fetch(call, container, items));
        for (const object::FetchItem& item : items) {
            if (flips_fetched && !item.is_value) item.window.bytes()[0] ^= std::byte{1};
        }
        co_return Result<>{};
    }
    Task<Result<object::ListReply>> list(const Call& call, object::ContainerId container,
                                         const object::ListRequest& request) override {
        ++lists;
        ROS2S_CO_TRY(co_await hold(call));
        co_return co_await below().list(call, container, request);
    }
    Task<Result<object::Commit>> update(const Call& call, object::ContainerId container,
                                        const object::Transaction& transaction) override {
        ROS2S_CO_TRY(co_await hold(call));
        uint64_t length = 0;
        for (const object::Operation& operation : transaction.operations) {
            if (operation.kind == object::Operation::Kind::write) length += operation.window.length;
        }
        if (length > room) co_return fail(Code::no_space);
        room -= length;
        object::Transaction sent = transaction;
        std::vector<std::byte> bytes;
        for (object::Operation& operation : sent.operations) {
            if (!flips_written || operation.kind != object::Operation::Kind::write) continue;
            const Bytes payload = operation.window.bytes();
            bytes.assign(payload.begin(), payload.end());
            bytes[0] ^= std::byte{1};
            operation.window = object::Window::local(ConstBytes(bytes));
            break;
        }
        co_return co_await below().update(call, container, sent);
    }

  private:
    [[nodiscard]] Task<Result<>> hold(const Call& call) const {
        if (held_on == nullptr) co_return Result<>{};
        Reactor& core = *held_on;
        (void)co_await sleep_for(core, held_for, call.stop);
        co_return call.check(core);
    }
};

// Opens a container in memory as a Dfs.
class DfsSource final : public session::FileSystemSource {
  public:
    DfsSource(Reactor& reactor, uint64_t chunk_bytes, bool lends_leases = false)
        : reactor_(reactor),
          memory_(reactor, {}),
          chunk_bytes_(chunk_bytes),
          lends_leases_(lends_leases) {}
    Task<Result<std::unique_ptr<fs::FileSystem>>> open(const Call& call,
                                                       const session::MountedContainer& which,
                                                       Report& report) override {
        if (!container_) {
            const auto made = co_await memory_.create_container(
                call, {.label = which.container, .chunk_bytes = chunk_bytes_});
            EXPECT_TRUE(made);
            EXPECT_TRUE(co_await fs::Dfs::format(call, wire_, made->id, reactor_, {}, report));
            container_ = made->id;
        }
        auto mounted =
            co_await fs::Dfs::mount(call, wire_, *container_, reactor_,
                                    {.takes_leases = which.own != session::MountId{}}, report);
        EXPECT_TRUE(mounted) << report.text();
        if (!lends_leases_) co_return std::unique_ptr<fs::FileSystem>(std::move(*mounted));
        co_return std::make_unique<access::CheckedFileSystem>(reactor_, std::move(*mounted));
    }
    [[nodiscard]] bool lends(const std::string&, const std::string&) const override {
        return lends_leases_;
    }

    [[nodiscard]] WireToStore& wire() { return wire_; }

  private:
    Reactor& reactor_;
    object::MemoryStore memory_;
    WireToStore wire_{memory_};
    const uint64_t chunk_bytes_;
    const bool lends_leases_;
    std::optional<object::ContainerId> container_;
};

class ReadNothing final : public rpc::ReplyReader {
  public:
    Result<> read(const rpc::Reply&) override { return {}; }
};

class LocalTickets final : public rpc::TicketSource {
  public:
    explicit LocalTickets(session::SessionTable& sessions) : sessions_(sessions) {}
    Task<Result<std::string>> take(Report& report) override {
        const auto use = sessions_.use(session);
        if (!use) co_return report.fail(Code::denied, "the session has ended");
        ROS2S_CO_TRY_ASSIGN(const auto issued, sessions_.issue_ticket(**use));
        co_return std::string(issued.ticket.view());
    }
    session::SessionId session{};

  private:
    session::SessionTable& sessions_;
};

// A mount that a test moves.
class MovingLocator final : public session::MountLocator {
  public:
    explicit MovingLocator(session::MountLocation at) : at_(at) {}
    [[nodiscard]] session::MountLocation location() const override { return at_; }
    Task<Result<>> moved(const Call&, session::MountLocation from) override {
        if (from == at_) co_return fail(Code::stale);
        co_return Result<>{};
    }
    void move() { ++at_.mount.value; }
    void move_to(session::MountId mount) { at_.mount = mount; }

  private:
    session::MountLocation at_;
};

inline Uuid client_of(uint8_t number) {
    Uuid uuid;
    uuid.bytes[0] = number;
    return uuid;
}

// The DPU's side.
struct Dpu {
    // `core`: the link server's.
    Dpu(sim::World& in, fabric::sim::Network& on, std::unique_ptr<session::FileSystemSource> of,
        Reactor& core)
        : world(in), network(on), source(std::move(of)), service(core, sessions, mounts) {}
    Dpu(sim::World& in, fabric::sim::Network& on, std::unique_ptr<session::FileSystemSource> of)
        : Dpu(in, on, std::move(of), in.core()) {}
    Dpu(sim::World& in, fabric::sim::Network& on, uint64_t chunk_bytes)
        : Dpu(in, on, std::make_unique<DfsSource>(in.core(), chunk_bytes)) {}
    Task<> start() {
        domain = network.open_domain(world.core(), "dpu");
        auto listening = co_await rpc::Server::listen(world.core(), *domain, "link", service, gate,
                                                      {.group = &group}, report);
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
        co_await sessions.close_all();
    }
    sim::World& world;
    fabric::sim::Network& network;
    Report report;
    std::unique_ptr<session::FileSystemSource> source;
    admission::Accounts accounts{world.core()};
    rpc::ServerGroup group{world.core(), {}, &accounts};
    session::TicketTable tickets{world.core(), {}};
    std::vector<std::string> log;
    session::SessionTable sessions{
        world.core(),
        tickets,
        {.accounts = &accounts},
        Log([this](LogLevel, std::string_view line) { log.emplace_back(line); })};
    session::Mounts mounts{world.core(), sessions, *source, {}};
    LinkServer service;
    session::SessionGate gate{sessions, session::Purpose::link};
    std::unique_ptr<fabric::Domain> domain;
    std::unique_ptr<rpc::Server> server;
};

// A host with a session, a mount, and a link.
struct Host {
    Host(Dpu& at, uint8_t number)
        : dpu(at),
          tickets(at.sessions),
          process("host" + std::to_string(number)),
          client(client_of(number)) {}
    Task<> start(session::MountScope scope = {}) {
        {
            auto opened = dpu.sessions.open({.subject = subject,
                                             .client = client,
                                             .purpose = session::Purpose::link,
                                             .pool = "pool"});
            EXPECT_TRUE(opened);
            session = (*opened)->id;
            auto mounted =
                co_await dpu.mounts.mount({}, **opened, "container", std::move(scope), dpu.report);
            EXPECT_TRUE(mounted) << dpu.report.text();
            mount = *mounted;
            auto use = dpu.mounts.find(**opened, mount);
            names = std::make_unique<session::MountNames>(**use, dpu.report);
        }
        tickets.session = session;
        domain = dpu.network.open_domain(dpu.world.core(), process);
        auto connected =
            co_await rpc::Channel::open(dpu.world.core(), *domain, "link", tickets,
                                        {.service = file_service, .client = client}, dpu.report);
        EXPECT_TRUE(connected) << dpu.report.text();
        channel = std::move(*connected);
        locator =
            std::make_unique<session::FixedMountLocator>(session::MountLocation{session, mount});
        link = std::make_unique<LinkClient>(
            dpu.world.core(), *channel, *locator,
            LinkClient::Options{.client = client,
                                .behind = "a simulated DPU",
                                .takes_leases = dpu.mounts.lends(session, mount),
                                .forgotten_together = 1});
    }
    Task<> stop() {
        co_await link->close_all();
        link.reset();
        co_await channel->close();
        channel.reset();
        co_await domain->close();
        domain.reset();
    }
    [[nodiscard]] const std::string& name() const { return process; }

    Dpu& dpu;
    LocalTickets tickets;
    std::string process;
    std::string subject = "CN=host";
    Uuid client;
    session::SessionId session{};
    session::MountId mount{};
    std::unique_ptr<session::MountNames> names;  // not over the link
    std::unique_ptr<session::MountLocator> locator;
    std::unique_ptr<fabric::Domain> domain;
    std::unique_ptr<rpc::Channel> channel;
    std::unique_ptr<LinkClient> link;
};

// A request made by hand, over a host's own connection.
inline Task<Result<>> ask(Host& host, Method method, ConstBytes body) {
    ReadNothing reader;
    std::array<std::byte, 100> memory{};
    const Bytes sink[] = {memory};
    const rpc::CallRequest request{.method = static_cast<uint16_t>(method),
                                   .id = {.client = host.client, .slot = 3000, .sequence = 1},
                                   .body = body,
                                   .sink = sink};
    co_return co_await host.channel->call({}, request, reader);
}

// Two hosts of one DPU, on one container.
struct Stage {
    explicit Stage(uint64_t seed = 1)
        : world(seed), network(world.random()), dpu(world, network, uint64_t{64} << 10) {}
    void run(Task<> (*body)(Stage&)) { world.run(whole(*this, body)); }
    static Task<> whole(Stage& self, Task<> (*body)(Stage&)) {
        co_await self.dpu.start();
        co_await self.host.start();
        co_await self.other.start({.read_only = true});
        co_await body(self);
        co_await self.other.stop();
        co_await self.host.stop();
        co_await self.dpu.stop();
    }
    Task<fs::FileHandle> create(std::string name, fs::OpenFlags flags) {
        const auto opened = co_await host.link->create({}, fs::root_node, name, 0644, flags, {});
        EXPECT_TRUE(opened);
        co_return opened ? opened->handle : fs::FileHandle{};
    }
    // Opened without the link: returns the DPU's handle.
    Task<fs::FileHandle> create_there(std::string name) {
        const auto opened =
            co_await host.names->create({}, fs::root_node, name, 0644, {.write = true}, {});
        EXPECT_TRUE(opened);
        co_return opened ? opened->handle : fs::FileHandle{};
    }
    sim::World world;
    fabric::sim::Network network;
    Dpu dpu;
    Host host{dpu, 1};
    Host other{dpu, 2};
};

}  // namespace ros2s::hostlink
