#include "recovery.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>

#include "ros2s/base/crc32c.h"
#include "ros2s/engine/rules/commit_rules.h"

namespace ros2s::engine {
namespace {

// A loss of power may have taken back deferred transactions that clients had seen. Their epochs are
// never given again. More than a pool commits between two flushes.
constexpr uint64_t epochs_skipped = uint64_t{1} << 20;

// Blocks per read while looking for records and checking data.
constexpr uint64_t read_blocks_max = 256;
// Limits of what stays in memory at once: the index's replies, containers and owners, or the
// entries of one change. With the memory that the pool was used with before, they need two shares
// of the memory for nodes at most (Writer::plan_at). The pool may have less memory now. The other
// limit is for pools with very little.
constexpr uint64_t memory_shares_max = 8;
constexpr uint64_t memory_bytes_least = 4 << 20;

std::unexpected<Error> io_error(Report& report, const device::BlockDevice& device,
                                std::string_view doing, const Error& error) {
    return report.fail(
        error, "{} {} failed: {}. Nothing was changed; check the device and open the pool again",
        doing, device.name(), describe(error));
}

}  // namespace

Recovery::Recovery(const Environment& env, std::vector<device::BlockDevice*> devices,
                   const Superblock& pool, Cores& cores, Publisher& publisher, State& state,
                   Journal& journal, Index& index)
    : env_(env),
      devices_(std::move(devices)),
      pool_(pool),
      cores_(cores),
      publisher_(publisher),
      state_(state),
      journal_(journal),
      index_(index) {}

Task<Result<>> Recovery::flush_all(Report& report) {
    for (device::BlockDevice* device : devices_) {
        const Result<> flushed = co_await device->flush();
        if (!flushed) co_return io_error(report, *device, "flushing", flushed.error());
    }
    co_return Result<>();
}

// ---- checkpoint and index ------------------------------------------------------------------

Task<Result<CheckpointSlot>> Recovery::newest_checkpoint(Report& report) {
    std::optional<CheckpointSlot> newest;
    AlignedBuffer block(block_bytes);
    for (uint64_t i = 0; i < 2; ++i) {
        const Result<> read =
            co_await devices_[0]->read((pool_.checkpoint_first + i) * block_bytes, block.bytes());
        if (!read) co_return io_error(report, *devices_[0], "reading", read.error());
        const Result<CheckpointSlot> slot = decode_checkpoint(block.bytes());
        if (!slot && slot.error().code == Code::bad_version) {
            co_return report.fail(slot.error(),
                                  "{}: its checkpoint has format version {}, which this program "
                                  "does not support. Use the version of ros2store that wrote it",
                                  devices_[0]->name(), slot.error().detail);
        }
        const bool ours = slot && slot->pool == pool_.pool && slot->position < journal_.blocks();
        if (!ours) continue;
        if (newest && (slot->number > newest->number) != rules.newest_checkpoint) continue;
        newest = *slot;
        checkpoint_block_ = pool_.checkpoint_first + i;
    }
    if (!newest) {
        co_return report.fail(Code::corrupt,
                              "{}: both checkpoint slots are damaged, so that the journal cannot "
                              "be followed. Restore the pool from a copy",
                              devices_[0]->name());
    }
    co_return *newest;
}

Task<Result<>> Recovery::load_index(Report& report) {
    const auto broken = [&](const Error& error) {
        return report.fail(error,
                           "the pool's index (directory {}) cannot be used: {}. Restore it "
                           "together with the devices",
                           pool_.index_directory, describe(error));
    };
    const auto raw =
        co_await env_.blocking.run(env_.reactor, [&] { return index_.get(meta_key().view()); });
    if (!raw) co_return broken(raw.error());
    if (!raw->has_value()) {
        co_return report.fail(Code::corrupt,
                              "the pool's index (directory {}) is empty or another program's. "
                              "Restore it together with the devices",
                              pool_.index_directory);
    }
    const Result<MetaValue> meta = decode_meta(**raw);
    if (!meta) co_return broken(meta.error());
    if (meta->pool != pool_.pool) {
        co_return report.fail(Code::corrupt,
                              "the index in directory {} belongs to pool {}, the devices to pool "
                              "{}. Put the right one in its place",
                              pool_.index_directory, meta->pool.to_string(),
                              pool_.pool.to_string());
    }
    state_.pool = pool_.pool;
    state_.applied = meta->applied;
    state_.next_epoch = meta->next_epoch;
    state_.wall_time_ns = meta->wall_time_ns;
    uint64_t bytes = 0;
    std::string from(1, static_cast<char>(Table::replies));
    for (bool more = true; more;) {
        const IndexScan request{.from = from, .to = {}};
        const auto page =
            co_await env_.blocking.run(env_.reactor, [&] { return index_.scan(request); });
        if (!page) co_return broken(page.error());
        for (const IndexEntry& entry : page->entries) {
            const Result<> loaded = load_entry(entry);
            if (!loaded) co_return broken(loaded.error());
            if (entry.key[0] == static_cast<char>(Table::space)) continue;
            bytes += entry.key.size() + entry.value.size();
        }
        if (bytes > memory_bytes_max()) {
            co_return report.fail(Code::no_memory,
                                  "the pool's index (directory {}) has more replies and containers "
                                  "than engine.memory has room for. Raise engine.memory in "
                                  "config.yaml; nothing was changed",
                                  pool_.index_directory);
        }
        more = page->more;
        if (more) from = page->entries.back().key + '\0';
    }
    uint64_t dropped_upto = meta->replies_dropped_upto;
    // Replies that were stored under other names are not found: their repetitions are `expired`.
    if (!meta->by_sender) dropped_upto = std::max(dropped_upto, meta->next_epoch);
    state_.replies.finish_load(dropped_upto);
    for (auto& [id, container] : state_.containers) {
        if (container.value.counted) continue;
        const Result<> counted = co_await count_container(id, container);
        if (!counted) co_return broken(counted.error());
    }
    state_.find_owners();
    co_return Result<>();
}

// A pool of an earlier program does not say what its containers use. The next checkpoint does.
Task<Result<>> Recovery::count_container(object::ContainerId id, State::Container& container) {
    KeyBuilder prefix(Table::entries);
    prefix.container(id);
    const std::string end = prefix_end(prefix.view());
    std::string from = prefix.take();
    object::Amount used;
    for (bool more = true; more;) {
        const IndexScan request{.from = from, .to = end};
        ROS2S_CO_TRY_ASSIGN(const auto page, co_await env_.blocking.run(env_.reactor, [&] {
            return index_.scan(request);
        }));
        for (const IndexEntry& entry : page.entries) {
            const auto key = parse_entry_key(entry.key);
            if (!key) co_return fail(Code::corrupt);
            ROS2S_CO_TRY_ASSIGN(const EntryValue value, decode_entry(entry.value));
            used.bytes += value.map.used() * block_bytes;
            if (value.kind == EntryValue::Kind::segment) continue;
            used.bytes += static_cast<uint64_t>(
                counted_bytes(key->dkey.size(), key->akey.size(), value.single.size()));
            if (value.kind == EntryValue::Kind::single) ++used.values;
        }
        more = page.more;
        if (more) from = page.entries.back().key + '\0';
    }
    container.value.used = used;
    container.value.counted = true;
    container.changed = true;
    co_return Result<>();
}

Result<> Recovery::load_entry(const IndexEntry& entry) {
    if (const auto reply = parse_reply_key(entry.key)) {
        ROS2S_TRY_ASSIGN(const ReplyValue value, decode_reply(entry.value));
        state_.replies.load(*reply, value);
    } else if (const auto owner = parse_owner_key(entry.key)) {
        ROS2S_TRY_ASSIGN(const OwnerValue value, decode_owner(entry.value));
        state_.replies.load_owner(*owner, value.dropped_upto);
    } else if (const auto container = parse_container_key(entry.key)) {
        ROS2S_TRY_ASSIGN(state_.containers[*container].value, decode_container(entry.value));
    } else if (const auto space = parse_space_key(entry.key)) {
        ROS2S_TRY_ASSIGN(const std::string_view bits, decode_space(entry.value));
        return state_.space.load_region(space->device, space->region, bits);
    } else {
        return fail(Code::corrupt);
    }
    return {};
}

// ---- the chain -----------------------------------------------------------------------------

bool Recovery::is_next(const RecordHeader& header, uint64_t id, uint64_t previous_id,
                       uint64_t sequence) const {
    if (header.pool != pool_.pool || header.sequence != sequence) return false;
    return !rules.chain || (header.id == id && header.previous_id == previous_id);
}

Task<Result<std::optional<Record>>> Recovery::read_record(uint64_t ring_block, uint64_t id,
                                                          uint64_t previous_id, uint64_t sequence) {
    AlignedBuffer first(block_bytes);
    ROS2S_CO_TRY(co_await devices_[0]->read(journal_.offset_of(ring_block), first.bytes()));
    const Result<RecordHeader> header = decode_record_header(first.bytes());
    if (!header) {
        if (header.error().code == Code::bad_version) co_return fail(header.error());
        co_return std::optional<Record>();
    }
    if (!is_next(*header, id, previous_id, sequence)) co_return std::optional<Record>();
    const uint64_t bytes = record_bytes(header->payload_bytes);
    const uint64_t blocks = bytes / block_bytes;
    if (blocks > journal_.record_blocks_max() || ring_block + blocks > journal_.blocks()) {
        co_return std::optional<Record>();
    }
    AlignedBuffer whole(bytes);
    ROS2S_CO_TRY(co_await devices_[0]->read(journal_.offset_of(ring_block), whole.bytes()));
    Result<Record> record = decode_record(whole.bytes());
    if (!record) co_return std::optional<Record>();
    co_return std::optional<Record>(std::move(*record));
}

Task<Result<>> Recovery::follow_chain(const CheckpointSlot& slot, Report& report) {
    next_ = {slot.position, slot.next_id, slot.previous_id, slot.applied + 1, slot.incarnation};
    while (true) {
        std::optional<Record> found;
        uint64_t place = next_.ring_block;
        for (const uint64_t ring_block : {next_.ring_block, uint64_t{0}}) {
            place = ring_block;
            auto record =
                co_await read_record(ring_block, next_.id, next_.previous_id, next_.sequence);
            if (!record) co_return io_error(report, *devices_[0], "reading", record.error());
            found = std::move(*record);
            if (found || next_.ring_block == 0) break;
        }
        if (!found) co_return Result<>();
        const RecordHeader& header = found->header;
        const uint64_t blocks = record_bytes(header.payload_bytes) / block_bytes;
        next_ = {(place + blocks) % journal_.blocks(), header.next_id, header.id,
                 header.sequence + 1, header.incarnation};
        records_.push_back({header, place});
    }
}

Task<Result<Record>> Recovery::read_again(const Candidate& candidate) {
    const RecordHeader& header = candidate.header;
    ROS2S_CO_TRY_ASSIGN(
        std::optional<Record> found,
        co_await read_record(candidate.ring_block, header.id, header.previous_id, header.sequence));
    if (!found) co_return fail(Code::corrupt);
    co_return std::move(*found);
}

// ---- what proves a record that cannot be read ----------------------------------------------

// The greatest durable_upto of the records behind the one that could not be read; 0 if there are
// none. Several records may be damaged in a row. So the search ends only where no later record
// begins within the length of two of the longest ones (16 MiB at most): each opening makes it.
//
// A header belongs to a record behind the gap, or to an earlier lap, if it has the incarnation
// before the gap or that of a later opening. Each opening left a record in the ring. Incarnations
// are secret, so a tenant cannot write such a header. Nor can a tenant name the missing id. If the
// pool is of an earlier program, which recorded no incarnation, the record after the missing id
// tells it.
//
// A torn tail is still one. Groups that were in flight with the torn group may have survived behind
// it, with its incarnation. They were sealed before it was durable, so their durable_upto is below
// it. The same holds for what an earlier torn tail left behind: nothing there says that a group was
// durable that recovery then did not find.
Task<Result<uint64_t>> Recovery::evidence_behind() {
    AlignedBuffer buffer(read_blocks_max * block_bytes);
    const uint64_t reach = 2 * journal_.record_blocks_max();
    uint64_t incarnation = next_.incarnation;
    uint64_t proven = 0;
    uint64_t looked_at = 0, upto = reach;  // blocks behind the gap
    for (const auto& [from, end] : {std::pair(next_.ring_block, journal_.blocks()),
                                    std::pair(uint64_t{0}, next_.ring_block)}) {
        for (uint64_t at = from; at < end && looked_at < upto; at += read_blocks_max) {
            Bytes piece = buffer.bytes().first(std::min(read_blocks_max, end - at) * block_bytes);
            looked_at += piece.size() / block_bytes;
            const Result<> read = co_await devices_[0]->read(journal_.offset_of(at), piece);
            // The record after the missing one begins near its place, or at the ring's start. An
            // unreadable block elsewhere is no reason to refuse the pool: it was not needed before.
            if (!read && at - from <= journal_.record_blocks_max()) co_return fail(read.error());
            if (!read) continue;
            for (; !piece.empty(); piece = piece.subspan(block_bytes)) {
                const auto header = decode_record_header(piece.first(block_bytes));
                if (!header || header->pool != pool_.pool) continue;
                if (header->previous_id == next_.id) incarnation = header->incarnation;
                const uint64_t openings = header->incarnation - incarnation;
                if (incarnation == 0 || openings > journal_.blocks()) continue;
                proven = std::max(proven, header->durable_upto);
                if (header->sequence >= next_.sequence) upto = looked_at + reach;
            }
        }
    }
    co_return proven;
}

Task<Result<bool>> Recovery::data_match(const Record& record, Matching how) {
    AlignedBuffer buffer(read_blocks_max * block_bytes);
    for (const TransactionRecord& transaction : record.transactions) {
        if (!state_.makes_sense(transaction)) co_return false;
        for (const Change& change : transaction.changes) {
            for (size_t at = 0; at < change.blocks.size();) {
                const BlockAddress first = change.blocks[at].address;
                size_t count = 1;
                while (at + count < change.blocks.size() && count < read_blocks_max &&
                       change.blocks[at + count].address == first + count) {
                    ++count;
                }
                const Bytes bytes = buffer.bytes().first(count * block_bytes);
                ROS2S_CO_TRY(
                    co_await devices_[first.device()]->read(first.block() * block_bytes, bytes));
                for (size_t i = 0; i < count; ++i) {
                    const ConstBytes block = bytes.subspan(i * block_bytes, block_bytes);
                    if (crc32c(block) != change.blocks[at + i].crc) co_return false;
                }
                if (how == Matching::write_again) {
                    ROS2S_CO_TRY(co_await devices_[first.device()]->write(
                        first.block() * block_bytes, bytes));
                }
                at += count;
            }
        }
    }
    co_return true;
}

// ---- all together --------------------------------------------------------------------------

uint64_t Recovery::memory_bytes_max() const {
    return std::max(memory_bytes_least,
                    memory_shares_max * cores_.size() * cores_.home().cache_bytes_max);
}

Task<Result<>> Recovery::apply(Record& record) {
    std::vector<Node*> pins;
    Result<> result;
    for (TransactionRecord& transaction : record.transactions) {
        if (!state_.makes_sense(transaction)) result = fail(Code::corrupt);
        for (Change& change : transaction.changes) {
            if (!result) break;
            result =
                co_await cores_.prepare(transaction.container, change, pins, memory_bytes_max());
        }
    }
    if (result) {
        co_await publisher_.publish(AppliedGroup::of(record.header), record.transactions, pins);
    }
    co_await cores_.unpin(std::move(pins));
    co_return result;
}

Task<Result<Recovered>> Recovery::run(Report& report) {
    ROS2S_CO_TRY_ASSIGN(const CheckpointSlot slot, co_await newest_checkpoint(report));
    ROS2S_CO_TRY(co_await load_index(report));
    if (state_.applied < slot.applied) {
        co_return report.fail(
            Code::corrupt,
            "the pool's index (directory {}) is older than the devices: it ends with group {}, the "
            "checkpoint with {}. Restore both from the same moment",
            pool_.index_directory, state_.applied, slot.applied);
    }
    ROS2S_CO_TRY(co_await follow_chain(slot, report));

    Recovered out;
    out.checkpoint_number = slot.number;
    uint64_t proven = state_.applied;
    for (const Candidate& candidate : records_) {
        proven = std::max(proven, candidate.header.durable_upto);
    }
    if (rules.chain) {
        const auto evidence = co_await evidence_behind();
        if (!evidence) co_return io_error(report, *devices_[0], "reading", evidence.error());
        proven = std::max(proven, *evidence);
    }
    if (proven >= next_.sequence) {
        out.read_only_reason = fmt::format(
            "{}: the journal record of group {} is damaged, and group {} was committed after it. "
            "The pool is read-only, as it was before that group. Copy out what you need",
            devices_[0]->name(), next_.sequence, proven);
        out.is_damaged = true;
    }
    ROS2S_CO_TRY(co_await accept(slot, proven, out, report));
    co_return out;
}

Task<Result<>> Recovery::accept(CheckpointSlot slot, uint64_t proven, Recovered& out,
                                Report& report) {
    Committer::JournalEnd& journal_end = out.journal_end;
    journal_end = {.pool = pool_.pool,
                   .incarnation = slot.incarnation,
                   .last_sequence = slot.applied,
                   .last_id = slot.previous_id,
                   .next_id = slot.next_id};
    journal_.start_at(slot.position);
    for (const Candidate& candidate : records_) {
        const RecordHeader header = candidate.header;
        const bool check =
            rules.verify_tail_data && (!rules.verify_only_unproven || header.sequence > proven);
        std::optional<Record> record;
        const bool missing = header.sequence > state_.applied || !rules.replay_once;
        if (check || missing) {
            auto read = co_await read_again(candidate);
            if (!read) co_return io_error(report, *devices_[0], "reading", read.error());
            record = std::move(*read);
        }
        if (check) {
            const auto match = co_await data_match(*record, Matching::compare);
            if (!match) {
                co_return report.fail(match.error(),
                                      "reading data of journal group {} failed: {}. Nothing was "
                                      "changed; check the device and open the pool again",
                                      header.sequence, describe(match.error()));
            }
            if (!*match) {  // the torn tail
                env_.log.warning(
                    "journal group {}, written at {:%Y-%m-%d %H:%M:%S} UTC, is incomplete and was "
                    "dropped. That is normal if the machine or the program died at that time. "
                    "Otherwise its blocks are damaged: check the devices",
                    header.sequence, fmt::gmtime(header.wall_time_ns / 1'000'000'000));
                break;
            }
        }
        journal_.follow(candidate.ring_block, record_bytes(header.payload_bytes) / block_bytes);
        journal_end.incarnation = header.incarnation;
        journal_end.last_sequence = header.sequence;
        journal_end.last_id = header.id;
        journal_end.next_id = header.next_id;
        if (missing) {
            const Result<> applied = co_await apply(*record);
            if (!applied) {
                const bool is_memory = applied.error().code == Code::no_memory;
                co_return report.fail(applied.error(),
                                      "journal group {} cannot be replayed: {}. Nothing was "
                                      "changed; {}",
                                      header.sequence, describe(applied.error()),
                                      is_memory ? "raise engine.memory in config.yaml"
                                                : "check the index and the devices");
            }
            ++out.replayed_groups;
            record.reset();
            journal_end.next_epoch = state_.next_epoch;
            const bool durable = header.sequence <= proven && out.read_only_reason.empty();
            ROS2S_CO_TRY(co_await relieve(journal_end, out, durable));
        }
        if (header.sequence > proven) unproven_.push_back(candidate);
    }
    journal_end.next_epoch = state_.next_epoch;
    records_.clear();
    co_return Result<>();
}

Task<Result<>> Recovery::write_again(Report& report) {
    if (!rules.write_again) co_return Result<>();
    Result<> written = co_await copy_onto_itself(checkpoint_block_, 1);
    for (const Candidate& candidate : unproven_) {
        if (!written) break;
        const auto record = co_await read_again(candidate);
        const auto match =
            record ? co_await data_match(*record, Matching::write_again) : fail(record.error());
        if (!match || !*match) {
            written = fail(match ? Error{Code::corrupt} : match.error());
            break;
        }
        written =
            co_await copy_onto_itself(journal_.offset_of(candidate.ring_block) / block_bytes,
                                      record_bytes(candidate.header.payload_bytes) / block_bytes);
    }
    if (!written) {
        co_return io_error(report, *devices_[0], "writing the journal's end again to",
                           written.error());
    }
    unproven_.clear();
    co_return co_await flush_all(report);
}

Task<Result<>> Recovery::copy_onto_itself(uint64_t block, uint64_t blocks) {
    AlignedBuffer buffer(blocks * block_bytes);
    ROS2S_CO_TRY(co_await devices_[0]->read(block * block_bytes, buffer.bytes()));
    co_return co_await devices_[0]->write(block * block_bytes, buffer.bytes());
}

Task<Result<>> Recovery::restart(Committer::JournalEnd& journal_end, Report& report) {
    // A pool that an earlier program made, and that has no record, has none.
    journal_end.incarnation =
        journal_end.incarnation == 0 ? env_.reactor.secrets().next() : journal_end.incarnation + 1;
    journal_end.recovered_epoch = journal_end.next_epoch;
    journal_end.next_epoch += epochs_skipped;
    if (rules.restart_record) {
        const RecordHeader header{
            .pool = journal_end.pool,
            .incarnation = journal_end.incarnation,
            .id = journal_end.next_id,
            .previous_id = journal_end.last_id,
            .next_id =
                rules.fresh_ids ? env_.reactor.secrets().next() : journal_end.last_sequence + 2,
            .sequence = journal_end.last_sequence + 1,
            .durable_upto = journal_end.last_sequence,
            .first_epoch = journal_end.next_epoch,
            .wall_time_ns = env_.reactor.wall_time().time_since_epoch().count()};
        RecordBuilder record;
        const uint64_t position = journal_.place(1);
        const Result<> written = co_await devices_[0]->write(
            journal_.offset_of(journal_.in_ring(position)), record.finish(header));
        if (!written) co_return io_error(report, *devices_[0], "writing", written.error());
        ROS2S_CO_TRY(co_await flush_all(report));
        journal_end.last_sequence = header.sequence;
        journal_end.last_id = header.id;
        journal_end.next_id = header.next_id;
        co_await publisher_.publish(AppliedGroup::of(header), {}, {});
    }
    state_.space.make_available();
    co_return Result<>();
}

}  // namespace ros2s::engine
