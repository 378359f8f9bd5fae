// Exactly once: a repeated operation id gets the stored reply and changes nothing.
#include <algorithm>

#include "probe.h"
#include "ros2s/runtime/nursery.h"

namespace ros2s::object::contract {
namespace {

constexpr ObjectId one{1, 1};
const Place value{one, "v", "value"};

Uuid client(uint8_t number) {
    Uuid uuid;
    uuid.bytes[0] = number;
    uuid.bytes[15] = 1;
    return uuid;
}

Task<> a_repeated_id_gets_the_stored_reply(Probe& probe) {
    const OperationId id{client(1), 0, 1};
    const Commit first = co_await probe.must(Batch().id(id).absent(value).put(value, "one"));
    EXPECT_FALSE(first.replayed);
    // The condition would fail now, and the value would change.
    const Commit again = co_await probe.must(Batch().id(id).absent(value).put(value, "two"));
    EXPECT_TRUE(again.replayed);
    EXPECT_EQ(again.epoch, first.epoch);
    EXPECT_EQ(again.time, first.time);
    co_await probe.expect_value(value, "one");
    const Commit third = co_await probe.must(Batch().id(id));
    EXPECT_TRUE(third.replayed);
}

Task<> an_older_id_is_stale(Probe& probe) {
    co_await probe.must(Batch().id({client(1), 3, 1}).put(value, "1"));
    co_await probe.must(Batch().id({client(1), 3, 2}).put(value, "2"));
    co_await probe.must(Batch().id({client(1), 3, 7}).put(value, "7"));
    for (const uint64_t old : {1, 2, 6}) {
        co_await probe.refused(Batch().id({client(1), 3, old}).put(value, "old"), Code::stale);
    }
    co_await probe.expect_value(value, "7");
}

Task<> slots_and_clients_are_independent(Probe& probe) {
    co_await probe.must(Batch().id({client(1), 0, 5}).put(value, "a"));
    for (const OperationId id : {OperationId{client(1), 1, 1}, OperationId{client(2), 0, 1}}) {
        const Commit commit = co_await probe.must(Batch().id(id).put(value, "b"));
        EXPECT_FALSE(commit.replayed);
    }
    const Commit first = co_await probe.must(Batch().id({client(1), 0, 5}).put(value, "c"));
    EXPECT_TRUE(first.replayed);
    co_await probe.expect_value(value, "b");
}

Task<> no_client_no_reply(Probe& probe) {
    for (const char* bytes : {"1", "2"}) {
        const Commit commit = co_await probe.must(Batch().id({{}, 0, 1}).put(value, bytes));
        EXPECT_FALSE(commit.replayed);
        co_await probe.expect_value(value, bytes);
    }
}

Task<> a_failed_one_may_be_tried_again(Probe& probe) {
    const OperationId id{client(1), 0, 1};
    co_await probe.refused(Batch().id(id).exists(value).put(value, "1"), Code::condition_failed);
    co_await probe.must(Batch().put(value, "0"));
    const Commit commit = co_await probe.must(Batch().id(id).exists(value).put(value, "1"));
    EXPECT_FALSE(commit.replayed);
    co_await probe.expect_value(value, "1");
}

Task<> send(Probe& probe, OperationId id, std::string bytes, std::vector<Commit>& commits) {
    commits.push_back(co_await probe.must(Batch().id(id).put(value, std::move(bytes))));
}
Task<> duplicates_in_flight_are_one(Probe& probe) {
    for (uint64_t round = 1; round <= 20; ++round) {
        std::vector<Commit> commits;
        Nursery nursery(probe.reactor(), 8);
        for (int i = 0; i < 8; ++i) {
            co_await nursery.spawn(send(probe, {client(1), 0, round}, std::to_string(i), commits));
        }
        co_await nursery.join();
        EXPECT_EQ(commits.size(), 8U);
        EXPECT_EQ(std::ranges::count(commits, false, &Commit::replayed), 1);
        for (const Commit& commit : commits) EXPECT_EQ(commit.epoch, commits[0].epoch);
        const Fetched got = co_await probe.fetch(value, {0, 10});
        EXPECT_EQ(got.epoch, commits[0].epoch);
    }
}

Task<> survive_reopening(Probe& probe) {
    const OperationId id{client(1), 0, 1};
    const Commit first = co_await probe.must(Batch().id(id).put(value, "one"));
    co_await probe.must(Batch().put(value, "two"));
    for (int i = 0; i < 2; ++i) {
        const bool reopened = co_await probe.setup().reopen();
        if (!reopened) co_return;
        const Commit again = co_await probe.must(Batch().id(id).put(value, "three"));
        EXPECT_TRUE(again.replayed);
        EXPECT_EQ(again.epoch, first.epoch);
        EXPECT_EQ(again.time, first.time);
        co_await probe.expect_value(value, "two");
    }
}

}  // namespace

std::vector<Case> reply_cases() {
    return {{"ARepeatedIdGetsTheStoredReply", a_repeated_id_gets_the_stored_reply, {}, has_replies},
            {"AnOlderIdIsStale", an_older_id_is_stale, {}, has_replies},
            {"SlotsAndClientsAreIndependent", slots_and_clients_are_independent, {}, has_replies},
            {"NoClientNoReply", no_client_no_reply, {}, has_replies},
            {"AFailedOneMayBeTriedAgain", a_failed_one_may_be_tried_again, {}, has_replies},
            {"DuplicatesInFlightAreOne", duplicates_in_flight_are_one, {}, has_replies},
            {"RepliesSurviveReopening", survive_reopening, {}, is_durable}};
}

}  // namespace ros2s::object::contract
