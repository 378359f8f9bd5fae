// A tenant has a thousand connections over shared memory to a real ros2store-dpu, or a client to a
// real ros2store-engine. Another tenant opens, reads and writes throughout, a client of the engine
// finds room, and an idle connection is small.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "client.h"
#include "dpu_process.h"
#include "dpu_tenant.h"
#include "eventually.h"
#include "ros2s/fabric/shm/shm.h"
#include "ros2s/remote/wire.h"
#include "ros2s/runtime/os_reactor.h"
#include "ros2s/runtime/run_blocking.h"

namespace ros2s::tests {
namespace {

using namespace std::chrono_literals;

constexpr size_t connections = 1000;
const Call call;

uint64_t status_kib(int pid, const std::string& field) {
    std::ifstream status(fmt::format("/proc/{}/status", pid));
    for (std::string line; std::getline(status, line);) {
        if (line.starts_with(field + ":")) return std::stoull(line.substr(field.size() + 1));
    }
    return 0;
}

size_t descriptors(int pid) {
    const std::filesystem::directory_iterator all(fmt::format("/proc/{}/fd", pid));
    return static_cast<size_t>(std::distance(begin(all), end(all)));
}

struct Resources {
    uint64_t reserved_kib, resident_kib;
    size_t descriptors;
    static Resources of(int pid) {
        return {status_kib(pid, "VmSize"), status_kib(pid, "VmRSS"), tests::descriptors(pid)};
    }
};

// Channels of one session, each with a connection of its own.
struct Channels {
    std::unique_ptr<fabric::Domain> domain;
    std::vector<std::unique_ptr<rpc::Channel>> all;

    Task<> open(Reactor& reactor, connection::Connection& of, uint32_t service) {
        domain = fabric::shm::open_domain(reactor);
        while (all.size() < connections) {
            Report report;
            auto channel =
                co_await rpc::Channel::open(reactor, *domain, of.channel().address(), of.tickets(),
                                            {.service = service, .client = of.client()}, report);
            EXPECT_TRUE(channel) << all.size() << ": " << report.text();
            if (!channel) co_return;
            all.push_back(std::move(*channel));
        }
    }
    Task<> close() {
        for (auto& channel : all) co_await channel->close();
        all.clear();
        co_await domain->close();
    }
};

class ManyConnections : public testing::Test {
  protected:
    ManyConnections() {
        for (auto* reactor : {&good, &many}) {
            *reactor = started_reactor("host");
        }
        dpu.give(R"("CN=alice": {write: pool/*}, "CN=bob": {write: pool/*})");
        issue_certificates(dpu, {"alice", "bob"});
    }
    // Opens, writes, reads and closes until `stop`, through the DPU.
    void work(const std::atomic<bool>& stop, std::atomic<uint64_t>& rounds) {
        std::vector<std::byte> content(4096, std::byte{'a'}), found(4096);
        while (!stop) {
            DpuTenant alice;
            run_blocking(*good, [&]() -> Task<> {
                co_await alice.open(*good, tenant_options(dpu, "alice", "pool"), "main", "alices",
                                    4096);
                if (!alice.link) co_return;
                EXPECT_TRUE(co_await alice.link->pwrite(call, alice.file,
                                                        fs::Window::local(ConstBytes(content)), 0));
                EXPECT_TRUE(co_await alice.link->pread(call, alice.file,
                                                       fs::Window::local(Bytes(found)), 0));
                EXPECT_EQ(found, content);
                EXPECT_TRUE(co_await alice.link->unlink(call, fs::root_node, "alices"));
                co_await alice.close();
            });
            if (HasFailure()) return;
            ++rounds;
        }
    }
    // They fit beside that work and a client of the engine, and are small when they are idle.
    void expect_small(int pid, connection::Connection& of, uint32_t service) {
        std::atomic<bool> stop = false;
        std::atomic<uint64_t> rounds = 0;
        std::thread working([&] { work(stop, rounds); });
        EXPECT_TRUE(eventually([&] { return rounds > 0; }, 20s));
        const Resources before = Resources::of(pid);
        Channels channels;
        run_blocking(*many, [&] { return channels.open(*many, of, service); });
        EXPECT_EQ(channels.all.size(), connections);
        const uint64_t then = rounds;
        EXPECT_TRUE(eventually([&] { return rounds > then + 2; }, 20s));
        Client administrator;
        Report report;
        EXPECT_TRUE(administrator.open(*good, engine.options("shm"), report)) << report.text();
        administrator.close(*good);
        stop = true;
        working.join();
        const Resources after = Resources::of(pid);
        fmt::print("a connection: {} KiB reserved, {} KiB resident, {:.2f} descriptors\n",
                   (after.reserved_kib - before.reserved_kib) / connections,
                   (after.resident_kib - before.resident_kib) / connections,
                   static_cast<double>(after.descriptors - before.descriptors) / connections);
        // With some for the work beside them.
        EXPECT_LE(after.reserved_kib - before.reserved_kib, connections * 2048 + (256 << 10));
        EXPECT_LE(after.resident_kib - before.resident_kib, connections * 256);
        EXPECT_LE(after.descriptors - before.descriptors, connections + 100);
        run_blocking(*many, [&] { return channels.close(); });
    }

    EngineProcess engine;
    DpuProcess dpu{engine, "shm"};
    std::unique_ptr<OsReactor> good, many;
};

TEST_F(ManyConnections, ThousandConnectionsOfOneTenantFitADpu) {
    ASSERT_TRUE(engine.start() && dpu.start());
    DpuTenant bob;
    run_blocking(*many, [&] {
        return bob.open(*many, tenant_options(dpu, "bob", "pool"), "main", "bobs", 4096);
    });
    ASSERT_TRUE(bob.link);
    expect_small(dpu.pid(), *bob.connection, hostlink::file_service);
    run_blocking(*many, [&] { return bob.close(); });
}

TEST_F(ManyConnections, ThousandConnectionsOfOneClientFitAnEngine) {
    ASSERT_TRUE(engine.start() && dpu.start());
    connection::Options options = engine.options("shm");
    options.purpose = session::Purpose::store;
    options.service = remote::object_service;
    Report report;
    auto opened =
        run_blocking(*many, [&] { return connection::Connection::open(*many, options, report); });
    ASSERT_TRUE(opened) << report.text();
    expect_small(engine.pid(), **opened, remote::object_service);
    run_blocking(*many, [&] { return (*opened)->close(); });
}

}  // namespace
}  // namespace ros2s::tests
