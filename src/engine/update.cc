#include <algorithm>

#include "parts.h"
#include "ros2s/base/check.h"
#include "ros2s/object/validate.h"
#include "ros2s/runtime/trace.h"

namespace ros2s::engine {

using object::Commit;

Task<Result<Commit>> EngineStore::update(const Call& call, object::ContainerId container,
                                         const object::Transaction& transaction) {
    return parts_->update(call, container, transaction);
}

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

class LocksHeld {
  public:
    explicit LocksHeld(LockTable& table) : table_(table) {}
    LocksHeld(const LocksHeld&) = delete;
    LocksHeld& operator=(const LocksHeld&) = delete;
    ~LocksHeld() {
        for (const auto& one : held) table_.unlock(one);
    }
    std::vector<LockTable::Wanted> held;

  private:
    LockTable& table_;
};

}  // namespace

// Exactly once: a repetition gets the stored answer, or waits for the first try.
Task<Result<Commit>> EngineStore::Parts::update(const Call& call, object::ContainerId container,
                                                const object::Transaction& transaction) {
    const Gate::Hold hold(gate);
    const Span span(call.trace, env.reactor, "engine.update");
    metrics.updates.add();
    ROS2S_CO_TRY(object::validate(transaction));
    ROS2S_CO_TRY(call.check(env.reactor.now()));
    const object::OperationId& id = transaction.id;
    if (id.client.is_nil()) co_return co_await update_once(call, container, transaction);
    const auto slot = std::pair(id.client, id.slot);
    while (running.contains(slot)) co_await slot_done;
    ROS2S_CO_TRY_ASSIGN(const auto reply, state.replies.look_up(id));
    if (reply) {
        metrics.replays.add();
        co_return Commit{reply->epoch, reply->time, true};
    }
    running.emplace(slot, id.sequence);
    Result<Commit> result = co_await update_once(call, container, transaction);
    running.erase(slot);
    slot_done.wake_all();
    co_return result;
}

Task<Result<Commit>> EngineStore::Parts::update_once(const Call& call,
                                                     object::ContainerId container,
                                                     const object::Transaction& transaction) {
    if (!read_only_reason().empty()) co_return fail(Code::read_only);
    if (!state.has_container(container)) co_return fail(Code::not_found);
    Draft draft(container, transaction, state);
    ROS2S_CO_TRY(draft.build(state.space.devices()));
    if (draft.blocks_max() > staging_blocks) {
        co_return fail(Code::no_memory, staging_blocks * block_bytes);
    }
    if (draft.blocks_max() > 0) co_await staging.acquire(draft.blocks_max());
    const BlocksHeld staged(staging, draft.blocks_max());
    while (state.cache.dirty_bytes() > 2 * options.dirty_share() && !committer->is_dead()) {
        checkpointer->request();
        co_await checkpointer->finished();
    }
    ROS2S_CO_TRY(co_await reserve(call, draft));
    bool reserved = true;
    Result<Commit> result = co_await update_locked(call, container, transaction, draft, reserved);
    if (reserved) {
        for (const auto& [device, blocks] : draft.needs()) state.space.unreserve(device, blocks);
        committer->progress().wake_all();
    }
    if (!result) metrics.updates_failed.add();
    trim();
    co_return result;
}

// ---- space ---------------------------------------------------------------------------------

bool EngineStore::Parts::try_reserve(Draft& draft) {
    const auto& needs = draft.needs();
    for (size_t i = 0; i < needs.size(); ++i) {
        if (state.space.reserve(needs[i].first, needs[i].second)) continue;
        const auto [full, blocks] = needs[i];
        while (i-- > 0) state.space.unreserve(needs[i].first, needs[i].second);
        // Another device may have room for what this one has not.
        uint32_t roomiest = 0;
        for (uint32_t d = 1; d < state.space.devices(); ++d) {
            if (state.space.available_blocks(d) > state.space.available_blocks(roomiest)) {
                roomiest = d;
            }
        }
        if (roomiest == full || state.space.available_blocks(roomiest) < blocks) return false;
        draft.redirect(full, roomiest);
        return try_reserve(draft);
    }
    return true;
}

Task<Result<>> EngineStore::Parts::reserve(const Call& call, Draft& draft) {
    const uint64_t begun = committer->last_sequence();
    while (!try_reserve(draft)) {
        ROS2S_CO_TRY(call.check(env.reactor.now()));
        if (committer->is_dead()) co_return fail(Code::read_only);
        // When all that had been displaced before has come back and it is still not enough, the
        // pool is full: what others displace meanwhile they need themselves.
        const uint64_t oldest = state.space.oldest_quarantined();
        const bool all_back = state.applied >= begun && (oldest == 0 || oldest > begun);
        if (all_back || !committer->advance_proof()) co_return fail(Code::no_space);
        co_await committer->progress();
    }
    co_return Result<>();
}

// ---- conditions ----------------------------------------------------------------------------

Task<Result<bool>> EngineStore::Parts::holds(object::ContainerId container,
                                             const object::Condition& condition) {
    using Kind = object::Condition::Kind;
    if (condition.kind == Kind::no_dkeys) {
        ROS2S_CO_TRY_ASSIGN(
            Node * summary,
            co_await loader.load(
                summary_key(container, condition.object, condition.akey.bytes).take()));
        state.cache.unpin(*summary);
        co_return summary->is_absent() || summary->summary()->entries == 0;
    }
    if (condition.akey.bytes.empty()) {
        KeyBuilder prefix(Table::entries);
        prefix.container(container).object(condition.object).string(condition.dkey.bytes);
        std::string from = prefix.take();
        bool exists = false;
        for (bool more = true; more && !exists;) {
            ROS2S_CO_TRY_ASSIGN(const Loader::Page page,
                                co_await loader.scan(from, prefix_end(prefix.view()), 16));
            exists = !page.items.empty();
            more = page.more;
            from = page.next;
        }
        co_return exists == (condition.kind == Kind::exists);
    }
    ROS2S_CO_TRY_ASSIGN(
        Node * node, co_await loader.load(entry_key(container, condition.object,
                                                    condition.dkey.bytes, condition.akey.bytes, 0)
                                              .take()));
    state.cache.unpin(*node);
    const EntryValue* const entry = node->entry();
    switch (condition.kind) {
        case Kind::exists: co_return entry != nullptr;
        case Kind::absent: co_return entry == nullptr;
        case Kind::epoch_equals:
            co_return (entry == nullptr ? 0 : entry->epoch.value) == condition.value;
        default: co_return (entry == nullptr ? 0 : entry->size) == condition.value;
    }
}

Task<Result<>> EngineStore::Parts::judge(object::ContainerId container,
                                         const object::Transaction& transaction) {
    for (size_t i = 0; i < transaction.conditions.size(); ++i) {
        ROS2S_CO_TRY_ASSIGN(const bool held, co_await holds(container, transaction.conditions[i]));
        if (!held) co_return fail(Code::condition_failed, i);
    }
    co_return Result<>();
}

// ---- the update itself ---------------------------------------------------------------------

// Old bytes of blocks that are written in part: verified, so that rot is never given a new CRC.
Task<Result<>> EngineStore::Parts::read_edges(const Call& call, Draft& draft) {
    for (Draft::Edge& edge : draft.edges()) {
        metrics.partial_blocks.add();
        edge.memory = AlignedBuffer(block_bytes);
        const BlockRef base = edge.base;
        const Result<> read = co_await read_verified(call.trace, {&base, 1}, edge.memory.bytes());
        // The caller knows what it writes; where in it the old bytes are bad is not told.
        if (!read) co_return fail(Error{read.error().code, read.error().os_errno, 0});
    }
    co_return Result<>();
}

Task<Result<Commit>> EngineStore::Parts::update_locked(const Call& call,
                                                       object::ContainerId container,
                                                       const object::Transaction& transaction,
                                                       Draft& draft, bool& reserved) {
    LocksHeld locked(locks);
    {
        const Span span(call.trace, env.reactor, "engine.lock");
        const std::vector<LockTable::Wanted> wanted = draft.locks();
        locked.held.reserve(wanted.size());
        for (const LockTable::Wanted& one : wanted) {
            co_await locks.lock(one);
            locked.held.push_back(one);
        }
    }
    ROS2S_CO_TRY(co_await judge(container, transaction));
    Pins pins(state.cache);
    for (const Change& change : draft.changes()) {
        if (loader.prepare_resident(container, change, pins)) continue;
        ROS2S_CO_TRY(co_await loader.prepare(container, change, pins, 2 * options.cache_share()));
    }
    ROS2S_CO_TRY(draft.plan());
    if (!draft.edges().empty()) ROS2S_CO_TRY(co_await read_edges(call, draft));
    ROS2S_CO_TRY(co_await committer->admit(draft.record_bytes_max(), draft.blocks_max()));
    ROS2S_CO_TRY(call.check(env.reactor.now()));
    // From here to join() nothing suspends.
    if (!state.has_container(container)) co_return fail(Code::not_found);
    ROS2S_CO_TRY(draft.stage(committer->open()));
    const std::vector<uint64_t> used = draft.staged();
    for (size_t i = 0; i < used.size(); ++i) {
        state.space.unreserve(draft.needs()[i].first, draft.needs()[i].second - used[i]);
        metrics.update_bytes.add(used[i] * block_bytes);
    }
    reserved = false;
    if (!rules.acknowledge_durable && transaction.conditions.empty()) [[unlikely]] {
        committer->join(draft.take(), pins.take());
        co_return Commit{};
    }
    const Span span(call.trace, env.reactor, "engine.commit");
    co_return co_await commit(draft.take(), pins.take());
}

Task<Result<Commit>> EngineStore::Parts::commit(TransactionRecord record, std::vector<Node*> pins) {
    const Committer::Ticket ticket = committer->join(std::move(record), std::move(pins));
    co_await ticket.group->done;
    if (!ticket.group->outcome) co_return fail(ticket.group->outcome.error());
    const RecordHeader& header = ticket.group->header;
    co_return Commit{.epoch = {header.first_epoch + ticket.index},
                     .time = WallTime{Duration{header.wall_time_ns}}};
}

Task<Result<Commit>> EngineStore::Parts::commit_change(object::ContainerId container,
                                                       Change change) {
    TransactionRecord record;
    record.container = container;
    record.changes.push_back(std::move(change));
    ROS2S_CO_TRY(co_await committer->admit(record.encoded_bytes_max(), 0));
    co_return co_await commit(std::move(record), {});
}

}  // namespace ros2s::engine
