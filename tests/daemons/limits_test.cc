// Two tenants of one real ros2store-dpu, with two certificates. One of them has a rate.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "dpu_process.h"
#include "dpu_tenant.h"
#include "ros2s/runtime/nursery.h"
#include "ros2s/runtime/os_reactor.h"
#include "ros2s/runtime/run_blocking.h"

namespace ros2s::tests {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

const Call call;
constexpr uint64_t mib = 1 << 20;

class DpuRateLimits : public testing::Test {
  protected:
    DpuRateLimits() {
        std::filesystem::create_directory(directory.path("served"));
        reactor = started_reactor("hosts");
        issue_certificates(dpu, {"alice", "bob"});
        dpu.give(R"("CN=alice": {write: lustre/*}, "CN=bob": {write: lustre/*})");
    }
    [[nodiscard]] connection::Options options(const std::string& name) const {
        return tenant_options(dpu, name, "lustre");
    }
    static Task<> read(DpuTenant& tenant, int times) {
        std::vector<std::byte> memory(4096);
        for (int i = 0; i < times; ++i) {
            EXPECT_TRUE(co_await tenant.link->pread(call, tenant.file,
                                                    fs::Window::local(Bytes(memory)), 0));
        }
    }
    static Task<> read_at_once(Reactor& reactor, DpuTenant& tenant, int times, int at_once) {
        Nursery nursery(reactor, static_cast<size_t>(at_once));
        for (int i = 0; i < at_once; ++i) {
            co_await nursery.spawn(read(tenant, times / at_once));
        }
        co_await nursery.join();
    }
    Duration time_of_reads(DpuTenant& tenant, int times, int at_once = 8) {
        const auto begun = std::chrono::steady_clock::now();
        run_blocking(*reactor, [&] { return read_at_once(*reactor, tenant, times, at_once); });
        return std::chrono::steady_clock::now() - begun;
    }

    static bool delays(const std::string& metrics) {
        constexpr std::string_view name = R"(ros2store_tenant_delayed_total{tenant="CN=bob"} )";
        const size_t at = metrics.find(name);
        return at != metrics.npos && metrics[at + name.size()] != '0';
    }

    // The value of ros2store_tenant_NAME. -1: it is missing.
    static double value_in(const std::string& metrics, std::string_view name,
                           std::string_view tenant) {
        const std::string line =
            fmt::format("\nros2store_tenant_{}{{tenant=\"CN={}\"}} ", name, tenant);
        const size_t at = metrics.find(line);
        return at == metrics.npos ? -1 : std::atof(metrics.c_str() + at + line.size());
    }

    TemporaryDirectory directory;
    DpuProcess dpu{directory.path("dpu"),
                   fmt::format("directories: {{lustre/train: {}}}\n", directory.path("served"))};
    std::unique_ptr<OsReactor> reactor;
};

TEST_F(DpuRateLimits, RateDelaysOnlyItsTenant) {
    dpu.limit(R"("CN=bob": {requests: 200, burst: 100ms})");
    ASSERT_TRUE(dpu.start()) << dpu.log();
    DpuTenant alice, bob;
    run_blocking(*reactor,
                 [&] { return alice.open(*reactor, options("alice"), "train", "alices", mib); });
    run_blocking(*reactor,
                 [&] { return bob.open(*reactor, options("bob"), "train", "bobs", mib); });
    // The burst is 20 of 200; the others take 0.9 s.
    EXPECT_GE(time_of_reads(bob, 200), 850ms);
    EXPECT_LT(time_of_reads(alice, 200), 850ms);
    // A new session brings no new burst.
    run_blocking(*reactor, [&] { return bob.close(); });
    DpuTenant again;
    run_blocking(*reactor,
                 [&] { return again.open(*reactor, options("bob"), "train", "bobs2", mib); });
    EXPECT_GE(time_of_reads(again, 40), 90ms);
    const std::string metrics = dpu.metrics();
    EXPECT_THAT(metrics, HasSubstr(R"(ros2store_tenant_delayed_total{tenant="CN=alice"} 0)"));
    EXPECT_TRUE(delays(metrics));
    // Eight of Bob's requests were in flight at once, and all of them waited.
    EXPECT_GE(value_in(metrics, "throttled_seconds_total", "bob"), 4);
    EXPECT_EQ(value_in(metrics, "throttled_seconds_total", "alice"), 0);
    EXPECT_GE(value_in(metrics, "request_duration_seconds_sum", "bob"),
              value_in(metrics, "throttled_seconds_total", "bob"));
    EXPECT_GE(value_in(metrics, "request_duration_seconds_count", "bob"), 240);
    EXPECT_EQ(value_in(metrics, "refused_total", "bob"), 0);
    run_blocking(*reactor, [&] { return again.close(); });
    run_blocking(*reactor, [&] { return alice.close(); });
}

Task<> look_both_ways(DpuTenant& tenant, int times) {
    for (int i = 0; i < times; ++i) {
        EXPECT_TRUE(co_await tenant.names->get_attributes(call, fs::root_node));
        EXPECT_TRUE(co_await tenant.link->get_attributes(call, fs::root_node));
    }
}

// Also requests over gRPC.
TEST_F(DpuRateLimits, NameRateCoversTheControlPlane) {
    dpu.limit(R"("CN=bob": {names: 50, burst: 20ms})");
    ASSERT_TRUE(dpu.start()) << dpu.log();
    DpuTenant bob;
    run_blocking(*reactor,
                 [&] { return bob.open(*reactor, options("bob"), "train", "bobs", mib); });
    const auto begun = std::chrono::steady_clock::now();
    run_blocking(*reactor, [&] { return look_both_ways(bob, 25); });
    EXPECT_GE(std::chrono::steady_clock::now() - begun, 900ms);
    const std::string metrics = dpu.metrics();
    EXPECT_GE(value_in(metrics, "names_total", "bob"), 50);
    EXPECT_GE(value_in(metrics, "request_duration_seconds_count", "bob"), 50);
    // On a slow machine the requests themselves take a part of the second.
    EXPECT_GE(value_in(metrics, "throttled_seconds_total", "bob"), 0.2);
    run_blocking(*reactor, [&] { return bob.close(); });
}

// 64 reads would take a minute.
TEST_F(DpuRateLimits, RateDoesNotDelayShutdown) {
    dpu.limit(R"("CN=bob": {requests: 1})");
    ASSERT_TRUE(dpu.start()) << dpu.log();
    DpuTenant bob;
    run_blocking(*reactor,
                 [&] { return bob.open(*reactor, options("bob"), "train", "bobs", mib); });
    std::thread reading([&] { (void)time_of_reads(bob, 64, 64); });
    while (!delays(dpu.metrics())) std::this_thread::sleep_for(10ms);
    const auto begun = std::chrono::steady_clock::now();
    EXPECT_EQ(dpu.stop(), 0) << dpu.log();
    EXPECT_LT(std::chrono::steady_clock::now() - begun, 10s);
    ASSERT_TRUE(dpu.start()) << dpu.log();
    reading.join();
    run_blocking(*reactor, [&] { return bob.close(); });
}

}  // namespace
}  // namespace ros2s::tests
