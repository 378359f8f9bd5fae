// The lifetime of a node. It exists while it has a name, for a while after that, while this mount
// has it open, and while another mount has it open.
//
// The fetch that opens a node also pins it in the store. A punch has the condition that no other
// mount has pinned the object. If the punch is refused, the orphan stays until the last pin ends:
//
//     open here alone      the last close punches it, or the reaper does this in time
//     open elsewhere, too  the store tells the mount that releases the last pin to punch it
//     its mount has died   the mount that found it pinned checks again after a while; so does each
//                          mount that starts
//
// A restarted store may have forgotten pins, and so may one whose connection was lost (a new era).
// They are pinned again within a second or two. The store waits until the mount says that this is
// done. A write has the condition that its file is pinned. Data that was read in another era is
// valid if the file still exists. So no write to a removed file is acknowledged, and no data of a
// removed file is invented.
#include "dfs_mount.h"

namespace ros2s::fs {
namespace {

constexpr Duration era_looked_at_every = std::chrono::seconds(1);

}  // namespace

Task<std::reference_wrapper<NodeState>> DfsMount::pin(NodeId node) {
    is_holder_ = true;
    NodeState& state = nodes_.pin(node);
    while (state.removing) co_await state.removal_ended;
    co_return std::ref(state);
}

Task<> DfsMount::unpin(NodeState& state) {
    // If it is opened again at the next mount, that mount takes over the store's pin.
    if (state.pins == 1 && state.held && !leaves_orphans()) {
        state.removing = true;
        state.held = false;
        const auto wanted = co_await store_.unpin({.deadline = unpin_until_}, container_, holder_,
                                                  object_of(state.node));
        // Another mount wanted to punch it.
        if (wanted && *wanted && !std::exchange(state.orphaned, true)) state.spared_until = {};
        state.removing = false;
        state.removal_ended.wake_all();
    }
    const bool is_orphan = state.pins == 1 && state.orphaned;
    const NodeId node = state.node;
    const Time until = state.spared_until;
    nodes_.drop(state);
    if (!is_orphan) co_return;
    add_orphan({.node = node}, until);
    if (until > reactor_.now() || !options_.reaps || spares_all()) co_return;
    // Not the closing caller's call: its deadline must not end the removal.
    (void)co_await reap_until({.deadline = unpin_until_}, reactor_.now());
}

Task<> DfsMount::unpin_later(DfsMount& self, NodeState& state) { co_await self.unpin(state); }

Task<Result<DfsMount::InodeAndContents>> DfsMount::hold(const Call& call, NodeState& state) {
    const uint64_t era = store_.pins_era();
    RecordChain chain;
    ChainWhole whole;
    chain.add({.node = state.node}, whole, Link::Kind::pin);
    const auto done = co_await fetch(call, chain);
    const bool is_pinned = chain.item(whole.at).status.has_value();
    // If no answer came, it may have been pinned all the same.
    state.held = state.held || !done || is_pinned;
    ROS2S_CO_TRY(done);
    if (is_pinned) ROS2S_CO_TRY(co_await claim_locks(call, state));
    if (is_pinned) state.era = era;
    co_return whole_of(chain, whole);
}

Task<Result<>> DfsMount::check_held(const Call& call, NodeState& state) {
    while (state.era != store_.pins_era()) ROS2S_CO_TRY(co_await hold(call, state));
    co_return Result<>();
}

Task<Result<Commit>> DfsMount::commit_held(const Call& call, OperationSlots::HeldSlot& slot,
                                           NodeState& state, uint32_t part) {
    const auto losses = [&] { return state.locks != nullptr ? state.locks->losses : 0; };
    const uint64_t losses_before = losses();
    for (int attempt = 0; attempt < attempts_max; ++attempt) {
        // The change may be one that a lost lock protected.
        if (losses() != losses_before) [[unlikely]]
            co_return fail(Code::io);
        const auto done = co_await commit_named(call, slot, part);
        const bool is_unpinned =
            !done && done.error().code == Code::condition_failed && done.error().detail == 0;
        if (!is_unpinned) co_return done;
        ROS2S_CO_TRY(co_await hold(call, state));
    }
    co_return fail(Code::busy);
}

Task<> DfsMount::hold_again(DfsMount& self) {
    const Call call{.stop = self.closing_.token()};
    uint64_t era = self.store_.pins_era();
    while (co_await sleep_for(self.reactor_, era_looked_at_every, call.stop)) {
        const uint64_t now = self.store_.pins_era();
        // Others may be admitted as soon as the mount has said that nothing is lost.
        if (now != era && self.is_exclusive()) (void)co_await self.claim_container(call);
        // After a restart without loss the mount learns the new incarnation before its next change.
        if (self.deferred_ && (self.deferred_->is_unsure() || now != era)) {
            const auto learnt = co_await self.deferred_->learn(call);
            if (learnt) self.is_unsure_told_ = false;
            if (!learnt && learnt.error().code == Code::denied) self.log_unsure(learnt.error());
        }
        if (now == era) continue;
        era = now;
        for (const NodeId node : self.nodes_.all()) {
            const NodeState* const known = self.nodes_.find(node);
            // One that is open without a pin had a lease.
            if (known == nullptr || (!known->held && known->handles == 0)) continue;
            if (known->era == now) continue;
            NodeState& state = co_await self.pin(node);
            if (state.held || state.handles > 0) {
                const auto held = co_await self.hold(call, state);
                // If the node is gone, its users get `stale`. All other nodes are pinned again.
                if (!held && held.error().code != Code::stale) era = 0;
            }
            co_await self.unpin(state);
        }
        if (era == now && self.store_.pins_era() == now) {
            const auto wanted =
                co_await self.store_.pinned_again(call, self.container_, self.holder_);
            const bool reaps = self.options_.reaps && !self.leaves_orphans();
            if (wanted && *wanted && reaps) self.reap_now();
        }
        // Clients that did not reconnect have left orphans.
        self.sweep_later();
    }
}

}  // namespace ros2s::fs
