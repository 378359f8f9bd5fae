#include "reader.h"

#include <algorithm>
#include <set>

#include "ros2s/object/checksum.h"
#include "ros2s/object/validate.h"
#include "ros2s/runtime/nursery.h"

namespace ros2s::rados {
namespace {

using namespace object;

constexpr size_t reads_at_once = 32;
// Each time the data that the object named was replaced and removed before it was read.
constexpr int rereads_max = 100;
constexpr size_t names_at_once = 1024;

constexpr uint64_t gap_max = 65536;  // more hidden bytes are not read along

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

// The end of the first piece of `bytes` that is not as it was written; 0: none. `bytes` are those
// of the run from `from` on, in whole pieces.
uint64_t bad_end_of(const Run& run, uint64_t from, ConstBytes bytes) {
    size_t piece = from / block_bytes - run.offset / block_bytes;
    uint64_t bad_end = 0;
    for_each_piece(from, bytes, [&](uint64_t offset, ConstBytes each) {
        if (crc32c(each) != run.checksums[piece++] && bad_end == 0) bad_end = offset + each.size();
    });
    return bad_end;
}

}  // namespace

// ---- fetch ---------------------------------------------------------------------------------

Task<Result<>> Reader::fetch(const Call& call, ContainerId container, std::span<FetchItem> items) {
    ROS2S_CHECK(items.size() <= fetch_items_max);
    ROS2S_CO_TRY(call.check(env_.reactor));
    ROS2S_CO_TRY(co_await containers_.check(call, container));
    Result<> failure;
    const std::string space = space_of(container);
    if (items.size() == 1) {
        co_await fetch_item(call, space, items[0], failure);
        co_return failure;
    }
    Nursery nursery(env_.reactor, reads_at_once);
    for (FetchItem& item : items) {
        co_await nursery.spawn(fetch_item(call, space, item, failure));
    }
    co_await nursery.join();
    co_return failure;
}

Task<> Reader::fetch_item(const Call& call, std::string space, FetchItem& item, Result<>& failure) {
    if (!begin_fetch(item)) co_return;
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
struct Reader::Parts {
    struct Part {
        const Run* run = nullptr;
        Extent extent;
    };
    std::vector<Part> all;  // ascending
    std::vector<std::string> inline_keys;

    void add(const Segment& segment, Extent extent) {
        for (const Visible& visible : segment.visible) {
            const uint64_t from = std::max(visible.offset, extent.offset);
            const uint64_t end = std::min(visible.offset + visible.length, extent.end());
            if (from >= end) continue;
            const Run& run = segment.runs[visible.run];
            all.push_back({&run, {from, end - from}});
            if (run.data.is_inline()) inline_keys.push_back(bytes_key(run.data));
        }
    }
    // The first fact is the entry's.
    Parts(const Facts& facts, Extent extent) {
        for (const Fact& fact : std::span(facts).subspan(1)) add(fact.segment, extent);
    }
    Parts(const Segment& segment, Extent extent) { add(segment, extent); }
};

// Parts of one run that are near each other are read by one request.
Task<> Reader::read_parts(std::string space, ObjectId object, Extent extent, const Parts& parts,
                          Bytes window, std::vector<Result<>>& results) {
    fill_holes(extent, parts.all, window);
    results.resize(parts.all.size());  // as many requests at most
    std::map<const Run*, std::vector<Target>> by_run;
    size_t count = 0;
    Nursery nursery(env_.reactor, reads_at_once);
    const auto start = [&](const Run& run, std::vector<Target> targets) {
        return nursery.spawn(read_run({space, data_name(object, run.data)}, run, std::move(targets),
                                      results[count++]));
    };
    for (const auto& [run, part] : parts.all) {
        if (run->data.is_inline()) continue;
        std::vector<Target>& targets = by_run[run];
        if (!targets.empty() && part.offset - targets.back().part.end() > gap_max) {
            co_await start(*run, std::exchange(targets, {}));
        }
        targets.push_back({part, window.subspan(part.offset - extent.offset, part.length)});
    }
    for (auto& [run, targets] : by_run) co_await start(*run, std::move(targets));
    co_await nursery.join();
}

Task<> Reader::read_all(std::string space, ObjectId object, Extent extent, const Parts& parts,
                        Bytes window, std::vector<Result<>>& results) {
    std::shared_ptr<SharedRead> shared;
    Nursery nursery(env_.reactor, 2);
    if (!parts.inline_keys.empty()) {
        co_await nursery.spawn(
            heads_.read_shared({space, object_name(object)}, parts.inline_keys, shared));
    }
    co_await nursery.spawn(read_parts(space, object, extent, parts, window, results));
    co_await nursery.join();
    if (shared != nullptr) take_inline(parts, extent, shared->reply, window, results);
}

Task<Result<>> Reader::read_visible(std::string space, ObjectId object, const Segment& segment,
                                    Extent extent, Bytes into) {
    const Parts parts(segment, extent);
    std::vector<Result<>> results;
    co_await read_all(space, object, extent, parts, into, results);
    for (const Result<>& result : results) {
        if (!result) co_return result;
    }
    co_return Result<>{};
}

void Reader::take_inline(const Parts& parts, Extent extent, const Result<ReadReply>& reply,
                         Bytes window, std::vector<Result<>>& results) {
    for (const auto& [run, part] : parts.all) {
        if (!run->data.is_inline()) continue;
        results.push_back(take_bytes(*run, part, reply,
                                     window.subspan(part.offset - extent.offset, part.length)));
    }
}

Result<> Reader::take_bytes(const Run& run, Extent part, const Result<ReadReply>& reply,
                            Bytes into) {
    if (!reply) return fail(reply.error());
    const auto value = reply->values.find(bytes_key(run.data));
    if (value == reply->values.end()) return fail(Code::not_found);
    const uint64_t end = run.offset + run.length;
    if (value->second.size() != run.length) return fail(Code::corrupt, end);
    const ConstBytes bytes = as_bytes(value->second);
    if (const uint64_t bad = bad_end_of(run, run.offset, bytes); bad != 0) {
        return fail(Code::corrupt, bad);
    }
    std::ranges::copy(bytes.subspan(part.offset - run.offset, part.length), into.begin());
    return {};
}

// Of a single value, or of nothing.
Result<> Reader::take_value(const Fact& fact, FetchItem& item) {
    const Bytes window = item.window.bytes().first(item.extent.length);
    if (fact.value.empty()) {
        std::ranges::fill(window, std::byte{0});
        return fail(Code::not_found);
    }
    const Entry& entry = fact.entry;
    item.is_value = true;
    item.size = entry.size;
    item.epoch = {entry.epoch};
    if (item.extent.offset != 0) return fail(Code::invalid);
    if (entry.size > window.size()) return fail(Code::too_small, entry.size);
    std::ranges::copy(as_bytes(entry.value), window.begin());
    value_checksums(as_bytes(entry.value), item.checksums);
    return {};
}

Task<Result<bool>> Reader::fetch_once(const Call& call, std::string space, FetchItem& item) {
    const ObjectName name{space, object_name(item.object)};
    std::vector<std::string> keys{entry_key(item.dkey, item.akey)};
    if (item.extent.length > 0) {
        const uint64_t last = (item.extent.end() - 1) / segment_bytes;
        for (uint64_t n = item.extent.offset / segment_bytes; n <= last; ++n) {
            keys.push_back(segment_key(keys[0], n));
        }
    }
    const Bytes window = item.window.bytes().first(item.extent.length);
    std::vector<Result<>> results;
    // What the keys said last time is true if the object has the same head now. The bytes are read
    // beside the head.
    Facts facts;
    bool are_known = false;
    if (const auto known = heads_.known(name);
        known != nullptr && std::ranges::all_of(keys, [&](auto& key) { return known->has(key); })) {
        ROS2S_CO_TRY_ASSIGN(facts, facts_of(keys, *known));
        const bool is_array = facts[0].entry.is_array;
        const Parts parts(facts, item.extent);
        std::shared_ptr<SharedRead> shared;
        Nursery nursery(env_.reactor, 2);
        co_await nursery.spawn(heads_.read_shared(name, parts.inline_keys, shared));
        if (is_array) {
            co_await nursery.spawn(
                read_parts(space, item.object, item.extent, parts, window, results));
        }
        co_await nursery.join();
        // The bytes of arrays may be in the omap.
        are_known = heads_.are_true(name, keys, facts, shared->reply, is_array);
        if (are_known && is_array) take_inline(parts, item.extent, shared->reply, window, results);
    }
    if (!are_known) {
        View view(item.object);
        for (const std::string& key : keys) view.want(key);
        const Read read = view.next_read(space);
        Head head;
        ROS2S_CO_TRY_ASSIGN(const ReadReply reply, co_await heads_.read_unlocked(call, read, head));
        ROS2S_CO_TRY(view.take(read, reply));
        ROS2S_CO_TRY_ASSIGN(facts, facts_of(keys, *view.known()));
        heads_.learn(space, view);
        results.clear();
        if (facts[0].entry.is_array) {
            const Parts parts(facts, item.extent);
            co_await read_all(space, item.object, item.extent, parts, window, results);
        }
    }
    if (!facts[0].entry.is_array) {
        item.status = take_value(facts[0], item);
        co_return true;
    }
    item.is_value = false;
    item.size = facts[0].entry.size;
    item.epoch = {facts[0].entry.epoch};
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
Task<> Reader::read_run(ObjectName name, const Run& run, std::vector<Target> targets,
                        Result<>& result) {
    const uint64_t first = targets.front().part.offset, last = targets.back().part.end();
    const uint64_t from = std::max(round_down(first, block_bytes), run.offset);
    const uint64_t end = std::min(round_up(last, block_bytes), run.offset + run.length);
    const AlignedBuffer memory(end - from);
    const Bytes bytes = memory.bytes().first(end - from);
    const auto count = co_await env_.data.read_data(name, from - run.offset, bytes);
    if (!count) {
        result = fail(count.error());
        co_return;
    }
    if (*count != bytes.size()) {
        result = fail(Code::corrupt, end);
        co_return;
    }
    for (const auto& [part, into] : targets) {
        const uint64_t piece = std::max(round_down(part.offset, block_bytes), run.offset);
        const uint64_t piece_end = std::min(round_up(part.end(), block_bytes), end);
        if (const uint64_t bad =
                bad_end_of(run, piece, bytes.subspan(piece - from, piece_end - piece));
            bad != 0) {
            result = fail(Code::corrupt, bad);
            co_return;
        }
        std::ranges::copy(bytes.subspan(part.offset - from, part.length), into.begin());
    }
    result = {};
}

// ---- list, query ---------------------------------------------------------------------------

Task<Result<ListReply>> Reader::list(const Call& call, ContainerId container,
                                     const ListRequest& request) {
    ROS2S_CO_TRY(validate(request));
    ROS2S_CO_TRY(call.check(env_.reactor));
    ROS2S_CO_TRY(co_await containers_.check(call, container));
    const std::string space = space_of(container);
    if (request.what == ListRequest::What::objects) {
        co_return co_await list_objects(call, space, request);
    }
    co_return co_await list_keys(call, space, request);
}

Task<Result<ListReply>> Reader::list_objects(const Call& call, std::string space,
                                             const ListRequest& request) {
    // RADOS lists in the order of hashes: of all names, the first ones that are wanted are kept.
    const size_t most = std::min<size_t>(request.limit, names_at_once) + 1;
    std::optional<ObjectId> after;
    if (request.after) after = parse_object_key(*request.after);
    ListReply reply;
    while (true) {
        std::set<ObjectId> first;
        const auto listing = env_.metadata.list(space);
        while (true) {
            ROS2S_CO_TRY(call.check(env_.reactor));
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
            ROS2S_CO_TRY(co_await heads_.read_unlocked(call, read, head));
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

// Dkeys, or the akeys of one.
Task<Result<ListReply>> Reader::list_keys(const Call& call, std::string space,
                                          const ListRequest& request) {
    const bool are_dkeys = request.what == ListRequest::What::dkeys;
    const bool is_any_akey = !are_dkeys || request.akey.bytes.empty();
    Read read = first_page({space, object_name(request.object)},
                           are_dkeys ? "e" : entry_prefix(request.dkey));
    if (request.after) {
        read.range.after = end_of_prefix(are_dkeys ? entry_prefix({*request.after})
                                                   : entry_key(request.dkey, {*request.after}));
    }
    ListReply reply;
    while (true) {
        Head head;
        ROS2S_CO_TRY_ASSIGN(const ReadReply page, co_await heads_.read_unlocked(call, read, head));
        for (const auto& [key, value] : page.values) {
            if (key == head_key) continue;
            auto parsed = parse_entry_key(key);
            if (!parsed) co_return fail(Code::corrupt);
            if (parsed->segment || !(is_any_akey || parsed->akey == request.akey)) continue;
            Entry entry;
            ROS2S_CO_TRY(decode(value, entry));
            std::string& name = are_dkeys ? parsed->dkey.bytes : parsed->akey.bytes;
            // A dkey's akeys may go on in the next page.
            if (!reply.entries.empty() && reply.entries.back().key == name) {
                Epoch& epoch = reply.entries.back().epoch;
                epoch = std::max(epoch, Epoch{entry.epoch});
                continue;
            }
            if (reply.entries.size() == request.limit) {
                reply.more = true;
                co_return reply;
            }
            reply.entries.push_back({.key = std::move(name), .epoch = {entry.epoch}});
            if (!is_any_akey) reply.entries.back().value = std::move(entry.value);
        }
        if (!turn_page(read, page)) co_return reply;
    }
}

Task<Result<QueryReply>> Reader::query(const Call& call, ContainerId container, ObjectId object,
                                       const Akey& akey) {
    ROS2S_CO_TRY(validate(akey));
    ROS2S_CO_TRY(call.check(env_.reactor));
    ROS2S_CO_TRY(co_await containers_.check(call, container));
    View view(object);
    co_return co_await query_object(call, space_of(container), view, akey);
}

Task<Result<QueryReply>> Reader::query_object(const Call& call, std::string space, View& view,
                                              const Akey& akey) {
    while (true) {
        ROS2S_CO_TRY_ASSIGN(const QueryReply reply, rados::query(view, akey));
        if (view.is_complete()) {
            heads_.learn(space, view);
            co_return reply;
        }
        const Read read = view.next_read(space);
        Head head;
        ROS2S_CO_TRY_ASSIGN(const ReadReply found, co_await heads_.read_unlocked(call, read, head));
        // If the object has changed between two reads, they do not belong together.
        const auto taken = view.take(read, found);
        if (!taken && taken.error().code != Code::busy) co_return fail(taken.error());
    }
}

}  // namespace ros2s::rados
