#include "core.h"

#include <algorithm>

#include "ros2s/base/check.h"

namespace ros2s::engine {
namespace {

Task<Result<>> prepare_at(Core& core, object::ContainerId container, const Change& change,
                          std::vector<Node*>& nodes, std::vector<std::string>& summaries) {
    Pins pins(core.cache);
    ROS2S_CO_TRY(
        co_await core.loader.prepare_entries(container, change, pins, SIZE_MAX, summaries));
    const std::vector<Node*> taken = pins.take();
    nodes.insert(nodes.end(), taken.begin(), taken.end());
    co_return Result<>();
}
Task<> unpin_at(Core& core, std::span<Node* const> nodes) {
    for (Node* node : nodes) core.cache.unpin(*node);
    co_return;
}
Task<> set_containers(Core& core, const std::set<object::ContainerId>& containers) {
    core.containers = containers;
    co_return;
}

}  // namespace

Cores::Cores(const Env& env, std::span<Reactor* const> others, Index& index, uint32_t targets,
             const CommitRules& rules, uint64_t bounce_blocks)
    : partition_{.targets = targets,
                 .cores = std::min(static_cast<uint32_t>(1 + others.size()), targets)},
      rules_(rules) {
    const uint64_t each = std::max<uint64_t>(bounce_blocks / partition_.cores, 16);
    cores_.emplace_back(0, env, env.reactor, index, partition_, rules_, each);
    for (uint32_t i = 1; i < partition_.cores; ++i) {
        cores_.emplace_back(i, env, *others[i - 1], index, partition_, rules_, each);
    }
}

Core& Cores::here() {
    if (is_one()) return home();
    for (Core& core : cores_) {
        if (core.is_current()) return core;
    }
    ROS2S_CHECK(false);  // called on a core that is none of the pool's
    return home();
}

Task<Result<>> Cores::prepare(object::ContainerId container, const Change& change,
                              std::vector<Node*>& pins) {
    std::vector<Node*> nodes;
    std::vector<std::string> summaries;
    Result<> result;
    for (Core& core : cores_) {
        if (!result) break;
        if (!change.spans_dkeys() && &core != &of(container, change.object, change.dkey)) {
            continue;
        }
        result = co_await at(core, home(), prepare_at(core, container, change, nodes, summaries));
    }
    Pins at_home(home().cache);
    if (result) {
        result = co_await home().loader.prepare_summaries(container, change, at_home, SIZE_MAX);
    }
    if (result) {
        result = co_await home().loader.prepare_keys(std::move(summaries), at_home);
    }
    if (!result) {
        co_await unpin(std::move(nodes));
        co_return result;
    }
    pins.insert(pins.end(), nodes.begin(), nodes.end());
    const std::vector<Node*> taken = at_home.take();
    pins.insert(pins.end(), taken.begin(), taken.end());
    co_return result;
}

Task<> Cores::unpin(std::vector<Node*> pins) {
    std::ranges::sort(pins, {}, &Node::core);
    for (auto from = pins.begin(); from != pins.end();) {
        const auto to = std::ranges::upper_bound(from, pins.end(), (*from)->core, {}, &Node::core);
        Core& core = cores_[(*from)->core];
        co_await at(core, home(), unpin_at(core, {from, to}));
        from = to;
    }
}

Task<> Cores::share_containers(std::set<object::ContainerId> containers) {
    for (uint32_t i = 1; i < size(); ++i) {
        co_await at(cores_[i], home(), set_containers(cores_[i], containers));
    }
}

}  // namespace ros2s::engine
