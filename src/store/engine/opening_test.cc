// Opening a pool without a store that accepts requests: its effects on the media.
#include "recovered_pool.h"
#include "ros2s/runtime/sim/co_test.h"
#include "test_support/engine.h"

namespace ros2s::engine {
namespace {

// Opens the pool of `bench` up to this step, and closes it.
Task<Recovered> open_only(Bench& bench, EngineOptions options = {}) {
    auto devices = co_await bench.devices();
    EXPECT_OK(devices);
    auto superblock = co_await read_superblock(*(*devices)[0], bench.report);
    EXPECT_OK(superblock);
    RecoveredPool pool(bench.env, std::move(*devices), std::move(*superblock),
                       bench.index_medium.open(), options);
    Result<Recovered> opened = co_await pool.recover(bench.report);
    EXPECT_OK(opened);
    EXPECT_EQ(pool.state.applied, opened->journal_end.last_sequence);
    co_await pool.close();
    co_return std::move(*opened);
}

CO_TEST(EngineOpening, RestartRecordIsAddedUnlessReadOnly, Bench, bench, 1) {
    EXPECT_OK(co_await bench.create());
    // Each opening adds a restart record, which the next one replays.
    const Recovered first = co_await open_only(bench);
    const Recovered second = co_await open_only(bench);
    EXPECT_EQ(first.read_only_reason, "");
    EXPECT_EQ(first.replayed_groups, 0U);
    EXPECT_EQ(second.replayed_groups, 1U);
    EXPECT_EQ(second.journal_end.last_sequence, first.journal_end.last_sequence + 1);
    EXPECT_NE(second.journal_end.last_id, first.journal_end.last_id);
    // A read-only opening adds none.
    for (int turn = 0; turn < 2; ++turn) {
        const Recovered reading = co_await open_only(bench, {.read_only = true});
        EXPECT_EQ(reading.read_only_reason, "the pool was opened read-only, as requested");
        EXPECT_EQ(reading.replayed_groups, 2U);
    }
}

}  // namespace
}  // namespace ros2s::engine
