#include "cleaner.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <tuple>

#include "draft.h"
#include "ros2s/base/crc32c.h"
#include "ros2s/engine/format/keys.h"
#include "ros2s/runtime/nursery.h"

namespace ros2s::engine {
namespace {

// Of the blocks of a device that are not used, one in so many shall be in clear sections: a pass
// begins below the first, and goes on to the second. Beside many updates it begins when small ones
// take no clear sections any more (SpaceMap::clear_left_share).
constexpr uint64_t clear_share_least = 4;
constexpr uint64_t clear_share_most = 2;
// Beside many updates it goes on to this part only: the victims' free blocks are not used
// meanwhile.
constexpr uint64_t clear_share_busy = SpaceMap::clear_left_share / 2;
// A pass looks at all entries, so it begins when it may move at least this part of the blocks that
// are not used.
constexpr uint64_t moves_share_least = 32;
// An update finds room beside the cleaner: at least this part of the blocks that are not used.
constexpr uint64_t room_share = 4;

constexpr uint64_t credit_share = 4;

constexpr uint64_t list_share = 64;
// Of the list, for one block whose segment has no other block in it: Listed and a usual key.
constexpr uint64_t list_bytes_each = 128;
constexpr size_t key_bytes_fixed = sizeof(std::string) + 8;

constexpr size_t page_entries = 64;
constexpr size_t reads_side_by_side = 8;
// A read goes on over so many blocks that are not moved.
constexpr uint64_t gap_blocks_max = 16;
constexpr Duration pause_least = std::chrono::microseconds(100);
// So much longer are pauses beside many updates.
constexpr int64_t pause_factor_busy = 9;
constexpr Duration look_time = std::chrono::milliseconds(10);

}  // namespace

// The locks that it holds on one core while a batch is moved; taken and released there.
struct Cleaner::Visit {
    explicit Visit(Core& visited) : core(visited), locked(visited.locks), pins(visited.cache) {}
    Core& core;
    LocksHeld locked;
    Pins pins;
    // The old places are not reused before the move is published. So a place with the same address
    // as before still has the same block.
    std::optional<ReadPins::Pin> reading;
};

Cleaner::Cleaner(Cores& cores, State& state, Publisher& publisher, Committer& committer,
                 Checkpointer& checkpointer, const Journal& journal, const EngineOptions& options)
    : cores_(cores),
      state_(state),
      publisher_(publisher),
      committer_(committer),
      checkpointer_(checkpointer),
      reactor_(cores.home().env.reactor),
      percent_(options.cleaner_percent),
      yields_at_(options.cleaner_yields_at),
      list_bytes_max_(options.memory_bytes / list_share),
      batch_blocks_max_(std::clamp<uint64_t>(options.staging_share() / 16 / block_bytes, 1,
                                             state.space.section_blocks())),
      record_bytes_max_(journal.record_blocks_max() * block_bytes / 2),
      ended_(reactor_) {}

Task<> Cleaner::run() {
    running_ = true;
    while (!is_over()) {
        note_updates();
        if (!is_due(clear_share_least)) {
            co_await committer_.progress();
        } else if (!is_busy() || is_due(SpaceMap::clear_left_share)) {
            co_await pass();
        } else {
            (void)co_await sleep_for(reactor_, look_time, stop_.token());
        }
    }
    running_ = false;
    ended_.wake_all();
}

Task<> Cleaner::stop() {
    stopping_ = true;
    stop_.request_stop();
    committer_.progress().wake_all();
    while (running_) co_await ended_;
}

Task<> Cleaner::pause(Time begun) {
    const Duration worked = reactor_.now() - begun;
    const Duration pause = std::max(worked * (is_busy() ? pause_factor_busy : 1), pause_least);
    (void)co_await sleep_for(reactor_, pause, stop_.token());
}

bool Cleaner::is_busy() {
    const Time now = reactor_.now();
    if (now - looked_ >= look_time) {
        const uint64_t updates = cores_.home().metrics.updates.value();
        const auto ms = static_cast<uint64_t>((now - looked_) / std::chrono::milliseconds(1));
        busy_ = (updates - seen_updates_) * 1000 > yields_at_ * ms;
        seen_updates_ = updates;
        looked_ = now;
    }
    return busy_;
}

// ---- when ----------------------------------------------------------------------------------

void Cleaner::note_updates() {
    const uint64_t now = cores_.home().metrics.update_bytes.value();
    const uint64_t blocks = (now - seen_bytes_) / block_bytes;
    seen_bytes_ = now;
    // More than moves a part of the pool is not kept for later.
    const uint64_t most = state_.space.total_blocks() / credit_share;
    credit_ = std::min(credit_ + blocks * percent_, most * 100);
}

bool Cleaner::is_due(uint64_t clear_share) const {
    const SpaceMap& space = state_.space;
    const uint64_t section = space.section_blocks();
    for (uint32_t d = 0; d < space.devices(); ++d) {
        const uint64_t unused = space.unused_blocks(d);
        const bool is_needed = unused >= clear_share_most * section &&
                               space.clear_blocks(d) < std::max(unused / clear_share, section);
        const uint64_t moves_least = std::max(unused / moves_share_least, section);
        if (is_needed && has_room(d) && credit_ / 100 >= moves_least) return true;
    }
    return false;
}

bool Cleaner::has_room(uint32_t device) const {
    const SpaceMap& space = state_.space;
    return space.available_blocks(device) >
           space.unused_blocks(device) / room_share + 2 * space.section_blocks();
}

bool Cleaner::choose() {
    SpaceMap& space = state_.space;
    space.forget_victims();
    uint64_t moves_max =
        std::min(credit_ / 100, std::max<uint64_t>(list_bytes_max_ / list_bytes_each, 1));
    const uint64_t share = is_busy() ? clear_share_busy : clear_share_most;
    bool any = false;
    for (uint32_t d = 0; d < space.devices(); ++d) {
        const uint64_t wanted =
            std::max<uint64_t>(space.unused_blocks(d) / share, space.section_blocks());
        if (space.clear_blocks(d) >= wanted || !has_room(d)) continue;
        const uint64_t moves = space.choose_victims(d, wanted - space.clear_blocks(d), moves_max);
        any = any || moves > 0;
        moves_max -= std::min(moves, moves_max);
    }
    return any;
}

Task<> Cleaner::pass() {
    counters.passes.add();
    const uint64_t before = counters.moved_blocks.value();
    if (choose() && co_await collect()) co_await move_all();
    keys_ = {};
    listed_ = {};
    list_bytes_ = 0;
    const uint64_t moved = counters.moved_blocks.value() - before;
    const uint64_t least = state_.space.section_blocks();
    // There was nothing to gain. It is tried again when updates have changed something.
    if (moved == 0) credit_ = 0;
    // A pass reads the whole index, also if most of its victims cannot be emptied.
    if (moved < least) credit_ -= std::min(credit_, (least - moved) * 100);
}

// ---- which blocks --------------------------------------------------------------------------

// Lists the victims' used blocks. False: it need not go on.
Task<bool> Cleaner::collect() {
    KeyBuilder entries(Table::entries);
    const std::string to = prefix_end(entries.view());
    std::string from = entries.take();
    for (bool more = true; more && list_bytes_ < list_bytes_max_;) {
        const Time begun = reactor_.now();
        if (!co_await take_page(from, to, more)) co_return false;
        co_await pause(begun);
        if (is_over()) co_return false;
    }
    co_return !listed_.empty();
}

Task<bool> Cleaner::take_page(std::string& from, const std::string& to, bool& more) {
    const Result<Loader::Page> page = co_await cores_.scan(std::move(from), to, page_entries);
    // A reader of the same entry reports it.
    if (!page) co_return false;
    for (const Loader::Item& item : page->items) {
        if (item.node != nullptr) {
            if (const EntryValue* entry = item.node->entry()) {
                if (!take(item.key, *entry)) break;
            }
            continue;
        }
        const Result<EntryValue> entry = decode_entry(item.raw);
        if (entry && !take(item.key, *entry)) break;
    }
    more = page->more;
    from = page->next;
    co_return true;
}

// False: the list is full.
bool Cleaner::take(const std::string& key, const EntryValue& entry) {
    bool any = false;
    for (uint32_t i = 0; i < entry.map.end(); ++i) {
        const BlockAddress address = entry.map.at(i).address;
        // No reader has checked this entry, nor its key.
        if (address.is_hole() || !state_.space.contains(address)) continue;
        if (!state_.space.is_victim(address)) continue;
        if (!any) {
            if (!parse_entry_key(key)) return true;
            keys_.push_back(key);
            list_bytes_ += key_bytes_fixed + key.size();
        }
        any = true;
        listed_.push_back({address, static_cast<uint32_t>(keys_.size() - 1), i});
        list_bytes_ += sizeof(Listed);
    }
    return list_bytes_ < list_bytes_max_;
}

object::ContainerId Cleaner::container_of(const Listed& listed) const {
    object::ContainerId id;
    const std::string& key = keys_[listed.key];
    std::memcpy(id.uuid.bytes.data(), key.data() + 1, sizeof id.uuid.bytes);
    return id;
}

// ---- moving --------------------------------------------------------------------------------

Task<> Cleaner::move_all() {
    const uint64_t section = state_.space.section_blocks();
    // Section by section, and there in the order of their keys: by containers, and files.
    std::ranges::sort(listed_, {}, [&](const Listed& one) {
        return std::tuple(one.address.value / section, one.key, one.block);
    });
    memory_ = AlignedBuffer(section * block_bytes);
    for (size_t at = 0; at < listed_.size() && !is_over();) {
        const Time begun = reactor_.now();
        const size_t count = batch_from(at);
        if (!co_await move(std::span<const Listed>(listed_).subspan(at, count))) break;
        at += count;
        co_await pause(begun);
    }
    memory_ = {};
}

// The number of blocks from there on that one transaction moves.
size_t Cleaner::batch_from(size_t at) const {
    const uint64_t section = state_.space.section_blocks();
    const Listed& first = listed_[at];
    const object::ContainerId container = container_of(first);
    uint64_t record_bytes = TransactionRecord().encoded_bytes_max();
    size_t count = 0;
    while (at + count < listed_.size() && count < batch_blocks_max_) {
        const Listed& next = listed_[at + count];
        record_bytes += Change::encoded_bytes_fixed + keys_[next.key].size();
        if (next.address.value / section != first.address.value / section ||
            container_of(next) != container || (count > 0 && record_bytes > record_bytes_max_)) {
            break;
        }
        ++count;
    }
    return count;
}

// False: the pass is over.
Task<bool> Cleaner::move(std::span<const Listed> batch) {
    SpaceMap& space = state_.space;
    if (checkpointer_.is_behind()) co_await checkpointer_.catch_up();
    const uint32_t device = batch[0].address.device();
    // An update that is short of space makes the victims ordinary sections. The old blocks may not
    // be available yet.
    if (is_over() || space.available_blocks(device) <= space.section_blocks()) co_return false;
    if (!space.is_victim(batch[0].address)) co_return true;
    uint64_t reserved = batch.size();
    if (!space.reserve(device, reserved)) co_return false;
    space.begin_move(batch.size());
    std::deque<Visit> visits;
    for (uint32_t i = 0; i < cores_.size(); ++i) visits.emplace_back(cores_[i]);
    const Result<> done = co_await carry_out(batch, visits, reserved);
    for (Visit& visit : visits) co_await at(visit.core, cores_.home(), release_at(visit));
    space.unreserve(device, reserved);
    space.end_move(batch.size());
    cores_.home().trim();
    committer_.progress().wake_all();
    checkpointer_.request_if_due();
    // Anything else than a dead committer concerns these blocks alone.
    co_return done || !committer_.is_dead();
}

Task<> Cleaner::release_at(Visit& visit) {
    visit.pins.clear();
    visit.locked.clear();
    const bool was_reading = visit.reading.has_value();
    visit.reading.reset();
    visit.core.trim();
    if (was_reading) publisher_.read_ended(visit.core);
    co_return;
}

Task<Result<>> Cleaner::carry_out(std::span<const Listed> batch, std::deque<Visit>& visits,
                                  uint64_t& reserved) {
    // A container that is being removed keeps its blocks until that is done.
    if (!state_.has_container(container_of(batch[0]))) co_return fail(Code::not_found);
    std::vector<Candidate> found;
    found.reserve(batch.size());
    for (Visit& visit : visits) {
        ROS2S_CO_TRY(co_await at(visit.core, cores_.home(), find_at(visit, batch, found)));
    }
    co_await read(found);
    if (found.empty()) co_return Result<>();
    TransactionRecord record;
    record.container = container_of(batch[0]);
    make_changes(found, record);
    ROS2S_CO_TRY(co_await committer_.admit(record.encoded_bytes_max(), found.size()));
    if (!state_.has_container(record.container)) co_return fail(Code::not_found);
    // From here to the commit nothing suspends.
    Group& group = committer_.open();
    const uint32_t device = batch[0].address.device();
    for (Change& change : record.changes) {
        for (BlockRef& block : change.blocks) {
            StagedBlock where;
            std::memcpy(group.stage(device, where), memory_of(block.address), block_bytes);
            block.address = BlockAddress::make(where.device, where.ordinal);
        }
    }
    state_.space.unreserve(device, reserved - found.size());
    reserved = 0;
    for (const Visit& visit : visits) group.hold(visit.pins.nodes());
    const auto committed = co_await committer_.commit(std::move(record));
    if (!committed) co_return fail(committed.error());
    counters.moved_blocks.add(found.size());
    credit_ -= std::min(credit_, found.size() * 100);
    co_return Result<>();
}

// On that core: locks as for writes of whole blocks, which need no order among each other. Other
// updates of these dkeys wait, or are waited for.
Task<Result<>> Cleaner::find_at(Visit& visit, std::span<const Listed> batch,
                                std::vector<Candidate>& found) {
    Core& core = visit.core;
    KeyLocks::WantedLocks wanted;
    std::vector<std::pair<const std::string*, size_t>> here;  // keys, and their first blocks
    for (size_t i = 0; i < batch.size(); ++i) {
        if (i > 0 && batch[i].key == batch[i - 1].key) continue;
        const std::string& key = keys_[batch[i].key];
        const auto entry = parse_entry_key(key);
        if (!entry) co_return fail(Code::corrupt);
        if (&cores_.of(entry->container, entry->object, entry->dkey) != &core) continue;
        here.emplace_back(&key, i);
        const uint64_t object = cores_.lock_names().of(entry->container, entry->object);
        wanted.push_back({object, KeyLockMode::intent_update});
        wanted.push_back({LockNames::of(object, entry->dkey), KeyLockMode::intent_update});
    }
    if (here.empty()) co_return Result<>();
    KeyLocks::prepare(wanted);
    co_await visit.locked.lock(std::move(wanted));
    visit.reading.emplace(core.reads, core.visible);
    for (const auto& [key, first] : here) {
        ROS2S_CO_TRY_ASSIGN(Node * node,
                            co_await core.loader.load(*key, Loader::Purpose::changing));
        visit.pins.adopt(*node);
        const EntryValue* const entry = node->entry();
        for (size_t i = first; i < batch.size() && batch[i].key == batch[first].key; ++i) {
            if (entry == nullptr) continue;
            const BlockRef block = entry->map.at(batch[i].block);
            if (block.address == batch[i].address) found.push_back({block, &batch[i], node});
        }
    }
    co_return Result<>();
}

std::byte* Cleaner::memory_of(BlockAddress address) const {
    return memory_.data() + address.block() % state_.space.section_blocks() * block_bytes;
}

// Reads the blocks in few pieces, and drops those that are not what they should be.
Task<> Cleaner::read(std::vector<Candidate>& found) {
    std::ranges::sort(found, {}, [](const Candidate& one) { return one.block.address; });
    Nursery nursery(reactor_, reads_side_by_side);
    for (size_t at = 0; at < found.size();) {
        size_t end = at + 1;
        while (end < found.size() &&
               found[end].block.address.block() - found[end - 1].block.address.block() <=
                   gap_blocks_max) {
            ++end;
        }
        co_await nursery.spawn(read_span(std::span(found).subspan(at, end - at)));
        at = end;
    }
    co_await nursery.join();
    std::erase_if(found, [](const Candidate& one) { return one.listed == nullptr; });
}

Task<> Cleaner::read_span(std::span<Candidate> span) {
    const BlockAddress first = span.front().block.address;
    const uint64_t blocks = span.back().block.address.block() - first.block() + 1;
    const Bytes into{memory_of(first), blocks * block_bytes};
    const Result<> done =
        co_await cores_.home().devices[first.device()]->read(first.block() * block_bytes, into);
    for (Candidate& one : span) {
        const ConstBytes bytes{memory_of(one.block.address), block_bytes};
        if (done && crc32c(bytes) == one.block.crc) continue;
        // A reader of the block reports it. Here it only stays where it is.
        state_.space.spare(one.block.address);
        counters.spared_blocks.add();
        one.listed = nullptr;
    }
}

// One change for each run: in the array and on the device.
void Cleaner::make_changes(std::span<Candidate> found, TransactionRecord& record) const {
    std::ranges::sort(found, {}, [](const Candidate& one) {
        return std::pair(one.listed->key, one.listed->block);
    });
    Change* last = nullptr;
    const Listed* before = nullptr;
    for (const Candidate& one : found) {
        const Listed& listed = *one.listed;
        const bool goes_on = before != nullptr && listed.key == before->key &&
                             listed.block == before->block + 1 &&
                             listed.address == before->address + 1;
        if (!goes_on) {
            const auto key = parse_entry_key(keys_[listed.key]);
            Change change{.kind = Change::Kind::move,
                          .piece_count = 1,
                          .object = key->object,
                          .dkey = key->dkey,
                          .akey = key->akey,
                          .size = listed.address.value};
            change.pieces[0].first = uint64_t{key->segment} * segment_blocks + listed.block;
            change.head = one.node;
            record.changes.push_back(std::move(change));
            last = &record.changes[record.changes.size() - 1];
        }
        last->blocks.push_back(one.block);
        ++last->pieces[0].count;
        before = &listed;
    }
}

}  // namespace ros2s::engine
