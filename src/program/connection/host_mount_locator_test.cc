// The server restarts or ends the session, and refuses for a while.
#include "host_mount_locator.h"

#include <gtest/gtest.h>

#include "ros2s/control/session_client_test_support.h"
#include "ros2s/runtime/sim/co_test.h"

namespace ros2s::connection {
namespace {

using namespace std::chrono_literals;

struct Host {
    sim::World world{1};
    control::FalseSessions server{world.core()};
    control::SessionTickets tickets{world.core(), server, {.client = {}, .pool = "pool"}};
    HostMountLocator locator{world.core(), server, tickets, "pool", "main", {}};
    uint64_t reopened = 0;
    Report report;

    Task<> reopen() {
        ++reopened;
        co_return;
    }
    Task<> start() {
        EXPECT_TRUE(co_await tickets.open({}, report));
        EXPECT_TRUE(co_await locator.mount({}, report));
        co_await locator.follow([this](const Call&) { return reopen(); });
    }
    // As the channel does when its connection is lost.
    Task<> lose_session() {
        server.sessions.clear();
        (void)co_await tickets.take(report);
        (void)co_await tickets.take(report);
    }
    Task<> stop() {
        co_await locator.stop();
        co_await tickets.close();
    }
};

Task<> refuse_once(Host& host, Code code) {
    co_await host.start();
    const auto before = host.locator.location();
    host.server.mount_errors = {code};
    co_await host.lose_session();
    EXPECT_TRUE(co_await host.locator.moved({}, before));
    EXPECT_NE(host.locator.location(), before);
    EXPECT_EQ(host.reopened, 1U);
    co_await host.stop();
}

TEST(HostMountLocator, SingleRefusalIsNotFinal) {
    for (const Code code : {Code::denied, Code::not_found, Code::disconnected, Code::stale}) {
        SCOPED_TRACE(describe(Error{.code = code}));
        Host host;
        host.world.run(refuse_once(host, code));
    }
}

Task<> refuse(Host& host, Code code, Code told) {
    co_await host.start();
    const auto before = host.locator.location();
    host.server.mount_errors = std::deque<Code>(5, code);
    co_await host.lose_session();
    const Time begin = host.world.now();
    const auto moved = co_await host.locator.moved({}, before);
    EXPECT_FALSE(moved);
    if (!moved) EXPECT_EQ(moved.error().code, told);
    EXPECT_LT(host.world.now() - begin, 1s);
    // The host has the right again.
    co_await sleep_for(host.world.core(), 10s);
    EXPECT_TRUE(co_await host.locator.moved({}, before));
    co_await host.stop();
}

TEST(HostMountLocator, LostRightIsReported) {
    Host host;
    host.world.run(refuse(host, Code::denied, Code::denied));
}
TEST(HostMountLocator, FilesOfDestroyedContainerAreStale) {
    Host host;
    host.world.run(refuse(host, Code::not_found, Code::stale));
}

// The mount is where it was: what a request named does not exist.
CO_TEST(HostMountLocator, MissingMountReportsTheReason, Host, host) {
    co_await host.start();
    const auto moved = co_await host.locator.moved({}, host.locator.location());
    EXPECT_FALSE(moved);
    if (!moved) EXPECT_EQ(moved.error().code, Code::stale);
    // Nobody answers.
    const auto before = host.locator.location();
    host.server.mount_errors = std::deque<Code>(10'000, Code::disconnected);
    co_await host.lose_session();
    const auto absent = co_await host.locator.moved({}, before);
    EXPECT_FALSE(absent);
    if (!absent) EXPECT_EQ(absent.error().code, Code::disconnected);
    const Call brief{.deadline = host.world.now() + 1s};
    const auto late = co_await host.locator.moved(brief, before);
    EXPECT_FALSE(late);
    if (!late) EXPECT_EQ(late.error().code, Code::deadline);
    co_await host.stop();
}

}  // namespace
}  // namespace ros2s::connection
