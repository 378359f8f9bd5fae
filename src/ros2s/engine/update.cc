#include <algorithm>

#include "parts.h"
#include "ros2s/object/validate.h"
#include "ros2s/runtime/trace.h"

namespace ros2s::engine {

using object::Commit;

namespace {

// Staging blocks held by one update.
class BlocksHeld {
  public:
    BlocksHeld(Semaphore& semaphore, uint64_t blocks) : semaphore_(semaphore), blocks_(blocks) {}
    BlocksHeld(const BlocksHeld&) = delete;
    BlocksHeld& operator=(const BlocksHeld&) = delete;
    ~BlocksHeld() {
        if (blocks_ > 0) semaphore_.release(blocks_);
    }

  private:
    Semaphore& semaphore_;
    uint64_t blocks_;
};

}  // namespace

// Exactly once: a repetition gets the stored answer, or waits for the first try.
Task<Result<Commit>> EngineStore::Parts::update(const Call& call, object::ContainerId container,
                                                const object::Transaction& transaction) {
    const Gate::Hold hold(cores.home().gate);
    const Span span(call.trace, env.reactor, "engine.update");
    cores.home().metrics.updates.add();
    ROS2S_CO_TRY(object::validate(transaction));
    ROS2S_CO_TRY(call.check(env.reactor.now()));
    object::OperationId id = transaction.id;
    if (id.client.is_nil()) co_return co_await update_once(call, container, transaction, id);
    id.digest = digest_of(transaction);
    const ReplyKey slot = Replies::key_of(id, container);
    while (running.contains(slot) && rules.await_first_try) co_await slot_done;
    ROS2S_CO_TRY_ASSIGN(const auto reply, state.replies.look_up(id, container, transaction.is_new,
                                                                env.reactor.wall_time()));
    if (reply) {
        cores.home().metrics.replays.add();
        co_return Commit{reply->epoch, reply->time, true};
    }
    running.insert(slot);
    Result<Commit> result = co_await update_once(call, container, transaction, id);
    running.erase(slot);
    slot_done.wake_all();
    co_return result;
}

Task<Result<Commit>> EngineStore::Parts::update_once(const Call& call,
                                                     object::ContainerId container,
                                                     const object::Transaction& transaction,
                                                     object::OperationId id) {
    if (!read_only_reason().empty()) co_return fail(Code::read_only);
    if (!state.has_container(container)) co_return fail(Code::not_found);
    Draft draft(container, transaction, id, cores.partition());
    ROS2S_CO_TRY(draft.build(state.placement));
    if (draft.blocks_max() > staging_blocks) {
        co_return fail(Code::no_memory, staging_blocks * block_bytes);
    }
    if (draft.blocks_max() > 0) co_await staging.acquire(draft.blocks_max());
    const BlocksHeld staged(staging, draft.blocks_max());
    if (checkpointer->is_behind()) co_await checkpointer->catch_up();
    ROS2S_CO_TRY(co_await reserve(call, draft));
    bool reserved = true;
    Result<Commit> result =
        cores.is_one() ? co_await update_here(call, container, transaction, draft, reserved)
                       : co_await update_across(call, container, transaction, draft, reserved);
    if (reserved) {
        for (const auto& [device, blocks] : draft.needs()) state.space.unreserve(device, blocks);
        committer->progress().wake_all();
    }
    if (!result) cores.home().metrics.updates_failed.add();
    cores.home().trim();
    checkpointer->request_if_due();
    co_return result;
}

// ---- space ---------------------------------------------------------------------------------

bool EngineStore::Parts::try_reserve(Draft& draft, SpaceMap::Need need) {
    const auto& needs = draft.needs();
    for (size_t i = 0; i < needs.size(); ++i) {
        if (state.space.reserve(needs[i].first, needs[i].second, need)) continue;
        const auto [full, blocks] = needs[i];
        while (i-- > 0) state.space.unreserve(needs[i].first, needs[i].second);
        // Another device may have room for what this one has not.
        uint32_t roomiest = 0;
        for (uint32_t d = 1; d < state.space.devices(); ++d) {
            if (state.space.available_blocks(d, need) >
                state.space.available_blocks(roomiest, need)) {
                roomiest = d;
            }
        }
        if (roomiest == full || state.space.available_blocks(roomiest, need) < blocks) {
            return false;
        }
        draft.redirect(full, roomiest);
        return try_reserve(draft, need);
    }
    return true;
}

Task<Result<>> EngineStore::Parts::reserve(const Call& call, Draft& draft) {
    const Result<> reserved = co_await reserve_for(call, draft, SpaceMap::Need::more);
    if (reserved || reserved.error().code != Code::no_space) co_return reserved;
    co_return co_await reserve_in_place(call, draft);
}

// A full pool has room for what displaces as many blocks as it writes. Who needs many of them would
// wait for as long as others take a few each: so they are taken in turn.
Task<Result<>> EngineStore::Parts::reserve_in_place(const Call& call, Draft& draft) {
    draft.write_in_place();
    co_await in_place_turn.acquire();
    const SemaphoreHold turn(in_place_turn);
    co_return co_await reserve_for(call, draft, SpaceMap::Need::in_place);
}

Task<Result<>> EngineStore::Parts::reserve_for(const Call& call, Draft& draft,
                                               SpaceMap::Need need) {
    const uint64_t begun = committer->last_sequence();
    while (!try_reserve(draft, need)) {
        ROS2S_CO_TRY(call.check(env.reactor.now()));
        if (committer->is_dead()) co_return fail(Code::read_only);
        if (committer->discarder().hurry()) continue;
        // When all that had been displaced before has come back and it is still not enough, the
        // pool is full: what others displace meanwhile they need themselves.
        const uint64_t oldest = state.space.oldest_quarantined();
        bool comes_back = committer->discarder().is_busy();
        if (need == SpaceMap::Need::in_place) {
            // More than all that is not in use never comes back.
            for (const auto& [device, blocks] : draft.needs()) {
                if (state.space.unused_blocks_most() < blocks) co_return fail(Code::no_space);
            }
            // What others have of the blocks that are kept back they give back.
            comes_back = comes_back || state.space.has_reservations();
        } else if (state.applied >= begun && (oldest == 0 || oldest > begun)) {
            if (!comes_back) co_return fail(Code::no_space);
        }
        if (!comes_back && !committer->advance_proof()) co_return fail(Code::no_space);

        co_await committer->progress();
    }
    co_return Result<>();
}

// ---- the update itself ---------------------------------------------------------------------

Result<> EngineStore::Parts::stage(object::ContainerId container,
                                   const object::Transaction& transaction, Draft& draft,
                                   bool& reserved) {
    if (!state.has_container(container)) return fail(Code::not_found);
    // The locks of what it changes keep a punch apart from a pin, and from writes under one.
    ROS2S_TRY(pins.judge(container, transaction, env.reactor.now()));
    ROS2S_TRY(draft.stage(committer->open()));
    const std::vector<uint64_t> used = draft.staged();
    for (size_t i = 0; i < used.size(); ++i) {
        state.space.unreserve(draft.needs()[i].first, draft.needs()[i].second - used[i]);
        cores.home().metrics.update_bytes.add(used[i] * block_bytes);
    }
    reserved = false;
    return {};
}

// In a pool on one core.
Task<Result<Commit>> EngineStore::Parts::update_here(const Call& call,
                                                     object::ContainerId container,
                                                     const object::Transaction& transaction,
                                                     Draft& draft, bool& reserved) {
    Core& core = cores.home();
    LocksHeld locked(core.locks);
    {
        const Span span(call.trace, env.reactor, "engine.lock");
        const std::vector<LockTable::Wanted> wanted =
            rules.lock_keys ? draft.locks(0) : std::vector<LockTable::Wanted>();
        locked.held.reserve(wanted.size());
        for (const LockTable::Wanted& one : wanted) {
            co_await core.locks.lock(one);
            locked.held.push_back(one);
        }
    }
    ROS2S_CO_TRY(co_await judge(core, container, transaction, draft));
    Pins pins(core.cache);
    for (const Change& change : draft.changes()) {
        if (core.loader.prepare_resident_entry(container, change, pins) &&
            core.loader.prepare_resident_summary(container, change, pins)) {
            continue;
        }
        std::vector<std::string> summaries;
        ROS2S_CO_TRY(co_await core.loader.prepare_entries(container, change, pins,
                                                          2 * core.cache_bytes_max, summaries));
        ROS2S_CO_TRY(co_await core.loader.prepare_summaries(container, change, pins,
                                                            2 * core.cache_bytes_max));
        ROS2S_CO_TRY(co_await core.loader.prepare_keys(std::move(summaries), pins));
    }
    ROS2S_CO_TRY(draft.plan(0, core.cache));
    if (!draft.edges().empty()) ROS2S_CO_TRY(co_await read_edges(core, call.trace, draft));
    ROS2S_CO_TRY(co_await committer->admit(draft.record_bytes_max(), draft.blocks_max()));
    ROS2S_CO_TRY(call.check(env.reactor.now()));
    ROS2S_CO_TRY(stage(container, transaction, draft, reserved));
    if (!rules.acknowledge_durable &&
        std::ranges::all_of(transaction.conditions, &object::Condition::is_about_pins))
        [[unlikely]] {
        committer->join(draft.take(), pins.take());
        co_return Commit{};
    }
    if (!rules.lock_until_applied) locked.clear();
    const Span span(call.trace, env.reactor, "engine.commit");
    co_return co_await commit(draft.take(), pins.take(), call.trace);
}

Task<Result<Commit>> EngineStore::Parts::commit(TransactionRecord record, std::vector<Node*> pins,
                                                Trace* trace) {
    if (trace != nullptr) committer->open().traced = true;  // joining may begin to write
    const Committer::Ticket ticket = committer->join(std::move(record), std::move(pins));
    co_await ticket.group->done;
    if (trace != nullptr) {
        for (const Group::Step& step : ticket.group->steps) {
            trace->add(step.name, step.begin, step.end);
        }
    }
    if (!ticket.group->outcome) co_return fail(ticket.group->outcome.error());
    const RecordHeader& header = ticket.group->header;
    co_return Commit{.epoch = {header.first_epoch + ticket.index},
                     .time = WallTime{Duration{header.wall_time_ns}}};
}

Task<Result<Commit>> EngineStore::Parts::commit_change(object::ContainerId container, Change change,
                                                       const object::OperationId& id) {
    TransactionRecord record;
    record.container = container;
    record.id = id;
    record.changes.push_back(std::move(change));
    ROS2S_CO_TRY(co_await committer->admit(record.encoded_bytes_max(), 0));
    co_return co_await commit(std::move(record), {});
}

}  // namespace ros2s::engine
