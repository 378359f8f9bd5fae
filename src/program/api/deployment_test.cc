#include "ros2s/api/deployment.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "ros2s/pool/pool_directory.h"
#include "ros2s/runtime/thread_pool.h"

namespace ros2s::api {
namespace {

using testing::HasSubstr;

class Deployments : public testing::Test {
  protected:
    Deployments() {
        const pool::PoolCreation creation{.directory = directory_, .bytes = pool::pool_bytes_min};
        EXPECT_TRUE(reactor_->run(pool::create_pool({}, {*reactor_, blocking_}, creation, report_)))
            << report_.text();
    }
    ~Deployments() override { std::filesystem::remove_all(directory_); }

    Result<std::unique_ptr<Deployment>> open(std::string pool, std::string container) {
        Uri uri{.pool = std::move(pool), .container = std::move(container), .dir = directory_};
        return reactor_->run(
            Deployment::open({}, {*reactor_, blocking_}, std::move(uri), {}, report_));
    }

    // Tests of one program run at the same time.
    const std::string directory_ =
        fmt::format("{}deployment_test.{}", testing::TempDir(), getpid());
    Report report_;
    std::unique_ptr<OsReactor> reactor_ = *OsReactor::create({}, report_);
    ThreadPool blocking_{2};
};

TEST_F(Deployments, PoolDirectoryHasDocumentedLayers) {
    const auto opened = open("pool", "main");
    ASSERT_TRUE(opened) << report_.text();
    EXPECT_EQ((*opened)->layers(), "Dfs → CountedStore → EngineStore → Ownership");
    EXPECT_FALSE((*opened)->is_through_owner());
    size_t counters = 0;
    (*opened)->visit_metrics([&](std::string_view, std::string_view, uint64_t) { ++counters; });
    EXPECT_GT(counters, 0U);
    reactor_->run((*opened)->close());
    EXPECT_EQ((*opened)->layers(), "");
}

TEST_F(Deployments, AnotherContainerIsMountedSeparately) {
    const auto opened = open("pool", "main");
    ASSERT_TRUE(opened) << report_.text();
    ASSERT_TRUE(reactor_->run(
        (*opened)->pool()->create_container({}, {.label = "other"}, fs::Owner{}, report_)));
    const auto other = reactor_->run((*opened)->mount({}, "other", false, report_));
    ASSERT_TRUE(other) << report_.text();
    EXPECT_NE(*other, &(*opened)->file_system());
    EXPECT_EQ((*opened)->layers(), "Dfs → Dfs → CountedStore → EngineStore → Ownership");
    // In either order: the first container is unmounted, the other stays.
    reactor_->run((*opened)->unmount((*opened)->file_system()));
    EXPECT_EQ((*opened)->layers(), "Dfs → CountedStore → EngineStore → Ownership");
    EXPECT_TRUE(reactor_->run((*other)->get_attributes({}, fs::root_node)));
    reactor_->run((*opened)->close());
}

TEST_F(Deployments, FailedOpenLeavesThePoolFree) {
    EXPECT_FALSE(open("other", "main"));
    EXPECT_THAT(report_.text(), HasSubstr("is named 'pool', not 'other'"));
    EXPECT_FALSE(open("pool", "none"));
    EXPECT_THAT(report_.text(),
                HasSubstr("has no container 'none' that this client may use; it may use: main"));
    const auto opened = open("pool", "main");
    ASSERT_TRUE(opened) << report_.text();
    reactor_->run((*opened)->close());
}

TEST(ReactorPolling, EnvironmentSetsPollTime) {
    const Uri server{.transport = Uri::Transport::direct, .host = "storage"};
    const auto poll_for = [&](const char* text, Report& report) -> Result<Duration> {
        ::setenv("ROS2STORE_POLL", text, 1);
        const auto reactor = create_reactor(server, report, {});
        ::unsetenv("ROS2STORE_POLL");
        if (!reactor) return fail(reactor.error());
        return (*reactor)->options().poll_for;
    };
    Report report;
    EXPECT_EQ(poll_for("", report), OsReactorOptions::poll_for_default);
    EXPECT_EQ(poll_for("0", report), Duration::zero());
    EXPECT_EQ(poll_for("2ms", report), std::chrono::milliseconds(2));
    for (const char* const text : {"11ms", "fast", "1", "-1us"}) {
        Report refused;
        EXPECT_EQ(poll_for(text, refused).error().code, Code::invalid) << text;
        EXPECT_THAT(refused.text(), HasSubstr("ROS2STORE_POLL is '"));
    }
}

}  // namespace
}  // namespace ros2s::api
