// Transactions: all or nothing, in order, over the store's own copy of the payload.

#include "probe.h"
#include "ros2s/object/checksum.h"

namespace ros2s::object::contract {
namespace {

const AkeyAddress array{one, "a", "array"};
const AkeyAddress value{one, "v", "value"};
const AkeyAddress other{two, "o", "array"};

Task<> across_objects(Probe& probe) {
    Batch batch;
    for (uint64_t i = 0; i < 100; ++i) {
        batch.write({{i, 0}, "d" + std::to_string(i), "array"}, i * 100, pattern(i, 5000));
        batch.put({{i, 0}, "d", "value"}, std::to_string(i));
    }
    const Commit commit = co_await probe.must(std::move(batch));
    for (uint64_t i = 0; i < 100; ++i) {
        const AkeyAddress address{{i, 0}, "d" + std::to_string(i), "array"};
        std::string model;
        overlay(model, i * 100, pattern(i, 5000));
        co_await probe.expect_array(address, model);
        co_await probe.expect_value({{i, 0}, "d", "value"}, std::to_string(i));
        const Fetched got = co_await probe.fetch(address, {0, 1});
        EXPECT_EQ(got.epoch, commit.epoch);
    }
}

Task<> operations_take_effect_in_order(Probe& probe) {
    co_await probe.must(Batch()
                            .write(array, 0, "0123456789")
                            .write(array, 2, "xx")
                            .set_size(array, 6)
                            .write(array, 8, "end")
                            .punch_extent(array, {1, 2}));
    co_await probe.expect_array(
        array, std::string("0") + std::string(2, '\0') + "x45" + std::string(2, '\0') + "end");
    co_await probe.must(Batch()
                            .put(value, "first")
                            .punch_object(one)
                            .put(value, "second")
                            .write(other, 0, "x")
                            .punch_dkeys(two, "", "")
                            .touch(other));
    co_await probe.expect_absent(array);
    co_await probe.expect_value(value, "second");
    co_await probe.expect_array(other, "");
    co_await probe.must(Batch().write(array, 0, pattern(1, 5000)).punch_akey(array));
    co_await probe.expect_absent(array);
}

Task<> the_same_block_many_times(Probe& probe) {
    std::string model;
    Batch batch;
    Random random(11);
    for (uint64_t i = 0; i < 300; ++i) {
        const uint64_t offset = random.below(9000);
        const std::string bytes = pattern(i, 1 + random.below(200));
        overlay(model, offset, bytes);
        batch.write(array, offset, bytes);
    }
    co_await probe.must(std::move(batch));
    co_await probe.expect_array(array, model);
}

Task<> a_failed_one_leaves_nothing(Probe& probe) {
    co_await probe.must(Batch().write(array, 0, pattern(1, 10'000)).put(value, "value"));
    const QueryReply before = co_await probe.query(one, "array");
    const PoolSpace space = co_await probe.space();
    // The last operation does not match the akey's kind.
    co_await probe.refused(Batch()
                               .write(array, 5, pattern(2, 9000))
                               .punch_dkey(one, "v")
                               .put(value, "changed")
                               .write(other, 0, "x")
                               .punch_object(two)
                               .put(array, "no value"),
                           Code::invalid);
    co_await probe.refused(
        Batch().punch_object(one).write(array, 0, "x").touch(value).put(array, ""), Code::invalid);
    co_await probe.expect_array(array, pattern(1, 10'000));
    co_await probe.expect_value(value, "value");
    co_await probe.expect_absent(other);
    const QueryReply after = co_await probe.query(one, "array");
    EXPECT_EQ(before.last_epoch, after.last_epoch);
    EXPECT_EQ(before.last_time, after.last_time);
    EXPECT_EQ(before.bytes_used, after.bytes_used);
    const PoolSpace space_after = co_await probe.space();
    EXPECT_EQ(space.free_bytes, space_after.free_bytes);
}

Task<> epochs_rise(Probe& probe) {
    Commit last{};
    for (int i = 0; i < 100; ++i) {
        const Commit commit =
            co_await probe.must(Batch().touch({{1, static_cast<uint64_t>(i)}, "d", "a"}));
        EXPECT_GT(commit.epoch, last.epoch);
        EXPECT_GE(commit.time, last.time);
        last = commit;
    }
}

Task<> checksums_are_compared(Probe& probe) {
    const std::string bytes = pattern(3, 10'000);
    Checksums sums;
    array_checksums(100, as_bytes(bytes), sums);
    Checksums value_sum;
    value_checksums(as_bytes(bytes), value_sum);
    co_await probe.must(
        Batch().write(array, 100, bytes).checksums(sums).put(value, bytes).checksums(value_sum));
    const Fetched before = co_await probe.fetch(array, {100, 10'000});
    EXPECT_TRUE(before.bytes == bytes);
    EXPECT_EQ(before.checksums, sums);

    for (size_t i = 0; i < sums.size(); ++i) {
        Checksums wrong = sums;
        ++wrong[i];
        co_await probe.refused(
            Batch().put(value, "changed").write(array, 100, bytes).checksums(wrong), Code::corrupt);
    }
    co_await probe.refused(Batch().touch(other).put(value, bytes).checksums({value_sum[0] ^ 1}),
                           Code::corrupt);
    Checksums few = sums;
    few.pop_back();
    co_await probe.refused(Batch().write(array, 100, bytes).checksums(few), Code::invalid);
    co_await probe.refused(Batch().put(value, bytes).checksums(sums), Code::invalid);
    co_await probe.expect_value(value, bytes);
    co_await probe.expect_absent(other);
    const Fetched after = co_await probe.fetch(array, {100, 10'000});
    EXPECT_EQ(before.epoch, after.epoch);
}

Task<> the_payload_is_the_stores_own_copy(Probe& probe) {
    Batch batch = Batch().write(array, 0, pattern(4, 20'000)).put(value, "value");
    const auto commit =
        co_await probe.store().update(probe.call(), probe.container(), batch.transaction());
    EXPECT_TRUE(commit.has_value());
    batch.scribble();
    co_await probe.expect_array(array, pattern(4, 20'000));
    co_await probe.expect_value(value, "value");
}

Task<> large_ones(Probe& probe) {
    Batch batch;
    for (uint64_t i = 0; i < 24; ++i) {
        batch.write({one, Dkey::integer(i).bytes, "array"}, 0, pattern(i, 1 << 20));
    }
    co_await probe.must(std::move(batch));
    for (uint64_t i = 0; i < 24; ++i) {
        co_await probe.expect_array({one, Dkey::integer(i).bytes, "array"}, pattern(i, 1 << 20));
    }
    const QueryReply query = co_await probe.query(one, "array");
    EXPECT_EQ(query.bytes_used, uint64_t{24} << 20);
    EXPECT_EQ(query.highest_dkey, Dkey::integer(23));
}

}  // namespace

std::vector<Case> transaction_cases() {
    return {{"TransactionAcrossObjectsIsDone", across_objects, {}, has_transactions},
            {"OperationsTakeEffectInOrder", operations_take_effect_in_order, {}, has_transactions},
            {"RepeatedWritesToOneBlockTakeEffect", the_same_block_many_times},
            {"FailedTransactionLeavesNothing", a_failed_one_leaves_nothing, {}, has_transactions},
            {"EpochsIncrease", epochs_rise},
            {"WrongChecksumsAreRefused", checksums_are_compared},
            {"PayloadIsCopiedBeforeTheReply", the_payload_is_the_stores_own_copy},
            {"LargeTransactionIsDone", large_ones}};
}

}  // namespace ros2s::object::contract
