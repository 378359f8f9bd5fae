// A ros2store-engine and a delegated DPU as processes, and hosts of tenants.
#pragma once
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "client.h"
#include "control_clients.h"
#include "dpu_process.h"
#include "ros2s/runtime/os_reactor.h"
#include "ros2s/runtime/run_blocking.h"

namespace ros2s::tests {

using namespace std::chrono_literals;
using control::ControlClient;
using tenancy::Change;
using testing::HasSubstr;

inline const Call call;

// `run_blocking` for a coroutine of a test.
template <class Test>
auto on(OsReactor& reactor, Test test) {
    return run_blocking(reactor, test);
}

class DelegatedDaemons : public testing::TestWithParam<const char*> {
  protected:
    static constexpr size_t bytes = 4096;

    DelegatedDaemons() {
        reactor = started_reactor("hosts");
        for (const char* name : {"alice", "bob", "eve"}) issue(dpu.places().host_certs, name);
        issue(engine.places().storage_certs, "admin");
    }
    static void issue(const std::string& authority, const std::string& name) {
        std::string said;
        EXPECT_EQ(run_program(fmt::format("'{}' certs issue --replace '{}' {}", PROGRAM_CLI,
                                          authority, name),
                              said),
                  0)
            << said;
    }
    // The DPU's certificate, CN=client, has no entry under `access`.
    // `more`: further settings of the engine.
    void start(std::string_view life = "5min", const std::string& authority = {},
               std::string_view more = {}) {
        engine.take_all_from_the_client();
        engine.give("CN=admin", "write: pool/*, create: pool/*, destroy: pool/*");
        engine.write_settings(
            fmt::format("administrators: CN=admin\n"
                        "capabilities: {{delegates: CN=client, authority: "
                        "{}/ca.crt, life: {}}}\n{}",
                        authority.empty() ? dpu.places().host_certs : authority, life, more));
        dpu.use_delegated();
        if (dpu_listens_on_tls()) dpu.listen_on_tls();
        ASSERT_TRUE(engine.start()) << engine.log();
        ASSERT_TRUE(dpu.start()) << dpu.log();
    }
    [[nodiscard]] static bool dpu_listens_on_tls() { return std::string_view(GetParam()) == "tls"; }
    void stop() {
        EXPECT_EQ(dpu.stop(), 0) << dpu.log();
        EXPECT_EQ(engine.stop(), 0) << engine.log();
    }

    // A client of the engine's control plane with that subject.
    std::unique_ptr<ControlClient> engine_as(const std::string& name) {
        return engine_client(*reactor, engine.places(), name);
    }
    std::unique_ptr<ControlClient> dpu_as(const std::string& name) {
        return dpu_client(*reactor, dpu.places(), name);
    }
    std::string change(Change what, const std::string& name, config::Entries settings) {
        const auto admin = engine_as("admin");
        Report report;
        (void)on(*reactor, [&] {
            return admin->change_tenant(call, "pool", what, name, std::move(settings), report);
        });
        return report.text();
    }
    connection::HostOptions host(const std::string& name, const std::string& container) {
        auto options = dpu.options("pool", container);
        options.dpu.identity = pki::identity_in(dpu.places().host_certs, name);
        return options;
    }
    Result<> create(const std::string& name, const std::string& label) {
        const auto client = dpu_as(name);
        said = {};
        const auto made = on(*reactor, [&] {
            return client->create_container(call, "pool", {.label = label}, {}, said);
        });
        if (!made) return fail(made.error());
        return {};
    }
    object::ContainerRecord record(const std::string& label) {
        const auto admin = engine_as("admin");
        Report report;
        const auto found =
            on(*reactor, [&] { return admin->query_container(call, "pool", label, report); });
        EXPECT_TRUE(found) << report.text();
        return found ? *found : object::ContainerRecord{};
    }
    // What a tenant's sessions at the engine use now.
    std::vector<control::CapabilityInUse> in_use(const std::string& tenant) {
        const auto admin = engine_as("admin");
        Report report;
        const auto all =
            on(*reactor, [&] { return admin->list_capabilities(call, "pool", tenant, report); });
        EXPECT_TRUE(all) << report.text();
        return all ? *all : std::vector<control::CapabilityInUse>{};
    }
    template <class Condition>
    static bool within_a_second(Condition condition) {
        const auto begun = std::chrono::steady_clock::now();
        do {
            if (condition()) return true;
            std::this_thread::sleep_for(5ms);
        } while (std::chrono::steady_clock::now() - begun < 1s);
        return false;
    }
    static Task<Result<>> write_here(fs::FileSystem& files, std::string name, char with) {
        ROS2S_CO_TRY_ASSIGN(const auto opened, co_await files.create(call, fs::root_node, name,
                                                                     0644, {.write = true}, {}));
        const std::vector<std::byte> data(bytes, std::byte(with));
        const auto written =
            co_await files.pwrite(call, opened.handle, fs::Window::local(ConstBytes(data)), 0);
        (void)co_await files.close(call, opened.handle);
        if (!written) co_return fail(written.error());
        co_return Result<>{};
    }
    static Task<Result<char>> read_here(fs::FileSystem& files, std::string name) {
        ROS2S_CO_TRY_ASSIGN(const auto found, co_await files.lookup(call, fs::root_node, name));
        ROS2S_CO_TRY_ASSIGN(const auto opened,
                            co_await files.open(call, found.node, {.read = true}));
        std::vector<std::byte> into(bytes);
        const auto read =
            co_await files.pread(call, opened.handle, fs::Window::local(Bytes(into)), 0);
        (void)co_await files.close(call, opened.handle);
        if (!read) co_return fail(read.error());
        co_return static_cast<char>(into[bytes - 1]);
    }
    // The engine's pool for a DPU that shows this chain.
    Result<std::unique_ptr<connection::DirectPool>> open_with(control::CapabilityHolder& holder,
                                                              Report& report) {
        auto options = engine.options("shm");
        options.holder = &holder;
        return on(*reactor,
                  [&] { return connection::DirectPool::open(*reactor, options, {}, report); });
    }
    Result<> fetch_from(object::ObjectStore& store, object::ContainerId container) {
        std::vector<std::byte> into(bytes);
        object::FetchItem item{.extent = {.offset = 0, .length = bytes},
                               .window = fs::Window::local(Bytes(into))};
        return on(*reactor, [&] { return store.fetch(call, container, {&item, 1}); });
    }
    Result<> write(Client& client, const std::string& name, char with) {
        return on(*reactor, [&] { return write_here(client.files(), name, with); });
    }
    Result<char> read(Client& client, const std::string& name) {
        return on(*reactor, [&] { return read_here(client.files(), name); });
    }

    EngineProcess engine;
    DpuProcess dpu{engine, GetParam()};
    std::unique_ptr<OsReactor> reactor;
    Report said;
};

class DelegatedDpu : public DelegatedDaemons {};

inline const config::Entries alices{{"subjects", "CN=alice"},
                                    {"write", "main, alice-*"},
                                    {"create", "alice-*"},
                                    {"destroy", "alice-*"},
                                    {"root_squash", "no"}};

}  // namespace ros2s::tests
