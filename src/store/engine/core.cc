#include "core.h"

#include <algorithm>

#include "ros2s/base/check.h"
#include "ros2s/runtime/nursery.h"

namespace ros2s::engine {
namespace {

// Of changes that must be made.
const Call unlimited;

Task<Result<>> prepare_at(Core& core, object::ContainerId container, Change& change,
                          const Loader::Limits& limits, std::vector<Node*>& nodes,
                          std::vector<std::string>& summaries) {
    Pins pins(core.cache);
    ROS2S_CO_TRY(co_await core.loader.prepare_entries(container, change, pins, limits, summaries));
    const Pins::Nodes taken = pins.take();
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
Task<> trim_at(Core& core) {
    core.trim();
    co_return;
}

// Nodes stay on their core: their values are sent.
Task<Result<Loader::Page>> scan_at(Core& core, std::string from, std::string to, size_t limit,
                                   bool reverse) {
    ROS2S_CO_TRY_ASSIGN(Loader::Page page,
                        co_await core.loader.scan(std::move(from), std::move(to), limit, reverse));
    for (Loader::Item& item : page.items) {
        if (item.node == nullptr) continue;
        item.raw = encode(*item.node);
        item.node = nullptr;
    }
    co_return page;
}
Task<> scan_into(Result<Loader::Page>& page, Core& core, Core& home, std::string from,
                 std::string to, size_t limit, bool reverse) {
    page = co_await at(core, home, scan_at(core, std::move(from), std::move(to), limit, reverse));
}

}  // namespace

Cores::Cores(const Environment& env, Index& index, uint32_t targets, const EngineOptions& options)
    : partition_{.targets = targets,
                 .cores = std::min(static_cast<uint32_t>(1 + env.more_reactors.size()), targets)},
      hash_key_(env.reactor.secrets().next()),
      lock_names_(hash_key_),
      dirty_share_(options.dirty_share() / size()) {
    const uint64_t bounce = std::max<uint64_t>(options.bounce_share() / block_bytes / size(), 16);
    for (uint32_t i = 0; i < size(); ++i) {
        Reactor& reactor = i == 0 ? env.reactor : *env.more_reactors[i - 1];
        cores_.emplace_back(i, env, reactor, index, partition_, bounce,
                            options.cache_share() / size(), hash_key_);
    }
}

Core& Cores::here() {
    for (Core& core : cores_) {
        if (core.is_current()) return core;
    }
    ROS2S_CHECK(false);  // not called on a core of the pool
    return home();
}

uint64_t Cores::cache_bytes() const {
    uint64_t bytes = cores_.front().cache.bytes();
    for (uint32_t i = 1; i < size(); ++i) bytes += cores_[i].metrics.cache_bytes.value();
    return bytes;
}
uint64_t Cores::dirty_bytes() const {
    uint64_t bytes = cores_.front().cache.dirty_bytes();
    for (uint32_t i = 1; i < size(); ++i) bytes += cores_[i].metrics.dirty_bytes.value();
    return bytes;
}
bool Cores::is_dirty_beyond(uint64_t bytes) const {
    if (cores_.front().cache.dirty_bytes() > bytes) return true;
    for (uint32_t i = 1; i < size(); ++i) {
        if (cores_[i].metrics.dirty_bytes.value() > bytes) return true;
    }
    return false;
}

Task<> Cores::trim() {
    for (uint32_t i = size(); i-- > 0;) co_await at(cores_[i], home(), trim_at(cores_[i]));
}

Task<Result<>> Cores::prepare(object::ContainerId container, Change& change,
                              std::vector<Node*>& pins, size_t bytes_max) {
    const Loader::Limits limits{.call = unlimited, .bytes_max = bytes_max};
    std::vector<Node*> nodes;
    std::vector<std::string> summaries;
    Result<> result;
    for (Core& core : cores_) {
        if (!result) break;
        if (!change.spans_dkeys() && &core != &of(container, change.object, change.dkey)) {
            continue;
        }
        result = co_await at(core, home(),
                             prepare_at(core, container, change, limits, nodes, summaries));
    }
    Pins at_home(home().cache);
    if (result) {
        result = co_await home().loader.prepare_summaries(container, change, at_home, limits);
    }
    if (result) {
        result = co_await home().loader.prepare_keys(std::move(summaries), at_home);
    }
    if (!result) {
        co_await unpin(std::move(nodes));
        co_return result;
    }
    pins.insert(pins.end(), nodes.begin(), nodes.end());
    const Pins::Nodes taken = at_home.take();
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

// Merges the pages of all cores, up to the end of the shortest one.
Task<Result<Loader::Page>> Cores::scan(std::string from, std::string to, size_t limit,
                                       bool reverse) {
    if (is_one()) {
        co_return co_await home().loader.scan(std::move(from), std::move(to), limit, reverse);
    }
    std::vector<Result<Loader::Page>> pages(size());
    {
        Nursery side_by_side(home().env.reactor, size());
        for (uint32_t i = 0; i < size(); ++i) {
            co_await side_by_side.spawn(
                scan_into(pages[i], cores_[i], home(), from, to, limit, reverse));
        }
        co_await side_by_side.join();
    }
    Loader::Page all;
    for (Result<Loader::Page>& of_core : pages) {
        ROS2S_CO_TRY_ASSIGN(Loader::Page page, std::move(of_core));
        all.looked += page.looked;
        if (page.more) {
            const bool nearer = reverse ? page.next > all.next : page.next < all.next;
            if (!all.more || nearer) all.next = page.next;
            all.more = true;
        }
        all.items.insert(all.items.end(), std::make_move_iterator(page.items.begin()),
                         std::make_move_iterator(page.items.end()));
    }
    if (all.more) {
        std::erase_if(all.items, [&](const Loader::Item& item) {
            return reverse ? item.key < all.next : item.key >= all.next;
        });
    }
    std::ranges::sort(all.items, {}, &Loader::Item::key);
    if (reverse) std::ranges::reverse(all.items);
    co_return all;
}

}  // namespace ros2s::engine
