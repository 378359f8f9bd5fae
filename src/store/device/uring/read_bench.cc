// 4 KiB random reads through a FileDevice, at the queue depths of fio's runs. Compare with
//   fio --name=raw --filename=FILE --rw=randread --bs=4k --ioengine=io_uring --direct=1 --fixedbufs
//       --iodepth=32 --runtime=5 --time_based
// on the same file: ROS2STORE_BENCH_FILE names one to keep; otherwise 1 GiB is made in the working
// directory and removed.
#include <benchmark/benchmark.h>
#include <unistd.h>

#include <cstdlib>

#include "ros2s/device/uring/file_device.h"
#include "ros2s/runtime/nursery.h"
#include "ros2s/runtime/os_reactor.h"

namespace ros2s::device {
namespace {

constexpr uint64_t file_bytes = uint64_t{1} << 30;

struct Run {
    OsReactor& reactor;
    BlockDevice& device;
    uint64_t left;
    bool failed = false;
};

Task<> reader(Run& run, Bytes into) {
    const uint64_t blocks = run.device.size() / block_bytes;
    while (run.left > 0) {
        --run.left;
        const uint64_t block = run.reactor.random().below(blocks);
        run.failed |= !co_await run.device.read(block * block_bytes, into);
    }
}

Task<> read_all(Run& run, uint64_t depth, bool fixed) {
    AlignedBuffer memory(depth * block_bytes);
    std::memset(memory.data(), 0, memory.size());
    if (fixed && !run.reactor.ring()->register_memory(memory.bytes())) run.failed = true;
    Nursery nursery(run.reactor, depth);
    for (uint64_t i = 0; i < depth; ++i) {
        co_await nursery.spawn(reader(run, memory.bytes().subspan(i * block_bytes, block_bytes)));
    }
    co_await nursery.join();
    if (fixed) run.reactor.ring()->unregister_memory(memory.bytes());
}

void random_reads(benchmark::State& state, RingChoice ring, uint32_t submit_group, bool fixed) {
    Report report;
    auto reactor = OsReactor::create({.ring = ring, .submit_group = submit_group}, report);
    if (!reactor) return state.SkipWithError(report.text().c_str());
    const char* kept = std::getenv("ROS2STORE_BENCH_FILE");
    const std::string path = kept != nullptr ? kept : "ros2store-bench-device";
    if (::access(path.c_str(), F_OK) != 0) {
        const auto created =
            (*reactor)->run(create_file_device(**reactor, path, file_bytes, {}, {}, {}, report));
        if (!created) return state.SkipWithError(report.text().c_str());
    }
    auto device = (*reactor)->run(FileDevice::open(**reactor, path, {}, report));
    if (!device) return state.SkipWithError(report.text().c_str());
    const auto depth = static_cast<uint64_t>(state.range(0));
    constexpr uint64_t reads_per_round = 20'000;
    for (auto _ : state) {
        Run run{.reactor = **reactor, .device = **device, .left = reads_per_round};
        (*reactor)->run(read_all(run, depth, fixed));
        if (run.failed) state.SkipWithError("a read failed");
    }
    state.SetItemsProcessed(static_cast<int64_t>(state.iterations() * reads_per_round));
    state.counters["sleeps_per_read"] =
        benchmark::Counter(static_cast<double>((*reactor)->counters().sleeps.value()) /
                           static_cast<double>(state.iterations() * reads_per_round));
    (*reactor)->run((*device)->close());
    if (kept == nullptr) ::unlink(path.c_str());
}

BENCHMARK_CAPTURE(random_reads, io_uring, RingChoice::io_uring, 1, true)
    ->Arg(1)
    ->UseRealTime()
    ->Arg(32);
BENCHMARK_CAPTURE(random_reads, io_uring_groups_of_8, RingChoice::io_uring, 8, true)
    ->UseRealTime()
    ->Arg(32);
BENCHMARK_CAPTURE(random_reads, io_uring_groups_of_16, RingChoice::io_uring, 16, true)
    ->UseRealTime()
    ->Arg(32);
BENCHMARK_CAPTURE(random_reads, io_uring_unregistered, RingChoice::io_uring, 1, false)
    ->UseRealTime()
    ->Arg(32);
BENCHMARK_CAPTURE(random_reads, threads, RingChoice::threads, 1, false)
    ->Arg(1)
    ->UseRealTime()
    ->Arg(32);

}  // namespace
}  // namespace ros2s::device
