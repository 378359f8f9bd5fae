// An update in a pool on several cores. Core 0 admits and commits it; in between it visits the
// cores that have its keys, in their order, so that transactions cannot wait for each other in a
// circle. It holds all locks before it looks at anything, and until its group is published.
#include "parts.h"
#include "ros2s/runtime/trace.h"

namespace ros2s::engine {

using object::Commit;

// What it holds on one core; taken and given back there.
struct EngineStore::Parts::Visit {
    explicit Visit(Core& visited) : core(visited), locked(visited.locks), pins(visited.cache) {}
    Core& core;
    LocksHeld locked;
    Pins pins;
    std::vector<std::string> summaries;
};

namespace {

Task<> lock(Core& core, const Draft& draft, LocksHeld& locked) {
    for (const LockTable::Wanted& one : draft.locks(core.number)) {
        co_await core.locks.lock(one);
        locked.held.push_back(one);
    }
}

Task<Result<>> prepare(Core& core, object::ContainerId container, const Draft& draft, Pins& pins,
                       std::vector<std::string>& summaries, uint64_t bytes_max) {
    for (const Change& change : draft.changes()) {
        if (!draft.is_on(core.number, change)) continue;
        if (core.loader.prepare_resident_entry(container, change, pins)) continue;
        ROS2S_CO_TRY(
            co_await core.loader.prepare_entries(container, change, pins, bytes_max, summaries));
    }
    co_return Result<>();
}

Task<> let_go(LocksHeld& locked, Pins& pins) {
    pins.clear();
    locked.clear();
    co_return;
}

}  // namespace

Task<Result<Commit>> EngineStore::Parts::update_across(const Call& call,
                                                       object::ContainerId container,
                                                       const object::Transaction& transaction,
                                                       Draft& draft, bool& reserved) {
    std::deque<Visit> visits;
    for (const uint32_t core : draft.cores()) visits.emplace_back(cores[core]);
    Result<Commit> result =
        co_await update_visiting(call, container, transaction, draft, reserved, visits);
    for (Visit& visit : visits) {
        co_await at(visit.core, cores.home(), let_go(visit.locked, visit.pins));
    }
    co_return result;
}

Task<Result<>> EngineStore::Parts::plan_at(Visit& visit, const Call& call,
                                           object::ContainerId container, Draft& draft) {
    Core& core = visit.core;
    ROS2S_CO_TRY(co_await ros2s::engine::prepare(core, container, draft, visit.pins,
                                                 visit.summaries, 2 * core.cache_bytes_max));
    ROS2S_CO_TRY(draft.plan(core.number, core.cache));
    ROS2S_CO_TRY(co_await read_edges(core, call.trace, draft));
    core.trim();
    co_return Result<>();
}

// The usual case: all of it is on one core, which needs one visit.
Task<Result<>> EngineStore::Parts::prepare_alone(Visit& visit, const Call& call,
                                                 object::ContainerId container,
                                                 const object::Transaction& transaction,
                                                 Draft& draft) {
    if (rules.lock_keys) co_await lock(visit.core, draft, visit.locked);
    ROS2S_CO_TRY(co_await judge(visit.core, container, transaction, draft));
    co_return co_await plan_at(visit, call, container, draft);
}

Task<Result<>> EngineStore::Parts::prepare_together(const Call& call, object::ContainerId container,
                                                    const object::Transaction& transaction,
                                                    Draft& draft, std::deque<Visit>& visits) {
    Core& home = cores.home();
    for (Visit& visit : visits) {
        if (!rules.lock_keys) break;
        co_await at(visit.core, home, lock(visit.core, draft, visit.locked));
    }
    // The first that fails in the request's order, whichever core has it.
    Result<> judged;
    for (Visit& visit : visits) {
        const Result<> here =
            co_await at(visit.core, home, judge(visit.core, container, transaction, draft));
        if (here) continue;
        if (here.error().code != Code::condition_failed) co_return here;
        if (judged || here.error().detail < judged.error().detail) judged = here;
    }
    ROS2S_CO_TRY(judged);
    for (Visit& visit : visits) {
        ROS2S_CO_TRY(co_await at(visit.core, home, plan_at(visit, call, container, draft)));
    }
    co_return Result<>();
}

Task<Result<Commit>> EngineStore::Parts::update_visiting(const Call& call,
                                                         object::ContainerId container,
                                                         const object::Transaction& transaction,
                                                         Draft& draft, bool& reserved,
                                                         std::deque<Visit>& visits) {
    Core& home = cores.home();
    {
        const Span span(call.trace, env.reactor, "engine.prepare");
        if (visits.size() == 1) {
            Visit& visit = visits.front();
            ROS2S_CO_TRY(co_await at(visit.core, home,
                                     prepare_alone(visit, call, container, transaction, draft)));
        } else {
            ROS2S_CO_TRY(co_await prepare_together(call, container, transaction, draft, visits));
        }
    }
    Pins summaries(home.cache);
    for (const Change& change : draft.changes()) {
        if (home.loader.prepare_resident_summary(container, change, summaries)) continue;
        ROS2S_CO_TRY(co_await home.loader.prepare_summaries(container, change, summaries,
                                                            2 * home.cache_bytes_max));
    }
    for (Visit& visit : visits) {
        ROS2S_CO_TRY(co_await home.loader.prepare_keys(std::move(visit.summaries), summaries));
    }
    ROS2S_CO_TRY(co_await committer->admit(draft.record_bytes_max(), draft.blocks_max()));
    ROS2S_CO_TRY(call.check(env.reactor.now()));
    ROS2S_CO_TRY(stage(container, transaction, draft, reserved));
    std::vector<Node*> pins = summaries.nodes();
    for (const Visit& visit : visits) {
        pins.insert(pins.end(), visit.pins.nodes().begin(), visit.pins.nodes().end());
    }
    const Span span(call.trace, env.reactor, "engine.commit");
    co_return co_await commit(draft.take(), std::move(pins), call.trace);
}

}  // namespace ros2s::engine
