#include "view.h"

#include <algorithm>

#include "ros2s/object/checksum.h"

namespace ros2s::rados {
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
