// For this module's tests: an engine behind the DPU, as a store in memory behind an rpc::Server, on
// the simulated network. Small reads of a DPU in front of it go straight.
#pragma once
#include "ros2s/client/verifying_store.h"
#include "ros2s/remote/remote_store.h"
#include "ros2s/remote/store_server.h"
#include "test_support/link.h"

namespace ros2s::hostlink {

class EngineGate final : public rpc::Gate {
  public:
    Result<rpc::Guest> admit(const rpc::HelloBody&, const fabric::Peer&) override {
        return rpc::Guest{};
    }
    void left(const rpc::Guest&) override {}
};
class EngineTickets final : public rpc::TicketSource {
  public:
    Task<Result<std::string>> take(Report&) override { co_return std::string(); }
};

// A store behind a server, and the DPU's connection to it.
struct Engine {
    Engine(sim::World& in, fabric::sim::Network& on) : world(in), network(on) {}
    Task<> start() {
        domain = network.open_domain(world.core(), "engine");
        client_domain = network.open_domain(world.core(), "dpu to engine");
        auto listening =
            co_await rpc::Server::listen(world.core(), *domain, "store", service, gate, {}, report);
        EXPECT_TRUE(listening) << report.text();
        server = std::move(*listening);
        rpc::ChannelOptions options{.service = remote::object_service, .requests_max = credits};
        auto connected = co_await rpc::Channel::open(world.core(), *client_domain, "store", tickets,
                                                     options, report);
        EXPECT_TRUE(connected) << report.text();
        channel = std::move(*connected);
        remote = std::move(*co_await remote::RemoteStore::open({}, *channel, report));
        store = std::make_unique<client::VerifyingStore>(world.core(), *remote);
    }
    Task<> stop() {
        store.reset();
        remote.reset();
        co_await channel->close();
        channel.reset();
        co_await server->close();
        server.reset();
        co_await client_domain->close();
        co_await domain->close();
    }

    sim::World& world;
    fabric::sim::Network& network;
    uint16_t credits = 256;
    object::MemoryStore memory{world.core(), {}};
    WireToStore wire{memory};
    remote::StoreServer service{wire};
    EngineGate gate;
    EngineTickets tickets;
    Report report;
    std::unique_ptr<fabric::Domain> domain, client_domain;
    std::unique_ptr<rpc::Server> server;
    std::unique_ptr<rpc::Channel> channel;
    std::unique_ptr<remote::RemoteStore> remote;
    std::unique_ptr<client::VerifyingStore> store;
};

// Makes the container in it.
class EngineSource final : public session::FileSystemSource {
  public:
    EngineSource(Engine& engine, uint64_t chunk_bytes)
        : engine_(engine), chunk_bytes_(chunk_bytes) {}
    Task<Result<std::unique_ptr<fs::FileSystem>>> open(const Call& call,
                                                       const session::MountedContainer& which,
                                                       Report& report) override {
        Reactor& core = engine_.world.core();
        const auto made = co_await engine_.store->create_container(
            call, {.label = which.container, .chunk_bytes = chunk_bytes_});
        ROS2S_CO_TRY(co_await fs::Dfs::format(call, *engine_.store, made->id, core, {}, report));
        auto mounted = co_await fs::Dfs::mount(call, *engine_.store, made->id, core, {}, report);
        EXPECT_TRUE(mounted) << report.text();
        co_return std::make_unique<access::CheckedFileSystem>(core, std::move(*mounted));
    }

  private:
    Engine& engine_;
    const uint64_t chunk_bytes_;
};

}  // namespace ros2s::hostlink
