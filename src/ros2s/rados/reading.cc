// Fetch, list and query of RadosStore.
#include <algorithm>
#include <set>

#include "rados_store.h"
#include "ros2s/object/checksum.h"
#include "ros2s/object/validate.h"

namespace ros2s::rados {
namespace {

using namespace object;

constexpr size_t reads_at_once = 32;
// Each time the data that the object named was replaced and removed before it was read.
constexpr int rereads_max = 100;
constexpr size_t names_at_once = 1024;

constexpr size_t seen_bytes_max = size_t{16} << 20;

template <class Part>
void fill_holes(Extent extent, const std::vector<Part>& parts, Bytes window) {
    uint64_t at = extent.offset;
    const auto zero_until = [&](uint64_t end) {
        if (end > at) std::memset(window.data() + (at - extent.offset), 0, end - at);
    };
    for (const Part& part : parts) {
        zero_until(part.extent.offset);
        at = part.extent.end();
    }
    zero_until(extent.end());
}

}  // namespace

Task<Result<ReadReply>> RadosStore::read_unlocked(const Call& call, Read read, Head& head) {
    read.keys.emplace_back(head_key);
    while (true) {
        ROS2S_CO_TRY(call.check(reactor_.now()));
        auto reply = co_await metadata_.read(read);
        head = {};
        if (!reply && reply.error().code == Code::not_found) co_return ReadReply{};
        if (!reply) co_return reply;
        const auto value = reply->values.find(head_key);
        if (value == reply->values.end()) co_return fail(Code::corrupt);
        ROS2S_CO_TRY(decode(value->second, head));
        if (head.lock.transaction.is_nil()) co_return reply;
        ROS2S_CO_TRY_ASSIGN(const bool has_changed,
                            co_await coordinator_.apply_if_committed(
                                read.object.space, read.object.name, head, value->second));
        if (!has_changed) co_return reply;
    }
}

// ---- fetch ---------------------------------------------------------------------------------

Task<Result<>> RadosStore::fetch(const Call& call, ContainerId container,
                                 std::span<FetchItem> items) {
    ROS2S_CHECK(items.size() <= fetch_items_max);
    ROS2S_CO_TRY(call.check(reactor_.now()));
    ROS2S_CO_TRY(co_await check_container(call, container));
    Result<> failure;
    const std::string space = space_of(container);
    if (items.size() == 1) {
        co_await fetch_item(call, space, items[0], failure);
        co_return failure;
    }
    Nursery nursery(reactor_, reads_at_once);
    for (FetchItem& item : items) {
        co_await nursery.spawn(fetch_item(call, space, item, failure));
    }
    co_await nursery.join();
    co_return failure;
}

Task<> RadosStore::fetch_item(const Call& call, std::string space, FetchItem& item,
                              Result<>& failure) {
    item.is_value = false;
    item.size = 0;
    item.epoch = {};
    item.checksums.clear();
    item.status = validate(item);
    if (item.status && !item.window.is_local()) item.status = fail(Code::unsupported);
    if (!item.status) co_return;
    for (int i = 0; i < rereads_max; ++i) {
        const auto done = co_await fetch_once(call, space, item);
        if (!done) {
            const Code code = done.error().code;
            if (code == Code::cancelled || code == Code::deadline) failure = fail(done.error());
            item.status = fail(done.error());
            co_return;
        }
        if (*done) co_return;
    }
    item.status = fail(Code::corrupt);
}

// The parts of an extent that have bytes, over several segments.
struct RadosStore::Parts {
    struct Part {
        const Run* run = nullptr;
        Extent extent;
    };
    std::vector<std::string> values;  // of the segments' keys; empty: no such key
    std::vector<Segment> segments;
    std::vector<Part> all;

    // Errors: those of decode().
    [[nodiscard]] Result<> find(Extent extent) {
        segments.resize(values.size());
        for (size_t i = 0; i < values.size(); ++i) {
            if (values[i].empty()) continue;
            ROS2S_TRY(decode(values[i], segments[i]));
            for (const Visible& visible : segments[i].visible) {
                const uint64_t from = std::max(visible.offset, extent.offset);
                const uint64_t end = std::min(visible.offset + visible.length, extent.end());
                if (from < end) all.push_back({&segments[i].runs[visible.run], {from, end - from}});
            }
        }
        return {};
    }
};

Task<> RadosStore::read_keys(const Call& call, Read read, Result<ReadReply>& reply) {
    Head head;
    reply = co_await read_unlocked(call, std::move(read), head);
}

Task<> RadosStore::read_parts(std::string space, ObjectId object, Extent extent, const Parts& parts,
                              Bytes window, std::vector<Result<>>& results) {
    fill_holes(extent, parts.all, window);
    results.resize(parts.all.size());
    Nursery nursery(reactor_, reads_at_once);
    for (size_t i = 0; i < parts.all.size(); ++i) {
        const auto& [run, part] = parts.all[i];
        const Bytes into = window.subspan(part.offset - extent.offset, part.length);
        co_await nursery.spawn(
            read_run({space, data_name(object, run->data)}, *run, part, into, results[i]));
    }
    co_await nursery.join();
}

// The first key is the entry's.
bool RadosStore::take_seen(const Read& read, Extent extent, Parts& parts) const {
    if (read.keys.size() < 2) return false;
    for (size_t i = 1; i < read.keys.size(); ++i) {
        const auto seen = seen_.find({read.object, read.keys[i]});
        if (seen == seen_.end()) return false;
        parts.values.push_back(seen->second);
    }
    return parts.find(extent).has_value();
}

void RadosStore::remember_seen(const Read& read, std::vector<std::string> values) {
    for (size_t i = 1; i < read.keys.size(); ++i) {
        std::string& value = values[i - 1];
        auto& seen = seen_[{read.object, read.keys[i]}];
        // What the names take, and the map, is a few hundred bytes.
        seen_bytes_ += value.size() + (seen.empty() ? 512 : 0);
        seen_bytes_ -= seen.size();
        seen = std::move(value);
    }
    if (seen_bytes_ <= seen_bytes_max) return;
    seen_.clear();
    seen_bytes_ = 0;
}

Task<Result<bool>> RadosStore::fetch_once(const Call& call, std::string space, FetchItem& item) {
    const std::string key = entry_key(item.dkey, item.akey);
    Read read{.object = {space, object_name(item.object)}, .keys = {key}};
    if (item.extent.length > 0) {
        const uint64_t last = (item.extent.end() - 1) / segment_bytes;
        for (uint64_t n = item.extent.offset / segment_bytes; n <= last; ++n) {
            read.keys.push_back(segment_key(key, n));
        }
    }
    const Bytes window = item.window.bytes().first(item.extent.length);
    // Data is written once, so what the keys named last time is read beside them. It counts if they
    // name the same now. Until then the window is left alone.
    Parts guess;
    AlignedBuffer guessed;
    std::vector<Result<>> results;
    Result<ReadReply> reply = fail(Code::not_found);
    const bool is_guess = take_seen(read, item.extent, guess);
    if (is_guess) {
        guessed = AlignedBuffer(item.extent.length);
        Nursery nursery(reactor_, 2);
        co_await nursery.spawn(read_keys(call, read, reply));
        co_await nursery.spawn(read_parts(space, item.object, item.extent, guess,
                                          guessed.bytes().first(item.extent.length), results));
        co_await nursery.join();
    } else {
        co_await read_keys(call, read, reply);
    }
    ROS2S_CO_TRY(reply);
    const auto value = reply->values.find(key);
    if (value == reply->values.end()) {
        std::ranges::fill(window, std::byte{0});
        item.status = fail(Code::not_found);
        co_return true;
    }
    Entry entry;
    ROS2S_CO_TRY(decode(value->second, entry));
    item.is_value = !entry.is_array;
    item.size = entry.size;
    item.epoch = {entry.epoch};
    if (!entry.is_array) {
        if (item.extent.offset != 0) co_return fail(Code::invalid);
        if (entry.size > window.size()) co_return fail(Code::too_small, entry.size);
        std::ranges::copy(as_bytes(entry.value), window.begin());
        value_checksums(as_bytes(entry.value), item.checksums);
        co_return true;
    }
    Parts parts;
    for (size_t i = 1; i < read.keys.size(); ++i) {
        const auto found = reply->values.find(read.keys[i]);
        parts.values.push_back(found == reply->values.end() ? "" : found->second);
    }
    if (!is_guess || parts.values != guess.values) {
        ROS2S_CO_TRY(parts.find(item.extent));
        results.clear();
        co_await read_parts(space, item.object, item.extent, parts, window, results);
        remember_seen(read, std::move(parts.values));
    } else {
        std::ranges::copy(guessed.bytes(), window.begin());
    }
    for (const Result<>& result : results) {
        if (result) continue;
        if (result.error().code == Code::not_found) co_return false;
        // The end of the bad block, within the extent.
        const uint64_t end = result.error().detail;
        co_return fail({.code = result.error().code,
                        .os_errno = result.error().os_errno,
                        .detail = std::min(end, item.extent.end())});
    }
    array_checksums(item.extent.offset, window, item.checksums);
    co_return true;
}

// Whole pieces are read and verified in private memory. Errors: not_found; corrupt (detail: the end
// of the bad block).
Task<> RadosStore::read_run(ObjectName name, const Run& run, Extent part, Bytes into,
                            Result<>& result) {
    const uint64_t from = std::max(round_down(part.offset, block_bytes), run.offset);
    const uint64_t end = std::min(round_up(part.end(), block_bytes), run.offset + run.length);
    const AlignedBuffer memory(end - from);
    const Bytes bytes = memory.bytes().first(end - from);
    const auto count = co_await data_.read_data(name, from - run.offset, bytes);
    if (!count) {
        result = fail(count.error());
        co_return;
    }
    size_t piece = from / block_bytes - run.offset / block_bytes;
    uint64_t bad_end = *count == bytes.size() ? 0 : end;
    for_each_piece(from, bytes, [&](uint64_t offset, ConstBytes each) {
        if (crc32c(each) != run.checksums[piece++] && bad_end == 0) bad_end = offset + each.size();
    });
    if (bad_end != 0) {
        result = fail(Code::corrupt, bad_end);
        co_return;
    }
    std::ranges::copy(bytes.subspan(part.offset - from, part.length), into.begin());
    result = {};
}

// ---- list, query ---------------------------------------------------------------------------

Task<Result<ListReply>> RadosStore::list(const Call& call, ContainerId container,
                                         const ListRequest& request) {
    ROS2S_CO_TRY(validate(request));
    ROS2S_CO_TRY(call.check(reactor_.now()));
    ROS2S_CO_TRY(co_await check_container(call, container));
    const std::string space = space_of(container);
    switch (request.what) {
        case ListRequest::What::objects: co_return co_await list_objects(call, space, request);
        case ListRequest::What::dkeys: co_return co_await list_dkeys(call, space, request);
        case ListRequest::What::akeys: break;
    }
    co_return co_await list_akeys(call, space, request);
}

Task<Result<ListReply>> RadosStore::list_objects(const Call& call, std::string space,
                                                 const ListRequest& request) {
    // RADOS lists in the order of hashes: of all names, the first ones that are wanted are kept.
    const size_t most = std::min<size_t>(request.limit, names_at_once) + 1;
    std::optional<ObjectId> after;
    if (request.after) after = parse_object_key(*request.after);
    ListReply reply;
    while (true) {
        std::set<ObjectId> first;
        const auto listing = metadata_.list(space);
        while (true) {
            ROS2S_CO_TRY(call.check(reactor_.now()));
            ROS2S_CO_TRY_ASSIGN(const auto names, co_await listing->next());
            if (names.empty()) break;
            for (const std::string& name : names) {
                const auto object = parse_object_name(name);
                if (!object || (after && *object <= *after)) continue;
                first.insert(*object);
                if (first.size() > most) first.erase(std::prev(first.end()));
            }
        }
        for (const ObjectId object : first) {
            Head head;
            const Read read{.object = {space, object_name(object)}, .keys = {}};
            ROS2S_CO_TRY(co_await read_unlocked(call, read, head));
            after = object;
            if (head.entries == 0) continue;
            if (reply.entries.size() == std::min<size_t>(request.limit, names_at_once)) {
                reply.more = true;
                co_return reply;
            }
            reply.entries.push_back({.key = object_key(object)});
        }
        if (first.size() < most) co_return reply;
    }
}

Task<Result<ListReply>> RadosStore::list_dkeys(const Call& call, std::string space,
                                               const ListRequest& request) {
    ListReply reply;
    std::string after = "e";
    if (request.after) after = end_of_prefix(entry_prefix({*request.after}));
    std::optional<ListEntry> current;  // its akeys may go on in the next page
    while (true) {
        Head head;
        const Read read{
            .object = {space, object_name(request.object)},
            .keys = {},
            .range = {.prefix = "e", .after = after, .end = {}, .limit = keys_per_read}};
        ROS2S_CO_TRY_ASSIGN(const ReadReply page, co_await read_unlocked(call, read, head));
        for (const auto& [key, value] : page.values) {
            if (key == head_key) continue;
            const auto parsed = parse_entry_key(key);
            if (!parsed) co_return fail(Code::corrupt);
            if (parsed->segment) continue;
            if (!request.akey.bytes.empty() && parsed->akey != request.akey) continue;
            Entry entry;
            ROS2S_CO_TRY(decode(value, entry));
            if (current && current->key == parsed->dkey.bytes) {
                current->epoch = std::max(current->epoch, Epoch{entry.epoch});
                continue;
            }
            if (current) reply.entries.push_back(std::move(*current));
            current.reset();
            if (reply.entries.size() == request.limit) {
                reply.more = true;
                co_return reply;
            }
            current = {.key = parsed->dkey.bytes, .epoch = {entry.epoch}};
            if (!request.akey.bytes.empty()) current->value = std::move(entry.value);
        }
        if (!page.more) break;
        after = page.last;
    }
    if (current) reply.entries.push_back(std::move(*current));
    co_return reply;
}

Task<Result<ListReply>> RadosStore::list_akeys(const Call& call, std::string space,
                                               const ListRequest& request) {
    ListReply reply;
    const std::string prefix = entry_prefix(request.dkey);
    std::string after = prefix;
    if (request.after) after = entry_key(request.dkey, {*request.after});
    while (true) {
        Head head;
        const Read read{
            .object = {space, object_name(request.object)},
            .keys = {},
            .range = {.prefix = prefix, .after = after, .end = {}, .limit = keys_per_read}};
        ROS2S_CO_TRY_ASSIGN(const ReadReply page, co_await read_unlocked(call, read, head));
        for (const auto& [key, value] : page.values) {
            if (key == head_key) continue;
            const auto parsed = parse_entry_key(key);
            if (!parsed) co_return fail(Code::corrupt);
            if (parsed->segment || (request.after && parsed->akey.bytes <= *request.after))
                continue;
            Entry entry;
            ROS2S_CO_TRY(decode(value, entry));
            if (reply.entries.size() == request.limit) {
                reply.more = true;
                co_return reply;
            }
            reply.entries.push_back({.key = parsed->akey.bytes, .epoch = {entry.epoch}});
        }
        if (!page.more) co_return reply;
        after = page.last;
    }
}

Task<Result<QueryReply>> RadosStore::query(const Call& call, ContainerId container, ObjectId object,
                                           const Akey& akey) {
    ROS2S_CO_TRY(validate(akey));
    ROS2S_CO_TRY(call.check(reactor_.now()));
    ROS2S_CO_TRY(co_await check_container(call, container));
    const std::string prefix = reverse_prefix(akey), column_at = column_key(akey);
    const ObjectName name{space_of(container), object_name(object)};
    while (true) {
        Head head, again;
        const Read read{.object = name,
                        .keys = {column_at},
                        .range = {.prefix = prefix, .after = prefix, .end = {}, .limit = 1}};
        ROS2S_CO_TRY_ASSIGN(const ReadReply found, co_await read_unlocked(call, read, head));
        QueryReply reply;
        const auto value = found.values.find(column_at);
        if (value == found.values.end()) co_return reply;
        Column column;
        ROS2S_CO_TRY(decode(value->second, column));
        reply.last_epoch = {column.last_epoch};
        reply.last_time = column.last_time;
        reply.bytes_used = column.blocks * block_bytes;
        if (column.entries == 0) co_return reply;
        const auto highest = found.values.lower_bound(prefix);
        if (highest == found.values.end()) co_return fail(Code::corrupt);
        const auto dkey = dkey_of_reverse_key(highest->first, prefix);
        if (!dkey) co_return fail(Code::corrupt);
        const std::string key = entry_key(*dkey, akey);
        const Read entry_read{.object = name, .keys = {key}};
        ROS2S_CO_TRY_ASSIGN(const ReadReply second,
                            co_await read_unlocked(call, entry_read, again));
        // If the object has changed between the two, they do not belong together.
        if (again.change != head.change) continue;
        Entry entry;
        const auto entry_value = second.values.find(key);
        if (entry_value == second.values.end()) co_return fail(Code::corrupt);
        ROS2S_CO_TRY(decode(entry_value->second, entry));
        reply.exists = true;
        reply.highest_dkey = *dkey;
        reply.size = entry.size;
        co_return reply;
    }
}

}  // namespace ros2s::rados
