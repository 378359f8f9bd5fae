// Writer: executes updates, each exactly once. Core 0 admits a transaction, reserves its space, and
// commits it. In between it visits the cores that have its keys. In a pool on one core there is one
// visit, without cost. Part of an open pool, which owns it. Used on core 0.
//
//   seen before? ─ memory, space ─ locks ─ conditions ─ nodes, plan, old bytes ─ staged ─ committed
//
// Invariants
// - Cores are visited in their order, so that transactions cannot deadlock.
// - All locks are taken before any state is read, and held until the group is published.
// - Space is reserved, all or nothing, before anything has an effect.
// - Of two updates with one update name one is executed, and the other one gets its reply.
#pragma once
#include <memory_resource>

#include "caches.h"
#include "checkpointer.h"
#include "draft.h"
#include "pin_holders.h"
#include "ros2s/object/leases.h"
#include "ros2s/runtime/trace.h"

namespace ros2s::engine {

class Writer {
  public:
    // Conditions about pins read `pins`; `holders` lists who pins or defers. `staging_bytes`: limit
    // for payload of updates in progress.
    Writer(Cores& cores, State& state, Committer& committer, Checkpointer& checkpointer,
           object::PinTable& pins, object::LockTable& locks, object::LeaseTable& leases,
           PinHolders& holders, AwaitedClients& awaited, Caches& caches, uint64_t staging_bytes);

    // ObjectStore::update(). Errors: its own; no_memory (more payload than `staging_bytes`).
    Task<Result<object::Commit>> update(const Call& call, object::ContainerId container,
                                        const object::Transaction& transaction);
    // ObjectStore::sync().
    Task<Result<uint64_t>> sync(const Call& call, object::ContainerId container,
                                const object::Holder& holder, const object::Acknowledged& known);

  private:
    // Two flushes of deferred groups (Committer): so much may be repeated after a loss of power.
    static constexpr uint64_t repeated_blocks_max = (32 << 20) / block_bytes;
    Task<Result<>> leave_room(const Call& call, const object::Transaction& transaction);
    struct Update;
    struct Visit;
    [[nodiscard]] Task<Result<object::Commit>> execute(const Call& call,
                                                       object::ContainerId container,
                                                       const object::Transaction& transaction,
                                                       UpdateName id) {
        if (Caches::concerns(transaction)) [[unlikely]]
            return update_blocks(call, container, transaction, id);
        return update_once(call, container, transaction, id, nullptr);
    }
    [[gnu::noinline]] Task<Result<object::Commit>> update_blocks(
        const Call& call, object::ContainerId container, const object::Transaction& transaction,
        UpdateName id);
    // `id`: the transaction's, with its digest. `claim`: of an update of blocks. Not inlined, like
    // carry_out(): a coroutine frame that includes another one is too large for the frame pool.
    [[gnu::noinline]] Task<Result<object::Commit>> update_once(
        const Call& call, object::ContainerId container, const object::Transaction& transaction,
        UpdateName id, Caches::Claim* claim);
    // Errors: expired (it repeats what was lost, and its client is not awaited).
    [[nodiscard]] Result<> check_repetition(object::ContainerId container,
                                            const object::Transaction& transaction) const;
    // The stored reply to a repetition, or nothing. Errors also: expired (the client is not
    // awaited, and repeats what was lost).
    [[nodiscard]] Result<std::optional<ReplyValue>> find_reply(
        object::ContainerId container, const object::Transaction& transaction,
        const UpdateName& id) const;
    Task<Result<>> reserve(const Call& call, Draft& draft);
    Task<Result<>> reserve_in_place(const Call& call, Draft& draft);
    Task<Result<>> reserve_for(const Call& call, Draft& draft, SpaceMap::Need need);
    [[nodiscard]] bool try_reserve(Draft& draft, SpaceMap::Need need);
    [[gnu::noinline]] Task<Result<object::Commit>> carry_out(Update& update,
                                                             std::span<Visit> visits);
    // Between admission and join(), where nothing suspends.
    [[nodiscard]] Result<> stage(Update& update);
    void tell_over_cap(object::ContainerId id);
    Task<Result<>> prepare(Update& update, std::span<Visit> visits);
    // These run on the visited core.
    Task<> lock_at(Update& update, Visit& visit);
    Task<Result<>> judge_at(Update& update, Visit& visit);
    Task<Result<>> plan_at(Update& update, Visit& visit);
    Task<Result<>> prepare_at(Update& update, Visit& visit);

    Cores& cores_;
    State& state_;
    Committer& committer_;
    Checkpointer& checkpointer_;
    object::PinTable& pins_;
    object::LockTable& locks_;
    object::LeaseTable& leases_;
    PinHolders& holders_;
    AwaitedClients& awaited_;
    Caches& caches_;
    Reactor& reactor_;
    const uint64_t staging_blocks_;
    Semaphore staging_;        // blocks of payload
    Semaphore in_place_turn_;  // for the blocks that a full pool reserves
    // Updates in progress, by request slot: a repetition waits for the first one.
    std::pmr::unsynchronized_pool_resource running_nodes_;  // reuses their memory
    std::pmr::set<ReplyKey> running_{&running_nodes_};
    Event slot_done_;
};

}  // namespace ros2s::engine
