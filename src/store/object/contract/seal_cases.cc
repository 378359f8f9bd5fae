// Seals: bytes of the caller that the store keeps with each block of an array.
#include "probe.h"
#include "ros2s/object/checksum.h"

namespace ros2s::object::contract {
namespace {

constexpr uint64_t mib = 1 << 20;
const AkeyAddress sealed_array{one, "a", "data"};
const std::string none(seal_bytes, '\0');

// Those of `count` blocks.
std::string seals_of(uint64_t seed, size_t count) { return pattern(seed, count * seal_bytes); }
std::string part(const std::string& seals, size_t first, size_t count) {
    return seals.substr(first * seal_bytes, count * seal_bytes);
}

Task<> seals_stay_with_their_blocks(Probe& probe) {
    // Over the border of the engine's segments, and an end within a block.
    const std::string bytes = pattern(1, 6 * block_bytes + 100), seals = seals_of(2, 7);
    const uint64_t start = mib - 3 * block_bytes;
    co_await probe.must(Batch().write(sealed_array, start, bytes).seals(seals));
    const Fetched all = co_await probe.fetch(sealed_array, {start, 8 * block_bytes});
    EXPECT_TRUE(all.bytes.substr(0, bytes.size()) == bytes);
    EXPECT_EQ(all.seals, seals + none);
    // Also of blocks that are read in part, and of holes.
    const Fetched inner =
        co_await probe.fetch(sealed_array, {start + block_bytes + 1, block_bytes});
    EXPECT_EQ(inner.seals, part(seals, 1, 2));
    const Fetched hole = co_await probe.fetch(sealed_array, {0, 2 * block_bytes});
    EXPECT_EQ(hole.seals, none + none);
    const Fetched absent = co_await probe.fetch({one, "b", "data"}, {0, block_bytes});
    EXPECT_EQ(absent.seals, "");
    // One that is written again has its own.
    const std::string one_block = pattern(3, block_bytes), other = seals_of(4, 1);
    co_await probe.must(
        Batch().write(sealed_array, start + 2 * block_bytes, one_block).seals(other));
    const Fetched mixed = co_await probe.fetch(sealed_array, {start, bytes.size()});
    EXPECT_EQ(mixed.seals, part(seals, 0, 2) + other + part(seals, 3, 4));
}

Task<> changed_blocks_lose_their_seals(Probe& probe) {
    const std::string bytes = pattern(1, 6 * block_bytes), seals = seals_of(2, 6);
    co_await probe.must(Batch().write(sealed_array, 0, bytes).seals(seals));
    co_await probe.must(Batch().write(sealed_array, 100, "without"));
    co_await probe.must(Batch().punch_extent(sealed_array, {block_bytes, block_bytes}));
    co_await probe.must(Batch().punch_extent(sealed_array, {2 * block_bytes + 5, 10}));
    co_await probe.must(Batch().touch(sealed_array).set_size(sealed_array, 5 * block_bytes + 7));
    const Fetched all = co_await probe.fetch(sealed_array, {0, bytes.size()});
    EXPECT_EQ(all.seals, none + none + none + part(seals, 3, 2) + none);
    // A larger size changes no block.
    co_await probe.must(
        Batch().set_size(sealed_array, 5 * block_bytes).set_size(sealed_array, mib + 9));
    const Fetched larger = co_await probe.fetch(sealed_array, {3 * block_bytes, 3 * block_bytes});
    EXPECT_EQ(larger.seals, part(seals, 3, 2) + none);
    // Nothing of an array comes back with its successor.
    co_await probe.must(Batch().punch_akey(sealed_array));
    co_await probe.must(Batch().write(sealed_array, 0, bytes));
    const Fetched again = co_await probe.fetch(sealed_array, {0, 2 * block_bytes});
    EXPECT_EQ(again.seals, none + none);
}

Task<> the_last_seal_of_a_transaction_counts(Probe& probe) {
    const std::string first = pattern(1, 2 * block_bytes), second = pattern(2, block_bytes);
    const std::string seals = seals_of(3, 2), other = seals_of(4, 1);
    co_await probe.must(Batch()
                            .write(sealed_array, 0, first)
                            .seals(seals)
                            .write(sealed_array, block_bytes, second)
                            .seals(other));
    const Fetched all = co_await probe.fetch(sealed_array, {0, first.size()});
    EXPECT_TRUE(all.bytes.substr(block_bytes) == second);
    EXPECT_EQ(all.seals, part(seals, 0, 1) + other);
}

Task<> seals_survive_reopening(Probe& probe) {
    const std::string bytes = pattern(1, 3 * block_bytes), seals = seals_of(2, 3);
    co_await probe.must(Batch().write(sealed_array, mib - block_bytes, bytes).seals(seals));
    co_await probe.must(Batch().write(sealed_array, mib, "without"));
    const std::string expected = part(seals, 0, 1) + none + part(seals, 2, 1);
    for (int i = 0; i < 3; ++i) {
        const bool reopened = co_await probe.setup().reopen();
        if (!reopened) co_return;
        const Fetched all = co_await probe.fetch(sealed_array, {mib - block_bytes, bytes.size()});
        EXPECT_EQ(all.seals, expected) << i;
    }
}

Task<> wrong_numbers_of_seals_are_refused(Probe& probe) {
    const std::string bytes = pattern(1, block_bytes + 1);
    co_await probe.refused(Batch().write(sealed_array, 0, bytes).seals(seals_of(1, 1)),
                           Code::invalid);
    co_await probe.refused(Batch().write(sealed_array, 0, bytes).seals(seals_of(1, 3)),
                           Code::invalid);
    co_await probe.refused(Batch().put(sealed_array, "x").seals(seals_of(1, 1)), Code::invalid);
    co_await probe.expect_absent(sealed_array);
}

Task<> many_seals_in_one_fetch(Probe& probe) {
    const std::string bytes = pattern(1, 4 * mib), seals = seals_of(2, 4 * mib / block_bytes);
    co_await probe.must(Batch().write(sealed_array, 0, bytes).seals(seals));
    const Fetched all = co_await probe.fetch(sealed_array, {0, bytes.size()});
    EXPECT_TRUE(all.bytes == bytes);
    EXPECT_TRUE(all.seals == seals);
}

Task<> a_store_without_seals_refuses_them(Probe& probe) {
    co_await probe.refused(Batch().write(sealed_array, 0, "x").seals(seals_of(1, 1)),
                           Code::unsupported);
    co_await probe.expect_absent(sealed_array);
}

}  // namespace

std::vector<Case> seal_cases() {
    return {
        {"SealsStayWithTheirBlocks", seals_stay_with_their_blocks, {}, keeps_seals},
        {"ChangedBlocksLoseTheirSeals", changed_blocks_lose_their_seals, {}, keeps_seals},
        {"LastSealOfATransactionIsKept", the_last_seal_of_a_transaction_counts, {}, keeps_seals},
        {"SealsSurviveReopening",
         seals_survive_reopening,
         {},
         [](const Features& features) { return features.seals && features.durable; }},
        {"WrongNumberOfSealsIsRefused", wrong_numbers_of_seals_are_refused, {}, keeps_seals},
        {"ManySealsAreFetchedAtOnce", many_seals_in_one_fetch, {}, keeps_seals},
        {"StoreWithoutSealsRefusesThem",
         a_store_without_seals_refuses_them,
         {},
         [](const Features& features) { return !features.seals; }}};
}

}  // namespace ros2s::object::contract
