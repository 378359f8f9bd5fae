// The error messages if a cluster or a pool cannot be used. Nothing is written in these cases.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "real_cluster.h"

namespace ros2s::rados {
namespace {

using testing::HasSubstr;

struct Outcome {
    Result<> result{};
    std::string text;
};

Task<> connect(ClusterOptions options, Outcome& outcome) {
    Report report;
    auto connected = co_await Cluster::connect(RealCluster::instance().environment(),
                                               std::move(options), report);
    outcome.text = report.text();
    if (connected) {
        co_await (*connected)->close();
    } else {
        outcome.result = fail(connected.error());
    }
}
Outcome connect_with(const ClusterOptions& options) {
    Outcome outcome;
    run_blocking(RealCluster::instance().reactor(), [&] { return connect(options, outcome); });
    return outcome;
}

std::string file_with(const std::string& name, const std::string& text) {
    const std::string path = std::filesystem::path(RealCluster::conf()).parent_path() / name;
    std::ofstream(path) << text;
    return path;
}

TEST(RadosConnect, MissingConfigurationIsReported) {
    const Outcome outcome = connect_with({.conf = "/nonexistent/ceph.conf"});
    EXPECT_EQ(outcome.result, Result<>(fail(Code::not_found)));
    EXPECT_THAT(outcome.text, HasSubstr("/nonexistent/ceph.conf"));
}

TEST(RadosConnect, SilentClusterTimesOut) {
    // Port 1 of loopback refuses.
    const std::string conf = file_with("nobody.conf",
                                       "[global]\nmon host = v2:127.0.0.1:1/0\n"
                                       "auth client required = none\n");
    const auto before = std::chrono::steady_clock::now();
    const Outcome outcome = connect_with({.conf = conf, .time_limit = std::chrono::seconds(2)});
    EXPECT_EQ(outcome.result, Result<>(fail(Code::deadline)));
    EXPECT_THAT(outcome.text, HasSubstr("does not answer within 2 s"));
    EXPECT_LT(std::chrono::steady_clock::now() - before, std::chrono::seconds(20));
}

TEST(RadosConnect, WrongKeyringIsReported) {
    const std::string keyring = file_with(
        "other.keyring", "[client.admin]\n\tkey = AQAAAAAAAAAAABAAe1vTSbQ3sgR2OzKXB8bWXQ==\n");
    std::ifstream right(RealCluster::conf());
    std::string text(std::istreambuf_iterator<char>(right), {});
    const size_t line = text.find("keyring = ");
    text.replace(line, text.find('\n', line) - line, "keyring = " + keyring);
    const Outcome outcome = connect_with(
        {.conf = file_with("other.conf", text), .time_limit = std::chrono::seconds(5)});
    EXPECT_EQ(outcome.result, Result<>(fail(Code::denied)));
    EXPECT_THAT(outcome.text, HasSubstr("refuses client.admin"));
    const Outcome nobody = connect_with({.conf = RealCluster::conf(), .user = "client.nobody"});
    EXPECT_EQ(nobody.result, Result<>(fail(Code::denied)));
    EXPECT_THAT(nobody.text, HasSubstr("refuses client.nobody"));
}

Task<> open(std::string name, Outcome& outcome) {
    RealCluster& cluster = RealCluster::instance();
    Report report;
    auto pool = co_await cluster.cluster().open_pool(std::move(name), report);
    outcome.result = pool ? Result<>() : fail(pool.error());
    if (pool) {
        const auto store =
            co_await RadosStore::open({}, cluster.reactor(), **pool, **pool, {}, report);
        if (!store) outcome.result = fail(store.error());
    }
    outcome.text = report.text();
}

TEST(RadosConnect, MissingPoolIsReported) {
    Outcome outcome;
    run_blocking(RealCluster::instance().reactor(), [&] { return open("absent", outcome); });
    EXPECT_EQ(outcome.result, Result<>(fail(Code::not_found)));
    EXPECT_THAT(outcome.text, HasSubstr("has no pool 'absent'"));
}

TEST(RadosConnect, PoolOfAnotherStoreIsRefused) {
    Outcome outcome;
    run_blocking(RealCluster::instance().reactor(), [&] { return open("strangers", outcome); });
    EXPECT_EQ(outcome.result, Result<>(fail(Code::exists)));
    EXPECT_THAT(outcome.text, HasSubstr("one is 'theirs'"));
}

}  // namespace
}  // namespace ros2s::rados
