#include "view.h"

#include <algorithm>

#include "ros2s/base/check.h"
#include "ros2s/object/checksum.h"

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

namespace {
const std::string none;
}  // namespace

void View::begin_with(std::shared_ptr<CachedOmap> known) {
    known_ = std::move(known);
    std::erase_if(wanted_keys_, [this](const std::string& key) { return is_known(key); });
}

void View::guess_no_key(const std::string& key) {
    if (is_known(key)) return;
    wanted_keys_.erase(key);
    guessed_keys_.insert(key);
}

void View::made(const Head& head, std::string head_bytes) {
    known_ = std::make_shared<CachedOmap>(head, std::move(head_bytes));
    known_->cover_all();
    known_->set(inline_key, {});
}

const std::string& View::get(const std::string& key) {
    if (const auto found = changes_.find(key); found != changes_.end()) return found->second;
    if (!is_known(key)) wanted_keys_.insert(key);
    return is_known(key) ? stored(key) : none;
}

bool View::knows(const std::string& prefix, const std::string& from, const std::string& end,
                 bool first_only) {
    if (is_loaded() && !exists()) return true;
    std::string until = is_loaded() ? known_->until(from) : from;
    if (until >= end) return true;
    wanted_range_ = {
        .prefix = prefix, .from = std::move(until), .end = end, .first_only = first_only};
    return false;
}

std::vector<std::string> View::keys(const std::string& prefix, const std::string& from,
                                    const std::string& end) {
    if (from >= end || !knows(prefix, from, end, false)) return {};
    std::set<std::string> all;
    const auto& values = known_->values();
    for (auto at = values.lower_bound(from); at != values.end() && at->first < end; ++at) {
        if (!at->second.empty()) all.insert(at->first);
    }
    for (auto at = changes_.lower_bound(from); at != changes_.end() && at->first < end; ++at) {
        if (at->second.empty()) {
            all.erase(at->first);
        } else {
            all.insert(at->first);
        }
    }
    return {all.begin(), all.end()};
}

std::string View::first(const std::string& prefix) {
    const std::string end = end_of_prefix(prefix);
    if (has_changes(prefix, end)) {
        const auto all = keys(prefix, prefix, end);
        return all.empty() ? none : all.front();
    }
    if (is_loaded()) {
        const std::string until = std::min(end, known_->until(prefix));
        if (const std::string* key = known_->first(prefix, until)) return *key;
    }
    (void)knows(prefix, prefix, end, true);
    return none;
}

bool View::has_any(const std::string& prefix) {
    const std::string end = end_of_prefix(prefix);
    const bool is_sure =
        is_loaded() && !has_changes(prefix, end) && known_->first(prefix, end) != nullptr;
    return is_sure || !first(prefix).empty();
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

Result<> View::take(const Read& read, const ReadReply& reply) {
    changes_.clear();
    wanted_keys_.clear();
    const auto range = std::exchange(wanted_range_, {});
    const std::string head_bytes = reply.value(head_key);
    if (head_bytes.empty() && !reply.values.empty()) return fail(Code::corrupt);
    if (is_loaded() && head_bytes != known_->head_bytes()) {
        known_ = nullptr;
        guessed_keys_.clear();
        return fail(Code::busy);
    }
    if (!is_loaded()) {
        Head head;
        if (!head_bytes.empty()) ROS2S_TRY(decode(head_bytes, head));
        known_ = std::make_shared<CachedOmap>(head, head_bytes);
    }
    if (!exists()) return {};
    for (const std::string& key : read.keys) {
        if (key != head_key) known_->set(key, reply.value(key));
    }
    if (!range) return {};
    for (const auto& [key, value] : reply.values) {
        if (key.starts_with(range->prefix) && key >= range->from && key < range->end) {
            known_->set(key, value);
        }
    }
    // The key after the last one that was read: no key is between the two.
    known_->cover(range->from, reply.more ? reply.last + '\0' : range->end);
    return {};
}

Result<object::QueryReply> query(View& view, const object::Akey& akey) {
    object::QueryReply reply;
    Column column;
    if (const std::string& value = view.get(column_key(akey)); !value.empty()) {
        ROS2S_TRY(decode(value, column));
    }
    reply.last_epoch = {column.last_epoch};
    reply.last_time = column.last_time;
    reply.bytes_used = column.blocks * block_bytes;
    reply.exists = column.entries > 0;
    if (!reply.exists && view.is_complete()) return reply;
    // Read beside the column.
    const std::string prefix = reverse_prefix(akey), highest = view.first(prefix);
    if (!view.is_complete()) return reply;
    if (highest.empty()) return fail(Code::corrupt);
    const auto dkey = dkey_of_reverse_key(highest, prefix);
    if (!dkey) return fail(Code::corrupt);
    const std::string& value = view.get(entry_key(*dkey, akey));
    if (!view.is_complete()) return reply;
    if (value.empty()) return fail(Code::corrupt);
    Entry entry;
    ROS2S_TRY(decode(value, entry));
    reply.highest_dkey = *dkey;
    reply.size = entry.size;
    return reply;
}

}  // namespace ros2s::rados
