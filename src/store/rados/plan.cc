#include "plan.h"

#include <algorithm>
#include <ranges>

#include "segment.h"

namespace ros2s::rados {
namespace {

using object::Condition;
using object::Operation;

// The record at the key; a default one if there is none.
template <class Record>
Result<Record> record_at(View& view, const std::string& key) {
    Record record;
    const std::string& value = view.get(key);
    if (!value.empty()) ROS2S_TRY(decode(value, record));
    return record;
}

// Columns, entries and decisions, which are neighbours.
std::vector<std::string> keys_of_all(View& view) { return view.keys("", "c", "g"); }

Result<> count_inline(View& view, uint64_t more) {
    ROS2S_TRY_ASSIGN(InlineBytes count, record_at<InlineBytes>(view, inline_key));
    count.bytes += more;
    if (count.bytes == 0) {
        view.remove(inline_key);
    } else {
        view.set(inline_key, encode(count));
    }
    return {};
}

}  // namespace

Result<> add_inline(View& view, const Run& run, ConstBytes bytes) {
    view.set(bytes_key(run.data), std::string(as_text(bytes)));
    return count_inline(view, inline_cost(run.length));
}

Result<> discard_inline(View& view, const Run& run) {
    view.remove(bytes_key(run.data));
    return count_inline(view, -inline_cost(run.length));
}

void Plan::add_to(Views& views) const {
    const auto view_of = [&views](object::ObjectId object) -> View& {
        return views.try_emplace(object, object).first->second;
    };
    for (const Condition& condition : transaction_.conditions) {
        if (condition.is_about_holders()) continue;
        View& view = view_of(condition.object);
        if (condition.kind == Condition::Kind::no_dkeys) {
            view.want(column_key(condition.akey));
        } else if (!condition.akey.bytes.empty()) {
            view.want(entry_key(condition.dkey, condition.akey));
        }
    }
    for (const Operation& operation : transaction_.operations) {
        View& view = view_of(operation.object);
        using Kind = Operation::Kind;
        if (operation.kind != Kind::put && operation.kind != Kind::touch) view.want(inline_key);
        if (operation.kind == Kind::punch_object) (void)keys_of_all(view);
        if (operation.kind == Kind::punch_object || operation.kind == Kind::punch_dkey ||
            operation.kind == Kind::punch_dkeys) {
            continue;
        }
        const std::string key = entry_key(operation.dkey, operation.akey);
        view.want(key);
        view.want(column_key(operation.akey));
        if (operation.kind != Kind::write || operation.extent.length == 0) continue;
        const uint64_t last = (operation.extent.end() - 1) / segment_bytes;
        for (uint64_t n = operation.extent.offset / segment_bytes; n <= last; ++n) {
            view.want(segment_key(key, n));
        }
    }
}

Result<> Plan::run(Views& views, object::Epoch epoch, WallTime time) {
    epoch_ = epoch;
    time_ = time;
    garbage_.clear();
    more_entries_.clear();
    long_segments_.clear();
    for (size_t i = 0; i < transaction_.conditions.size(); ++i) {
        const Condition& condition = transaction_.conditions[i];
        if (condition.is_about_holders()) continue;
        View& view = views.at(condition.object);
        ROS2S_TRY_ASSIGN(const bool is_true, holds(view, condition));
        // What is not known yet may hold.
        if (!is_true && view.is_complete()) return fail(Code::condition_failed, i);
        if (!view.is_complete()) return {};
    }
    for (size_t i = 0; i < transaction_.operations.size(); ++i) {
        ROS2S_TRY(apply(views.at(transaction_.operations[i].object), i));
    }
    return {};
}

bool Plan::adds_data() const {
    int64_t more = 0;
    for (const int64_t each : more_entries_ | std::views::values) more += each;
    return !written_.empty() || more > 0;
}

Result<bool> Plan::holds(View& view, const Condition& condition) {
    using Kind = Condition::Kind;
    if (condition.kind == Kind::no_dkeys) {
        ROS2S_TRY_ASSIGN(const Column column, record_at<Column>(view, column_key(condition.akey)));
        return column.entries == 0;
    }
    if (condition.akey.bytes.empty()) {
        const bool exists = view.has_any(entry_prefix(condition.dkey));
        return exists == (condition.kind == Kind::exists);
    }
    ROS2S_TRY_ASSIGN(const Entry entry,
                     record_at<Entry>(view, entry_key(condition.dkey, condition.akey)));
    switch (condition.kind) {
        case Kind::exists: return entry.epoch != 0;
        case Kind::absent: return entry.epoch == 0;
        case Kind::epoch_equals: return entry.epoch == condition.value;
        default: return entry.size == condition.value;
    }
}

Result<> Plan::apply(View& view, size_t index) {
    using Kind = Operation::Kind;
    const Operation& operation = transaction_.operations[index];
    const std::string prefix = entry_prefix(operation.dkey);
    switch (operation.kind) {
        case Kind::punch_object: return punch_object(view);
        case Kind::punch_dkey:
            return punch_keys(view, view.keys(prefix, prefix, end_of_prefix(prefix)));
        case Kind::punch_dkeys:
            return punch_keys(view, view.keys("e", prefix,
                                              operation.dkey_end.bytes.empty()
                                                  ? "f"
                                                  : entry_prefix(operation.dkey_end)));
        case Kind::punch_akey: {
            const std::string key = entry_key(operation.dkey, operation.akey);
            ROS2S_TRY_ASSIGN(const Entry entry, record_at<Entry>(view, key));
            if (entry.epoch == 0) return {};
            if (entry.blocks == 0) return punch_keys(view, {key});
            return punch_keys(view, view.keys(key, key, end_of_prefix(key)));
        }
        default: return modify(view, operation, index);
    }
}

Result<> Plan::count(View& view, const object::Akey& akey, int64_t entries, int64_t blocks) {
    const std::string key = column_key(akey);
    ROS2S_TRY_ASSIGN(Column column, record_at<Column>(view, key));
    column.entries += static_cast<uint64_t>(entries);
    column.blocks += static_cast<uint64_t>(blocks);
    column.last_epoch = epoch_.value;
    column.last_time = time_;
    view.set(key, encode(column));
    more_entries_[view.object()] += entries;
    return {};
}

Result<> Plan::modify(View& view, const Operation& operation, size_t index) {
    using Kind = Operation::Kind;
    const std::string key = entry_key(operation.dkey, operation.akey);
    ROS2S_TRY_ASSIGN(Entry entry, record_at<Entry>(view, key));
    const bool is_new = entry.epoch == 0;
    if (is_new && operation.kind == Kind::punch_extent) return {};  // there is nothing to punch
    const bool wants_array = operation.kind != Kind::put;
    if (!is_new && entry.is_array != wants_array) return fail(Code::invalid);
    const uint64_t blocks = entry.blocks;
    entry.is_array = wants_array;
    entry.epoch = epoch_.value;
    switch (operation.kind) {
        case Kind::write: ROS2S_TRY(write_array(view, operation, index, entry)); break;
        case Kind::put:
            entry.value = as_text(operation.window.bytes());
            entry.size = entry.value.size();
            break;
        case Kind::punch_extent: ROS2S_TRY(punch_array(view, key, operation.extent, entry)); break;
        case Kind::set_size:
            if (operation.size < entry.size) {
                // To the end of the last block, which would otherwise count as used.
                const uint64_t end = round_up(entry.size, block_bytes);
                ROS2S_TRY(punch_array(view, key, {operation.size, end - operation.size}, entry));
            }
            entry.size = operation.size;
            break;
        default: break;  // touch
    }
    view.set(key, encode(entry));
    if (is_new) view.set(reverse_key(operation.dkey, operation.akey), "1");
    return count(view, operation.akey, is_new ? 1 : 0,
                 static_cast<int64_t>(entry.blocks) - static_cast<int64_t>(blocks));
}

Result<> Plan::write_array(View& view, const Operation& operation, size_t index, Entry& entry) {
    const std::string key = entry_key(operation.dkey, operation.akey);
    auto written = std::ranges::lower_bound(written_, index, {}, &WrittenRun::operation);
    for (; written != written_.end() && written->operation == index; ++written) {
        const Run& run = written->run;
        const std::string at = segment_key(key, run.offset / segment_bytes);
        ROS2S_TRY_ASSIGN(const Segment before, record_at<Segment>(view, at));
        Segment segment = before;
        add(segment, run);
        if (run.data.is_inline()) ROS2S_TRY(add_inline(view, run, written->bytes));
        entry.blocks += block_count(segment) - block_count(before);
        ROS2S_TRY(store(view, at, std::move(segment), before));
    }
    if (operation.extent.length > 0) entry.size = std::max(entry.size, operation.extent.end());
    return {};
}

Result<> Plan::punch_array(View& view, const std::string& key, object::Extent extent,
                           Entry& entry) {
    if (extent.length == 0 || entry.blocks == 0) return {};
    const uint64_t first = extent.offset / segment_bytes;
    const uint64_t last = (extent.end() - 1) / segment_bytes;
    // A segment's key is the entry's and four bytes.
    // The range starts at no key, but just before the first segment.
    const std::string from = (first == 0 ? key : segment_key(key, first - 1)) + '\0';
    for (const std::string& at : view.keys(key, from, segment_key(key, last + 1))) {
        ROS2S_TRY_ASSIGN(const Segment before, record_at<Segment>(view, at));
        Segment segment = before;
        cut(segment, extent);
        entry.blocks += block_count(segment) - block_count(before);
        ROS2S_TRY(store(view, at, std::move(segment), before));
    }
    return {};
}

Result<> Plan::store(View& view, const std::string& key, Segment segment, const Segment& before) {
    drop_hidden_runs(segment);
    for (const Run& run : before.runs) {
        if (std::ranges::find(segment.runs, run.data, &Run::data) == segment.runs.end()) {
            ROS2S_TRY(discard(view, run));
        }
    }
    if (segment.visible.empty()) {
        view.remove(key);
    } else {
        if (segment.visible.size() > visible_parts_max) long_segments_.emplace(view.object(), key);
        view.set(key, encode(segment));
    }
    return {};
}

Result<> Plan::discard(View& view, const Run& run) {
    if (run.data.is_inline()) return discard_inline(view, run);
    garbage_[view.object()].push_back(run.data);
    return {};
}

Result<> Plan::punch_keys(View& view, const std::vector<std::string>& keys) {
    for (const std::string& key : keys) {
        const auto parsed = parse_entry_key(key);
        if (!parsed) return fail(Code::corrupt);
        if (parsed->segment) {
            ROS2S_TRY_ASSIGN(const Segment segment, record_at<Segment>(view, key));
            for (const Run& run : segment.runs) ROS2S_TRY(discard(view, run));
        } else {
            ROS2S_TRY_ASSIGN(const Entry entry, record_at<Entry>(view, key));
            ROS2S_TRY(count(view, parsed->akey, -1, -static_cast<int64_t>(entry.blocks)));
            view.remove(reverse_key(parsed->dkey, parsed->akey));
        }
        view.remove(key);
    }
    return {};
}

Result<> Plan::punch_object(View& view) {
    const std::vector<std::string> keys = keys_of_all(view);
    if (!view.is_complete()) return {};
    const auto entries = std::ranges::lower_bound(keys, "e"),
               decisions = std::ranges::lower_bound(keys, "f");
    ROS2S_TRY(punch_keys(view, {entries, decisions}));
    // Nothing is known of its akeys from now on, as if it had never existed.
    for (const std::string& key : view.keys("c", "c", "d")) view.remove(key);
    // The object may go now, so that it decides nothing any more.
    for (const std::string& key : std::span(decisions, keys.end())) view.remove(key);
    return {};
}

}  // namespace ros2s::rados
