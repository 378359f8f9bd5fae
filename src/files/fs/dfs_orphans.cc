// Orphans: nodes without a name.
//
// A program finds a node by its name, and uses it by its number in a later call. If another program
// replaces or removes the file meanwhile, the first program must get the old file or the new one. A
// kernel looks the name up a second time, but finds a file that may be replaced, too. So a node
// that loses its last name stays usable for some seconds:
//
//     unlink, rename ──► orphans_, and orphan_node in the store ──► the reaper punches it when its
//                                                                   time is over, or space is short
//
// The reaper punches many orphans in one transaction. The store's list has the orphans of all
// mounts. It is read when a mount starts, after a punch was refused, and when space is short.
//
// The reaper has a slot of its own, because writers wait for it while they have theirs.
#include "dfs_mount.h"

namespace ros2s::fs {
namespace {

// The time after which a file without a name is removed.
constexpr Duration life = std::chrono::milliseconds(2500);
// The interval at which the reaper works.
constexpr Duration reaps_every = std::chrono::milliseconds(500);
constexpr size_t together_max = object::chain_items_max / (RecordChain::whole_items + 1);

Operation punch_node(NodeId node) {
    return {.kind = Operation::Kind::punch_object, .object = object_of(node)};
}

object::ListRequest list_of_orphans() {
    return {.what = object::ListRequest::What::dkeys,
            .object = object_of(orphan_node),
            .akey = orphan_akey(),
            .limit = object::fetch_items_max};
}

}  // namespace

Time DfsMount::spared_until(const InodeRecord& record) const {
    const Duration age = reactor_.wall_time() - from_ns(record.changed_ns);
    // The clock that set the time may be another machine's.
    const bool is_known = age < life && age > -life;
    return is_known ? reactor_.now() + life - std::max(age, Duration{}) : reactor_.now();
}

void DfsMount::add_orphan(Orphan orphan, Time until) {
    if (!options_.reaps) return;
    if (NodeState* const used = nodes_.find(orphan.node); used != nullptr) {
        used->orphaned = true;
        used->spared_until = until;
        return;
    }
    orphans_.emplace(until, orphan);
    orphan_bytes_ += orphan.bytes;
    reap_later();
}

Task<Result<>> DfsMount::reap_until(const Call& call, Time until) {
    co_await reaper_.acquire();
    const SemaphoreHold hold(reaper_);
    std::vector<Orphan> batch;
    while (!orphans_.empty() && orphans_.begin()->first <= until) {
        batch.clear();
        std::vector<NodeId> nodes;
        while (batch.size() < together_max && !orphans_.empty() &&
               orphans_.begin()->first <= until) {
            batch.push_back(orphans_.begin()->second);
            nodes.push_back(batch.back().node);
            orphan_bytes_ -= batch.back().bytes;
            orphans_.erase(orphans_.begin());
        }
        const auto reaped = co_await reap(call, nodes);
        if (reaped) continue;
        for (const Orphan& orphan : batch) {
            if (!orphan.is_listed) add_orphan(orphan, reactor_.now() + reaps_every);
        }
        sweep_later();
        co_return reaped;
    }
    co_return Result<>();
}

Task<Result<>> DfsMount::reap(const Call& call, std::span<const NodeId> orphans) {
    std::vector<NodeState*> states;
    std::vector<NodeId> nodes;
    for (const NodeId node : orphans) {
        if (NodeState* const used = nodes_.find(node); used != nullptr) {
            used->orphaned = true;
            continue;
        }
        // A call that wants to use it waits, and then finds that it is gone.
        NodeState& state = nodes_.pin(node);
        state.removing = true;
        states.push_back(&state);
        nodes.push_back(node);
    }
    const auto reaped = co_await punch_orphans(call, nodes);
    for (NodeState* const state : states) {
        state->removing = false;
        state->removal_ended.wake_all();
        nodes_.drop(*state);
    }
    co_return reaped;
}

Task<Result<>> DfsMount::punch_orphans(const Call& call, std::span<const NodeId> nodes) {
    if (nodes.empty()) co_return Result<>();
    RecordChain chain(nodes.size() * (RecordChain::whole_items + 1));
    std::vector<ChainWhole> wholes(nodes.size());
    std::vector<OrphanRecord> records(nodes.size());
    std::vector<uint32_t> indices(nodes.size());
    for (size_t i = 0; i < nodes.size(); ++i) {
        chain.add({.node = nodes[i]}, wholes[i]);
        indices[i] =
            chain.add(orphan_node, Dkey::integer(nodes[i].value), orphan_akey(), records[i]);
    }
    ROS2S_CO_TRY(co_await fetch(call, chain));
    std::vector<NodeId> together;
    uint64_t chunks = 0;  // of these
    for (size_t i = 0; i < nodes.size(); ++i) {
        const Result<>& listed = chain.item(indices[i]).status;
        if (!listed && listed.error().code == Code::not_found) continue;  // another mount was first
        const auto whole = whole_of(chain, wholes[i]);
        const bool has_none =
            !whole && (whole.error().code == Code::stale || whole.error().code == Code::corrupt ||
                       whole.error().code == Code::bad_version);
        if (!whole && !has_none) co_return fail(whole.error());
        const bool is_file = whole && S_ISREG(whole->inode.record.mode) && whole->contents.exists;
        const uint64_t more = is_file ? whole->contents.highest_dkey.number() + 1 : 0;
        // Without an inode, its removal in steps has begun, or the inode cannot be read.
        if (!whole || more > punch_chunks_max_) {
            ROS2S_CO_TRY(co_await punch_in_steps(call, nodes[i]));
            continue;
        }
        if (chunks + more > punch_chunks_max_) {
            ROS2S_CO_TRY(co_await punch_together(call, std::exchange(together, {})));
            chunks = 0;
        }
        together.push_back(nodes[i]);
        chunks += more;
    }
    co_return co_await punch_together(call, std::move(together));
}

Task<Result<>> DfsMount::punch_together(const Call& call, std::vector<NodeId> nodes) {
    while (!nodes.empty()) {
        const auto done = co_await punch_at_once(call, nodes);
        if (done) {
            metrics_.orphans_reaped.add(nodes.size());
            break;
        }
        const Error error = done.error();
        if (error.code == Code::condition_failed) {
            // Another mount has it open, or has removed it. The others are punched without it.
            if (error.detail % 2 == 0) sweep_later();
            nodes.erase(nodes.begin() + static_cast<ptrdiff_t>(error.detail / 2));
            continue;
        }
        const bool is_too_much = error.code == Code::too_large || error.code == Code::no_memory;
        if (!is_too_much || nodes.size() == 1) co_return fail(error);
        for (const NodeId node : nodes) ROS2S_CO_TRY(co_await punch_together(call, {node}));
        break;
    }
    co_return Result<>();
}

Task<Result<Commit>> DfsMount::punch_at_once(const Call& call, std::span<const NodeId> nodes) {
    auto slot = slots_.take_reserved();
    for (const NodeId node : nodes) {
        slot.require(unpinned(node));
        slot.require(is_orphan(node));
    }
    for (const NodeId node : nodes) {
        slot.add(punch_node(node));
        slot.add(punch_orphan_record(node));
    }
    co_return co_await commit_reaped(call, slot);
}

// The first step removes the node's record, so that no reader finds half of the contents.
Task<Result<>> DfsMount::punch_in_steps(const Call& call, NodeId node) {
    for (bool begins = true;; begins = false) {
        ROS2S_CO_TRY_ASSIGN(const QueryReply contents,
                            co_await query_contents(call, node, S_IFREG));
        const uint64_t end = contents.exists ? contents.highest_dkey.number() + 1 : 0;
        if (end <= punch_chunks_max_) break;
        auto slot = slots_.take_reserved();
        slot.require(unpinned(node));
        slot.require(is_orphan(node));
        if (begins) {
            slot.add({.kind = Operation::Kind::punch_dkey,
                      .object = object_of(node),
                      .dkey = record_dkey()});
        } else {
            slot.add(punch_chunks_from(node, end - punch_chunks_max_));
        }
        const auto done = co_await commit_reaped(call, slot);
        if (done) continue;
        if (done.error().code != Code::condition_failed) co_return fail(done.error());
        if (done.error().detail == 0) sweep_later();
        co_return Result<>();
    }
    co_return co_await punch_together(call, {node});
}

// ---- all orphans of the container --------------------------------------------------------------

Task<Result<std::vector<Time>>> DfsMount::times_of(const Call& call,
                                                   std::span<const NodeId> orphans) {
    std::vector<InodeRecord> inodes(orphans.size());
    std::vector<FetchItem> items;
    for (size_t i = 0; i < orphans.size(); ++i) {
        items.push_back(record_item(object_of(orphans[i]), record_dkey(), inode_akey(), inodes[i]));
    }
    ROS2S_CO_TRY(co_await store_.fetch(call, container_, items));
    std::vector<Time> times;
    for (size_t i = 0; i < orphans.size(); ++i) {
        const auto record = record_of(items[i], inodes[i]);
        times.push_back(record ? spared_until(*record) : reactor_.now());
    }
    co_return times;
}

Task<Result<>> DfsMount::reap_listed(const Call& call, Which which) {
    Listing orphans{list_of_orphans()};
    while (orphans.more) {
        ROS2S_CO_TRY_ASSIGN(const auto entries, co_await next_page(call, orphans));
        std::vector<NodeId> nodes;
        for (const object::ListEntry& entry : entries) {
            const NodeId node{Dkey{entry.key}.number()};
            const bool is_spared = entry.epoch.value <= spared_upto_;
            if (!is_spared && node.value >= first_free_node) nodes.push_back(node);
        }
        std::vector<Time> times(nodes.size(), reactor_.now());
        if (which == Which::due && !nodes.empty()) {
            ROS2S_CO_TRY_ASSIGN(times, co_await times_of(call, nodes));
        }
        for (size_t i = 0; i < nodes.size(); ++i) {
            add_orphan({.node = nodes[i], .is_listed = true}, times[i]);
        }
        ROS2S_CO_TRY(co_await reap_until(call, reactor_.now()));
    }
    co_return Result<>();
}

Task<bool> DfsMount::make_room(const Call& call) {
    if (!options_.reaps || spares_all()) co_return false;
    const uint64_t before = metrics_.orphans_reaped.value();
    const auto has_room = [&] { return metrics_.orphans_reaped.value() != before; };
    co_await room_maker_.acquire();
    const SemaphoreHold hold(room_maker_);
    if (has_room()) co_return true;  // another caller made it
    const Time now = reactor_.now();
    (void)co_await reap_until(call, now + life);
    if (has_room() || now < listed_for_room_) co_return has_room();
    listed_for_room_ = now + reaps_every;
    (void)co_await reap_listed(call, Which::all);
    co_return has_room();
}

// Writers in other containers of the pool cannot reap what this mount has removed.
Task<bool> DfsMount::is_space_short(const Call& call) {
    constexpr uint64_t part = 32;
    const auto space = co_await store_.space(call, container_);
    if (!space) co_return false;
    co_return space->free_bytes < std::max(orphan_bytes_, space->total_bytes / part) ||
        (space->total_values > 0 && space->free_values < space->total_values / part);
}

// ---- in the background -------------------------------------------------------------------------

Task<Result<>> DfsMount::begin(const Call& call) {
    if (deferred_) {
        const auto synced = co_await sync(call);
        // A pool whose device has failed is mounted all the same: reading must work.
        if (!synced && synced.error().code != Code::io) co_return synced;
    }
    if (store_.pins_era() != 0) co_await reaping_.spawn(hold_again(*this));
    if (takes_leases()) co_await reaping_.spawn(listen(*this));
    if (!options_.reaps) co_return Result<>();
    if (options_.orphan_grace == Duration{}) co_return co_await reap_listed(call, Which::due);
    if (store_.features().own_pins) {
        spared_upto_ = UINT64_MAX;
    } else {
        // The store protects what clients of an earlier mount have open, but not for longer than it
        // keeps the pins of that mount.
        ROS2S_CO_TRY_ASSIGN(spared_upto_, co_await last_orphan(call));
    }
    if (spared_upto_ == 0) co_return Result<>();
    grace_until_ = reactor_.now() + options_.orphan_grace;
    co_await reaping_.spawn(reap_after_grace(*this));
    co_return Result<>();
}

Task<Result<uint64_t>> DfsMount::last_orphan(const Call& call) {
    Listing orphans{list_of_orphans()};
    uint64_t last = 0;
    while (orphans.more) {
        ROS2S_CO_TRY_ASSIGN(const auto entries, co_await next_page(call, orphans));
        for (const object::ListEntry& entry : entries) last = std::max(last, entry.epoch.value);
    }
    co_return last;
}

Task<> DfsMount::reap_after_grace(DfsMount& self) {
    if (!co_await sleep_for(self.reactor_, self.options_.orphan_grace, self.closing_.token())) {
        co_return;
    }
    self.spared_upto_ = 0;
    self.grace_until_ = {};
    const Call call{.stop = self.closing_.token()};
    if (!co_await self.reap_listed(call, Which::due)) self.sweep_later();
}

// Not by the caller: holders that the store awaits may hold it up for seconds.
void DfsMount::reap_now() {
    if (!reaps_now_ && !closing_.stop_requested()) {
        reaps_now_ = reaping_.try_spawn(reap_what_is_due(*this));
    }
}

Task<> DfsMount::reap_what_is_due(DfsMount& self) {
    const Call call{.stop = self.closing_.token()};
    (void)co_await self.reap_listed(call, Which::due);
    self.reaps_now_ = false;
}

void DfsMount::reap_later() {
    if (reaps_ || closing_.stop_requested()) return;
    reaps_ = reaping_.try_spawn(reap_in_time(*this));
    ROS2S_CHECK(reaps_);
}

Task<> DfsMount::reap_in_time(DfsMount& self) {
    const Call call{.stop = self.closing_.token()};
    while (!self.orphans_.empty() && co_await sleep_for(self.reactor_, reaps_every, call.stop)) {
        if (self.spares_all()) continue;
        const bool is_short = co_await self.is_space_short(call);
        const Time now = self.reactor_.now();
        (void)co_await self.reap_until(call, is_short ? now + life : now);
    }
    self.reaps_ = false;
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
        if (self.spares_all()) continue;
        self.sweep_due_ = false;
        if (!co_await self.reap_listed(call, Which::due)) self.sweep_due_ = true;
    }
    self.sweeps_ = false;
}

}  // namespace ros2s::fs
