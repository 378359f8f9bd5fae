// The lifetime of a node. It exists while it has a name, while this mount has it open, and while
// another mount has it open.
//
// The fetch that opens a node also pins it in the store. A punch has the condition that no other
// mount has pinned the object. If it is refused, the node becomes an orphan, or stays one, and is
// removed with the last pin:
//
//     open here alone      the last close punches it at once
//     open elsewhere, too  the store tells the mount that releases the last pin to punch it
//     its mount has died   the mount that found it pinned checks again after a while; so does each
//                          mount that starts
//
// A restarted store may have forgotten pins, and so may one whose connection was lost (a new era).
// They are pinned again within a second or two. The store waits until the mount says that this is done. A write has the
// condition that its file is pinned. Data that was read in another era is valid if the file still
// exists. So no write to a removed file is acknowledged, and no data of a removed file is invented.
#include "dfs_mount.h"

namespace ros2s::fs {
namespace {

constexpr Duration era_looked_at_every = std::chrono::seconds(1);

}  // namespace

Task<std::reference_wrapper<NodeState>> DfsMount::pin(NodeId node) {
    NodeState& state = nodes_.pin(node);
    while (state.removing) co_await state.removal_ended;
    co_return std::ref(state);
}

Task<Result<>> DfsMount::unpin(NodeState& state) {
    Result<> reaped;
    const bool reaps = state.orphaned && options_.reaps && !spares(state);
    // If it is opened again at the next mount, that mount takes over the store's pin.
    const bool lets_go = state.held && !leaves_orphans();
    if (state.pins == 1 && (reaps || lets_go)) {
        state.removing = true;
        reaped = co_await let_go(state, reaps);
        state.removing = false;
        state.removal_ended.wake_all();
    }
    nodes_.drop(state);
    co_return reaped;
}

Task<> DfsMount::unpin_later(DfsMount& self, NodeState& state) { (void)co_await self.unpin(state); }

Task<Result<>> DfsMount::let_go(NodeState& state, bool reaps) {
    // Not the closing caller's call: its deadline must not end the removal. If the removal fails,
    // the next mount repeats it.
    const Call call;
    Result<bool> gone = false;
    if (reaps) gone = co_await reap(call, state.node);
    state.orphaned = false;
    if (!state.held || leaves_orphans()) co_return gone ? Result<>() : fail(gone.error());
    state.held = false;
    const auto wanted = co_await store_.unpin({.deadline = unpin_until_}, container_, holder_,
                                              object_of(state.node));
    const bool is_wanted = wanted && *wanted && options_.reaps && !spares(state);
    if (is_wanted && !(gone && *gone)) gone = co_await reap(call, state.node);
    co_return gone ? Result<>() : fail(gone.error());
}

Task<Result<DfsMount::Whole>> DfsMount::hold(const Call& call, NodeState& state) {
    const uint64_t era = store_.pins_era();
    RecordChain chain;
    ChainWhole whole;
    chain.add({.node = state.node}, whole, Link::Kind::pin);
    const auto done = co_await fetch(call, chain);
    const bool is_pinned = chain.item(whole.at).status.has_value();
    // If no answer came, it may have been pinned all the same.
    state.held = state.held || !done || is_pinned;
    ROS2S_CO_TRY(done);
    if (is_pinned) state.era = era;
    co_return whole_of(chain, whole);
}

Task<Result<>> DfsMount::check_held(const Call& call, NodeState& state) {
    while (state.era != store_.pins_era()) ROS2S_CO_TRY(co_await hold(call, state));
    co_return Result<>();
}

Task<Result<Commit>> DfsMount::commit_held(const Call& call, OperationSlots::Lease& lease,
                                           NodeState& state, uint32_t part) {
    for (int attempt = 0; attempt < attempts_max; ++attempt) {
        const auto done = co_await commit_named(call, lease, part);
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
        if (now == era) continue;
        era = now;
        for (const NodeId node : self.nodes_.all()) {
            const NodeState* const known = self.nodes_.find(node);
            if (known == nullptr || !known->held || known->era == now) continue;
            NodeState& state = co_await self.pin(node);
            if (state.held) {
                const auto held = co_await self.hold(call, state);
                // If the node is gone, its users get `stale`. All other nodes are pinned again.
                if (!held && held.error().code != Code::stale) era = 0;
            }
            (void)co_await self.unpin(state);
        }
        if (era == now) {
            const auto wanted = co_await self.store_.pinned_again(call, self.container_, self.holder_);
            const bool reaps = self.options_.reaps && !self.leaves_orphans();
            if (wanted && *wanted && reaps) (void)co_await self.reap_orphans(call);
        }
        // Clients that did not reconnect have left orphans.
        self.sweep_later();
    }
}

// ---- orphans -------------------------------------------------------------------------------

Task<Result<bool>> DfsMount::reap(const Call& call, NodeId node) {
    ROS2S_CO_TRY_ASSIGN(const QueryReply contents, co_await query_contents(call, node, S_IFREG));
    if (contents.exists && contents.highest_dkey.number() >= punch_chunks_max_) {
        // In steps. The first step removes the node's record, so that no reader finds half of the
        // contents.
        ROS2S_CO_TRY_ASSIGN(const bool begun,
                            co_await punch_orphan(call, node,
                                                  {.kind = Operation::Kind::punch_dkey,
                                                   .object = object_of(node),
                                                   .dkey = record_dkey()},
                                                  false));
        if (!begun) co_return false;
        ROS2S_CO_TRY(co_await punch_chunks(call, node, 0));
    }
    ROS2S_CO_TRY_ASSIGN(
        const bool gone,
        co_await punch_orphan(
            call, node, {.kind = Operation::Kind::punch_object, .object = object_of(node)}, true));
    if (gone) metrics_.orphans_reaped.add();
    co_return gone;
}

Task<Result<bool>> DfsMount::punch_orphan(const Call& call, NodeId node, Operation operation,
                                          bool is_last) {
    co_await slots_.wait();
    auto lease = slots_.take();
    lease.require(unpinned(node));
    lease.require({.kind = Condition::Kind::exists,
                   .object = object_of(orphan_node),
                   .dkey = Dkey::integer(node.value),
                   .akey = orphan_akey()});
    lease.add(std::move(operation));
    if (is_last) {
        lease.add({.kind = Operation::Kind::punch_dkey,
                   .object = object_of(orphan_node),
                   .dkey = Dkey::integer(node.value)});
    }
    const auto done = co_await commit(call, lease);
    if (done) co_return true;
    if (done.error().code != Code::condition_failed) co_return fail(done.error());
    const bool is_pinned = done.error().detail == 0;
    // Otherwise it is not an orphan: another mount has punched it, or has not made it an orphan
    // yet.
    if (is_pinned) sweep_later();
    co_return !is_pinned;
}

Task<Result<>> DfsMount::reap_orphans(const Call& call) {
    object::ListRequest request{.what = object::ListRequest::What::dkeys,
                                .object = object_of(orphan_node),
                                .akey = orphan_akey()};
    for (bool more = true; more;) {
        ROS2S_CO_TRY_ASSIGN(const object::ListReply reply,
                            co_await store_.list(call, container_, request));
        for (const object::ListEntry& entry : reply.entries) {
            if (entry.epoch.value <= spared_upto_) continue;
            ROS2S_CO_TRY_ASSIGN(const auto orphan, decode<OrphanRecord>(as_bytes(entry.value)));
            NodeState& state = co_await pin(NodeId{orphan.node});
            state.orphaned = true;
            ROS2S_CO_TRY(co_await unpin(state));
        }
        if (!reply.entries.empty()) request.after = reply.entries.back().key;
        more = reply.more;
    }
    co_return Result<>();
}

Task<Result<uint64_t>> DfsMount::last_orphan(const Call& call) {
    object::ListRequest request{.what = object::ListRequest::What::dkeys,
                                .object = object_of(orphan_node),
                                .akey = orphan_akey()};
    uint64_t last = 0;
    for (bool more = true; more;) {
        ROS2S_CO_TRY_ASSIGN(const object::ListReply reply,
                            co_await store_.list(call, container_, request));
        for (const object::ListEntry& entry : reply.entries) {
            last = std::max(last, entry.epoch.value);
        }
        if (!reply.entries.empty()) request.after = reply.entries.back().key;
        more = reply.more;
    }
    co_return last;
}

Task<Result<>> DfsMount::begin(const Call& call) {
    if (store_.pins_era() != 0) co_await reaping_.spawn(hold_again(*this));
    if (!options_.reaps) co_return Result<>();
    if (options_.orphan_grace == Duration{}) co_return co_await reap_orphans(call);
    if (store_.features().own_pins) {
        spared_upto_ = UINT64_MAX;
    } else {
        // The store protects what clients of an earlier mount have open, but not for longer than it
        // keeps the pins of that mount.
        ROS2S_CO_TRY_ASSIGN(spared_upto_, co_await last_orphan(call));
    }
    if (is_in_grace()) co_await reaping_.spawn(reap_after_grace(*this));
    co_return Result<>();
}

Task<> DfsMount::reap_after_grace(DfsMount& self) {
    if (!co_await sleep_for(self.reactor_, self.options_.orphan_grace, self.closing_.token())) {
        co_return;
    }
    self.spared_upto_ = 0;
    const Call call{.stop = self.closing_.token()};
    if (!co_await self.reap_orphans(call)) self.sweep_later();
}

void DfsMount::sweep_later() {
    sweep_due_ = true;
    if (sweeps_ || !options_.reaps || closing_.stop_requested()) return;
    sweeps_ = reaping_.try_spawn(sweep(*this));
    ROS2S_CHECK(sweeps_);
}

Task<> DfsMount::sweep(DfsMount& self) {
    const Call call{.stop = self.closing_.token()};
    while (self.sweep_due_ &&
           co_await sleep_for(self.reactor_, self.options_.orphan_sweep, call.stop)) {
        if (self.leaves_orphans()) continue;
        self.sweep_due_ = false;
        if (!co_await self.reap_orphans(call)) self.sweep_due_ = true;
    }
    self.sweeps_ = false;
}

}  // namespace ros2s::fs
