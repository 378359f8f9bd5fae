// Allocating groups in a pool with free space in small pieces, as after random overwrites.
#include <benchmark/benchmark.h>

#include "ros2s/base/random.h"
#include "space.h"

namespace ros2s::engine {
namespace {

constexpr uint64_t device_blocks = (uint64_t{1} << 30) / 4096;

void allocate_aged(benchmark::State& state) {
    const auto group = static_cast<uint64_t>(state.range(0));
    Random random(1);
    SpaceMap space;
    space.add_device(0, device_blocks);
    space.make_available();
    // Each block is in use at random.
    for (uint64_t i = 0; i < device_blocks; ++i) {
        if (random.one_in(2)) (void)space.mark_used(BlockAddress::make(0, i));
    }
    space.make_available();
    uint64_t placed = 0, runs_made = 0, number = 0;
    std::vector<BlockRun> runs, apart;
    for (auto _ : state) {
        runs.clear();
        if (!space.reserve(0, group)) return state.SkipWithError("the device is full");
        space.allocate(0, group, runs);
        placed += group;
        runs_made += runs.size();
        // The blocks used before become free, so that the state stays the same.
        state.PauseTiming();
        ++number;
        for (const BlockRun& run : runs) {
            for (uint32_t i = 0; i < run.blocks; ++i) {
                (void)space.mark_used(run.first + i);
                (void)space.mark_free(run.first + i, number);
            }
        }
        (void)space.release(number, apart);
        state.ResumeTiming();
    }
    state.SetItemsProcessed(static_cast<int64_t>(placed));
    state.counters["blocks_per_run"] =
        static_cast<double>(placed) / static_cast<double>(std::max<uint64_t>(runs_made, 1));
}
BENCHMARK(allocate_aged)->Arg(1)->Arg(32)->Arg(256)->Arg(2048);

}  // namespace
}  // namespace ros2s::engine
