// When a peer is woken: by the first entry after it went to sleep, or at the end of the turn if it
// was woken shortly before. Once, and always.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>

#include "test_support/attack.h"

namespace ros2s::fabric::shm {
namespace {

// The bytes that arrived on the peer's socket since the last call.
size_t wake_ups(const Attacker& peer) {
    std::array<char, 64> bytes;
    const ssize_t got = recv(peer.socket.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    return got > 0 ? static_cast<size_t>(got) : 0;
}
SharedWord& peers_flag(const Attacker& peer) { return peer.page().client_wants; }
void go_to_sleep(const Attacker& peer) { shared(peers_flag(peer).value).store(wants_entries); }
// So long that it may have polled since it was woken.
Task<> stay_awake(Stage& stage) {
    (void)co_await sleep_for(stage.core(), std::chrono::milliseconds(1));
}
bool is_asleep(const Attacker& peer) { return shared(peers_flag(peer).value).load() != 0; }

// A turn is the time between two yields: nothing else here suspends while there is room.
Task<> woken_by_the_first_entry(Stage& stage) {
    Attacker peer;
    co_await attack(stage, peer, *stage.honest);
    if (!peer.victim) co_return;
    EXPECT_TRUE(co_await peer.victim->send(as_bytes("awake")));
    EXPECT_EQ(wake_ups(peer), 0U);
    for (int turns = 0; turns < 3; ++turns) {
        co_await stay_awake(stage);
        go_to_sleep(peer);
        EXPECT_TRUE(co_await peer.victim->send(as_bytes("first")));
        EXPECT_EQ(wake_ups(peer), 1U);
        EXPECT_FALSE(is_asleep(peer));
        for (int i = 0; i < 10; ++i) EXPECT_TRUE(co_await peer.victim->send(as_bytes("more")));
        EXPECT_EQ(wake_ups(peer), 0U);
    }
    // It sleeps again in the same turn: the turn's end wakes it.
    go_to_sleep(peer);
    EXPECT_TRUE(co_await peer.victim->send(as_bytes("more")));
    EXPECT_EQ(wake_ups(peer), 0U);
    co_await yield(stage.core());
    EXPECT_EQ(wake_ups(peer), 1U);
    EXPECT_FALSE(is_asleep(peer));

    // A reply wakes, too.
    peer.write_entry({.type = Packet::Type::message, .length = 1, .operation = 1}, as_bytes("x"),
                     64);
    auto request = co_await peer.victim->receive();
    EXPECT_TRUE(request);
    co_await stay_awake(stage);
    go_to_sleep(peer);
    EXPECT_TRUE(peer.victim->reply(*request, as_bytes("y")));
    EXPECT_EQ(wake_ups(peer), 1U);
    *request = {};
    peer.socket.reset();
    co_await peer.victim->close();
}
TEST(ShmWake, FirstEntryWakesSleepingPeer) { Stage().run(woken_by_the_first_entry); }

// The number of wake-ups by an entry in the turn after one that woke the peer.
Task<size_t> wakes_by_entry_soon_after(Stage& stage, Attacker& peer) {
    co_await stay_awake(stage);
    go_to_sleep(peer);
    EXPECT_TRUE(co_await peer.victim->send(as_bytes("first")));
    EXPECT_EQ(wake_ups(peer), 1U);
    co_await yield(stage.core());
    go_to_sleep(peer);
    EXPECT_TRUE(co_await peer.victim->send(as_bytes("soon after")));
    co_return wake_ups(peer);
}

Task<> sleeps_again_at_once(Stage& stage) {
    Attacker peer;
    co_await attack(stage, peer, *stage.honest);
    if (!peer.victim) co_return;
    // On a busy machine the two turns may be far apart.
    for (int tries = 0; co_await wakes_by_entry_soon_after(stage, peer) > 0; ++tries) {
        EXPECT_LT(tries, 1000);
        if (tries == 1000) break;
    }
    co_await yield(stage.core());
    EXPECT_EQ(wake_ups(peer), 1U);

    // Requests that come in each turn delay it only so long.
    EXPECT_TRUE(co_await peer.victim->send(as_bytes("awake")));
    go_to_sleep(peer);
    for (int turn = 0; turn < 4; ++turn) {
        peer.write_entry({.type = Packet::Type::message, .length = 1, .operation = 1},
                         as_bytes("x"), 64);
        co_await yield(stage.core());
    }
    EXPECT_EQ(wake_ups(peer), 1U);
    peer.socket.reset();
    co_await peer.victim->close();
}
TEST(ShmWake, PeerThatSleepsAgainAtOnceIsWokenAtTurnEnd) { Stage().run(sleeps_again_at_once); }

// The writer's load without a fence may come too early to see the flag: the turn's end sees it.
Task<> woken_at_the_end_of_the_turn(Stage& stage) {
    Attacker peer;
    co_await attack(stage, peer, *stage.honest);
    if (!peer.victim) co_return;
    for (int sleeps = 0; sleeps < 3; ++sleeps) {
        EXPECT_TRUE(co_await peer.victim->send(as_bytes("before it sleeps")));
        go_to_sleep(peer);
        EXPECT_EQ(wake_ups(peer), 0U);
        co_await yield(stage.core());
        EXPECT_EQ(wake_ups(peer), 1U);
        EXPECT_FALSE(is_asleep(peer));
    }
    // Nothing was written for it since, so it sleeps.
    go_to_sleep(peer);
    co_await yield(stage.core());
    EXPECT_EQ(wake_ups(peer), 0U);
    EXPECT_TRUE(is_asleep(peer));
    peer.socket.reset();
    co_await peer.victim->close();
}
TEST(ShmWake, TurnEndWakesSleepingPeer) { Stage().run(woken_at_the_end_of_the_turn); }

Task<> receive_one(Endpoint& endpoint, bool& received) {
    received = bool(co_await endpoint.receive());
}

// A receiver begins to wait for room for its reply when the endpoint is already quiet. The core has
// other work, so it never sleeps and never looks whether it may.
Task<> room_for_a_reply_is_seen(Stage& stage) {
    Attacker peer;
    co_await attack(stage, peer, *stage.honest);
    if (!peer.victim) co_return;
    constexpr uint64_t less_than_a_reply = 384;
    const auto written = [&peer] { return shared(peer.page().to_client_tail.value).load(); };
    while (peer.layout.to_client_bytes - written() >= less_than_a_reply) {
        EXPECT_TRUE(co_await peer.victim->send(as_bytes("x")));
    }
    peer.write_entry({.type = Packet::Type::message, .length = 1, .operation = 1}, as_bytes("x"),
                     64);
    constexpr int turns_until_quiet = 10000;
    for (int i = 0; i < turns_until_quiet; ++i) co_await yield(stage.core());
    Nursery receiving(stage.core(), 1);
    bool received = false;
    co_await receiving.spawn(receive_one(*peer.victim, received));
    co_await yield(stage.core());
    EXPECT_FALSE(received);
    shared(peer.page().to_client_head.value).store(written());
    for (int i = 0; i < turns_until_quiet && !received; ++i) co_await yield(stage.core());
    EXPECT_TRUE(received);
    peer.socket.reset();
    co_await receiving.join();
    co_await peer.victim->close();
}
TEST(ShmWake, ReplyRoomIsSeenWithoutSleep) { Stage().run(room_for_a_reply_is_seen); }

}  // namespace
}  // namespace ros2s::fabric::shm
