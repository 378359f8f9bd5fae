// The cost of the index: point reads that hit and miss, checkpoints of 3 KiB values, flushes. The
// directory is made under $TMPDIR (default /tmp): put it on the disk to measure.
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <filesystem>

#include "rocksdb_index.h"
#include "ros2s/base/check.h"
#include "ros2s/base/random.h"

namespace ros2s::engine {
namespace {

constexpr size_t value_bytes = 3 * 1024;

// Keys as the engine's: a table byte, container, object, dkey, akey, segment.
std::string key_of(uint64_t n) {
    std::string key(1, '\1');
    Random random(n);
    for (int word = 0; word < 4; ++word) {
        const uint64_t bits = random.next();
        key.append(reinterpret_cast<const char*>(&bits), sizeof bits);
    }
    return key + std::to_string(n);
}

// Addresses and CRCs of blocks that were written at random: the largest possible block map.
std::string value_of(uint64_t n) {
    Random random(n);
    std::string value;
    while (value.size() < value_bytes) {
        const uint64_t block = random.below(1ull << 30);
        const uint32_t crc = static_cast<uint32_t>(random.next());
        value.append(reinterpret_cast<const char*>(&block), sizeof block);
        value.append(reinterpret_cast<const char*>(&crc), sizeof crc);
    }
    return value;
}

class Bench : public benchmark::Fixture {
  public:
    void SetUp(benchmark::State&) override {
        auto name = (std::filesystem::temp_directory_path() / "ros2store-bench-XXXXXX").string();
        ROS2S_CHECK(mkdtemp(name.data()) != nullptr);
        directory_ = name;
        Report report;
        auto index = create_rocksdb_index(directory_ + "/index", {}, report);
        ROS2S_CHECK(index.has_value());
        index_ = std::move(*index);
    }
    void TearDown(benchmark::State&) override {
        ROS2S_CHECK(index_->close().has_value());
        std::filesystem::remove_all(directory_);
    }
    // Like a checkpoint's: entries, and the position, which every batch writes.
    static IndexBatch batch_of(uint64_t from, uint64_t count) {
        IndexBatch batch;
        batch.put(std::string(1, '\0'), std::to_string(from));
        for (uint64_t n = from; n < from + count; ++n) batch.put(key_of(n), value_of(n));
        return batch;
    }
    void fill(uint64_t count) {
        for (uint64_t n = 0; n < count; n += 5000) {
            ROS2S_CHECK(index_->apply(batch_of(n, 5000)).has_value());
            ROS2S_CHECK(index_->flush().has_value());
        }
    }

  protected:
    std::string directory_;
    std::unique_ptr<Index> index_;
};

// Argument: number of values in the index, of which random ones are read. 64 MiB of memory hold
// some 10,000.
BENCHMARK_DEFINE_F(Bench, get_hit)(benchmark::State& state) {
    const auto count = static_cast<uint64_t>(state.range(0));
    fill(count);
    Random random(1);
    for (auto _ : state) {
        const auto value = index_->get(key_of(random.below(count)));
        ROS2S_CHECK(value && *value);
    }
    state.counters["disk_per_byte"] =
        static_cast<double>(index_->disk_bytes()) / static_cast<double>(count * value_bytes);
}
BENCHMARK_REGISTER_F(Bench, get_hit)
    ->Arg(5000)
    ->Arg(100'000)
    ->Iterations(20'000)
    ->Unit(benchmark::kMicrosecond)
    ->UseRealTime();

BENCHMARK_DEFINE_F(Bench, get_miss)(benchmark::State& state) {
    const auto count = static_cast<uint64_t>(state.range(0));
    fill(count);
    uint64_t n = count;
    for (auto _ : state) {
        const auto value = index_->get(key_of(n++));
        ROS2S_CHECK(value && !*value);
    }
}
BENCHMARK_REGISTER_F(Bench, get_miss)
    ->Arg(100'000)
    ->Iterations(50'000)
    ->Unit(benchmark::kMicrosecond)
    ->UseRealTime();

// Argument: number of values in one batch; a checkpoint is one batch and one flush.
BENCHMARK_DEFINE_F(Bench, apply_only)(benchmark::State& state) {
    const auto count = static_cast<uint64_t>(state.range(0));
    uint64_t n = 0;
    for (auto _ : state) {
        state.PauseTiming();
        IndexBatch batch = batch_of(n, count);
        n += count;
        state.ResumeTiming();
        ROS2S_CHECK(index_->apply(std::move(batch)).has_value());
        state.PauseTiming();
        ROS2S_CHECK(index_->flush().has_value());
        state.ResumeTiming();
    }
    state.SetBytesProcessed(static_cast<int64_t>(n * value_bytes));
}
BENCHMARK_REGISTER_F(Bench, apply_only)
    ->Arg(1)
    ->Arg(4000)
    ->Iterations(30)
    ->Unit(benchmark::kMicrosecond)
    ->UseRealTime();

BENCHMARK_DEFINE_F(Bench, apply_and_flush)(benchmark::State& state) {
    const auto count = static_cast<uint64_t>(state.range(0));
    uint64_t n = 0;
    for (auto _ : state) {
        state.PauseTiming();
        IndexBatch batch = batch_of(n, count);
        n += count;
        state.ResumeTiming();
        ROS2S_CHECK(index_->apply(std::move(batch)).has_value());
        ROS2S_CHECK(index_->flush().has_value());
    }
    state.SetBytesProcessed(static_cast<int64_t>(n * value_bytes));
}
BENCHMARK_REGISTER_F(Bench, apply_and_flush)
    ->Arg(1)
    ->Arg(4000)
    ->Iterations(30)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

}  // namespace
}  // namespace ros2s::engine
