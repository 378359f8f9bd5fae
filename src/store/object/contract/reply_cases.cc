// Exactly once: a request with a known update name gets the stored reply and changes nothing.
#include <algorithm>

#include "probe.h"
#include "ros2s/runtime/nursery.h"

namespace ros2s::object::contract {
namespace {

const AkeyAddress answered{one, "v", "value"};

Uuid client(uint8_t number) {
    Uuid uuid;
    uuid.bytes[0] = number;
    uuid.bytes[15] = 1;
    return uuid;
}

Task<> a_repeated_id_gets_the_stored_reply(Probe& probe) {
    // The digest marks it as the same request, however it is executed.
    const UpdateName id{client(1), 0, 1, {}, 77};
    const Commit first = co_await probe.must(Batch().id(id).absent(answered).put(answered, "one"));
    EXPECT_FALSE(first.replayed);
    // The condition would fail now, and the value would change.
    const Commit again = co_await probe.must(Batch().id(id).absent(answered).put(answered, "two"));
    EXPECT_TRUE(again.replayed);
    EXPECT_EQ(again.epoch, first.epoch);
    EXPECT_EQ(again.time, first.time);
    co_await probe.expect_value(answered, "one");
    const Commit third = co_await probe.must(Batch().id(id));
    EXPECT_TRUE(third.replayed);
}

// With a given digest or the store's own: a name that was used by another request is refused, and
// nothing is done. (With equal lengths and no checksums, a store may ignore the payload.)
Task<> another_request_of_the_name_is_refused(Probe& probe) {
    const UpdateName own{client(1), 0, 1}, given{client(1), 1, 1, {}, 77};
    const UpdateName other{client(1), 1, 1, {}, 78};
    co_await probe.must(Batch().id(own).put(answered, "one"));
    co_await probe.refused(Batch().id(own).put(answered, "another"), Code::name_taken);
    co_await probe.refused(Batch().id(own).punch_akey(answered), Code::name_taken);
    co_await probe.refused(Batch().id(own), Code::name_taken);
    EXPECT_TRUE((co_await probe.must(Batch().id(own).put(answered, "one"))).replayed);
    co_await probe.must(Batch().id(given).put(answered, "three"));
    co_await probe.refused(Batch().id(other).put(answered, "three"), Code::name_taken);
    co_await probe.expect_value(answered, "three");
}

// A request that was never sent before was not done: another request had the name.
Task<> what_was_never_sent_is_not_answered(Probe& probe) {
    const UpdateName id{client(1), 0, 1, {}, 77};
    co_await probe.must(Batch().id(id).is_new().put(answered, "one"));
    co_await probe.refused(Batch().id(id).is_new().put(answered, "one"), Code::name_taken);
    EXPECT_TRUE((co_await probe.must(Batch().id(id).put(answered, "one"))).replayed);
    co_await probe.expect_value(answered, "one");
}

// The attack: another owner uses a client's name first, with the next number and with the last
// possible one. The client is not affected.
Task<> owners_do_not_meet(Probe& probe) {
    const Uuid victim = client(0xa0), thief = client(0xb0);
    for (const uint64_t number : {uint64_t{1}, ~uint64_t{0}}) {
        co_await probe.must(Batch().id({client(1), 0, number, thief, 77}).put(answered, "thief"));
    }
    for (const bool again : {false, true}) {
        const Commit commit =
            co_await probe.must(Batch().id({client(1), 0, 1, victim, 77}).put(answered, "victim"));
        EXPECT_EQ(commit.replayed, again);
        co_await probe.expect_value(answered, "victim");
    }
    co_await probe.refused(Batch().id({client(1), 0, 1, thief, 77}).put(answered, "x"),
                           Code::stale);
}

Task<> an_older_id_is_stale(Probe& probe) {
    co_await probe.must(Batch().id({client(1), 3, 1}).put(answered, "1"));
    co_await probe.must(Batch().id({client(1), 3, 2}).put(answered, "2"));
    co_await probe.must(Batch().id({client(1), 3, 7}).put(answered, "7"));
    for (const uint64_t old : {1, 2, 6}) {
        co_await probe.refused(Batch().id({client(1), 3, old}).put(answered, "old"), Code::stale);
    }
    co_await probe.expect_value(answered, "7");
}

Task<> slots_and_clients_are_independent(Probe& probe) {
    co_await probe.must(Batch().id({client(1), 0, 5}).put(answered, "a"));
    for (const UpdateName id : {UpdateName{client(1), 1, 1}, UpdateName{client(2), 0, 1}}) {
        const Commit commit = co_await probe.must(Batch().id(id).put(answered, "b"));
        EXPECT_FALSE(commit.replayed);
    }
    const Commit first = co_await probe.must(Batch().id({client(1), 0, 5}).put(answered, "a"));
    EXPECT_TRUE(first.replayed);
    co_await probe.expect_value(answered, "b");
}

Task<> no_client_no_reply(Probe& probe) {
    for (const char* bytes : {"1", "2"}) {
        const Commit commit = co_await probe.must(Batch().id({{}, 0, 1}).put(answered, bytes));
        EXPECT_FALSE(commit.replayed);
        co_await probe.expect_value(answered, bytes);
    }
}

Task<> a_failed_one_may_be_tried_again(Probe& probe) {
    const UpdateName id{client(1), 0, 1};
    co_await probe.refused(Batch().id(id).exists(answered).put(answered, "1"),
                           Code::condition_failed);
    co_await probe.must(Batch().put(answered, "0"));
    const Commit commit = co_await probe.must(Batch().id(id).exists(answered).put(answered, "1"));
    EXPECT_FALSE(commit.replayed);
    co_await probe.expect_value(answered, "1");
}

Task<> send(Probe& probe, UpdateName id, std::string bytes, std::vector<Commit>& commits) {
    commits.push_back(co_await probe.must(Batch().id(id).put(answered, std::move(bytes))));
}
Task<> duplicates_in_flight_are_one(Probe& probe) {
    for (uint64_t round = 1; round <= 20; ++round) {
        std::vector<Commit> commits;
        Nursery nursery(probe.reactor(), 8);
        for (int i = 0; i < 8; ++i) {
            co_await nursery.spawn(
                send(probe, {client(1), 0, round, {}, 77}, std::to_string(i), commits));
        }
        co_await nursery.join();
        EXPECT_EQ(commits.size(), 8U);
        EXPECT_EQ(std::ranges::count(commits, false, &Commit::replayed), 1);
        for (const Commit& commit : commits) EXPECT_EQ(commit.epoch, commits[0].epoch);
        const Fetched got = co_await probe.fetch(answered, {0, 10});
        EXPECT_EQ(got.epoch, commits[0].epoch);
    }
}

Task<> survive_reopening(Probe& probe) {
    const UpdateName id{client(1), 0, 1, client(0xa0), 77};
    const Commit first = co_await probe.must(Batch().id(id).put(answered, "one"));
    co_await probe.must(Batch().put(answered, "two"));
    for (int i = 0; i < 2; ++i) {
        const bool reopened = co_await probe.setup().reopen();
        if (!reopened) co_return;
        const Commit again = co_await probe.must(Batch().id(id).put(answered, "three"));
        EXPECT_TRUE(again.replayed);
        EXPECT_EQ(again.epoch, first.epoch);
        EXPECT_EQ(again.time, first.time);
        co_await probe.expect_value(answered, "two");
    }
}

}  // namespace

std::vector<Case> reply_cases() {
    return {
        {"RepeatedIdGetsTheStoredReply", a_repeated_id_gets_the_stored_reply, {}, has_replies},
        {"OtherRequestWithTheSameIdIsRefused",
         another_request_of_the_name_is_refused,
         {},
         has_replies},
        {"NewRequestWithAUsedIdIsRefused", what_was_never_sent_is_not_answered, {}, has_replies},
        {"IdsOfOtherOwnersAreIndependent", owners_do_not_meet, {}, has_replies},
        {"OlderIdIsStale", an_older_id_is_stale, {}, has_replies},
        {"SlotsAndClientsAreIndependent", slots_and_clients_are_independent, {}, has_replies},
        {"RequestWithoutAClientHasNoReply", no_client_no_reply, {}, has_replies},
        {"FailedRequestMayBeRepeated", a_failed_one_may_be_tried_again, {}, has_replies},
        {"ConcurrentDuplicatesAreDoneOnce", duplicates_in_flight_are_one, {}, has_replies},
        {"RepliesSurviveReopening", survive_reopening, {}, [](const Features& features) {
             return features.stored_replies && features.durable;
         }}};
}

}  // namespace ros2s::object::contract
