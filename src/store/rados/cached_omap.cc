#include "cached_omap.h"

#include <algorithm>

#include "ros2s/base/check.h"

namespace ros2s::rados {
namespace {

const std::string no_value;
constexpr size_t node_bytes = 128;  // what the maps take for each key, about

// The keys that no transaction asks for: bytes, and garbage, which goes without a change of the
// head.
bool is_kept(const std::string& key) {
    return key == inline_key || !(key.starts_with('b') || key.starts_with(garbage_tag));
}

}  // namespace

const std::string& CachedOmap::value(const std::string& key) const {
    const auto found = values_.find(key);
    return found == values_.end() ? no_value : found->second;
}

const std::string* CachedOmap::first(const std::string& from, const std::string& end) const {
    auto at = values_.lower_bound(from);
    while (at != values_.end() && at->first < end && at->second.empty()) ++at;
    return at != values_.end() && at->first < end ? &at->first : nullptr;
}

std::string CachedOmap::until(const std::string& from) const {
    const auto next = covered_.upper_bound(from);
    return next == covered_.begin() ? from : std::max(from, std::prev(next)->second);
}

void CachedOmap::set(const std::string& key, std::string value) {
    if (value.empty() && until(key) != key) return forget(key);
    auto [at, is_new] = values_.try_emplace(key);
    value_bytes_ += value.size();
    value_bytes_ -= at->second.size();
    if (is_new) value_bytes_ += key.size() + node_bytes;
    at->second = std::move(value);
}

void CachedOmap::forget(const std::string& key) {
    const auto found = values_.find(key);
    if (found == values_.end()) return;
    value_bytes_ -= key.size() + found->second.size() + node_bytes;
    values_.erase(found);
}

void CachedOmap::cover(const std::string& from, std::string end) {
    auto at = covered_.lower_bound(from);
    while (at != covered_.end() && at->first <= end) {
        end = std::max(end, at->second);
        at = covered_.erase(at);
    }
    if (at != covered_.begin() && std::prev(at)->second >= from) {
        std::string& until = std::prev(at)->second;
        until = std::max(until, end);
    } else {
        covered_.emplace_hint(at, from, std::move(end));
    }
}

void CachedOmap::merge(const CachedOmap& other) {
    is_applied_ = true;
    for (const auto& [key, value] : other.values_) set(key, value);
    for (const auto& [from, end] : other.covered_) cover(from, end);
}

void CachedOmap::adopt(const Pending& stored, std::string locked_head) {
    if (!exists()) cover_all();
    locked_head_ = std::move(locked_head);
    is_applied_ = locked_head_.empty();
    for (const auto& [key, value] : stored.set) {
        if (key == head_key) {
            replaced_head_ = std::exchange(head_bytes_, value);
            ROS2S_CHECK(decode(value, head_));
        } else if (is_kept(key)) {
            set(key, value);
        }
    }
    for (const auto& [key] : stored.remove) {
        // Decisions come and go all the time.
        if (key.starts_with(decision_tag)) {
            forget(key);
        } else if (is_kept(key)) {
            set(key, {});
        }
    }
}

size_t CachedOmap::bytes() const {
    return sizeof *this + 3 * head_bytes_.size() + value_bytes_ + covered_.size() * 2 * node_bytes;
}

Result<Fact> fact_of(const std::string& key, const std::string& value) {
    Fact fact{.value = value, .entry = {}, .segment = {}};
    if (value.empty()) return fact;
    const auto parsed = parse_entry_key(key);
    if (!parsed) return fail(Code::corrupt);
    ROS2S_TRY(parsed->segment ? decode(value, fact.segment) : decode(value, fact.entry));
    return fact;
}

Result<Facts> facts_of(const std::vector<std::string>& keys, const CachedOmap& known) {
    Facts facts;
    for (const std::string& key : keys) {
        ROS2S_TRY_ASSIGN(auto fact, fact_of(key, known.value(key)));
        facts.push_back(std::move(fact));
    }
    return facts;
}

}  // namespace ros2s::rados
