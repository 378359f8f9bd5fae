// The costs of the runtime itself: a task, a turn of the loop, a call from another thread, a hop to
// another core and back, an operation of the ring that does nothing.
#include <benchmark/benchmark.h>
#include <fcntl.h>
#include <unistd.h>

#include "ros2s/runtime/run_blocking.h"
#include "ros2s/runtime/test_support/made_reactor.h"

namespace ros2s {
namespace {

constexpr int64_t rounds = 10'000;

std::unique_ptr<OsReactor> started() {
    auto reactor = made_reactor();
    Report report;
    if (!reactor->start(report)) std::exit(1);
    return reactor;
}

Task<int> one() { co_return 1; }
Task<> await_tasks() {
    for (int64_t i = 0; i < rounds; ++i) benchmark::DoNotOptimize(co_await one());
}
Task<> yield_often(Reactor& reactor) {
    for (int64_t i = 0; i < rounds; ++i) co_await yield(reactor);
}
Task<> hop_often(Reactor& home, Reactor& other) {
    for (int64_t i = 0; i < rounds; ++i) benchmark::DoNotOptimize(co_await on(other, home, one()));
}
Task<> read_nothing(Ring& ring, int fd) {
    std::byte byte{};
    for (int64_t i = 0; i < rounds; ++i) {
        benchmark::DoNotOptimize(co_await ring.read(fd, Bytes(&byte, 1), 0));
    }
}

void task(benchmark::State& state) {
    auto reactor = made_reactor();
    for (auto _ : state) reactor->run(await_tasks());
    state.SetItemsProcessed(state.iterations() * rounds);
}
void turn(benchmark::State& state) {
    auto reactor = made_reactor();
    for (auto _ : state) reactor->run(yield_often(*reactor));
    state.SetItemsProcessed(state.iterations() * rounds);
}
void hop_and_back(benchmark::State& state) {
    auto home = made_reactor();
    auto other = started();
    for (auto _ : state) home->run(hop_often(*home, *other));
    state.SetItemsProcessed(state.iterations() * rounds);
}
void ring_operation(benchmark::State& state) {
    auto reactor = made_reactor();
    const int fd = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    for (auto _ : state) reactor->run(read_nothing(*reactor->ring(), fd));
    ::close(fd);
    state.SetItemsProcessed(state.iterations() * rounds);
}
void blocking_call(benchmark::State& state) {
    static std::unique_ptr<OsReactor> reactor;
    if (state.thread_index() == 0) reactor = started();
    for (auto _ : state) benchmark::DoNotOptimize(run_blocking(*reactor, [] { return one(); }));
    state.SetItemsProcessed(state.iterations());
    if (state.thread_index() == 0) reactor.reset();
}

BENCHMARK(task)->UseRealTime();
BENCHMARK(turn)->UseRealTime();
BENCHMARK(hop_and_back)->UseRealTime();
BENCHMARK(ring_operation)->UseRealTime();
BENCHMARK(blocking_call)->UseRealTime()->Threads(1)->Threads(8);

}  // namespace
}  // namespace ros2s
