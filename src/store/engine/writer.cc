#include "writer.h"

#include <fmt/format.h>

#include <algorithm>

#include "reader.h"
#include "ros2s/engine/rules/commit_rules.h"
#include "ros2s/object/validate.h"
#include "ros2s/runtime/sync.h"

namespace ros2s::engine {

using object::Commit;

// A transaction in progress.
struct Writer::Update {
    const Call& call;
    object::ContainerId container;
    const object::Transaction& transaction;
    Draft draft;
    bool has_space = false;          // reserved: draft.needs()
    bool has_caps = false;           // its growth is measured, and admitted by State::reserve()
    uint64_t lease = 0;              // Commit::lease
    Caches::Claim* claim = nullptr;  // of an update of blocks
};

// Its locks and pins on one core; taken and released there.
struct Writer::Visit {
    explicit Visit(Core& visited) : core(visited), locked(visited.locks), pins(visited.cache) {}
    void release() {
        pins.clear();
        locked.clear();
    }
    Core& core;
    LocksHeld locked;
    Pins pins;
    std::vector<std::string> summaries;  // affected by its changes; only the entries name them
};

namespace {

// Staging blocks held by one update.
class BlocksHeld {
  public:
    BlocksHeld(Semaphore& semaphore, uint64_t blocks) : semaphore_(semaphore), blocks_(blocks) {}
    BlocksHeld& operator=(BlocksHeld&&) = delete;
    ~BlocksHeld() {
        if (blocks_ > 0) semaphore_.release(blocks_);
    }

  private:
    Semaphore& semaphore_;
    uint64_t blocks_;
};

}  // namespace

Writer::Writer(Cores& cores, State& state, Committer& committer, Checkpointer& checkpointer,
               object::PinTable& pins, object::LockTable& locks, object::LeaseTable& leases,
               PinHolders& holders, AwaitedClients& awaited, Caches& caches, uint64_t staging_bytes)
    : cores_(cores),
      state_(state),
      committer_(committer),
      checkpointer_(checkpointer),
      pins_(pins),
      locks_(locks),
      leases_(leases),
      holders_(holders),
      awaited_(awaited),
      caches_(caches),
      reactor_(cores.home().env.reactor),
      staging_blocks_(std::max<uint64_t>(staging_bytes / block_bytes, 64)),
      staging_(reactor_, staging_blocks_),
      in_place_turn_(reactor_, 1),
      slot_done_(reactor_) {}

// Exactly once: a repetition gets the stored reply, or waits for the first one.
Task<Result<Commit>> Writer::update(const Call& call, object::ContainerId container,
                                    const object::Transaction& transaction) {
    CoreMetrics& metrics = cores_.home().metrics;
    const RequestCount::Hold hold(cores_.home().requests);
    const Span span(call.trace, reactor_, "engine.update");
    metrics.updates.add();
    ROS2S_CO_TRY(object::validate(transaction));
    ROS2S_CO_TRY(call.check(reactor_));
    UpdateName id = transaction.id;
    if (id.client.is_nil()) co_return co_await execute(call, container, transaction, id);
    id.digest = digest_of(transaction);
    const ReplyKey slot = Replies::key_of(id, container);
    while (running_.contains(slot) && rules.await_first_try) {
        ROS2S_CO_TRY(call.check(reactor_));
        const WakeOnStop wake(call.stop, slot_done_);
        co_await slot_done_;
    }
    ROS2S_CO_TRY_ASSIGN(const auto reply, find_reply(container, transaction, id));
    if (reply) {
        metrics.replays.add();
        co_return Commit{reply->epoch, reply->time, true};
    }
    running_.insert(slot);
    Result<Commit> result = co_await execute(call, container, transaction, id);
    running_.erase(slot);
    slot_done_.wake_all();
    co_return result;
}

Result<> Writer::check_repetition(object::ContainerId container,
                                  const object::Transaction& transaction) const {
    const bool is_refused =
        transaction.was_lost && !awaited_.awaits(name_of(container, transaction.holder));
    return is_refused ? fail(Code::expired) : Result<>();
}

// Replies are dropped later than what was lost. So one that is not there was lost with its update.
Result<std::optional<ReplyValue>> Writer::find_reply(object::ContainerId container,
                                                     const object::Transaction& transaction,
                                                     const UpdateName& id) const {
    ROS2S_TRY(check_repetition(container, transaction));
    const auto reply =
        state_.replies.look_up(id, container, transaction.is_new, reactor_.wall_time());
    const bool is_unknown = !reply && reply.error().code == Code::expired;
    if (!is_unknown || !transaction.was_lost) return reply;
    return state_.replies.look_up(id, container, true, reactor_.wall_time());
}

Task<Result<uint64_t>> Writer::sync(const Call& call, object::ContainerId container,
                                    const object::Holder& holder,
                                    const object::Acknowledged& known) {
    const auto synced = co_await committer_.sync(call, known);
    const object::HolderName name = name_of(container, holder);
    const bool is_lost = !synced && synced.error().code == Code::expired;
    // It may repeat its changes when the pool has been repaired and opened again.
    if (is_lost && !committer_.read_only_reason().empty()) co_return fail(Code::read_only);
    if (is_lost && awaited_.awaits(name)) co_return fail(Code::busy, synced.error().detail);
    if (synced) awaited_.over(name);
    co_return synced;
}

// A block that seemed to be there needs no room. If it has been removed since, it is tried again.
Task<Result<Commit>> Writer::update_blocks(const Call& call, object::ContainerId container,
                                           const object::Transaction& transaction, UpdateName id) {
    ROS2S_CO_TRY(Caches::validate(transaction));
    if (Caches::is_of_pins(transaction)) {
        ROS2S_CO_TRY(caches_.pin(container, transaction));
        co_return Commit{};
    }
    constexpr int attempts_max = 4;
    Result<Commit> done;
    for (int i = 0; i < attempts_max; ++i) {
        Caches::Claim claim;
        ROS2S_CO_TRY(co_await caches_.make_room(call, container, transaction, claim));
        done = co_await update_once(call, container, transaction, id, &claim);
        if (done || done.error().code != Code::over_cap) break;
    }
    co_return done;
}

static bool pins_anything(const object::Transaction& transaction) {
    return std::ranges::any_of(transaction.conditions, [](const object::Condition& condition) {
        return condition.kind == object::Condition::Kind::pin;
    });
}

Task<Result<Commit>> Writer::update_once(const Call& call, object::ContainerId container,
                                         const object::Transaction& transaction, UpdateName id,
                                         Caches::Claim* claim) {
    if (!committer_.read_only_reason().empty()) co_return fail(Code::read_only);
    if (!state_.has_container(container)) co_return fail(Code::not_found);
    // stage() asks once more. Now is less work.
    ROS2S_CO_TRY(leases_.ask(container, transaction));
    if (awaited_.any() && !transaction.was_lost) [[unlikely]]
        ROS2S_CO_TRY(co_await leave_room(call, transaction));
    const object::Holder& holder = transaction.holder;
    const bool pins = pins_anything(transaction);
    const auto use = transaction.deferred ? PinHolders::Use::defers : PinHolders::Use::pins;
    if ((pins || transaction.deferred) && !holders_.has(container, holder, use)) {
        // Without room on the list it is not deferred.
        const auto listed = co_await holders_.add(container, holder, use);
        if (!listed && pins) co_return fail(listed.error());
    }
    Update update{call, container, transaction,
                  Draft(container, transaction, id, cores_.partition(), cores_.lock_names())};
    update.has_caps = state_.has_caps(container);
    update.claim = claim;
    Draft& draft = update.draft;
    ROS2S_CO_TRY(draft.build(state_.homes));
    if (draft.blocks_max() > staging_blocks_) {
        co_return fail(Code::no_memory, staging_blocks_ * block_bytes);
    }
    if (draft.blocks_max() > 0) co_await staging_.acquire(draft.blocks_max());
    const BlocksHeld staged(staging_, draft.blocks_max());
    if (checkpointer_.is_behind()) co_await checkpointer_.catch_up();
    ROS2S_CO_TRY(co_await reserve(call, draft));
    update.has_space = true;
    InlineVector<Visit, 1> visits;
    for (uint32_t core = 0; core < cores_.size(); ++core) {
        if (draft.concerns(core)) visits.emplace_back(cores_[core]);
    }
    Result<Commit> result = co_await carry_out(update, visits);
    for (Visit& visit : visits) {
        co_await hop(visit.core.env.reactor);
        if (result) draft.keep_partial_blocks(visit.core.number, visit.core.partial);
        visit.release();
        co_await hop(reactor_);
    }
    if (update.has_space) {
        for (const Draft::Need& need : draft.needs()) {
            state_.space.unreserve(need.device, need.blocks_max);
        }
        committer_.progress().wake_all();
    }
    if (!result) cores_.home().metrics.updates_failed.add();
    cores_.home().trim();
    checkpointer_.request_if_due();
    co_return result;
}

// ---- space ---------------------------------------------------------------------------------

// What awaited clients repeat had space before, which is free again. So changes of others wait
// before they take the last of it.
Task<Result<>> Writer::leave_room(const Call& call, const object::Transaction& transaction) {
    const bool takes_space = std::ranges::any_of(
        transaction.operations, [](const auto& each) { return each.window.length > 0; });
    const auto is_short = [&] {
        uint64_t available = 0;
        for (uint32_t d = 0; d < state_.space.devices(); ++d) {
            available += state_.space.available_blocks(d);
        }
        return available < std::min(repeated_blocks_max, state_.space.total_blocks() / 8);
    };
    if (!takes_space || !is_short()) co_return Result<>();
    co_return co_await awaited_.wait_for_all(call);
}

bool Writer::try_reserve(Draft& draft, SpaceMap::Need need) {
    const std::span<const Draft::Need> needs = draft.needs();
    for (size_t i = 0; i < needs.size(); ++i) {
        if (state_.space.reserve(needs[i].device, needs[i].blocks_max, need)) continue;
        const uint32_t full = needs[i].device;
        const uint64_t blocks = needs[i].blocks_max;
        while (i-- > 0) state_.space.unreserve(needs[i].device, needs[i].blocks_max);
        // Another device may have the room that this one lacks.
        uint32_t roomiest = 0;
        for (uint32_t d = 1; d < state_.space.devices(); ++d) {
            if (state_.space.available_blocks(d, need) >
                state_.space.available_blocks(roomiest, need)) {
                roomiest = d;
            }
        }
        if (roomiest == full || state_.space.available_blocks(roomiest, need) < blocks) {
            return false;
        }
        draft.redirect(full, roomiest);
        return try_reserve(draft, need);
    }
    return true;
}

Task<Result<>> Writer::reserve(const Call& call, Draft& draft) {
    const Result<> reserved = co_await reserve_for(call, draft, SpaceMap::Need::more);
    if (reserved || reserved.error().code != Code::no_space) co_return reserved;
    co_return co_await reserve_in_place(call, draft);
}

// A full pool has room for a write that displaces as many blocks as it writes. A request for many
// of them would wait while others take a few each. So requests take them in turn.
Task<Result<>> Writer::reserve_in_place(const Call& call, Draft& draft) {
    draft.write_in_place();
    co_await in_place_turn_.acquire();
    const SemaphoreHold turn(in_place_turn_);
    co_return co_await reserve_for(call, draft, SpaceMap::Need::in_place);
}

Task<Result<>> Writer::reserve_for(const Call& call, Draft& draft, SpaceMap::Need need) {
    uint64_t begun = committer_.last_sequence();
    while (!try_reserve(draft, need)) {
        ROS2S_CO_TRY(call.check(reactor_));
        if (committer_.is_dead()) co_return fail(Code::read_only);
        // The cleaner stops, and its last move gives back what it has taken.
        state_.space.forget_victims();
        const bool is_moving = state_.space.is_moving();
        if (is_moving) begun = committer_.last_sequence() + 1;
        if (committer_.discarder().hurry()) continue;
        // If everything that was displaced before is free again and it is still not enough, the
        // pool is full: other requests need the blocks that they displace meanwhile.
        const uint64_t oldest = state_.space.oldest_quarantined();
        bool comes_back = is_moving || committer_.discarder().is_busy();
        if (need == SpaceMap::Need::in_place) {
            // At most the unused blocks can become available.
            for (const Draft::Need& one : draft.needs()) {
                if (state_.space.unused_blocks_most() < one.blocks_max) {
                    co_return fail(Code::no_space);
                }
            }
            // Other requests will return their reserved blocks of those that are kept back.
            comes_back = comes_back || state_.space.has_reservations();
        } else if (state_.applied >= begun && (oldest == 0 || oldest > begun)) {
            if (!comes_back) co_return fail(Code::no_space);
        }
        if (!comes_back && !committer_.advance_proof()) co_return fail(Code::no_space);
        co_await committer_.progress();
    }
    co_return Result<>();
}

// ---- the update itself ---------------------------------------------------------------------

Task<> Writer::lock_at(Update& update, Visit& visit) {
    const Span span(update.call.trace, visit.core.env.reactor, "engine.lock");
    if (!rules.lock_keys) co_return;
    co_await visit.locked.lock(update.draft.locks(visit.core.number));
}

// ---- conditions ----------------------------------------------------------------------------

// A key being built needs a kilobyte, which a coroutine's frame need not have.
static std::string keys_of_dkey(object::ContainerId container, const object::Condition& condition) {
    return KeyBuilder(Table::entries)
        .container(container)
        .object(condition.object)
        .string(condition.dkey.bytes)
        .take();
}

static Task<Result<bool>> holds(const Call& call, Core& core, object::ContainerId container,
                                const object::Condition& condition) {
    using Kind = object::Condition::Kind;
    if (condition.kind == Kind::no_dkeys) {
        std::string key = summary_key(container, condition.object, condition.akey.bytes).take();
        ROS2S_CO_TRY_ASSIGN(Node * summary, co_await core.loader.load(std::move(key)));
        core.cache.unpin(*summary);
        co_return summary->is_absent() || summary->summary()->entries == 0;
    }
    if (condition.akey.bytes.empty()) {
        std::string from = keys_of_dkey(container, condition);
        const std::string to = prefix_end(from);
        bool exists = false;
        for (bool more = true; more && !exists;) {
            ROS2S_CO_TRY(core.loader.check(call));
            ROS2S_CO_TRY_ASSIGN(const Loader::Page page, co_await core.loader.scan(from, to, 16));
            page.count_for(call);
            exists = !page.items.empty();
            more = page.more;
            from = page.next;
        }
        co_return exists == (condition.kind == Kind::exists);
    }
    std::string key =
        entry_key(container, condition.object, condition.dkey.bytes, condition.akey.bytes, 0)
            .take();
    ROS2S_CO_TRY_ASSIGN(Node * node, co_await core.loader.load(std::move(key)));
    core.cache.unpin(*node);
    const EntryValue* const entry = node->entry();
    switch (condition.kind) {
        case Kind::exists: co_return entry != nullptr;
        case Kind::absent: co_return entry == nullptr;
        case Kind::epoch_equals:
            co_return (entry == nullptr ? 0 : entry->epoch.value) == condition.value;
        default: co_return (entry == nullptr ? 0 : entry->size) == condition.value;
    }
}

Task<Result<>> Writer::judge_at(Update& update, Visit& visit) {
    // The conditions on keys of this core.
    Core& core = visit.core;
    const std::vector<object::Condition>& conditions = update.transaction.conditions;
    for (size_t i = 0; i < conditions.size(); ++i) {
        const object::Condition& condition = conditions[i];
        if (condition.is_about_holders()) continue;  // stage()
        const bool here =
            condition.kind == object::Condition::Kind::no_dkeys
                ? core.number == 0
                : update.draft.is_on(core.number, condition.object, condition.dkey.bytes);
        if (!here) continue;
        ROS2S_CO_TRY_ASSIGN(const bool held,
                            co_await holds(update.call, core, update.container, condition));
        if (!held) co_return fail(Code::condition_failed, i);
    }
    co_return Result<>();
}

// ---- partly written blocks, and nodes ------------------------------------------------------

// Old bytes of partly written blocks: verified, so that corrupt bytes never get a new CRC. Only
// those that this core has planned; the other cores read theirs before or after.
static Task<Result<>> read_edges(Core& core, Trace* trace, Draft& draft) {
    for (Draft::Edge& edge : draft.edges()) {
        if (!edge.memory.bytes().empty()) continue;
        core.metrics.partial_blocks.add();
        edge.memory = AlignedBuffer(block_bytes);
        const BlockRef base = edge.base;
        const Result<> read = co_await read_verified(core, trace, {&base, 1}, edge.memory.bytes());
        // The caller has its request. The position of the bad bytes is not reported.
        if (!read) co_return fail(Error{read.error().code, read.error().os_errno, 0});
    }
    co_return Result<>();
}

Task<Result<>> Writer::plan_at(Update& update, Visit& visit) {
    Core& core = visit.core;
    Draft& draft = update.draft;
    for (Change& change : draft.changes()) {
        if (!draft.is_on(core.number, change)) continue;
        if (core.loader.prepare_resident_entry(update.container, change, visit.pins)) continue;
        ROS2S_CO_TRY(co_await core.loader.prepare_entries(
            update.container, change, visit.pins,
            {.call = update.call, .bytes_max = 2 * core.cache_bytes_max}, visit.summaries));
    }
    ROS2S_CO_TRY(draft.plan(core.number, core.cache));
    draft.take_partial_blocks(core.number, core.partial);
    if (update.has_caps) draft.measure(core.number);
    if (!draft.edges().empty()) {
        ROS2S_CO_TRY(co_await read_edges(core, update.call.trace, draft));
    }
    core.trim();
    co_return Result<>();
}

// The usual case: everything is on one core, which needs one visit.
Task<Result<>> Writer::prepare_at(Update& update, Visit& visit) {
    co_await lock_at(update, visit);
    if (!update.transaction.conditions.empty()) ROS2S_CO_TRY(co_await judge_at(update, visit));
    co_return co_await plan_at(update, visit);
}

Task<Result<>> Writer::prepare(Update& update, std::span<Visit> visits) {
    Core& home = cores_.home();
    for (Visit& visit : visits) co_await at(visit.core, home, lock_at(update, visit));
    // The first failure in the request's order, on any core.
    Result<> judged;
    for (Visit& visit : visits) {
        const Result<> here = co_await at(visit.core, home, judge_at(update, visit));
        if (here) continue;
        if (here.error().code != Code::condition_failed) co_return here;
        if (judged || here.error().detail < judged.error().detail) judged = here;
    }
    ROS2S_CO_TRY(judged);
    for (Visit& visit : visits) {
        ROS2S_CO_TRY(co_await at(visit.core, home, plan_at(update, visit)));
    }
    co_return Result<>();
}

// One line a minute for each container: a program that is refused goes on trying.
void Writer::tell_over_cap(object::ContainerId id) {
    constexpr auto pause = std::chrono::minutes(1);
    State::Container& container = state_.containers.at(id);
    const Time now = reactor_.now();
    if (container.told && now - *container.told < pause) return;
    container.told = now;
    const object::ContainerProperties& what = container.value.properties;
    const auto amounts = [](const object::Amount& used, const object::Amount& caps) {
        const auto one = [](uint64_t all, uint64_t cap) {
            return cap == 0 ? fmt::format("{} of no cap", all) : fmt::format("{} of {}", all, cap);
        };
        return fmt::format("{} bytes, {} single values", one(used.bytes, caps.bytes),
                           one(used.values, caps.values));
    };
    std::string line = fmt::format(
        "an update of the container '{}' was refused, because it would exceed a cap. "
        "The container uses {}",
        what.label, amounts(container.value.used, what.caps));
    if (container.owner != nullptr) {
        line += fmt::format("; all containers of '{}' {}", what.owner,
                            amounts(container.owner->used, container.owner->caps));
    }
    cores_.home().env.log.warning(
        line +
        ". Remove files, or raise the cap: `ros2store container set`, `ros2store tenant set`");
}

Result<> Writer::stage(Update& update) {
    Draft& draft = update.draft;
    if (!state_.has_container(update.container)) return fail(Code::not_found);
    // The locks exclude pins while a transaction under `unpinned` is in progress, and punches of an
    // object during writes under a pin.
    ROS2S_TRY(locks_.admit(update.container, update.transaction.holder.client, reactor_.now()));
    ROS2S_TRY(pins_.judge(update.container, update.transaction, reactor_.now()));
    // While it waited, its client may have been given up.
    ROS2S_TRY(check_repetition(update.container, update.transaction));
    // Before it was lost, others had given back their leases. They have had none since.
    ROS2S_TRY(update.transaction.was_lost ? leases_.ask(update.container, update.transaction)
                                          : leases_.admit(update.container, update.transaction));
    object::Amount& reserved = draft.record().reserved;
    if (update.claim != nullptr) update.claim->release();
    if (update.has_caps) {
        const auto admitted = state_.reserve(update.container, draft.growth());
        if (!admitted) {
            tell_over_cap(update.container);
            return fail(admitted.error());
        }
        reserved = *admitted;
    }
    if (const Result<> staged = draft.stage(committer_.open()); !staged) {
        state_.unreserve(update.container, reserved);
        return staged;
    }
    pins_.take(update.container, update.transaction);
    update.lease = leases_.grant(update.container, update.transaction);
    leases_.begin(update.container, update.transaction);
    for (const Draft::Need& need : draft.needs()) {
        state_.space.unreserve(need.device, need.blocks_max - need.staged);
        cores_.home().metrics.update_bytes.add(need.staged * block_bytes);
    }
    update.has_space = false;
    return {};
}

Task<Result<Commit>> Writer::carry_out(Update& update, std::span<Visit> visits) {
    Core& home = cores_.home();
    Draft& draft = update.draft;
    ROS2S_CO_TRY(visits.size() == 1
                     ? co_await at(visits[0].core, home, prepare_at(update, visits[0]))
                     : co_await prepare(update, visits));
    // Core 0 owns the summaries. They are pinned with the nodes of the visit there.
    Pins apart(home.cache);
    Pins& summaries = !visits.empty() && &visits[0].core == &home ? visits[0].pins : apart;
    for (Change& change : draft.changes()) {
        if (home.loader.prepare_resident_summary(update.container, change, summaries)) continue;
        ROS2S_CO_TRY(co_await home.loader.prepare_summaries(
            update.container, change, summaries,
            {.call = update.call, .bytes_max = 2 * home.cache_bytes_max}));
    }
    for (Visit& visit : visits) {
        if (visit.summaries.empty()) continue;
        ROS2S_CO_TRY(co_await home.loader.prepare_keys(std::move(visit.summaries), summaries));
    }
    ROS2S_CO_TRY(co_await committer_.admit(draft.record_bytes_max(), draft.blocks_max()));
    ROS2S_CO_TRY(update.call.check(reactor_));
    ROS2S_CO_TRY(stage(update));
    committer_.open().hold(apart.nodes());
    for (const Visit& visit : visits) committer_.open().hold(visit.pins.nodes());
    if (!rules.acknowledge_durable &&
        std::ranges::all_of(update.transaction.conditions, &object::Condition::is_about_holders))
        [[unlikely]] {
        committer_.join(std::move(draft.record()));
        // No coroutine waits for the group: they stay pinned for ever.
        (void)apart.take();
        for (Visit& visit : visits) (void)visit.pins.take();
        co_return Commit{};
    }
    if (!rules.lock_until_applied) {
        for (Visit& visit : visits) {
            if (visit.core.is_current()) visit.locked.clear();
        }
    }
    const Span span(update.call.trace, reactor_, "engine.commit");
    const object::Transaction& transaction = update.transaction;
    const bool deferred =
        (transaction.deferred &&
         holders_.has(update.container, transaction.holder, PinHolders::Use::defers) &&
         committer_.may_defer(update.container, transaction)) ||
        (update.claim != nullptr && Caches::has_blocks(transaction));
    auto commit =
        co_await committer_.commit(std::move(draft.record()), update.call.trace, deferred);
    if (update.claim != nullptr && commit) {
        caches_.note(update.container, update.transaction, *update.claim);
    }
    leases_.end(update.container, update.transaction);
    if (commit) leases_.done(update.container, update.transaction);
    if (commit && transaction.was_lost) awaited_.note_repetition();
    if (commit) commit->lease = update.lease;
    co_return commit;
}

}  // namespace ros2s::engine
