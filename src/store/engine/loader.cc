#include "loader.h"

#include <algorithm>

#include "ros2s/engine/rules/commit_rules.h"
#include "ros2s/object/location_text.h"

namespace ros2s::engine {
namespace {

constexpr uint64_t bad_value_lines_max = 100;
constexpr uint64_t segment_bytes = segment_blocks * block_bytes;

constexpr size_t page_limit = 512;
constexpr uint64_t few_segments = 16;
constexpr size_t summary_key_bytes = 128;  // memory of one, about
// Nodes in memory that a scan looks at, beside its limit: about 0.1 ms of the core.
constexpr size_t nodes_more = 1024;

Task<Result<>> nothing() { co_return Result<>(); }

}  // namespace

std::string_view fault_of(const EntryValue& entry, const std::optional<EntryKey>& key,
                          const DataAreas& areas) {
    if (!key) return "its key is none";
    const bool is_segment = entry.kind == EntryValue::Kind::segment;
    if (is_segment != (key->segment > 0)) return "it is of another kind than its key";
    if (!areas.contain(entry.map)) return "it names a block that cannot hold data";
    return {};
}

std::string place_of(const std::optional<EntryKey>& key) {
    if (!key) return "an entry";
    return place_of(*key, {key->segment * segment_bytes, segment_bytes});
}
std::string place_of(const EntryKey& key, object::Extent bytes) {
    const object::FetchItem item{.object = key.object, .dkey = {key.dkey}, .akey = {key.akey}};
    return object::location_text(key.container, item, bytes);
}

// The value of a node of the table that its key belongs to. The first bad ones are logged: a reader
// gets the code alone.
Result<> Loader::decode_into(Node& node, std::string_view raw) {
    if (node.key[0] == static_cast<char>(Table::summaries)) {
        ROS2S_TRY_ASSIGN(node.value, decode_summary(raw));
        return {};
    }
    Result<EntryValue> entry = decode_entry(raw);
    const auto key = parse_entry_key(node.key);
    const std::string_view fault = entry ? fault_of(*entry, key, areas_) : std::string_view();
    if (entry && fault.empty()) {
        node.value = std::move(*entry);
        return {};
    }
    const Error error = entry ? Error{Code::corrupt} : entry.error();
    if (bad_values_++ < bad_value_lines_max) {
        env_.log.error(
            "the index's value of {} cannot be used: {}; restore the pool from a copy, or remove "
            "the object",
            place_of(key), entry ? std::string(fault) : describe(error));
    }
    return fail(error);
}

Task<Result<Node*>> Loader::load(std::string key, Purpose purpose) {
    while (true) {
        Node* const found = cache_.find(key);
        if (found == nullptr) break;
        if (!found->loading && (!found->held || purpose == Purpose::changing)) {
            cache_.pin(*found);
            co_return found;
        }
        co_await loaded_;
    }
    Node& node = cache_.insert(key);
    node.loading = true;
    counters.misses.add();
    Result<std::optional<std::string>> raw;
    // Another thread is for the disk alone: its wake-up and ours take longer than this answer.
    if (auto cached = index_.get_cached(key)) {
        raw = std::move(*cached);
    } else {
        raw = co_await env_.blocking.run(env_.reactor, [&] { return index_.get(key); });
    }
    Result<> result;
    if (!raw) {
        result = fail(raw.error());
    } else if (raw->has_value()) {
        result = decode_into(node, **raw);
    }
    node.loading = false;
    loaded_.wake_all();
    if (!result) {
        cache_.erase(node);
        co_return fail(result.error());
    }
    cache_.charge(node);
    cache_.pin(node);
    co_return &node;
}

Task<Result<Node*>> Loader::pin(KeyBuilder key, Pins& pins) {
    if (Node* const node = changeable(key.view())) {
        pins.add(*node);
        co_return node;
    }
    ROS2S_CO_TRY_ASSIGN(Node * node, co_await load(key.take(), Purpose::changing));
    pins.adopt(*node);
    co_return node;
}

bool Loader::prepare_resident_entry(object::ContainerId container, Change& change, Pins& pins) {
    using Kind = Change::Kind;
    if ((change.kind != Kind::array && change.kind != Kind::put) || change.hole_first > 0 ||
        change.hole_count > 0) {
        return false;
    }
    for (uint8_t i = 0; i < change.piece_count; ++i) {
        if (change.pieces[i].first + change.pieces[i].count > segment_blocks) return false;
    }
    change.head =
        changeable(entry_key(container, change.object, change.dkey, change.akey, 0).view());
    if (change.head == nullptr) return false;
    pins.add(*change.head);
    return true;
}

bool Loader::prepare_resident_summary(object::ContainerId container, Change& change, Pins& pins) {
    if (change.akey.empty()) return false;
    change.summary = changeable(summary_key(container, change.object, change.akey).view());
    if (change.summary == nullptr) return false;
    pins.add(*change.summary);
    return true;
}

Task<Result<>> Loader::prepare_entries(object::ContainerId container, Change& change, Pins& pins,
                                       const Limits& limits, std::vector<std::string>& summaries) {
    using Kind = Change::Kind;
    KeyBuilder from(Table::entries), to(Table::entries);
    from.container(container).object(change.object);
    std::string end;
    switch (change.kind) {
        case Kind::array:
        case Kind::put:
        case Kind::punch_akey: return prepare_entry(container, change, pins, limits);
        case Kind::move: return prepare_segment(container, change, pins);
        case Kind::punch_dkey:
            from.string(change.dkey);
            end = prefix_end(from.view());
            break;
        case Kind::punch_dkeys:
            end = prefix_end(from.view());
            from.string(change.dkey);
            if (!change.dkey_end.empty()) {
                end = to.container(container).object(change.object).string(change.dkey_end).take();
            }
            break;
        case Kind::punch_object: end = prefix_end(from.view()); break;
        default: return nothing();
    }
    return prepare_range(from.take(), std::move(end), pins, limits, &summaries);
}

Task<Result<>> Loader::prepare_summaries(object::ContainerId container, Change& change, Pins& pins,
                                         const Limits& limits) {
    if (change.kind == Change::Kind::punch_object) {
        KeyBuilder all(Table::summaries);
        all.container(container).object(change.object);
        return prepare_range(all.take(), prefix_end(all.view()), pins, limits, nullptr);
    }
    if (change.akey.empty() || change.kind == Change::Kind::move) return nothing();
    return prepare_summary(container, change, pins);
}

Task<Result<>> Loader::prepare_summary(object::ContainerId container, Change& change, Pins& pins) {
    ROS2S_CO_TRY_ASSIGN(change.summary,
                        co_await pin(summary_key(container, change.object, change.akey), pins));
    co_return Result<>();
}

Task<Result<>> Loader::prepare_keys(std::vector<std::string> keys, Pins& pins) {
    std::ranges::sort(keys);
    keys.erase(std::ranges::unique(keys).begin(), keys.end());
    for (std::string& key : keys) {
        ROS2S_CO_TRY_ASSIGN(Node * node, co_await load(std::move(key), Purpose::changing));
        pins.adopt(*node);
    }
    co_return Result<>();
}

Task<Result<>> Loader::prepare_segment(object::ContainerId container, Change& change, Pins& pins) {
    const auto segment = static_cast<uint32_t>(change.pieces[0].first / segment_blocks);
    ROS2S_CO_TRY_ASSIGN(
        change.head,
        co_await pin(entry_key(container, change.object, change.dkey, change.akey, segment), pins));
    co_return Result<>();
}

Task<Result<>> Loader::prepare_entry(object::ContainerId container, Change& change, Pins& pins,
                                     const Limits& limits) {
    const auto segment_key = [&](uint64_t segment) {
        return entry_key(container, change.object, change.dkey, change.akey,
                         static_cast<uint32_t>(segment));
    };
    ROS2S_CO_TRY_ASSIGN(change.head, co_await pin(segment_key(0), pins));
    const EntryValue* entry = change.head->entry();
    const uint64_t size =
        entry != nullptr && entry->kind == EntryValue::Kind::array ? entry->size : 0;
    // The blocks before and after the hole may be cut: they can be in other segments.
    const uint64_t hole_end = change.hole_first + change.hole_count + 1;
    uint64_t first = (std::max<uint64_t>(change.hole_first, 1) - 1) / segment_blocks;
    uint64_t end = (hole_end + segment_blocks - 1) / segment_blocks;
    if (change.kind == Change::Kind::punch_akey) {
        first = 0;
        end = UINT64_MAX;
    }
    end = std::min(end, segments_of(size));
    first = std::max<uint64_t>(first, 1);
    if (end > first + few_segments) {
        if (!rules.cut_all_segments) end = first + few_segments;
        // Most of a wide range may not exist: a scan finds the existing keys.
        ROS2S_CO_TRY(co_await prepare_range(segment_key(first).take(), segment_key(end).take(),
                                            pins, limits, nullptr));
    } else {
        for (uint64_t segment = first; segment < end; ++segment) {
            ROS2S_CO_TRY(co_await pin(segment_key(segment), pins));
        }
    }
    for (uint8_t i = 0; i < change.piece_count; ++i) {
        const Change::Piece& piece = change.pieces[i];
        if (piece.count == 0) continue;
        const uint64_t last = (piece.first + piece.count - 1) / segment_blocks;
        for (uint64_t s = std::max<uint64_t>(piece.first / segment_blocks, 1); s <= last; ++s) {
            ROS2S_CO_TRY(co_await pin(segment_key(s), pins));
        }
    }
    co_return Result<>();
}

// False if another coroutine is loading the node.
Result<bool> Loader::adopt(const Item& item, Pins& pins) {
    if (Node* const found = cache_.find(item.key)) {
        if (found->loading) return false;
        pins.add(*found);
        return true;
    }
    Node& node = cache_.insert(item.key);
    if (const Result<> decoded = decode_into(node, item.raw); !decoded) {
        cache_.erase(node);
        return fail(decoded.error());
    }
    cache_.charge(node);
    pins.add(node);
    return true;
}

Task<Result<>> Loader::prepare_range(std::string from, std::string to, Pins& pins,
                                     const Limits& limits, std::vector<std::string>* summaries) {
    size_t different = 0;           // of the summaries, when it was last looked
    size_t limit = IndexScan::few;  // most ranges are those of one object, with few entries
    for (bool more = true; more; limit = page_limit) {
        ROS2S_CO_TRY(check(limits.call));
        ROS2S_CO_TRY_ASSIGN(Page page, co_await scan(std::move(from), to, limit));
        page.count_for(limits.call);
        std::vector<std::string> waiting;
        for (const Item& item : page.items) {
            ROS2S_CO_TRY_ASSIGN(const bool adopted, adopt(item, pins));
            if (!adopted) waiting.push_back(item.key);
            if (summaries == nullptr) continue;
            const auto key = parse_entry_key(item.key);
            if (!key) co_return fail(Code::corrupt);
            summaries->push_back(summary_key(key->container, key->object, key->akey).take());
        }
        for (std::string& key : waiting) {
            ROS2S_CO_TRY_ASSIGN(Node * node, co_await load(std::move(key), Purpose::changing));
            pins.adopt(*node);
        }
        // Nodes that are in memory for others make room first.
        if (cache_.bytes() > limits.bytes_max) cache_.shrink_fully(limits.bytes_max / 2);
        const size_t keys = summaries == nullptr ? 0 : summaries->size();
        if (cache_.bytes() + keys * summary_key_bytes > limits.bytes_max) {
            co_return fail(Code::no_memory);
        }
        // Not for each page: all of them may be different.
        if (summaries != nullptr &&
            (!page.more || summaries->size() > 2 * different + page_limit)) {
            std::ranges::sort(*summaries);
            summaries->erase(std::ranges::unique(*summaries).begin(), summaries->end());
            different = summaries->size();
        }
        more = page.more;
        from = std::move(page.next);
    }
    co_return Result<>();
}

Result<> Loader::drop_foreign(std::vector<IndexEntry>& entries) const {
    if (partition_.cores == 1) return {};
    bool sound = true;
    std::erase_if(entries, [&](const IndexEntry& entry) {
        if (entry.key[0] != static_cast<char>(Table::entries)) return false;
        const auto key = parse_entry_key(entry.key);
        sound = sound && key.has_value();
        return key && partition_.core_of(key->container, key->object, key->dkey) != core_;
    });
    return sound ? Result<>() : fail(Code::corrupt);
}

bool Loader::is_held(const NodeCache::Range& range) {
    bool held = false;
    cache_.visit(range, [&](const Node& node) { held |= node.held; });
    return held;
}

// A range of few entries is often in memory, and then needs no other thread. If entries follow, the
// caller asks for more pages, which must not keep the core.
Task<Result<IndexPage>> Loader::read(const IndexScan& request) {
    if (request.limit <= IndexScan::few) {
        if (auto cached = index_.scan_cached(request); cached && !cached->more) {
            co_return std::move(*cached);
        }
    }
    co_return co_await env_.blocking.run(env_.reactor, [&] { return index_.scan(request); });
}

// Waits for keys that are being changed. So each key is read when its whole transaction is visible.
Task<Result<Loader::Page>> Loader::scan(std::string from, std::string to, size_t limit,
                                        bool reverse) {
    const IndexScan request{.from = from, .to = to, .limit = limit, .reverse = reverse};
    counters.scans.add();
    IndexPage found;
    Page page;
    // A page is one piece of work for the core, however many nodes of the range are in memory.
    const auto nodes = [&] {
        return NodeCache::Range{
            .from = from, .to = to, .most = limit + nodes_more, .reverse = reverse};
    };
    for (bool again = true; again;) {
        const uint64_t generation = generation_;
        ROS2S_CO_TRY_ASSIGN(found, co_await read(request));
        page = {.items = {}, .more = found.more, .next = {}};
        from = request.from;
        to = request.to;
        if (found.more) {
            // Only up to the end of the index page; the rest comes with the next one.
            const std::string& last = found.entries.back().key;
            page.next = reverse ? last : last + '\0';
            (reverse ? from : to) = page.next;
        }
        while (partition_.cores > 1 && is_held(nodes())) co_await loaded_;
        again = generation != generation_;
    }
    page.looked = found.entries.size();
    ROS2S_CO_TRY(drop_foreign(found.entries));
    auto at = found.entries.begin();
    const auto take_before = [&](std::string_view key) {
        for (; at != found.entries.end() && (reverse ? at->key > key : at->key < key); ++at) {
            page.items.push_back({std::move(at->key), nullptr, std::move(at->value)});
        }
    };
    const Node* const left_out = cache_.visit(nodes(), [&](const Node& node) {
        ++page.looked;
        if (!node.dirty && !node.writing) return;
        take_before(node.key);
        if (at != found.entries.end() && at->key == node.key) ++at;
        if (!node.is_absent()) page.items.push_back({std::string(node.key), &node, {}});
    });
    if (left_out != nullptr) {
        take_before(left_out->key);
        page.more = true;
        page.next = left_out->key;
        if (reverse) page.next += '\0';
        co_return page;
    }
    for (; at != found.entries.end(); ++at) {
        page.items.push_back({std::move(at->key), nullptr, std::move(at->value)});
    }
    co_return page;
}

}  // namespace ros2s::engine
