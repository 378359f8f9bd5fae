// A look-up as a 4 KiB read needs it: the key is built, its node found, and a block's address and
// CRC read. The argument is the number of arrays of 1 MiB in memory. With few of them all is in the
// processor's caches.
#include <benchmark/benchmark.h>

#include "cache.h"
#include "ros2s/base/random.h"
#include "ros2s/engine/format/keys.h"

namespace ros2s::engine {
namespace {

// Of a file with a chunk under each dkey.
KeyBuilder key_of(uint64_t array, uint32_t segment) {
    return entry_key({}, {1, array / 64}, object::Dkey::integer(array % 64).bytes, "0", segment);
}

void fill(NodeCache& cache, uint64_t arrays) {
    for (uint64_t array = 0; array < arrays; ++array) {
        Node& node = cache.insert(key_of(array, 0).view());
        EntryValue& entry = node.value.emplace<EntryValue>();
        entry.kind = EntryValue::Kind::array;
        for (uint32_t block = 0; block < segment_blocks; ++block) {
            const uint64_t place = 1 + array * segment_blocks + block;
            entry.map.set(block, {BlockAddress::make(0, place), block});
        }
    }
}

void look_up_hit(benchmark::State& state) {
    const auto arrays = static_cast<uint64_t>(state.range(0));
    NodeCache cache(0, 1);
    fill(cache, arrays);
    Random random(1);
    for (auto _ : state) {
        const uint64_t drawn = random.next();
        const Node* const node = cache.find(key_of(drawn % arrays, 0).view());
        const auto block = static_cast<uint32_t>(drawn >> 56);
        benchmark::DoNotOptimize(node->entry()->map.at(block));
    }
}
BENCHMARK(look_up_hit)->Arg(256)->Arg(3072)->Arg(49152);

void look_up_miss(benchmark::State& state) {
    const auto arrays = static_cast<uint64_t>(state.range(0));
    NodeCache cache(0, 1);
    fill(cache, arrays);
    Random random(1);
    for (auto _ : state) {
        benchmark::DoNotOptimize(cache.find(key_of(random.next() % arrays, 1).view()));
    }
}
BENCHMARK(look_up_miss)->Arg(256)->Arg(3072)->Arg(49152);

}  // namespace
}  // namespace ros2s::engine
