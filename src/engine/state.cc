#include "state.h"

#include <algorithm>

#include "ros2s/base/check.h"

namespace ros2s::engine {

void State::apply(const AppliedGroup& group,
                  std::span<const TransactionRecord* const> transactions) {
    uint64_t epoch = group.first_epoch;
    const WallTime time{Duration{group.wall_time_ns}};
    for (const TransactionRecord* transaction : transactions) {
        const Now now{group.sequence, {epoch}, time, transaction->container};
        for (const Change& change : transaction->changes) apply(now, change);
        if (!transaction->id.client.is_nil()) {
            replies.store(transaction->id, {transaction->id.sequence, {epoch}, time});
        }
        ++epoch;
    }
    applied = group.sequence;
    next_epoch = epoch;
    wall_time_ns = group.wall_time_ns;
}

bool State::makes_sense(const TransactionRecord& transaction) const {
    for (const Change& change : transaction.changes) {
        for (const BlockRef& block : change.blocks) {
            if (!space.contains(block.address)) return false;
        }
    }
    return true;
}

void State::apply(const Now& now, const Change& change) {
    using Kind = Change::Kind;
    switch (change.kind) {
        case Kind::array: apply_array(now, change); return;
        case Kind::put: apply_put(now, change); return;
        case Kind::punch_akey: {
            const KeyBuilder key =
                entry_key(now.container, change.object, change.dkey, change.akey, 0);
            Node& head = node(key.view());
            if (head.is_absent()) return;
            punch(now, head, {now.container, change.object, change.dkey, change.akey, 0});
            return;
        }
        case Kind::punch_dkey: {
            KeyBuilder prefix(Table::entries);
            prefix.container(now.container).object(change.object).string(change.dkey);
            punch_entries(now, prefix.view(), prefix_end(prefix.view()));
            return;
        }
        case Kind::punch_dkeys: {
            KeyBuilder from(Table::entries), to(Table::entries);
            from.container(now.container).object(change.object).string(change.dkey);
            to.container(now.container).object(change.object);
            if (change.dkey_end.empty()) {
                punch_entries(now, from.view(), prefix_end(to.view()));
            } else {
                to.string(change.dkey_end);
                punch_entries(now, from.view(), to.view());
            }
            return;
        }
        case Kind::punch_object: punch_object(now, change.object); return;
        case Kind::create_container:
        case Kind::retire_container:
        case Kind::remove_container: apply_container(now, change); return;
    }
}

Node& State::node(std::string_view key) {
    Node* const found = cache.find(key);
    ROS2S_CHECK(found != nullptr && !found->loading);
    return *found;
}

// ---- arrays --------------------------------------------------------------------------------

void State::apply_array(const Now& now, const Change& change) {
    Node& head = node(entry_key(now.container, change.object, change.dkey, change.akey, 0).view());
    Node& summary_at = summary_node(now, change.object, change.akey);
    SummaryValue& summary = *summary_at.summary();
    cache.modify(head);
    if (head.is_absent()) {
        head.value.emplace<EntryValue>().kind = EntryValue::Kind::array;
        ++summary.entries;
        raise_highest(summary, change.dkey);
    }
    EntryValue& entry = *head.entry();
    make_holes(now, change, entry.size, summary);
    put_blocks(now, change, summary);
    if (change.size_rule == Change::SizeRule::exactly) entry.size = change.size;
    if (change.size_rule == Change::SizeRule::at_least) {
        entry.size = std::max(entry.size, change.size);
    }
    entry.epoch = now.epoch;
    entry.time = now.time;
    cache.charge(head);
    cache.charge(summary_at);
}

void State::make_holes(const Now& now, const Change& change, uint64_t size, SummaryValue& summary) {
    // Nothing lies beyond the array's end.
    const uint64_t end =
        std::min(change.hole_first + change.hole_count, round_up(size, block_bytes) / block_bytes);
    if (end <= change.hole_first) return;
    const uint64_t first = change.hole_first / segment_blocks;
    const uint64_t last = (end - 1) / segment_blocks;
    const auto segment_key = [&](uint64_t segment) {
        return entry_key(now.container, change.object, change.dkey, change.akey,
                         static_cast<uint32_t>(segment));
    };
    const auto free_in = [&](Node& node, uint64_t segment) {
        const uint64_t base = segment * segment_blocks;
        const uint64_t from = std::max(change.hole_first, base) - base;
        const uint64_t to = std::min(end, base + segment_blocks) - base;
        summary.blocks -= free_blocks(now, node, from, to);
    };
    // What is not in memory does not exist.
    if (first == last) {
        Node* const found = cache.find(segment_key(first).view());
        if (found != nullptr && !found->loading && !found->is_absent()) free_in(*found, first);
        return;
    }
    cache.for_range(segment_key(first).view(), segment_key(last + 1).view(), [&](Node& node) {
        if (!node.is_absent()) free_in(node, parse_entry_key(node.key)->segment);
    });
}

uint64_t State::free_blocks(const Now& now, Node& node, uint64_t from, uint64_t to) {
    EntryValue& entry = *node.entry();
    uint64_t freed = 0;
    to = std::min<uint64_t>(to, entry.map.end());
    for (uint64_t i = from; i < to; ++i) {
        const auto block = static_cast<uint32_t>(i);
        const BlockAddress address = entry.map.at(block).address;
        if (address.is_hole()) continue;
        if (freed == 0) cache.modify(node);
        if (!space.mark_free(address, now.group)) ++inconsistencies;
        entry.map.set(block, {});
        ++freed;
    }
    if (entry.kind == EntryValue::Kind::segment && entry.map.used() == 0 && freed > 0) {
        node.value = std::monostate{};
    }
    cache.charge(node);
    return freed;
}

Node& State::segment_node(const Now& now, const Change& change, uint64_t segment, bool create) {
    Node& found = node(entry_key(now.container, change.object, change.dkey, change.akey,
                                 static_cast<uint32_t>(segment))
                           .view());
    cache.modify(found);
    if (create && found.is_absent()) {
        found.value.emplace<EntryValue>().kind = EntryValue::Kind::segment;
    }
    return found;
}

void State::put_blocks(const Now& now, const Change& change, SummaryValue& summary) {
    size_t from = 0;
    for (uint8_t p = 0; p < change.piece_count; ++p) {
        const Change::Piece& piece = change.pieces[p];
        Node* at = nullptr;
        uint64_t segment = 0;
        for (uint32_t i = 0; i < piece.count; ++i) {
            const uint64_t block = piece.first + i;
            if (at == nullptr || block / segment_blocks != segment) {
                if (at != nullptr) cache.charge(*at);
                segment = block / segment_blocks;
                at = &segment_node(now, change, segment, true);
            }
            BlockMap& map = at->entry()->map;
            const auto place = static_cast<uint32_t>(block % segment_blocks);
            const BlockAddress before = map.at(place).address;
            if (before.is_hole()) {
                ++summary.blocks;
            } else if (!space.mark_free(before, now.group)) {
                ++inconsistencies;
            }
            const BlockRef& after = change.blocks[from + i];
            if (!space.mark_used(after.address)) ++inconsistencies;
            map.set(place, after);
        }
        if (at != nullptr) cache.charge(*at);
        from += piece.count;
    }
}

// ---- single values -------------------------------------------------------------------------

void State::apply_put(const Now& now, const Change& change) {
    Node& head = node(entry_key(now.container, change.object, change.dkey, change.akey, 0).view());
    Node& summary_at = summary_node(now, change.object, change.akey);
    SummaryValue& summary = *summary_at.summary();
    cache.modify(head);
    if (head.is_absent()) {
        ++summary.entries;
        raise_highest(summary, change.dkey);
    }
    EntryValue& entry = head.value.emplace<EntryValue>();
    entry.kind = EntryValue::Kind::single;
    entry.single = change.value;
    entry.size = change.value.size();
    entry.epoch = now.epoch;
    entry.time = now.time;
    cache.charge(head);
    cache.charge(summary_at);
}

// ---- punches -------------------------------------------------------------------------------

void State::punch(const Now& now, Node& head, const EntryKey& key) {
    Node& summary_at = summary_node(now, key.object, key.akey);
    SummaryValue& summary = *summary_at.summary();
    cache.modify(head);
    const EntryValue& entry = *head.entry();
    if (entry.kind == EntryValue::Kind::array) {
        Change all{
            .kind = Change::Kind::array, .object = key.object, .dkey = key.dkey, .akey = key.akey};
        all.hole_count = object::array_bytes_max / block_bytes;
        make_holes(now, all, entry.size, summary);
    }
    head.value = std::monostate{};
    --summary.entries;
    if (summary.highest_known && summary.highest == key.dkey) {
        summary.highest_known = false;
        summary.highest.clear();
    }
    cache.charge(head);
    cache.charge(summary_at);
}

void State::punch_entries(const Now& now, std::string_view from, std::string_view to) {
    std::vector<Node*> heads;
    cache.for_range(from, to, [&](Node& node) {
        if (node.entry() != nullptr && node.entry()->kind != EntryValue::Kind::segment) {
            heads.push_back(&node);
        }
    });
    for (Node* head : heads) {
        const auto key = parse_entry_key(head->key);
        ROS2S_CHECK(key.has_value());
        punch(now, *head, *key);
    }
}

void State::punch_object(const Now& now, object::ObjectId object) {
    KeyBuilder entries(Table::entries), summaries(Table::summaries);
    entries.container(now.container).object(object);
    summaries.container(now.container).object(object);
    punch_entries(now, entries.view(), prefix_end(entries.view()));
    cache.for_range(summaries.view(), prefix_end(summaries.view()), [&](Node& node) {
        if (node.is_absent()) return;
        cache.modify(node);
        node.value = std::monostate{};
        cache.charge(node);
    });
}

// ---- summaries, containers -----------------------------------------------------------------

Node& State::summary_node(const Now& now, object::ObjectId object, std::string_view akey) {
    Node& found = node(summary_key(now.container, object, akey).view());
    cache.modify(found);
    if (found.is_absent()) found.value.emplace<SummaryValue>();
    SummaryValue& summary = *found.summary();
    summary.last_epoch = now.epoch;
    summary.last_time = now.time;
    return found;
}

void State::raise_highest(SummaryValue& summary, std::string_view dkey) {
    if (summary.entries == 1) {
        summary.highest_known = true;
        summary.highest = dkey;
    } else if (summary.highest_known && summary.highest < dkey) {
        summary.highest = dkey;
    }
}

void State::apply_container(const Now& now, const Change& change) {
    if (change.kind == Change::Kind::remove_container) {
        containers.erase(now.container);
        removed_containers.push_back(now.container);
        return;
    }
    Container& container = containers[now.container];
    container.changed = true;
    if (change.kind == Change::Kind::retire_container) {
        container.value.retired = true;
        return;
    }
    const auto value = decode_container(change.value);
    if (value) {
        container.value = *value;
        container.value.created = now.time;
    } else {
        ++inconsistencies;
    }
}

}  // namespace ros2s::engine
