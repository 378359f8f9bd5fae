#include "draft.h"

#include <algorithm>

#include "ros2s/base/check.h"
#include "ros2s/base/crc32c.h"
#include "ros2s/engine/format/keys.h"

namespace ros2s::engine {
namespace {

using Kind = object::Operation::Kind;
constexpr uint64_t array_blocks_max = object::array_bytes_max / block_bytes;

bool same_akey(const Change& a, const Change& b) {
    return a.object == b.object && a.dkey == b.dkey && a.akey == b.akey;
}
// Returns true if the punch removes the akey of `change`.
bool punches(const Change& punch, const Change& change) {
    if (punch.object != change.object) return false;
    switch (punch.kind) {
        case Change::Kind::punch_akey: return same_akey(punch, change);
        case Change::Kind::punch_dkey: return punch.dkey == change.dkey;
        case Change::Kind::punch_dkeys:
            return change.dkey >= punch.dkey &&
                   (punch.dkey_end.empty() || change.dkey < punch.dkey_end);
        case Change::Kind::punch_object: return true;
        default: return false;
    }
}
bool touches(const Change& before, const Change& change) {
    return same_akey(before, change) || punches(before, change);
}

// Reader::pin() takes the object's lock on core 0. It must not find there what such a transaction
// is about to remove.
bool excludes_pins(const object::Condition& condition) {
    return condition.kind == object::Condition::Kind::unpinned;
}

bool whole_blocks(const object::Operation& operation) {
    return operation.kind == Kind::write && operation.extent.length > 0 &&
           operation.extent.offset % block_bytes == 0 && operation.extent.length % block_bytes == 0;
}

}  // namespace

// The blocks of a piece that no change looked at so far has decided. Taking them all takes linear
// time, however many changes overlap.
class Draft::UndecidedBlocks {
  public:
    explicit UndecidedBlocks(uint32_t count) : next_(count + 1), left_(count) {
        for (uint32_t i = 0; i <= count; ++i) next_[i] = i;
    }
    [[nodiscard]] bool empty() const { return left_ == 0; }
    [[nodiscard]] bool has(uint32_t block) const { return next_[block] == block; }
    // Decides the blocks of [from, to). Returns their number.
    uint32_t take(uint32_t from, uint32_t to) {
        uint32_t taken = 0;
        for (uint32_t at = find(from); at < to; at = find(at)) {
            next_[at] = at + 1;
            ++taken;
        }
        left_ -= taken;
        return taken;
    }

  private:
    // The first one from `block` on. Each look-up halves the path of later ones.
    uint32_t find(uint32_t block) {
        while (next_[block] != block) block = next_[block] = next_[next_[block]];
        return block;
    }

    std::vector<uint32_t> next_;  // itself, or one that is nearer to the next undecided block
    uint32_t left_;
};

// ---- build ---------------------------------------------------------------------------------

Result<> Draft::build(std::shared_ptr<const HomeDevices> homes) {
    homes_ = std::move(homes);
    for (const object::Operation& operation : request_.operations) {
        if (operation.kind == Kind::write) payload_bytes_ += operation.extent.length;
    }
    record_.container = container_;
    record_.changes.reserve(request_.operations.size());
    for (const object::Operation& operation : request_.operations) {
        if (!operation.window.is_local()) return fail(Code::unsupported);
        dropped_.push_back(0);
        Change& change = record_.changes.emplace_back();
        change.object = operation.object;
        if (operation.kind == Kind::punch_object) {
            change.kind = Change::Kind::punch_object;
            continue;
        }
        change.dkey = operation.dkey.bytes;
        if (operation.kind == Kind::punch_dkey) {
            change.kind = Change::Kind::punch_dkey;
            continue;
        }
        if (operation.kind == Kind::punch_dkeys) {
            change.kind = Change::Kind::punch_dkeys;
            change.dkey_end = operation.dkey_end.bytes;
            continue;
        }
        change.akey = operation.akey.bytes;
        if (operation.kind == Kind::punch_akey) {
            change.kind = Change::Kind::punch_akey;
        } else if (operation.kind == Kind::put) {
            change.kind = Change::Kind::put;
            change.value = as_text(operation.window.bytes());
        } else {
            build_array(operation, change);
        }
    }
    return {};
}

void Draft::build_array(const object::Operation& operation, Change& change) {
    change.kind = Change::Kind::array;
    const object::Extent& extent = operation.extent;
    if (operation.kind == Kind::write && extent.length > 0) {
        change.size_rule = Change::SizeRule::at_least;
        change.size = extent.end();
        const uint64_t first = extent.offset / block_bytes;
        const uint64_t last = (extent.end() - 1) / block_bytes;
        change.pieces[0] = {first, static_cast<uint32_t>(last - first + 1)};
        change.piece_count = 1;
        change.value = operation.seals;
        need(change, first, change.pieces[0].count);
    } else if (operation.kind == Kind::punch_extent && extent.length > 0) {
        change.hole_first = round_up(extent.offset, block_bytes) / block_bytes;
        const uint64_t end = extent.end() / block_bytes;
        change.hole_count = end > change.hole_first ? end - change.hole_first : 0;
        if (extent.offset % block_bytes != 0) need(change, extent.offset / block_bytes, 1);
        if (extent.end() % block_bytes != 0) need(change, end, 1);
    } else if (operation.kind == Kind::set_size) {
        change.size_rule = Change::SizeRule::exactly;
        change.size = operation.size;
        change.hole_first = round_up(operation.size, block_bytes) / block_bytes;
        change.hole_count = array_blocks_max - change.hole_first;
        const bool edge = operation.size % block_bytes != 0;
        if (edge) need(change, operation.size / block_bytes, 1);
    }
}

void Draft::need(const Change& change, uint64_t first_block, uint64_t blocks) {
    blocks_max_ += blocks;
    while (blocks > 0) {
        const uint64_t segment = first_block / segment_blocks;
        const uint64_t here = std::min(blocks, (segment + 1) * segment_blocks - first_block);
        const uint32_t device = homes_->home(payload_bytes_, change.object, change.dkey, segment);
        need_of(device).blocks_max += here;
        first_block += here;
        blocks -= here;
    }
}

Draft::Need& Draft::need_of(uint32_t device) {
    Need* const found = std::ranges::find(needs_, device, &Need::device);
    return found != needs_.end() ? *found : needs_.emplace_back(device);
}

void Draft::redirect(uint32_t from, uint32_t to) {
    if (redirected_.empty()) {
        for (uint32_t d = 0; d < homes_->devices(); ++d) redirected_.push_back(d);
    }
    for (uint32_t& device : redirected_) {
        if (device == from) device = to;
    }
    Need& emptied = need_of(from);
    const uint64_t moved = emptied.blocks_max;
    emptied = needs_.back();
    needs_.truncate(needs_.size() - 1);
    need_of(to).blocks_max += moved;
}

size_t Draft::record_bytes_max() const {
    // Edges can add two pieces of one block each.
    constexpr size_t edges = 2 * (12 + 12 + 4);
    size_t bytes = record_.encoded_bytes_max();
    for (const Change& change : record_.changes) {
        bytes += edges;
        for (uint8_t i = 0; i < change.piece_count; ++i) bytes += change.pieces[i].count * 16ULL;
    }
    return bytes;
}

bool Draft::concerns(uint32_t core) const {
    const auto asks = [&](const object::Condition& condition) {
        if (condition.is_about_holders()) return core == 0 && excludes_pins(condition);
        return condition.kind == object::Condition::Kind::no_dkeys ||
               is_on(core, condition.object, condition.dkey.bytes);
    };
    return std::ranges::any_of(request_.conditions, asks) ||
           std::ranges::any_of(changes(), [&](const Change& one) { return is_on(core, one); });
}

// Locks on a whole object are taken on every core, so locks on a core's own dkeys need no other
// core.
KeyLocks::WantedLocks Draft::locks(uint32_t core) const {
    KeyLocks::WantedLocks wanted;
    wanted.reserve(2 * (request_.conditions.size() + request_.operations.size()));
    using Judge = object::Condition::Kind;
    for (const object::Condition& condition : request_.conditions) {
        const uint64_t object = lock_names_.of(container_, condition.object);
        if (condition.is_about_holders()) {
            // The objects of the others are some that the operations lock.
            if (core == 0 && excludes_pins(condition)) {
                wanted.push_back({object, KeyLockMode::exclusive});
            }
            continue;
        }
        if (condition.kind == Judge::no_dkeys) {
            wanted.push_back({object, KeyLockMode::shared});
            continue;
        }
        if (!is_on(core, condition.object, condition.dkey.bytes)) continue;
        wanted.push_back({object, KeyLockMode::intent_shared});
        wanted.push_back({LockNames::of(object, condition.dkey.bytes), KeyLockMode::shared});
    }
    for (const object::Operation& operation : request_.operations) {
        const uint64_t object = lock_names_.of(container_, operation.object);
        if (operation.kind == Kind::punch_object || operation.kind == Kind::punch_dkeys) {
            wanted.push_back({object, KeyLockMode::exclusive});
            continue;
        }
        if (!is_on(core, operation.object, operation.dkey.bytes)) continue;
        wanted.push_back({object, KeyLockMode::intent_update});
        wanted.push_back(
            {LockNames::of(object, operation.dkey.bytes),
             whole_blocks(operation) ? KeyLockMode::intent_update : KeyLockMode::exclusive});
    }
    KeyLocks::prepare(wanted);
    return wanted;
}

// ---- plan ----------------------------------------------------------------------------------

const EntryValue* Draft::visible(const Change& change, uint64_t segment) const {
    if (segment == 0) return change.head->entry();
    const KeyBuilder key = entry_key(container_, change.object, change.dkey, change.akey,
                                     static_cast<uint32_t>(segment));
    const Node* const node = nodes_->find(key.view());
    return node == nullptr || node->loading ? nullptr : node->entry();
}

Draft::Presence Draft::presence(size_t index) const {
    const Change& change = record_.changes[index];
    for (size_t i = index; i-- > 0;) {
        const Change& before = record_.changes[i];
        if (dropped_[i] != 0 || !touches(before, change)) continue;
        if (before.kind == Change::Kind::array) return Presence::array;
        return before.kind == Change::Kind::put ? Presence::single : Presence::absent;
    }
    const EntryValue* const entry = visible(change, 0);
    if (entry == nullptr) return Presence::absent;
    return entry->kind == EntryValue::Kind::array ? Presence::array : Presence::single;
}

bool Draft::touched_before(size_t index) const {
    for (size_t i = 0; i < index; ++i) {
        if (touches(record_.changes[i], record_.changes[index])) return true;
    }
    return false;
}

std::optional<Draft::Source> Draft::made_before(size_t index, uint64_t block) const {
    const Change& change = record_.changes[index];
    for (size_t i = index; i-- > 0;) {
        const Change& before = record_.changes[i];
        if (dropped_[i] != 0) continue;
        if (punches(before, change)) return Source{};
        if (!same_akey(before, change)) continue;
        if (before.kind == Change::Kind::put) return Source{};
        size_t at = 0;
        for (uint8_t p = 0; p < before.piece_count; ++p) {
            const Change::Piece& piece = before.pieces[p];
            if (block >= piece.first && block < piece.first + piece.count) {
                // While planning nothing is staged yet. Then it matters only that it will be.
                const size_t place = at + (block - piece.first);
                const bool known = place < before.blocks.size();
                return Source{Source::From::staged, known ? before.blocks[place] : BlockRef{}};
            }
            at += piece.count;
        }
        if (block >= before.hole_first && block - before.hole_first < before.hole_count) {
            return Source{};
        }
    }
    return {};
}

Draft::Source Draft::locate(size_t index, uint64_t block) const {
    if (const auto made = made_before(index, block)) return *made;
    const Change& change = record_.changes[index];
    const EntryValue* const entry = visible(change, block / segment_blocks);
    if (entry == nullptr) return {};
    const BlockRef found = entry->map.at(static_cast<uint32_t>(block % segment_blocks));
    if (found.address.is_hole()) return {};
    return {Source::From::media, found};
}

void Draft::add_edge(uint32_t index, uint64_t block) {
    const Source source = locate(index, block);
    if (source.from != Source::From::media) return;
    edges_.push_back({index, block, source.block, {}});
}

void Draft::plan_write(uint32_t index) {
    const object::Extent& extent = request_.operations[index].extent;
    const uint64_t first = extent.offset / block_bytes;
    const uint64_t last = (extent.end() - 1) / block_bytes;
    const bool first_in_part = extent.offset % block_bytes != 0;
    if (first_in_part) add_edge(index, first);
    if (extent.end() % block_bytes == 0 || (first == last && first_in_part)) return;
    // The bytes beyond the array's end are zeros: no need to read them.
    const EntryValue* const entry = visible(record_.changes[index], 0);
    const uint64_t size = entry != nullptr ? entry->size : 0;
    if (!touched_before(index) && extent.end() >= size) return;
    add_edge(index, last);
}

// punch_extent, set_size: partly covered blocks with data are written again with zeros.
void Draft::plan_zeroes(uint32_t index) {
    const object::Operation& operation = request_.operations[index];
    Change& change = record_.changes[index];
    uint64_t candidates[2];
    size_t count = 0;
    if (operation.kind == Kind::set_size) {
        const EntryValue* const entry = visible(change, 0);
        const bool grows = (entry != nullptr ? entry->size : 0) <= operation.size;
        if (operation.size % block_bytes == 0 || (grows && !touched_before(index))) return;
        candidates[count++] = operation.size / block_bytes;
    } else if (operation.extent.length > 0) {
        const object::Extent& extent = operation.extent;
        const uint64_t first = extent.offset / block_bytes;
        const uint64_t last = (extent.end() - 1) / block_bytes;
        if (extent.offset % block_bytes != 0) candidates[count++] = first;
        const bool again = count > 0 && first == last;
        if (extent.end() % block_bytes != 0 && !again) candidates[count++] = last;
    }
    for (size_t i = 0; i < count; ++i) {
        if (locate(index, candidates[i]).from == Source::From::hole) continue;
        add_edge(index, candidates[i]);
        change.pieces[change.piece_count++] = {candidates[i], 1};
    }
}

Result<> Draft::plan(uint32_t core, NodeCache& nodes) {
    nodes_ = &nodes;
    for (uint32_t i = 0; i < record_.changes.size(); ++i) {
        const Change& change = record_.changes[i];
        if (!is_on(core, change)) continue;
        const bool array = change.kind == Change::Kind::array;
        if (!array && change.kind != Change::Kind::put) continue;
        const Presence now = presence(i);
        if (now == (array ? Presence::single : Presence::array)) return fail(Code::invalid);
        if (!array) continue;
        const Kind kind = request_.operations[i].kind;
        if (kind == Kind::punch_extent && now == Presence::absent) {
            dropped_[i] = 1;
        } else if (kind == Kind::write && change.piece_count > 0) {
            plan_write(i);
        } else if (kind == Kind::punch_extent || kind == Kind::set_size) {
            plan_zeroes(i);
        }
        if (in_place_ && holes_to_fill(i) > 0) return fail(Code::no_space);
    }
    return {};
}

// ---- blocks that small writes change ------------------------------------------------------

uint64_t Draft::array_name(const Change& change) const {
    const uint64_t object = lock_names_.of(container_, change.object);
    return LockNames::of(LockNames::of(object, change.dkey), change.akey);
}

Draft::Edge* Draft::edge(size_t index, uint64_t block) {
    const auto found = std::ranges::find_if(
        edges_, [&](const Edge& one) { return one.operation == index && one.block == block; });
    return found == edges_.end() ? nullptr : &*found;
}

void Draft::take_partial_blocks(uint32_t core, PartialBlocks& known) {
    if (!known.was_used()) return;
    for (size_t i = 0; i < record_.changes.size(); ++i) {
        const Change& change = record_.changes[i];
        if (change.piece_count == 0 || !is_on(core, change)) continue;
        const uint64_t array = array_name(change);
        for (Edge& edge : edges_) {
            if (edge.operation != i || edge.memory.size() != 0) continue;
            edge.memory = known.take({array, edge.block}, edge.base.crc);
        }
        for (uint8_t p = 0; p < change.piece_count; ++p) {
            known.drop({array, change.pieces[p].first}, change.pieces[p].count);
        }
    }
}

bool Draft::is_worth_keeping(size_t index) const {
    const object::Operation& operation = request_.operations[index];
    if (operation.kind != Kind::write || operation.extent.length >= block_bytes) return false;
    for (size_t i = 0; i < record_.changes.size(); ++i) {
        if (i != index && touches(record_.changes[i], record_.changes[index])) return false;
    }
    return true;
}

void Draft::keep(size_t index, uint64_t block, const std::byte* memory) {
    const Change& change = record_.changes[index];
    Edge* kept = edge(index, block);
    if (kept == nullptr) {
        kept = &edges_.emplace_back(Edge{.operation = static_cast<uint32_t>(index)});
        kept->block = block;
        kept->memory = AlignedBuffer(block_bytes);
    }
    std::memcpy(kept->memory.data(), memory, block_bytes);
    kept->is_kept = true;
    kept->core = partition_.core_of(container_, change.object, change.dkey);
    kept->name = {array_name(change), block};
}

void Draft::keep_partial_blocks(uint32_t core, PartialBlocks& known) {
    for (Edge& edge : edges_) {
        if (edge.is_kept && edge.core == core) {
            known.add(edge.name, std::move(edge.memory));
        }
    }
}

// ---- measure -------------------------------------------------------------------------------

std::optional<size_t> Draft::value_before(size_t index) const {
    const Change& change = record_.changes[index];
    for (size_t i = index; i-- > 0;) {
        const Change& before = record_.changes[i];
        if (dropped_[i] != 0 || !touches(before, change)) continue;
        if (before.kind != Change::Kind::put) return {};
        return before.value.size();
    }
    const EntryValue* const entry = visible(change, 0);
    if (entry == nullptr || entry->kind != EntryValue::Kind::single) return {};
    return entry->single.size();
}

// From the last operation back: the last one that changes a block decides.
int64_t Draft::holes_made_before(size_t index, const Change::Piece& piece,
                                 UndecidedBlocks& blocks) const {
    const Change& change = record_.changes[index];
    const auto take = [&](uint64_t first, uint64_t count) -> int64_t {
        const uint64_t from = std::max(first, piece.first);
        const uint64_t to = std::min(first + count, piece.first + piece.count);
        if (from >= to) return 0;
        return blocks.take(static_cast<uint32_t>(from - piece.first),
                           static_cast<uint32_t>(to - piece.first));
    };
    int64_t holes = 0;
    for (size_t i = index; i-- > 0 && !blocks.empty();) {
        const Change& before = record_.changes[i];
        if (dropped_[i] != 0 || !touches(before, change)) continue;
        if (before.kind != Change::Kind::array) return holes + take(piece.first, piece.count);
        for (uint8_t p = 0; p < before.piece_count; ++p) {
            take(before.pieces[p].first, before.pieces[p].count);
        }
        holes += take(before.hole_first, before.hole_count);
    }
    return holes;
}

int64_t Draft::holes_to_fill(size_t index) const {
    const Change& change = record_.changes[index];
    const bool again = touched_before(index);
    int64_t holes = 0;
    for (uint8_t p = 0; p < change.piece_count; ++p) {
        const Change::Piece& piece = change.pieces[p];
        std::optional<UndecidedBlocks> blocks;
        if (again) holes += holes_made_before(index, piece, blocks.emplace(piece.count));
        const EntryValue* entry = nullptr;
        uint64_t segment = UINT64_MAX;
        for (uint32_t i = 0; i < piece.count; ++i) {
            if (blocks && !blocks->has(i)) continue;
            const uint64_t block = piece.first + i;
            if (block / segment_blocks != segment) {
                segment = block / segment_blocks;
                entry = visible(change, segment);
            }
            const auto place = static_cast<uint32_t>(block % segment_blocks);
            if (entry == nullptr || entry->map.at(place).address.is_hole()) ++holes;
        }
    }
    return holes;
}

// Of a dkey, dkeys or an object. If an earlier operation has changed something there, what it adds
// is not known here to be removed.
void Draft::measure_removal(size_t index) {
    const Change& change = record_.changes[index];
    for (size_t i = 0; i < index; ++i) {
        if (record_.changes[i].object == change.object) return;
    }
    KeyBuilder from(Table::entries);
    from.container(container_).object(change.object);
    std::string end = prefix_end(from.view());
    if (change.kind != Change::Kind::punch_object) from.string(change.dkey);
    if (change.kind == Change::Kind::punch_dkey) end = prefix_end(from.view());
    if (change.kind == Change::Kind::punch_dkeys && !change.dkey_end.empty()) {
        KeyBuilder to(Table::entries);
        end = to.container(container_).object(change.object).string(change.dkey_end).take();
    }
    nodes_->for_range(from.view(), end, [&](const Node& node) {
        const EntryValue* const entry = node.entry();
        if (entry == nullptr || entry->kind == EntryValue::Kind::segment) return;
        const auto key = parse_entry_key(node.key);
        ROS2S_CHECK(key.has_value());
        growth_.bytes -= counted_bytes(key->dkey.size(), key->akey.size(), entry->single.size());
        if (entry->kind == EntryValue::Kind::single) --growth_.values;
    });
}

void Draft::measure(uint32_t core) {
    using Of = Change::Kind;
    for (size_t i = 0; i < record_.changes.size(); ++i) {
        const Change& change = record_.changes[i];
        if (dropped_[i] != 0 || !is_on(core, change)) continue;
        if (change.kind != Of::array && change.kind != Of::put && change.kind != Of::punch_akey) {
            measure_removal(i);
            continue;
        }
        const std::optional<size_t> value = value_before(i);
        const bool absent = presence(i) == Presence::absent;
        const int64_t keys = counted_bytes(change.dkey.size(), change.akey.size(), 0);
        const auto before = static_cast<int64_t>(value.value_or(0));
        if (change.kind == Of::punch_akey) {
            if (!absent) growth_.bytes -= keys + before;
            if (value) --growth_.values;
            continue;
        }
        if (absent) growth_.bytes += keys;
        if (change.kind == Of::array) {
            growth_.blocks += holes_to_fill(i);
        } else {
            growth_.bytes += static_cast<int64_t>(change.value.size()) - before;
            if (!value) ++growth_.values;
        }
    }
}

// ---- stage ---------------------------------------------------------------------------------

void Draft::fill_base(Group& group, size_t index, uint64_t block, std::byte* memory) {
    const std::optional<Source> made = made_before(index, block);
    if (made && made->from == Source::From::staged) {
        const BlockAddress at = made->block.address;
        std::memcpy(memory, group.memory({at.device(), at.block()}), block_bytes);
        return;
    }
    if (const Edge* const old = edge(index, block)) {
        std::memcpy(memory, old->memory.data(), block_bytes);
        return;
    }
    std::memset(memory, 0, block_bytes);
}

// Puts the result of operation `index` on `block` into engine memory, and compares the copy.
Result<> Draft::fill(Group& group, size_t index, uint64_t block, std::byte* memory, uint32_t& crc) {
    const object::Operation& operation = request_.operations[index];
    const uint64_t start = block * block_bytes;
    const object::Extent extent =
        operation.kind == Kind::set_size
            ? object::Extent{operation.size, round_up(operation.size, block_bytes) - operation.size}
            : operation.extent;
    const uint64_t from = std::max(extent.offset, start) - start;
    const uint64_t to = std::min(extent.end(), start + block_bytes) - start;
    const bool whole = from == 0 && to == block_bytes;
    if (!whole) fill_base(group, index, block, memory);
    if (operation.kind != Kind::write) {
        std::memset(memory + from, 0, to - from);
        crc = crc32c({memory, block_bytes});
        return {};
    }
    std::memcpy(memory + from, operation.window.bytes().data() + (start + from - extent.offset),
                to - from);
    crc = crc32c({memory, block_bytes});
    if (!whole && is_worth_keeping(index)) keep(index, block, memory);
    if (operation.checksums.empty()) return {};
    const uint32_t claimed = operation.checksums[block - extent.offset / block_bytes];
    const uint32_t found = whole ? crc : crc32c({memory + from, to - from});
    return claimed == found ? Result<>() : fail(Code::corrupt);
}

Result<> Draft::stage_change(Group& group, size_t index) {
    Change& change = record_.changes[index];
    if (change.kind == Change::Kind::put) {
        const object::Operation& operation = request_.operations[index];
        if (operation.checksums.empty()) return {};
        const bool same = crc32c(as_bytes(change.value)) == operation.checksums[0];
        return same ? Result<>() : fail(Code::corrupt);
    }
    size_t total = 0;
    for (uint8_t p = 0; p < change.piece_count; ++p) total += change.pieces[p].count;
    change.blocks.reserve(total);
    for (uint8_t p = 0; p < change.piece_count; ++p) {
        const Change::Piece& piece = change.pieces[p];
        for (uint64_t block = piece.first; block < piece.first + piece.count; ++block) {
            uint32_t device =
                homes_->home(payload_bytes_, change.object, change.dkey, block / segment_blocks);
            if (!redirected_.empty()) device = redirected_[device];
            StagedBlock where;
            std::byte* const memory = group.stage(device, where);
            ++need_of(device).staged;
            BlockRef& ref = change.blocks.emplace_back();
            ref.address = BlockAddress::make(where.device, where.ordinal);
            ROS2S_TRY(fill(group, index, block, memory, ref.crc));
        }
    }
    return {};
}

Result<> Draft::stage(Group& group) {
    Result<> result;
    for (size_t i = 0; i < record_.changes.size() && result; ++i) {
        if (dropped_[i] == 0) result = stage_change(group, i);
    }
    if (!result) {
        for (Change& change : record_.changes) {
            for (const BlockRef& block : change.blocks) group.unstage(block.address.device());
            change.blocks.clear();
        }
        return result;
    }
    size_t kept = 0;
    for (size_t i = 0; i < record_.changes.size(); ++i) {
        if (dropped_[i] != 0) continue;
        if (kept != i) record_.changes[kept] = std::move(record_.changes[i]);
        ++kept;
    }
    record_.changes.truncate(kept);
    return {};
}

}  // namespace ros2s::engine
