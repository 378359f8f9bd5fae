#include "committer.h"

#include <algorithm>

#include "ros2s/base/check.h"
#include "ros2s/engine/format/superblock.h"
#include "ros2s/engine/rules/commit_rules.h"

namespace ros2s::engine {
namespace {

// Writes in flight of one group, and of groups that are not sealed yet. A group of 32 MiB in pieces
// of 1 MiB or more stays below it.
constexpr size_t group_io_max = 64;
constexpr size_t ahead_io_max = 64;
// An open group is written in steps of this many blocks, and its newest run when it has this many.
// An earlier start gains less than each write costs the core and the device.
constexpr uint64_t ahead_blocks_least = 16;

// A burst is over when nothing has joined for this time and this many turns of the core: one turn
// can take longer than the time, if it gives a write to the kernel. Or after the most turns:
// virtual time does not pass by turns.
constexpr Duration gather_quiet_least = std::chrono::microseconds(10);
constexpr Duration gather_quiet_most = std::chrono::microseconds(50);
constexpr uint32_t gather_turns_least = 4;
constexpr uint32_t gather_turns_max = 200;

// With more deferred blocks than this the next flush does not wait: it would take long, and those
// that wait for it with it.
constexpr uint64_t volatile_blocks_max = (16 << 20) / block_bytes;

// A huge page if sixteen fit for each device. A group takes at least one on each device that it
// uses.
size_t chunk_bytes_for(const EngineOptions& options, size_t devices) {
    return std::clamp<size_t>(round_up<size_t>(options.staging_share() / 16 / devices, block_bytes),
                              64 * 1024, StagingMemory::huge_page_bytes);
}

}  // namespace

Committer::Committer(const Environment& env, std::vector<device::BlockDevice*> devices,
                     Cores& cores, Publisher& publisher, State& state, Journal& journal,
                     const EngineOptions& options, const JournalEnd& journal_end,
                     std::string read_only_reason)
    : chunks(chunk_bytes_for(options, devices.size()), options.staging_share() / 4),
      env_(env),
      devices_(std::move(devices)),
      cores_(cores),
      publisher_(publisher),
      state_(state),
      journal_(journal),
      may_discard_(options.discard),
      groups_in_flight_max_(std::max(options.groups_in_flight, 1U)),
      large_groups_in_flight_max_(std::max(options.large_groups_in_flight, groups_in_flight_max_)),
      large_group_blocks_(std::max<uint64_t>(options.large_group_bytes / block_bytes, 1)),
      group_blocks_max_(std::max<uint64_t>(options.staging_share() / 4 / block_bytes, 16)),
      journal_end_(journal_end),
      incarnation_(journal_end.next_epoch << 16 | static_cast<uint16_t>(journal_end.incarnation)),
      nursery_(env.reactor, large_groups_in_flight_max_),
      ahead_(env.reactor, ahead_io_max),
      quiet_max_(gather_quiet_least),
      states_(journal_end.last_sequence),
      volatile_(env.reactor.secrets().next()),
      flushed_max_(journal_end.last_sequence),
      volatile_on_(devices_.size()),
      cut_{journal.head(), journal_end.last_id, journal_end.next_id, journal_end.incarnation},
      read_only_reason_(std::move(read_only_reason)),
      wake_(env.reactor),
      ordered_(env.reactor),
      opened_(env.reactor),
      progress_(env.reactor),
      discarder_(env.reactor, devices_, state.space, [this] { progress_.wake_all(); }) {
    for (uint32_t d = 0; d < devices_.size(); ++d) choose_discards(d);
    open_ = make_group();
}
Committer::~Committer() = default;

std::shared_ptr<Group> Committer::make_group() {
    for (const std::shared_ptr<Group>& group : groups_) {
        if (group.use_count() > 1) continue;
        group->reset(devices_.size());
        return group;
    }
    return groups_.emplace_back(std::make_shared<Group>(env_.reactor, chunks, devices_.size()));
}

void Committer::drop_spare() {
    std::erase_if(groups_, [](const auto& group) { return group.use_count() == 1; });
    chunks.drop_spare();
}

void Committer::choose_discards(uint32_t device) {
    const uint64_t least = may_discard_ ? devices_[device]->discard_bytes_least() : 0;
    state_.space.set_discard(device, round_up<uint64_t>(least, block_bytes) / block_bytes);
}

void Committer::add_device(device::BlockDevice* device) {
    devices_.push_back(device);
    choose_discards(static_cast<uint32_t>(devices_.size() - 1));
    open_->devices.resize(devices_.size());
    volatile_on_.resize(devices_.size());
}

// ---- joining -------------------------------------------------------------------------------

Task<Result<>> Committer::admit(size_t record_bytes_more, uint64_t blocks) {
    const uint64_t bytes_max = journal_.record_blocks_max() * block_bytes - sizeof(RecordHeader);
    if (record_bytes_more > bytes_max) co_return fail(Code::too_large, bytes_max);
    // A large group is sealed before the next request is copied, not after all that have arrived:
    // they would all end together, and the device would have nothing to do until they come again.
    while (!dead_ && !open_->is_empty() &&
           (open_->record.payload_bytes() + record_bytes_more > bytes_max ||
            open_->blocks + blocks > group_blocks_max_ || (is_large() && can_seal()))) {
        co_await opened_;
    }
    if (dead_) co_return fail(Code::read_only);
    co_return Result<>();
}

Committer::Ticket Committer::join(TransactionRecord&& transaction, bool deferred) {
    // A write ahead that fails at once gives up this group and opens another one.
    const std::shared_ptr<Group> joined = open_;
    Group& group = *joined;
    group.waits_for_flush = group.waits_for_flush || !deferred;
    place_blocks(transaction);
    group.record.add(transaction);
    group.transactions.push_back(std::move(transaction));
    if (is_short_) learn(env_.reactor.now() - sealed_short_ <= gather_quiet_most);
    write_ahead();
    wake_.wake_all();
    return {joined, group.transactions.size() - 1};
}

Task<Result<object::Commit>> Committer::commit(TransactionRecord&& transaction, Trace* trace,
                                               bool deferred) {
    if (trace != nullptr) open_->traced = true;  // joining may begin to write
    const Ticket ticket = join(std::move(transaction), deferred);
    co_await ticket.group->done;
    if (trace != nullptr) {
        for (const Group::Step& step : ticket.group->steps) {
            trace->add(step.name, step.begin, step.end);
        }
    }
    if (!ticket.group->outcome) co_return fail(ticket.group->outcome.error());
    const RecordHeader& header = ticket.group->header;
    co_return object::Commit{.epoch = {header.first_epoch + ticket.index},
                             .time = WallTime{Duration{header.wall_time_ns}}};
}

bool Committer::advance_proof() {
    if (dead_) return false;
    if (in_flight_ > 0 || !open_->is_empty() || want_empty_) return true;
    const uint64_t oldest = state_.space.oldest_quarantined();
    if (oldest == 0) return false;
    if (oldest <= states_.proven()) return true;  // a read prevents it
    want_empty_ = true;
    wake_.wake_all();
    return true;
}

void Committer::prove_last() {
    if (dead_ || in_flight_ > 0 || !open_->is_empty() || filled_ <= states_.proven()) return;
    want_empty_ = true;
    wake_.wake_all();
}

void Committer::release_space() {
    if (state_.space.oldest_quarantined() == 0) return;
    const uint64_t proven = rules.two_generations ? states_.proven() : state_.applied;
    const uint64_t unread = rules.await_reads ? publisher_.unread_upto() : proven;
    if (!state_.space.release(std::min(proven, unread), set_apart_)) return;
    discarder_.take(set_apart_);
    set_apart_.clear();
    progress_.wake_all();
}

// ---- the loop ------------------------------------------------------------------------------

bool Committer::can_seal() const {
    if (dead_ || (open_->is_empty() && !want_empty_)) return false;
    return in_flight_ < (is_large() ? large_groups_in_flight_max_ : groups_in_flight_max_);
}

bool Committer::is_large() const { return open_->blocks >= large_group_blocks_; }

Task<> Committer::run() {
    Nursery flushing(env_.reactor, 1);
    co_await flushing.spawn(flush_deferred());
    while (true) {
        if (stopping_ && in_flight_ == 0 && (dead_ || open_->is_empty())) break;
        if (!can_seal()) {
            co_await wake_;
            continue;
        }
        if (open_->transactions.size() < burst_ && !is_large()) {
            co_await gather();
            continue;
        }
        const uint64_t blocks = record_bytes(open_->record.payload_bytes()) / block_bytes;
        if (!journal_.fits(blocks) && rules.await_room) {
            counters.journal_waits.add();
            want_checkpoint();
            co_await wake_;
            continue;
        }
        ++in_flight_;
        co_await nursery_.spawn(write(seal()));
        if (journal_.used_blocks() > journal_.blocks() / 2) want_checkpoint();
    }
    co_await nursery_.join();
    co_await ahead_.join();
    flush_ends_ = true;
    wake_flush();
    co_await flushing.join();
    co_await discarder_.stop();
}

// Clients that waited for the last group send their next requests in a burst, a few microseconds
// apart. Sealing at the first of them splits the clients into halves that wait for each other's
// flushes: with 32 in flight, groups of 16. How far apart depends on what is between: a DPU, or a
// slow processor. So the committer waits longer for the next one if it was right to wait.
Task<> Committer::gather() {
    Time grown = env_.reactor.now();
    uint32_t turns = 0;
    while (!dead_ && !is_large() && open_->transactions.size() < burst_ &&
           turns < gather_turns_max &&
           (turns < gather_turns_least || env_.reactor.now() - grown < quiet_max_)) {
        const size_t before = open_->transactions.size();
        co_await yield(env_.reactor);
        ++turns;
        if (open_->transactions.size() == before) {
            env_.reactor.relax();
            continue;
        }
        grown = env_.reactor.now();
        turns = 0;
    }
    is_short_ = open_->transactions.size() < burst_;
    if (is_short_) sealed_short_ = env_.reactor.now();
    burst_ = 0;
}

// A group was sealed before it had its expected size. `soon`: the next transaction came a moment
// later. False: much later, or not while the group was written.
void Committer::learn(bool soon) {
    quiet_max_ = soon ? std::min(2 * quiet_max_, gather_quiet_most)
                      : std::max(quiet_max_ / 2, gather_quiet_least);
    is_short_ = false;
}

void Committer::stop() {
    stopping_ = true;
    wake_.wake_all();
}

std::shared_ptr<Group> Committer::seal() {
    std::shared_ptr<Group> group = std::move(open_);
    open_ = make_group();
    want_empty_ = false;
    opened_.wake_all();
    RecordHeader& header = group->header;
    header.pool = journal_end_.pool;
    header.incarnation = journal_end_.incarnation;
    header.id = journal_end_.next_id;
    header.previous_id = journal_end_.last_id;
    header.durable_upto = rules.acknowledge_in_order ? states_.durable() : flushed_max_;
    header.sequence = states_.order(header.durable_upto);
    header.next_id = rules.fresh_ids ? env_.reactor.secrets().next() : header.sequence + 1;
    // Epochs follow the order of the records.
    header.first_epoch = journal_end_.next_epoch;
    journal_end_.next_epoch += group->transactions.size();
    // From the machine's clock, also if it was set back: the epochs define the order.
    header.wall_time_ns = env_.reactor.wall_time().time_since_epoch().count();
    if (!rules.follow_clock) {
        header.wall_time_ns = std::max(header.wall_time_ns, state_.wall_time_ns);
    }
    journal_end_.last_id = header.id;
    journal_end_.next_id = header.next_id;
    counters.groups.add();
    counters.empty_groups.add(group->is_empty() ? 1 : 0);
    counters.deferred_groups.add(group->is_deferred() ? 1 : 0);
    counters.transactions.add(group->transactions.size());
    counters.blocks.add(group->blocks);
    for (const Group::PerDevice& device : group->devices) counters.runs.add(device.runs.size());
    return group;
}

// Gives the transaction's staged blocks their addresses on the devices.
void Committer::place_blocks(TransactionRecord& transaction) {
    Group& group = *open_;
    const bool is_move =
        !transaction.changes.empty() && transaction.changes[0].kind == Change::Kind::move;
    const SpaceMap::Purpose purpose = is_move ? SpaceMap::Purpose::move : SpaceMap::Purpose::update;
    for (uint32_t d = 0; d < group.devices.size(); ++d) {
        Group::PerDevice& device = group.devices[d];
        const uint64_t blocks = device.blocks - device.placed.ordinal;
        if (blocks > 0) state_.space.allocate(d, blocks, device.runs, purpose);
    }
    for (Change& change : transaction.changes) {
        for (BlockRef& block : change.blocks) {
            Group::PerDevice& device = group.devices[block.address.device()];
            ROS2S_CHECK(block.address.block() == device.placed.ordinal);
            ROS2S_CHECK(device.contiguous(device.placed) > 0);
            block.address = device.address(device.placed);
            device.advance(device.placed, 1);
        }
    }
}

// Ends the group's record, and allocates its blocks in the journal.
ConstBytes Committer::place_record(Group& group) {
    const ConstBytes record = group.record.finish(group.header);
    counters.record_bytes.add(record.size());
    const uint64_t blocks = record.size() / block_bytes;
    group.end_position = journal_.place(blocks) + blocks;
    return record;
}

Task<> Committer::write(std::shared_ptr<Group> group) {
    const RecordHeader& header = group->header;
    const auto shown =
        group->is_deferred() ? GroupStates::Shown::written : GroupStates::Shown::durable;
    const bool flushes = rules.flush_groups && !group->is_deferred();
    const ConstBytes record = place_record(*group);
    {
        Nursery io(env_.reactor, group_io_max);
        for (uint32_t d = 0; d < group->devices.size(); ++d) {
            for (Piece piece = next_piece(*group, d, 1); !piece.bytes.empty();
                 piece = next_piece(*group, d, 1)) {
                co_await io.spawn(write_piece(*group, piece));
            }
        }
        if (!rules.flush_after_writes && flushes) co_await io.spawn(flush(*group));
        co_await io.spawn(write_record(*group, record));
        look_ahead(*group);
        co_await io.join();
        while (group->writes_under_way > 0 && rules.await_writes_ahead) {
            co_await group->writes_ended;
        }
    }
    if (group->io) {
        states_.wrote(header.sequence);
        if (rules.flush_after_writes && flushes) co_await flush(*group);
    }
    if (!group->io) {
        if (!rules.fail_at_once) die(group->io.error(), "");
    } else {
        if (!dead_ && !group->is_deferred()) {
            states_.flushed_upto(group->flush_covers);
            states_.flushed(header.sequence);
            volatile_.durable_upto(states_.durable());
        }
        flushed_max_ = std::max(flushed_max_, header.sequence);
        if (!rules.acknowledge_in_order) group->done.set();
    }
    while (!dead_ && !states_.may_show(header.sequence, shown)) {
        // A deferred group before it may have been written after its flush was issued.
        if (!group->is_deferred()) want_durable(header.sequence);
        co_await ordered_;
    }
    if (dead_) {
        // It may be durable all the same. The caller would rely on an error which states that
        // nothing happened, for example no_space of the index. The next opening shows the outcome.
        fail_group(*group, dead_->code == Code::io ? fail(*dead_) : fail(Code::io));
    } else {
        co_await publisher_.publish(AppliedGroup::of(header), group->transactions, group->pins);
        finish(*group);
    }
    --in_flight_;
    wake_.wake_all();
    progress_.wake_all();
}

void Committer::finish(Group& group) {
    states_.show(group.header.sequence);
    if (group.is_deferred()) note_volatile(group);
    if (!group.is_empty()) filled_ = group.header.sequence;
    cut_ = {group.end_position, group.header.id, group.header.next_id, group.header.incarnation};
    release_space();
    ordered_.wake_all();
    group.done.set();
    burst_ = group.transactions.size() + open_->transactions.size();
    if (is_short_) learn(false);
    if (group.writes_under_way == 0) group.release();
}

void Committer::fail_group(Group& group, Result<> outcome) {
    group.outcome = outcome;
    group.done.set();
}

void Committer::die(const Error& error, std::string reason) {
    if (dead_) return;
    dead_ = error;
    read_only_reason_ = reason.empty() ? "a write or flush failed: " + describe(error) +
                                             ". Close the pool, check the device, and open it again"
                                       : std::move(reason);
    env_.log.error("The pool is read-only from now on: " + read_only_reason_);
    if (!open_->is_empty()) {
        fail_group(*open_, fail(error));
        open_ = make_group();
    }
    ordered_.wake_all();
    opened_.wake_all();
    progress_.wake_all();
    wake_.wake_all();
    wake_flush();
    if (want_checkpoint) want_checkpoint();
}

// ---- device I/O ----------------------------------------------------------------------------

// Nobody waits until a deferred group is durable.
Task<Result<>> Committer::write_of(const Group& group, device::BlockDevice& device, uint64_t offset,
                                   ConstBytes bytes) {
    return group.is_deferred() ? device.write_cached(offset, bytes) : device.write(offset, bytes);
}

// The next placed blocks to write: `least` blocks, or the rest of a run that has ended. Empty if
// there are none.
Committer::Piece Committer::next_piece(Group& group, uint32_t d, uint64_t least) const {
    Group::PerDevice& device = group.devices[d];
    uint64_t count = device.contiguous(device.sent);
    const bool run_ended = device.sent.run + 1 < device.runs.size();
    if (count == 0 || (count < least && !run_ended)) return {};
    const uint64_t per_chunk = chunks.chunk_bytes() / block_bytes;
    count = std::min(count, per_chunk - device.sent.ordinal % per_chunk);
    const ConstBytes bytes{group.memory({d, device.sent.ordinal}), count * block_bytes};
    const Piece piece{d, device.address(device.sent).block() * block_bytes, bytes};
    device.advance(device.sent, count);
    return piece;
}

// Begins to write the joined blocks of the open group, so that the device is half done when the
// group is sealed. Nothing refers to these blocks before the group's record does.
void Committer::write_ahead() {
    for (uint32_t d = 0; d < open_->devices.size(); ++d) {
        const Group::PerDevice& device = open_->devices[d];
        if (device.placed.ordinal - device.sent.ordinal < ahead_blocks_least) continue;
        while (ahead_.running() < ahead_io_max) {
            const Piece piece = next_piece(*open_, d, ahead_blocks_least);
            if (piece.bytes.empty()) break;
            ++open_->writes_under_way;
            const bool begun = ahead_.try_spawn(write_piece_of(open_, piece));
            ROS2S_CHECK(begun);
        }
    }
}

// Keeps the group until its memory is not read any more, also if it has failed meanwhile.
Task<> Committer::write_piece_of(std::shared_ptr<Group> group, Piece piece) {
    co_await write_piece(*group, piece);
    if (--group->writes_under_way == 0) group->writes_ended.wake_all();
}

Task<> Committer::write_piece(Group& group, Piece piece) {
    const GroupStep step(group, env_.reactor, "device.write");
    const Result<> written =
        co_await write_of(group, *devices_[piece.device], piece.offset, piece.bytes);
    if (!written && rules.heed_failed_data) note_failure(group, written);
}

// The clients that wait for this group will send as much again when it is done.
void Committer::look_ahead(const Group& group) {
    for (uint32_t d = 0; d < group.devices.size(); ++d) {
        const uint64_t blocks = group.devices[d].blocks;
        if (blocks > 0 && blocks <= large_group_blocks_) state_.space.look_ahead(d, blocks);
    }
}

Task<> Committer::write_record(Group& group, ConstBytes record) {
    const GroupStep step(group, env_.reactor, "journal.write");
    const uint64_t at = group.end_position - record.size() / block_bytes;
    const Result<> written =
        co_await write_of(group, *devices_[0], journal_.offset_of(journal_.in_ring(at)), record);
    if (!written && rules.heed_failed_records) note_failure(group, written);
}

Task<> Committer::flush_device(Group& group, device::BlockDevice& device) {
    const GroupStep step(group, env_.reactor, "device.flush");
    const Result<> flushed = co_await device.flush();
    if (!flushed && rules.heed_failed_flushes) note_failure(group, flushed);
}

// At once, before any other answer of the device: a later successful flush may belong to an older
// group, whose blocks the device has given up with this group's.
void Committer::note_failure(Group& group, const Result<>& failed) {
    if (group.io) group.io = failed;
    if (rules.fail_at_once) die(failed.error(), "");
}

Task<> Committer::flush(Group& group) {
    group.flush_covers = states_.visible();
    volatile_since_.reset();
    volatile_blocks_ = 0;
    Nursery others(env_.reactor, pool_devices_max);
    for (uint32_t d = 1; d < group.devices.size(); ++d) {
        const bool touched = group.devices[d].blocks > 0 || volatile_on_[d] > states_.durable();
        if (!touched || !rules.flush_all_devices) continue;
        co_await others.spawn(flush_device(group, *devices_[d]));
    }
    co_await flush_device(group, *devices_[0]);
    co_await others.join();
    if (!rules.cover_what_came_before) group.flush_covers = states_.visible();
}

// ---- deferred groups -----------------------------------------------------------------------

void Committer::note_volatile(const Group& group) {
    const bool is_first = !volatile_since_;
    if (is_first) volatile_since_ = env_.reactor.now();
    volatile_blocks_ += group.blocks + record_bytes(group.record.payload_bytes()) / block_bytes;
    for (uint32_t d = 0; d < group.devices.size(); ++d) {
        if (group.devices[d].blocks > 0) volatile_on_[d] = group.header.sequence;
    }
    if (is_first || next_flush() <= env_.reactor.now()) wake_flush();
}

void Committer::want_durable(uint64_t group) {
    wanted_durable_ = std::max(wanted_durable_, group);
    wake_flush();
}

void Committer::wake_flush() {
    if (flush_pause_ != nullptr) flush_pause_->request_stop();
}

Task<Result<>> Committer::make_durable(const Call& call, uint64_t group) {
    while (states_.durable() < group) {
        if (dead_) co_return fail(Code::io);
        ROS2S_CO_TRY(call.check(env_.reactor));
        want_durable(group);
        const WakeOnStop wake(call.stop, progress_);
        co_await progress_;
    }
    co_return Result<>();
}

Task<Result<>> Committer::wait_visible(const Call& call) {
    const uint64_t last = states_.ordered() + (open_->is_empty() ? 0 : 1);
    while (states_.visible() < last) {
        if (dead_) co_return fail(Code::io);
        ROS2S_CO_TRY(call.check(env_.reactor));
        const WakeOnStop wake(call.stop, progress_);
        co_await progress_;
    }
    co_return Result<>();
}

Task<Result<uint64_t>> Committer::sync(const Call& call, const object::Acknowledged& known) {
    ROS2S_CO_TRY(co_await make_durable(call, states_.visible()));
    const uint64_t last = known.last.value;
    if (known.incarnation == 0 || known.incarnation == incarnation_ || last == 0) {
        co_return incarnation_;
    }
    // What an incarnation between the two lost is not known here. A pool that was opened for
    // reading has the number of the one before.
    const auto passed = static_cast<uint16_t>(incarnation_ - known.incarnation);
    if (passed <= 1 && last < journal_end_.recovered_epoch) co_return incarnation_;
    co_return fail(Code::expired, incarnation_);
}

Time Committer::next_flush() const {
    if (!states_.has_volatile()) return Time::max();
    const bool now = flush_ends_ || wanted_durable_ > states_.durable() ||
                     volatile_blocks_ >= volatile_blocks_max;
    if (now) return env_.reactor.now();
    return volatile_since_ ? *volatile_since_ + deferred_max : Time::max();
}

Task<> Committer::flush_deferred() {
    while (!dead_ && !(flush_ends_ && !states_.has_volatile())) {
        if (const Time next = next_flush(); next > env_.reactor.now()) {
            StopSource pause;
            flush_pause_ = &pause;
            (void)co_await sleep_until(env_.reactor, next, pause.token());
            flush_pause_ = nullptr;
            continue;
        }
        counters.deferred_flushes.add();
        const std::shared_ptr<Group> none = make_group();
        co_await flush(*none);
        if (dead_ || !none->io) break;
        states_.flushed_upto(none->flush_covers);
        volatile_.durable_upto(states_.durable());
        release_space();
        ordered_.wake_all();
        progress_.wake_all();
    }
}

}  // namespace ros2s::engine
