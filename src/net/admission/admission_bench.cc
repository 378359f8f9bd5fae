// The cost of admitting a request and releasing its place: with free capacity; with queues of
// several tenants at a full server; and with a queue on each of several lines of one tenant that is
// at its limit.
#include "ros2s/admission/admission.h"

#include <benchmark/benchmark.h>

#include <memory>
#include <vector>

#include "ros2s/runtime/nursery.h"
#include "ros2s/runtime/test_support/made_reactor.h"

namespace ros2s::admission {
namespace {

constexpr int64_t rounds = 10'000;

Task<> pass(Line& line, int64_t times) {
    for (int64_t i = 0; i < times; ++i) {
        const Permit permit = co_await line.enter(4096, {});
        benchmark::DoNotOptimize(permit);
    }
}

void with_room(benchmark::State& state) {
    auto reactor = made_reactor();
    Admission admission(*reactor, {});
    Line line(admission, 1);
    for (auto _ : state) reactor->run(pass(line, rounds));
    state.SetItemsProcessed(state.iterations() * rounds);
}

// Yields while it is admitted, so that the others find no room.
Task<> stay(Reactor& reactor, Line& line, int64_t times) {
    for (int64_t i = 0; i < times; ++i) {
        const Permit permit = co_await line.enter(4096, {});
        co_await yield(reactor);
    }
}
Task<> crowd(Reactor& reactor, std::vector<std::unique_ptr<Line>>& lines) {
    Nursery nursery(reactor, 2 * lines.size());
    for (const auto& line : lines) {
        for (int i = 0; i < 2; ++i) {
            co_await nursery.spawn(
                stay(reactor, *line, rounds / 2 / static_cast<int64_t>(lines.size())));
        }
    }
    co_await nursery.join();
}
void in_turn(benchmark::State& state) {
    auto reactor = made_reactor();
    Limits limits;
    limits.all.requests = 1;
    Admission admission(*reactor, limits);
    std::vector<std::unique_ptr<Line>> lines;
    for (int64_t i = 0; i < state.range(0); ++i) {
        lines.push_back(std::make_unique<Line>(admission, i));
    }
    for (auto _ : state) reactor->run(crowd(*reactor, lines));
    state.SetItemsProcessed(state.iterations() * (rounds / 2 / state.range(0)) * 2 *
                            state.range(0));
}

void at_a_limit(benchmark::State& state) {
    auto reactor = made_reactor();
    Accounts accounts(*reactor, {.others = {.requests_in_flight = 1}});
    const auto account = accounts.open("CN=a");
    Admission admission(*reactor, {}, &accounts);
    std::vector<std::unique_ptr<Line>> lines;
    for (int64_t i = 0; i < state.range(0); ++i) {
        lines.push_back(std::make_unique<Line>(admission, account->number));
    }
    for (auto _ : state) reactor->run(crowd(*reactor, lines));
    state.SetItemsProcessed(state.iterations() * (rounds / 2 / state.range(0)) * 2 *
                            state.range(0));
}

BENCHMARK(with_room)->UseRealTime();
BENCHMARK(in_turn)->UseRealTime()->Arg(2)->Arg(64);
BENCHMARK(at_a_limit)->UseRealTime()->Arg(2)->Arg(512);

}  // namespace
}  // namespace ros2s::admission
