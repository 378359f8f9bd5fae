// PendingPeers: the resources that unauthenticated peers of all listeners may use together, and
// which connection is closed to make room for another one.
#include "pending_peers.h"

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "ros2s/runtime/nursery.h"
#include "ros2s/runtime/sim/co_test.h"

namespace ros2s::fabric {
namespace {

using namespace std::chrono_literals;

Peer at_host(const std::string& host) { return {.name = host, .host = host}; }

class PendingPeerLimits : public testing::Test {
  protected:
    sim::World world{1};
    PendingPeers pending_peers{world.core(), 8};
    // Listeners.
    std::array<PendingPeers::Share, 9> shares = [] {
        std::array<PendingPeers::Share, 9> all;
        for (auto& share : all) share.most = 6;
        return all;
    }();
    std::vector<std::unique_ptr<PendingPeer>> present;

    PendingPeer& arrive(size_t listener, const std::string& host) {
        return *present.emplace_back(
            std::make_unique<PendingPeer>(pending_peers, shares[listener], at_host(host)));
    }
    [[nodiscard]] size_t left(const std::string& host) const {
        size_t count = 0;
        for (const auto& each : present) count += each->peer.host == host && !each->makes_room;
        return count;
    }
};

TEST_F(PendingPeerLimits, FullListenerEvictsFloodingAddress) {
    for (int i = 0; i < 4; ++i) arrive(0, "flood");
    arrive(0, "one");
    arrive(0, "two");
    arrive(0, "three");
    EXPECT_TRUE(present.front()->makes_room && present.front()->stop.stop_requested());
    EXPECT_EQ(left("flood"), 3U);
    EXPECT_EQ(left("one") + left("two") + left("three"), 3U);
    EXPECT_EQ(shares[0].now, 6U);
}

TEST_F(PendingPeerLimits, FloodAtOneListenerLeavesRoomAtOthers) {
    PendingPeer& client = arrive(2, "client");
    for (int i = 0; i < 100; ++i) arrive(i % 2, "flood " + std::to_string(i));
    EXPECT_FALSE(client.makes_room);
    EXPECT_FALSE(arrive(3, "another client").makes_room);
    EXPECT_EQ(pending_peers.size(), 8U);
    EXPECT_EQ(shares[2].now + shares[3].now, 2U);
}

// The flooding address and the client have one connection at each listener.
TEST_F(PendingPeerLimits, AddressAtAllListenersIsEvictedFirst) {
    for (size_t listener = 0; listener < 8; ++listener) arrive(listener, "flood");
    PendingPeer& client = arrive(3, "client");
    for (size_t i = 0; i < 100; ++i) arrive(i % 9, "flood");
    EXPECT_FALSE(client.makes_room);
    EXPECT_EQ(pending_peers.size(), 8U);
    EXPECT_EQ(left("flood"), 7U);
}

TEST_F(PendingPeerLimits, AdmittedPeerDoesNotCount) {
    PendingPeer& admitted = arrive(0, "client");
    admitted.leave();
    for (int i = 0; i < 100; ++i) arrive(0, "client");
    EXPECT_FALSE(admitted.makes_room);
    EXPECT_EQ(pending_peers.size(), 6U);
    present.clear();
    EXPECT_EQ(pending_peers.size(), 0U);
    EXPECT_EQ(shares[0].now, 0U);
}

CO_TEST(PendingPeerLog, LinesAreLimitedAcrossListeners, sim::World, world, 1) {
    Reactor& core = world.core();
    PendingPeers pending_peers(core);
    PendingPeers::Share share{.most = 64}, another{.most = 64};
    PendingPeer one(pending_peers, share, at_host("one")),
        two(pending_peers, another, at_host("two"));
    uint64_t written = 0;
    for (int i = 0; i < 50; ++i) {
        for (PendingPeer* const each : {&one, &two}) written += each->take_line() == 0U;
    }
    EXPECT_EQ(written, 20U);
    co_await sleep_for(core, 1s);
    EXPECT_EQ(two.take_line(), 80U) << "left out";
    EXPECT_EQ(one.take_line(), 0U);
}

// ---- steps

struct Flood {
    StopSource stop;
    uint64_t steps = 0;
};
constexpr Duration step = 1ms;
constexpr Duration with_rest = 4 * step;
constexpr uint64_t steps_per_second = 250;

Task<> step_on(Reactor& core, PendingPeers& pending_peers, PendingPeers::Share& at, Flood& flood) {
    PendingPeer pending(pending_peers, at, at_host("flood"));
    while (co_await pending.begin_step(flood.stop.token())) {
        ++flood.steps;
        co_await sleep_for(core, step);
        co_await pending.end_step();
    }
}

CO_TEST(PendingPeerSteps, ListenersShareQuarterOfTime, sim::World, world, 1) {
    Reactor& core = world.core();
    constexpr size_t listeners = 7, at_each = 20, own_steps = 3;
    PendingPeers pending_peers(core);
    std::array<PendingPeers::Share, listeners + 1> shares;
    for (auto& share : shares) share.most = 64;
    Flood flood;
    Nursery nursery(core, listeners * at_each);
    for (size_t i = 0; i < listeners * at_each; ++i) {
        co_await nursery.spawn(step_on(core, pending_peers, shares[i % listeners], flood));
    }
    co_await sleep_for(core, 1s);
    EXPECT_LE(flood.steps, steps_per_second + 1) << "a quarter of the time, of all listeners";
    EXPECT_GE(flood.steps, steps_per_second - 1);
    {
        PendingPeer client(pending_peers, shares.back(), at_host("client"));
        const Time begun = core.now();
        for (size_t i = 0; i < own_steps; ++i) {
            EXPECT_TRUE(co_await client.begin_step({}));
            co_await sleep_for(core, step);
            co_await client.end_step();
        }
        EXPECT_LE(core.now() - begun, own_steps * (listeners + 1) * with_rest)
            << "after one step of each other listener";
    }
    flood.stop.request_stop();
    const Time stopped = core.now();
    co_await nursery.join();
    EXPECT_LE(core.now() - stopped, with_rest) << "those that wait end at once";
}

// ---- accepted connections

Task<> accept_on(PendingPeers& pending_peers, uint64_t& accepted) {
    for (int i = 0; i < 100; ++i) {
        ++accepted;
        co_await pending_peers.pace_accepts();
    }
}

CO_TEST(PendingPeerAccepts, AcceptsPerTurnAreBounded, sim::World, world, 1) {
    Reactor& core = world.core();
    constexpr size_t listeners = 10;
    PendingPeers pending_peers(core);
    std::array<uint64_t, listeners> accepted{};
    Nursery nursery(core, listeners);
    for (uint64_t& each : accepted) co_await nursery.spawn(accept_on(pending_peers, each));
    uint64_t before = 0;
    while (nursery.running() > 0) {
        co_await yield(core);
        uint64_t now = 0;
        for (const uint64_t each : accepted) now += each;
        // 16, and for each listener one that waits for its turn and the next one.
        EXPECT_LE(now - before, 16 + 2 * listeners);
        before = now;
    }
    EXPECT_EQ(before, listeners * 100);
}

}  // namespace
}  // namespace ros2s::fabric
