// Stored replies: their owners, how long they are kept, and how little one client can do to the
// replies of another.
#include "replies.h"

#include <gtest/gtest.h>

#include "ros2s/base/crc32c.h"
#include "ros2s/runtime/nursery.h"
#include "ros2s/runtime/sim/co_test.h"
#include "test_support/pool.h"

namespace ros2s::engine {
namespace {

constexpr std::chrono::minutes lease(2);
constexpr object::ContainerId container{};

Uuid named(uint8_t kind, uint32_t number) {
    Uuid uuid;
    uuid.bytes[0] = kind;
    std::memcpy(uuid.bytes.data() + 4, &number, sizeof number);
    return uuid;
}
Uuid owner(uint32_t number) { return named('o', number); }
// An owner that belongs to a sender with many owners.
Uuid owner_of(uint32_t sender, uint32_t number) {
    Uuid uuid = owner(sender);
    std::memcpy(uuid.bytes.data() + object::sender_bytes, &number, sizeof number);
    return uuid;
}
UpdateName id(uint32_t whose, uint32_t client, uint32_t slot = 0, uint64_t sequence = 1) {
    return {named('c', client), slot, sequence, owner(whose), 77};
}

// A pool's replies and its clock.
class RepliesOfPool {
  public:
    explicit RepliesOfPool(RepliesOptions options) : options_(options), replies(options) {}
    // The outcome: "done", "answered", or the error.
    std::string ask(const UpdateName& id, bool is_new = true) {
        const auto found = replies.look_up(id, container, is_new, now);
        if (!found) return std::string(describe(found.error().code));
        if (*found) return "answered";
        replies.store(
            Replies::key_of(id, container),
            {.sequence = id.sequence, .epoch = {++epoch_}, .time = now, .digest = id.digest});
        return "done";
    }
    std::string again(const UpdateName& id) { return ask(id, false); }
    // Writes what the index would have, and loads it again.
    void reopen() {
        replies.take_changes(
            [&](const ReplyKey& key, const ReplyValue* reply) {
                reply == nullptr ? (void)slots_.erase(key) : (void)(slots_[key] = *reply);
            },
            [&](const Uuid& whose, std::optional<uint64_t> dropped) {
                dropped ? (void)(owners_[whose] = *dropped) : (void)owners_.erase(whose);
            });
        const uint64_t dropped = replies.dropped_upto();
        replies = Replies(options_);
        for (const auto& [key, reply] : slots_) replies.load(key, reply);
        for (const auto& [whose, upto] : owners_) replies.load_owner(whose, upto);
        replies.finish_load(dropped);
    }

  private:
    RepliesOptions options_;
    uint64_t epoch_ = 0;
    std::map<ReplyKey, ReplyValue> slots_;
    std::map<Uuid, uint64_t> owners_;

  public:
    Replies replies;
    WallTime now{std::chrono::hours(1)};
};

const std::string expired(describe(Code::expired));
const std::string busy(describe(Code::busy));

// Whoever made the pool chose the times. The sanitizers find an overflow.
TEST(EngineReplies, ExtremeTimesInIndexAreAccepted) {
    for (const int64_t ns : {INT64_MIN, INT64_MIN + 1, INT64_MAX}) {
        Replies replies({.per_owner_max = 1, .slots_max = 4000, .lease = lease});
        const ReplyKey key = Replies::key_of(id(1, 1), container);
        replies.load(key, {.sequence = 1, .time = WallTime{Duration{ns}}, .digest = 77});
        replies.finish_load(0);
        const WallTime now{std::chrono::hours(1)};
        // The owner's share is used up, by a reply whose age is unknown.
        EXPECT_TRUE(replies.look_up(id(1, 2), container, true, now));
        replies.store(Replies::key_of(id(1, 2), container), {.sequence = 1, .time = now});
        EXPECT_EQ(replies.count(), 1U);
    }
}

TEST(EngineReplies, BusyOwnerTakesNoShareOfOthers) {
    RepliesOfPool kept({.per_owner_max = 1000, .slots_max = 4000, .lease = lease});
    EXPECT_EQ(kept.ask(id(1, 1)), "done");
    uint32_t done = 0;
    for (uint32_t i = 0; i < 70'000; ++i) {
        const std::string came = kept.ask(id(2, i % 17, i / 17));
        if (came == "done")
            ++done;
        else
            EXPECT_EQ(came, busy);
    }
    EXPECT_EQ(done, 1000U);
    EXPECT_EQ(kept.again(id(1, 1)), "answered");
    EXPECT_EQ(kept.ask(id(3, 1)), "done");
    // Its own slots still work.
    EXPECT_EQ(kept.ask(id(2, 0, 0, 2)), "done");
}

// A client may name any number of owners that it serves.
TEST(EngineReplies, SenderWithManyOwnersIsLimited) {
    const auto ask = [](RepliesOfPool& kept, uint32_t sender, uint32_t number, uint32_t slot = 0) {
        UpdateName asked = id(0, 1, slot);
        asked.owner = owner_of(sender, number);
        return kept.ask(asked);
    };
    RepliesOfPool kept({.per_owner_max = 1000, .slots_max = 4000, .lease = lease});
    for (int round = 0; round < 3; ++round) {
        // In the second round the leases of the first one are over, and its slots are used again.
        uint32_t done = 0;
        for (uint32_t i = 0; i < 5000; ++i) done += ask(kept, 1, 5000 * round + i) == "done";
        EXPECT_GE(done, 1990U);
        EXPECT_LE(done, 2001U);
        EXPECT_EQ(ask(kept, 2, 5000 * round), "done");
        kept.reopen();
        EXPECT_EQ(ask(kept, 1, 5000 * round + 5000), busy);
        EXPECT_EQ(ask(kept, 3, 5000 * round), "done");
        EXPECT_LE(kept.replies.count(), 4000U);
        kept.now += lease;
    }
    // One of its owners leaves room for its others.
    RepliesOfPool other({.per_owner_max = 4000, .slots_max = 4000, .lease = lease});
    for (uint32_t i = 0; i < 4000; ++i) ask(other, 1, 1, i);
    EXPECT_EQ(ask(other, 1, 2), "done");
}

TEST(EngineReplies, ExpiredClientIsEvictedAsAWhole) {
    RepliesOfPool kept({.per_owner_max = 10, .slots_max = 1000, .lease = lease});
    for (uint32_t slot = 0; slot < 5; ++slot) EXPECT_EQ(kept.ask(id(1, 1, slot)), "done");
    for (uint32_t slot = 0; slot < 5; ++slot) EXPECT_EQ(kept.ask(id(1, 2, slot)), "done");
    EXPECT_EQ(kept.ask(id(1, 3)), busy);
    kept.now += lease / 2;
    EXPECT_EQ(kept.ask(id(1, 1, 4, 2)), "done");  // this one is alive, with all its slots
    kept.now += lease / 2;
    EXPECT_EQ(kept.ask(id(1, 3)), "done");
    EXPECT_EQ(kept.replies.count(), 6U);
    for (const bool reopened : {false, true}) {
        if (reopened) kept.reopen();
        EXPECT_EQ(kept.again(id(1, 1, 0)), "answered");
        EXPECT_EQ(kept.again(id(1, 3)), "answered");
        // This also holds for number 1, which may have been done.
        EXPECT_EQ(kept.again(id(1, 2, 0, 1)), expired);
        EXPECT_EQ(kept.again(id(1, 2, 0, 2)), expired);
        // The kept client's replies show that this one was not done.
        EXPECT_EQ(kept.again(id(1, 1, 7 + reopened)), "done");
        // Other owners are not affected.
        EXPECT_EQ(kept.again(id(2, 2 + reopened)), "done");
    }
    // It returns: new requests are done; the outcome of those sent before is still unknown.
    EXPECT_EQ(kept.ask(id(1, 2, 1, 2)), "done");
    EXPECT_EQ(kept.again(id(1, 2, 1, 2)), "answered");
    EXPECT_EQ(kept.again(id(1, 2, 0, 1)), expired);
    kept.reopen();
    EXPECT_EQ(kept.again(id(1, 2, 0, 1)), expired);
}

TEST(EngineReplies, WithoutPressureNothingIsEvicted) {
    RepliesOfPool kept({.per_owner_max = 100, .slots_max = 1000, .lease = lease});
    EXPECT_EQ(kept.ask(id(1, 1)), "done");
    kept.now += std::chrono::hours(1000);
    for (uint32_t i = 2; i <= 100; ++i) EXPECT_EQ(kept.ask(id(1, i)), "done");
    EXPECT_EQ(kept.again(id(1, 1)), "answered");
}

TEST(EngineReplies, TotalIsBounded) {
    RepliesOfPool kept({.per_owner_max = 10, .slots_max = 20, .lease = lease});
    for (uint32_t i = 0; i < 20; ++i) EXPECT_EQ(kept.ask(id(i, 1)), "done");
    EXPECT_EQ(kept.ask(id(50, 1)), busy);
    kept.now += lease;
    for (uint32_t i = 50; i < 70; ++i) EXPECT_EQ(kept.ask(id(i, 1)), "done");
    EXPECT_EQ(kept.replies.count(), 20U);
    kept.reopen();
    // All unknown owners are treated the same.
    for (uint32_t i = 0; i < 20; ++i) EXPECT_EQ(kept.again(id(i, 1)), expired);
    EXPECT_EQ(kept.ask(id(50, 1, 0, 2)), "done");
}

// Many owners together cannot do it either: the more they have, the sooner they are refused.
TEST(EngineReplies, LargeOwnersLeaveRoomForSmallOnes) {
    RepliesOfPool kept({.per_owner_max = 1000, .slots_max = 4000, .lease = lease});
    std::map<uint32_t, uint32_t> done;
    for (uint32_t client = 0; client < 1000; ++client) {
        for (uint32_t big = 1; big <= 6; ++big) done[big] += kept.ask(id(big, client)) == "done";
    }
    for (uint32_t big = 1; big <= 6; ++big) {
        EXPECT_EQ(kept.ask(id(big, 1, 1)), busy) << big;
        // The share of a sender. An owner leaves as much of it to others as it uses itself.
        EXPECT_NEAR(done[big], 4000 / 9, 1) << big;
    }
    for (uint32_t client = 0; client < 200; ++client) {
        EXPECT_EQ(kept.ask(id(7, client)), "done") << client;
    }
    // Any owner may use the share of one that is over, but only as much as is needed.
    kept.now += lease;
    EXPECT_EQ(kept.ask(id(1, 1, 1)), "done");
    EXPECT_GT(kept.replies.count(), 2700U);
    for (uint32_t client = 0; client < 6; ++client) EXPECT_EQ(kept.ask(id(8, client)), "done");
}

// A clock that was ahead for a while does not fill an owner's share until that time comes again,
// and nothing is done twice because of it.
TEST(EngineReplies, ClockSetBackNeitherFillsSharesNorRepeats) {
    RepliesOfPool kept({.per_owner_max = 2, .slots_max = 1000, .lease = lease});
    for (uint32_t i = 1; i <= 2; ++i) EXPECT_EQ(kept.ask(id(1, i)), "done");
    kept.now -= std::chrono::minutes(1);
    EXPECT_EQ(kept.ask(id(1, 3)), busy);
    EXPECT_EQ(kept.again(id(1, 1)), "answered");
    kept.now -= std::chrono::minutes(30);
    EXPECT_EQ(kept.ask(id(1, 3)), "done");
    EXPECT_EQ(kept.again(id(1, 1)), expired);
}

// ---- in a pool ------------------------------------------------------------------------------

struct AnsweringPool : PoolBench {
    using PoolBench::PoolBench;
    // Adds a key.
    Task<Result<object::Commit>> add(UpdateName name, bool is_new, std::string dkey) {
        object::Transaction transaction{.id = name, .is_new = is_new};
        const object::Dkey place{std::move(dkey)};
        transaction.conditions.push_back({.kind = object::Condition::Kind::absent,
                                          .object = {1, 1},
                                          .dkey = place,
                                          .akey = {"a"}});
        transaction.operations.push_back({.kind = object::Operation::Kind::touch,
                                          .object = {1, 1},
                                          .dkey = place,
                                          .akey = {"a"}});
        co_return co_await store->update(call, container, transaction);
    }
};

Task<> flood(AnsweringPool& pool, uint32_t client, uint32_t slots, uint64_t& refused) {
    for (uint32_t slot = 0; slot < slots; ++slot) {
        object::Transaction nothing{.id = id(2, client, slot), .is_new = true};
        const auto done = co_await pool.store->update(pool.call, pool.container, nothing);
        if (done) continue;
        EXPECT_EQ(done.error().code, Code::busy);
        ++refused;
    }
}

// 17 clients of another owner use all of their 4,096 slots between a change and its repetition.
CO_TEST(PoolReplies, FloodOfAnotherOwnerKeepsStoredReply, AnsweringPool, pool, 1) {
    co_await pool.start();
    const auto first = co_await pool.add(id(1, 1), true, "appended");
    EXPECT_TRUE(first);
    uint64_t refused = 0;
    {
        Nursery nursery(pool.world.core(), 17);
        for (uint32_t c = 0; c < 17; ++c) co_await nursery.spawn(flood(pool, c, 4096, refused));
        co_await nursery.join();
    }
    EXPECT_GT(refused, 0U);
    for (const bool crashed : {false, true}) {
        if (crashed) {
            EXPECT_TRUE(co_await pool.crash_and_open());
        }
        const auto again = co_await pool.add(id(1, 1), false, "appended");
        EXPECT_TRUE(again);
        if (!again || !first) break;
        EXPECT_TRUE(again->replayed);
        EXPECT_EQ(again->epoch, first->epoch);
    }
    EXPECT_TRUE(co_await pool.close());
}

// Recovery arrives at the same replies, and dropped replies stay dropped.
CO_TEST(PoolReplies, EvictedReplyStaysEvictedAfterCrash, AnsweringPool, pool, 1) {
    pool.options.replies_per_owner = 2;
    co_await pool.start();
    EXPECT_TRUE(co_await pool.add(id(1, 1), true, "a"));
    EXPECT_TRUE(co_await pool.add(id(1, 1, 1), true, "b"));
    const auto refused = co_await pool.add(id(1, 2, 0), true, "c");
    EXPECT_EQ(refused.error().code, Code::busy);
    co_await sleep_for(pool.world.core(), lease);
    EXPECT_TRUE(co_await pool.add(id(1, 2, 0), true, "c"));
    for (int round = 0; round < 3; ++round) {
        for (const uint32_t slot : {0, 1}) {
            const auto again = co_await pool.add(id(1, 1, slot), false, "d");
            EXPECT_EQ(again.error().code, Code::expired) << round;
        }
        const auto kept = co_await pool.add(id(1, 2, 0), false, "c");
        EXPECT_TRUE(kept && kept->replayed) << round;
        EXPECT_TRUE(round == 1 ? co_await pool.reopen() : co_await pool.crash_and_open());
    }
    EXPECT_TRUE(co_await pool.close());
}

// A program that wrote version 1 of meta named the owners of a DPU's hosts differently. What they
// repeat cannot be found, so it is not done a second time.
CO_TEST(PoolReplies, RequestOfEarlierVersionIsNotRepeated, AnsweringPool, pool, 1) {
    co_await pool.start();
    EXPECT_TRUE(co_await pool.add(id(1, 1), true, "a"));
    EXPECT_TRUE(co_await pool.close());
    {
        const auto index = pool.index_medium.open();
        std::string meta = *index->get(meta_key().view()).value();
        meta[1] = 1;
        meta.resize(meta.size() - sizeof(uint32_t));
        const uint32_t crc = crc32c(as_bytes(meta));
        meta.append(as_text(object_bytes(crc)));
        IndexBatch batch;
        batch.put(meta_key().view(), meta);
        EXPECT_TRUE(index->apply(std::move(batch)));
        EXPECT_TRUE(index->flush());
    }
    EXPECT_TRUE(co_await pool.open());
    for (int round = 0; round < 2; ++round) {
        EXPECT_EQ((co_await pool.add(id(2, 1), false, "a")).error().code, Code::expired);
        const auto known = co_await pool.add(id(1, 1), false, "a");
        EXPECT_TRUE(known && known->replayed);
        EXPECT_TRUE(co_await pool.reopen());
    }
    EXPECT_TRUE(co_await pool.add(id(2, 1), true, "b"));
    EXPECT_TRUE(co_await pool.close());
}

}  // namespace
}  // namespace ros2s::engine
