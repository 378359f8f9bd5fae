#include "view.h"

#include "ros2s/base/check.h"

namespace ros2s::rados {
namespace {
const std::string none;
constexpr size_t kept_keys_max = 4096;
// The keys that no transaction asks for: bytes, and garbage, which goes without a change of the
// head.
bool is_kept(const std::string& key) {
    return key == inline_key || !(key.starts_with('b') || key.starts_with(garbage_tag));
}
}  // namespace

void View::reset() {
    is_loaded_ = false;
    head_ = {};
    head_bytes_.clear();
    forget_values();
    changes_.clear();
    wanted_range_.reset();
}

void View::forget_values() {
    values_.clear();
    value_bytes_ = 0;
    covered_.clear();
    guessed_keys_.clear();
}

void View::guess_no_object() {
    is_loaded_ = true;
    wanted_keys_.clear();
}

void View::guess_no_key(const std::string& key) {
    if (is_known(key)) return;
    wanted_keys_.erase(key);
    know(key, {});
    guessed_keys_.insert(key);
}

const std::string& View::stored(const std::string& key) const {
    const auto found = values_.find(key);
    return found == values_.end() ? none : found->second;
}

void View::know(const std::string& key, std::string value) {
    auto [at, is_new] = values_.try_emplace(key);
    value_bytes_ += value.size();
    value_bytes_ -= at->second.size();
    if (is_new) value_bytes_ += key.size() + 128;  // what the map takes, about
    at->second = std::move(value);
}

void View::forget(const std::string& key) {
    const auto found = values_.find(key);
    if (found == values_.end()) return;
    value_bytes_ -= key.size() + found->second.size() + 128;
    values_.erase(found);
}

void View::adopt(const Pending& stored) {
    changes_.clear();
    wanted_keys_.clear();
    wanted_range_.reset();
    guessed_keys_.clear();
    if (!exists()) cover_all();
    if (values_.size() > kept_keys_max) forget_values();
    for (const auto& [key, value] : stored.set) {
        if (key == head_key) {
            head_bytes_ = value;
            ROS2S_CHECK(decode(value, head_));
        } else if (is_kept(key)) {
            know(key, value);
        }
    }
    for (const auto& [key] : stored.remove) {
        // Decisions come and go all the time.
        if (key.starts_with(decision_tag)) {
            forget(key);
        } else if (is_kept(key)) {
            know(key, {});
        }
    }
}

void View::made(const Head& head, std::string head_bytes) {
    head_ = head;
    head_bytes_ = std::move(head_bytes);
    cover_all();
    know(inline_key, {});
}

void View::begin_with(View known) {
    known.wanted_keys_.clear();
    for (const std::string& key : wanted_keys_) known.want(key);
    *this = std::move(known);
}

size_t View::bytes() const { return sizeof *this + head_bytes_.size() + value_bytes_; }

std::string View::known_until(const std::string& from) const {
    auto range = covered_.upper_bound(from);
    if (range == covered_.begin()) return from;
    --range;
    std::string until = range->second;
    if (until <= from) return from;
    // Pages that follow each other.
    for (auto next = covered_.find(until); next != covered_.end(); next = covered_.find(until)) {
        until = next->second;
    }
    return until;
}

bool View::is_known(const std::string& key) const {
    if (!is_loaded_) return false;
    return !exists() || values_.contains(key) || known_until(key) != key;
}

const std::string& View::get(const std::string& key) {
    if (const auto found = changes_.find(key); found != changes_.end()) return found->second;
    if (!is_known(key)) {
        wanted_keys_.insert(key);
        return none;
    }
    return stored(key);
}

std::vector<std::string> View::keys(const std::string& prefix, const std::string& from,
                                    const std::string& end) {
    std::vector<std::string> found;
    if (from >= end) return found;
    if (exists() || !is_loaded_) {
        const std::string until = known_until(from);
        if (until < end) {
            wanted_range_ = {.prefix = prefix, .from = until, .end = end};
            return found;
        }
    }
    std::set<std::string> all;
    for (auto at = values_.lower_bound(from); at != values_.end() && at->first < end; ++at) {
        if (!at->second.empty()) all.insert(at->first);
    }
    for (auto at = changes_.lower_bound(from); at != changes_.end() && at->first < end; ++at) {
        if (at->second.empty()) {
            all.erase(at->first);
        } else {
            all.insert(at->first);
        }
    }
    found.assign(all.begin(), all.end());
    return found;
}

bool View::has_any(const std::string& prefix) {
    const std::string end = end_of_prefix(prefix);
    if (const auto changed = changes_.lower_bound(prefix);
        changed != changes_.end() && changed->first < end) {
        return !keys(prefix, prefix, end).empty();
    }
    for (auto at = values_.lower_bound(prefix); at != values_.end() && at->first < end; ++at) {
        if (!at->second.empty()) return true;
    }
    if (is_loaded_ && !exists()) return false;
    const std::string until = known_until(prefix);
    if (until < end) {
        wanted_range_ = {.prefix = prefix, .from = until, .end = end, .first_only = true};
    }
    return false;
}

Read View::next_read(const std::string& space) const {
    Read read{.object = {space, object_name(object_)}, .keys = {head_key}};
    read.keys.insert(read.keys.end(), wanted_keys_.begin(), wanted_keys_.end());
    if (wanted_range_) {
        // What ends with 00 is just after a key.
        std::string after = wanted_range_->from;
        if (after.ends_with('\0')) after.pop_back();
        read.range = {.prefix = wanted_range_->prefix,
                      .after = std::move(after),
                      .end = wanted_range_->end,
                      .limit = wanted_range_->first_only ? 1 : keys_per_read};
    }
    return read;
}

Result<> View::take(const Read& read, const Result<ReadReply>& reply) {
    if (!reply && reply.error().code != Code::not_found) return fail(reply.error());
    changes_.clear();
    std::string head;
    if (reply) {
        const auto found = reply->values.find(head_key);
        if (found == reply->values.end()) return fail(Code::corrupt);
        head = found->second;
    }
    if (is_loaded_ && head != head_bytes_) {
        reset();
        return fail(Code::busy);
    }
    head_bytes_ = head;
    is_loaded_ = true;
    wanted_keys_.clear();
    const auto range = std::exchange(wanted_range_, {});
    if (head.empty()) return {};
    ROS2S_TRY(decode(head, head_));
    for (const std::string& key : read.keys) {
        if (key == head_key) continue;
        const auto value = reply->values.find(key);
        know(key, value == reply->values.end() ? "" : value->second);
    }
    if (!range) return {};
    for (const auto& [key, value] : reply->values) {
        if (key.starts_with(range->prefix) && key >= range->from && key < range->end) {
            know(key, value);
        }
    }
    // The key after the last one that was read: no key is between the two.
    covered_[range->from] = reply->more ? reply->last + '\0' : range->end;
    return {};
}

}  // namespace ros2s::rados
