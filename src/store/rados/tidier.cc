#include "tidier.h"

#include <algorithm>
#include <deque>

namespace ros2s::rados {
namespace {

constexpr size_t garbage_max = 65536;  // of one object, that waits for its removal
constexpr size_t removals_at_once = 8, removals_max = 64;
// Decisions that wait for the next change of their object.
constexpr size_t ended_of_one_max = 64, ended_deciders_max = 1024, ended_at_once = 32;

}  // namespace

using namespace object;

Tidier::Tidier(const Env& env) : env_(env), removals_(env.reactor, removals_max) {}

Task<> Tidier::close() {
    for (auto& [name, keys] : std::exchange(ended_decisions_, {})) {
        co_await removals_.spawn(forget_keys(name, std::move(keys)));
    }
    co_await removals_.join();
}

Task<> Tidier::remove_data(std::string space, ObjectId object, std::vector<DataId> data) {
    for (const DataId& id : data) {
        const Change remove{.object = {space, data_name(object, id)}, .remove_object = true};
        (void)co_await env_.data.apply(remove);  // the sweep removes what remains
    }
}

void Tidier::drop(const std::string& space, std::map<ObjectId, std::vector<DataId>>& data) {
    for (auto& [object, ids] : data) {
        (void)removals_.try_spawn(remove_data(space, object, std::move(ids)));
    }
    data.clear();
}

void Tidier::start(const ObjectName& object, const Pending& pending) {
    // An object without entries has none of its akeys' facts either if it was punched, or if
    // conditions alone have made it: then nothing was ever changed in it, and it has no epoch.
    bool has_facts = false, is_unchanged = false;
    Leftovers left;
    for (const auto& [key, value] : pending.set) {
        has_facts = has_facts || key.starts_with('c');
        if (key.starts_with(garbage_tag)) left.garbage.push_back(key);
        Head head;
        if (key != head_key || !decode(value, head) || head.entries != 0) continue;
        left.dead_head = value;
        is_unchanged = head.epoch == 0;
    }
    const bool was_punched = std::ranges::any_of(
        pending.remove, [](const Pending::Key& each) { return each.key.starts_with('c'); });
    if (has_facts || !(was_punched || is_unchanged)) left.dead_head.clear();
    if (left.garbage.empty() && left.dead_head.empty()) return;
    (void)leave(object, std::move(left));
}

void Tidier::note_ended(const ObjectName& decider, std::vector<std::string> keys) {
    if (keys.empty()) return;
    std::vector<std::string>& all = ended_decisions_[decider];
    std::ranges::move(keys, std::back_inserter(all));
    if (all.size() >= ended_of_one_max && leave(decider, {.garbage = all, .dead_head = {}})) {
        ended_decisions_.erase(decider);
    }
    if (ended_decisions_.size() < ended_deciders_max) return;
    for (size_t i = 0; i < ended_at_once; ++i) {
        const auto first = ended_decisions_.begin();
        if (!leave(first->first, {.garbage = first->second, .dead_head = {}})) return;
        ended_decisions_.erase(first);
    }
}

std::vector<std::string> Tidier::take_ended(const ObjectName& decider) {
    const auto found = ended_decisions_.extract(decider);
    return found.empty() ? std::vector<std::string>() : std::move(found.mapped());
}

bool Tidier::leave(const ObjectName& name, Leftovers left) {
    const auto [at, is_new] = leftovers_.try_emplace(name);
    // What has no room is left to the sweep.
    if (at->second.garbage.size() < garbage_max) {
        std::ranges::move(left.garbage, std::back_inserter(at->second.garbage));
    }
    if (!left.dead_head.empty()) at->second.dead_head = std::move(left.dead_head);
    if (!is_new || removals_.try_spawn(tidy(name))) return true;
    leftovers_.erase(name);
    return false;
}

// One change forgets all that was removed meanwhile.
Task<> Tidier::tidy(ObjectName name) {
    while (true) {
        const auto at = leftovers_.find(name);
        if (at->second.garbage.empty() && at->second.dead_head.empty()) {
            leftovers_.erase(at);
            co_return;
        }
        const Leftovers left = std::exchange(at->second, {});
        Change forget{.object = name};
        std::deque<Result<>> results;
        {
            Nursery nursery(env_.reactor, removals_at_once);
            for (const std::string& key : left.garbage) {
                Result<>& result = results.emplace_back();
                // Others are records of transactions.
                if (!key.starts_with(garbage_tag)) continue;
                co_await nursery.spawn(remove_one({name.space, key.substr(1)}, result));
            }
            co_await nursery.join();
        }
        for (size_t i = 0; i < results.size(); ++i) {
            if (results[i]) forget.remove.push_back(left.garbage[i]);
        }
        if (!left.dead_head.empty() && forget.remove.size() == left.garbage.size()) {
            const Change remove{
                .object = name, .equal = {{head_key, left.dead_head}}, .remove_object = true};
            if (co_await env_.metadata.apply(remove)) {
                ended_decisions_.erase(name);
                continue;
            }
        }
        if (!forget.remove.empty()) (void)co_await env_.metadata.apply(forget);
    }
}

Task<> Tidier::forget_keys(ObjectName name, std::vector<std::string> keys) {
    const Change forget{.object = std::move(name), .remove = std::move(keys)};
    (void)co_await env_.metadata.apply(forget);
}

Task<> Tidier::remove_one(ObjectName data, Result<>& result) {
    const Change remove{.object = std::move(data), .remove_object = true};
    result = ignore_absence(co_await env_.data.apply(remove));
}

}  // namespace ros2s::rados
