#include "apply.h"

#include <algorithm>

#include "ros2s/base/check.h"

namespace ros2s::engine {
namespace {

Node& node_at(NodeCache& nodes, std::string_view key) {
    Node* const found = nodes.find(key);
    ROS2S_CHECK(found != nullptr && !found->loading);
    return *found;
}

Node& head_of(const Change& change) {
    ROS2S_CHECK(change.head != nullptr);
    return *change.head;
}

class Applier {
  public:
    Applier(NodeCache& nodes, const Applying& now, Effects& effects)
        : nodes_(nodes), now_(now), effects_(effects) {}

    void array(const Change& change);
    void put(const Change& change);
    void move(const Change& change);
    void punch_akey(const Change& change);
    void punch_entries(std::string_view from, std::string_view to);

  private:
    [[nodiscard]] KeyBuilder key_of(const Change& change, uint64_t segment) const {
        return entry_key(now_.container, change.object, change.dkey, change.akey,
                         static_cast<uint32_t>(segment));
    }
    // `node`: the summary's, if it is known.
    [[nodiscard]] SummaryChange summary_of(object::ObjectId object, std::string_view dkey,
                                           std::string_view akey, Node* node = nullptr) const {
        return {.container = now_.container,
                .object = object,
                .epoch = now_.epoch,
                .time = now_.time,
                .node = node,
                .akey = akey,
                .dkey = dkey};
    }
    // Turns the blocks [from, to) of one segment into holes; returns how many were in use.
    int64_t free_blocks(Node& node, uint64_t from, uint64_t to);
    int64_t make_holes(const Change& change, uint64_t size);
    int64_t put_blocks(const Change& change);
    void punch(Node& head, const EntryKey& key);

    NodeCache& nodes_;
    const Applying& now_;
    Effects& effects_;
};

// ---- arrays --------------------------------------------------------------------------------

void Applier::array(const Change& change) {
    Node& head = head_of(change);
    SummaryChange summary = summary_of(change.object, change.dkey, change.akey, change.summary);
    // Only a record that no engine wrote has an array for a single value. It replaces the value,
    // whose bytes would otherwise not be as many as its size.
    if (head.entry() != nullptr && head.entry()->kind == EntryValue::Kind::single) {
        punch(head, {now_.container, change.object, change.dkey, change.akey, 0});
    }
    nodes_.modify(head);
    if (head.is_absent()) {
        head.value.emplace<EntryValue>().kind = EntryValue::Kind::array;
        summary.entries = 1;
        summary.bytes = counted_bytes(change.dkey.size(), change.akey.size(), 0);
        summary.highest = SummaryChange::Highest::raise;
    }
    EntryValue& entry = *head.entry();
    summary.blocks -= make_holes(change, entry.size);
    summary.blocks += put_blocks(change);
    if (change.size_rule == Change::SizeRule::exactly) entry.size = change.size;
    if (change.size_rule == Change::SizeRule::at_least) {
        entry.size = std::max(entry.size, change.size);
    }
    entry.epoch = now_.epoch;
    entry.time = now_.time;
    nodes_.charge(head);
    effects_.summary(summary);
}

int64_t Applier::make_holes(const Change& change, uint64_t size) {
    // No block is beyond the array's end.
    const uint64_t end =
        std::min(change.hole_first + change.hole_count, round_up(size, block_bytes) / block_bytes);
    if (end <= change.hole_first) return 0;
    const uint64_t first = change.hole_first / segment_blocks;
    const uint64_t last = (end - 1) / segment_blocks;
    int64_t freed = 0;
    const auto free_in = [&](Node& node, uint64_t segment) {
        const uint64_t base = segment * segment_blocks;
        const uint64_t from = std::max(change.hole_first, base) - base;
        const uint64_t to = std::min(end, base + segment_blocks) - base;
        freed += free_blocks(node, from, to);
    };
    // A segment that is not in memory does not exist.
    if (first == last) {
        Node* const found = nodes_.find(key_of(change, first).view());
        if (found != nullptr && !found->loading && !found->is_absent()) free_in(*found, first);
        return freed;
    }
    nodes_.for_range(key_of(change, first).view(), key_of(change, last + 1).view(),
                     [&](Node& node) {
                         if (node.is_absent()) return;
                         free_in(node, parse_entry_key(node.key)->segment);
                     });
    return freed;
}

int64_t Applier::free_blocks(Node& node, uint64_t from, uint64_t to) {
    EntryValue& entry = *node.entry();
    int64_t freed = 0;
    to = std::min<uint64_t>(to, entry.map.end());
    for (uint64_t i = from; i < to; ++i) {
        const auto block = static_cast<uint32_t>(i);
        const BlockAddress address = entry.map.at(block).address;
        if (address.is_hole()) continue;
        if (freed == 0) nodes_.modify(node);
        effects_.freed(address, now_.group);
        entry.map.set(block, {});
        ++freed;
    }
    if (entry.kind == EntryValue::Kind::segment && entry.map.used() == 0 && freed > 0) {
        node.value = std::monostate{};
    }
    nodes_.charge(node);
    return freed;
}

int64_t Applier::put_blocks(const Change& change) {
    size_t from = 0;
    int64_t more = 0;
    for (uint8_t p = 0; p < change.piece_count; ++p) {
        const Change::Piece& piece = change.pieces[p];
        Node* at = nullptr;
        uint64_t segment = 0;
        for (uint32_t i = 0; i < piece.count; ++i) {
            const uint64_t block = piece.first + i;
            if (at == nullptr || block / segment_blocks != segment) {
                if (at != nullptr) nodes_.charge(*at);
                segment = block / segment_blocks;
                at = segment == 0 ? change.head : &node_at(nodes_, key_of(change, segment).view());
                nodes_.modify(*at);
                if (at->is_absent()) {
                    at->value.emplace<EntryValue>().kind = EntryValue::Kind::segment;
                }
            }
            BlockMap& map = at->entry()->map;
            const auto place = static_cast<uint32_t>(block % segment_blocks);
            const BlockAddress before = map.at(place).address;
            if (before.is_hole()) {
                ++more;
            } else {
                effects_.freed(before, now_.group);
            }
            const BlockRef& after = change.blocks[from + i];
            effects_.used(after.address);
            map.set(place, after);
            map.set_seal(place, change.value.empty() ? std::string_view()
                                                     : std::string_view(change.value)
                                                           .substr((from + i) * object::seal_bytes,
                                                                   object::seal_bytes));
        }
        if (at != nullptr) nodes_.charge(*at);
        from += piece.count;
    }
    return more;
}

// The difference is visible in the addresses only. So no summary changes, either.
void Applier::move(const Change& change) {
    Node& node = head_of(change);
    const Change::Piece& piece = change.pieces[0];
    const BlockAddress from{change.size};
    bool any = false;
    for (uint32_t i = 0; i < piece.count; ++i) {
        const BlockRef& after = change.blocks[i];
        const BlockRef before{from + i, after.crc};
        const auto place = static_cast<uint32_t>((piece.first + i) % segment_blocks);
        effects_.used(after.address);
        EntryValue* const entry = node.entry();
        if (entry == nullptr || entry->map.at(place) != before) {
            effects_.freed(after.address, now_.group);
            continue;
        }
        if (!any) nodes_.modify(node);
        any = true;
        effects_.freed(before.address, now_.group);
        entry->map.set(place, after);
    }
    if (any) nodes_.charge(node);
}

// ---- single values -------------------------------------------------------------------------

void Applier::put(const Change& change) {
    Node& head = head_of(change);
    SummaryChange summary = summary_of(change.object, change.dkey, change.akey, change.summary);
    nodes_.modify(head);
    if (head.is_absent()) {
        summary.entries = summary.values = 1;
        summary.bytes = counted_bytes(change.dkey.size(), change.akey.size(), 0);
        summary.highest = SummaryChange::Highest::raise;
    } else {
        summary.bytes = -static_cast<int64_t>(head.entry()->single.size());
    }
    summary.bytes += static_cast<int64_t>(change.value.size());
    EntryValue& entry = head.value.emplace<EntryValue>();
    entry.kind = EntryValue::Kind::single;
    entry.single = change.value;
    entry.size = change.value.size();
    entry.epoch = now_.epoch;
    entry.time = now_.time;
    nodes_.charge(head);
    effects_.summary(summary);
}

// ---- punches -------------------------------------------------------------------------------

void Applier::punch(Node& head, const EntryKey& key) {
    SummaryChange summary = summary_of(key.object, key.dkey, key.akey);
    nodes_.modify(head);
    const EntryValue& entry = *head.entry();
    summary.bytes = -counted_bytes(key.dkey.size(), key.akey.size(), entry.single.size());
    if (entry.kind == EntryValue::Kind::single) summary.values = -1;
    if (entry.kind == EntryValue::Kind::array) {
        Change all{
            .kind = Change::Kind::array, .object = key.object, .dkey = key.dkey, .akey = key.akey};
        all.hole_count = object::array_bytes_max / block_bytes;
        summary.blocks -= make_holes(all, entry.size);
    }
    head.value = std::monostate{};
    summary.entries = -1;
    summary.highest = SummaryChange::Highest::forget;
    nodes_.charge(head);
    effects_.summary(summary);
}

void Applier::punch_akey(const Change& change) {
    Node& head = head_of(change);
    if (head.is_absent()) return;
    punch(head, {now_.container, change.object, change.dkey, change.akey, 0});
}

void Applier::punch_entries(std::string_view from, std::string_view to) {
    std::vector<Node*> heads;
    nodes_.for_range(from, to, [&](Node& node) {
        if (node.entry() != nullptr && node.entry()->kind != EntryValue::Kind::segment) {
            heads.push_back(&node);
        }
    });
    for (Node* head : heads) {
        const auto key = parse_entry_key(head->key);
        ROS2S_CHECK(key.has_value());
        punch(*head, *key);
    }
}

void raise_highest(SummaryValue& summary, std::string_view dkey) {
    if (summary.entries == 1) {
        summary.highest_known = true;
        summary.highest = dkey;
    } else if (summary.highest_known && summary.highest < dkey) {
        summary.highest = dkey;
    }
}

}  // namespace

void apply_change(NodeCache& nodes, const Applying& now, const Change& change, Effects& effects) {
    using Kind = Change::Kind;
    Applier applier(nodes, now, effects);
    KeyBuilder object(Table::entries);
    switch (change.kind) {
        case Kind::array: applier.array(change); return;
        case Kind::put: applier.put(change); return;
        case Kind::move: applier.move(change); return;
        case Kind::punch_akey: applier.punch_akey(change); return;
        case Kind::punch_dkey:
            object.container(now.container).object(change.object).string(change.dkey);
            applier.punch_entries(object.view(), prefix_end(object.view()));
            return;
        case Kind::punch_dkeys: {
            KeyBuilder from = object.container(now.container).object(change.object);
            KeyBuilder to = from;
            from.string(change.dkey);
            if (change.dkey_end.empty()) {
                applier.punch_entries(from.view(), prefix_end(to.view()));
            } else {
                to.string(change.dkey_end);
                applier.punch_entries(from.view(), to.view());
            }
            return;
        }
        case Kind::punch_object:
            object.container(now.container).object(change.object);
            applier.punch_entries(object.view(), prefix_end(object.view()));
            effects.summary({.what = SummaryChange::What::object_punched,
                             .container = now.container,
                             .object = change.object});
            return;
        case Kind::create_container:
        case Kind::retire_container:
        case Kind::remove_container:
        case Kind::set_container: return;
    }
}

void apply_summary(NodeCache& nodes, const SummaryChange& change) {
    if (change.what == SummaryChange::What::object_punched) {
        KeyBuilder prefix(Table::summaries);
        prefix.container(change.container).object(change.object);
        nodes.for_range(prefix.view(), prefix_end(prefix.view()), [&](Node& node) {
            if (node.is_absent()) return;
            nodes.modify(node);
            node.value = std::monostate{};
            nodes.charge(node);
        });
        return;
    }
    Node& at =
        change.node != nullptr
            ? *change.node
            : node_at(nodes, summary_key(change.container, change.object, change.akey).view());
    nodes.modify(at);
    if (at.is_absent()) at.value.emplace<SummaryValue>();
    SummaryValue& summary = *at.summary();
    summary.last_epoch = change.epoch;
    summary.last_time = change.time;
    summary.entries += static_cast<uint64_t>(change.entries);
    summary.blocks += static_cast<uint64_t>(change.blocks);
    if (change.highest == SummaryChange::Highest::raise) raise_highest(summary, change.dkey);
    if (change.highest == SummaryChange::Highest::forget && summary.highest_known &&
        summary.highest == change.dkey) {
        summary.highest_known = false;
        summary.highest.clear();
    }
    nodes.charge(at);
}

}  // namespace ros2s::engine
