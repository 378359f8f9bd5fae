#include "engine_store.h"

#include <fmt/format.h>

#include "open_pool.h"
#include "pool_check.h"
#include "ros2s/engine/rules/commit_rules.h"
#include "ros2s/object/chain.h"

namespace ros2s::engine {

// ---- opening and closing -------------------------------------------------------------------

namespace {

// Connects a pool's devices and its index; nothing is written. If it succeeds, the devices belong
// to the pool.
Task<Result<std::unique_ptr<RecoveredPool>>> put_together(const Environment& env, Devices& devices,
                                                          const IndexFactory& factory,
                                                          const EngineOptions& options,
                                                          Report& report) {
    if (devices.empty()) {
        co_return report.fail(Code::invalid, "a pool needs at least one device");
    }
    std::vector<Superblock> found;
    for (const auto& device : devices) {
        ROS2S_CO_TRY_ASSIGN(found.emplace_back(), co_await read_superblock(*device, report));
    }
    ROS2S_CO_TRY_ASSIGN(Superblock superblock, match_devices(devices, found, report));
    ROS2S_CO_TRY(check_identities(devices, superblock, options.accept_copies, report));
    ROS2S_CO_TRY(check_space_map(superblock, options.memory_bytes, report));
    const std::string& directory = superblock.index_directory;
    Report said;
    auto index =
        co_await env.blocking.run(env.reactor, [&] { return factory(directory, false, said); });
    if (!index) {
        co_return report.fail(
            index.error(), said.empty()
                               ? fmt::format("the pool's index (directory {}) cannot be opened: {}",
                                             directory, describe(index.error()))
                               : said.text());
    }
    co_return std::make_unique<RecoveredPool>(env, std::move(devices), std::move(superblock),
                                              std::move(*index), options);
}

}  // namespace

Task<Result<std::unique_ptr<EngineStore>>> EngineStore::open(const Environment& env,
                                                             Devices devices, IndexFactory factory,
                                                             EngineOptions options,
                                                             Report& report) {
    auto pool = co_await put_together(env, devices, factory, options, report);
    if (!pool) {
        co_await close_all(devices);
        co_return fail(pool.error());
    }
    Result<Recovered> recovered = co_await (*pool)->recover(report);
    if (!recovered) {
        co_await (*pool)->close();
        co_return fail(recovered.error());
    }
    std::unique_ptr<EngineStore> store(
        new EngineStore(std::make_unique<OpenPool>(std::move(*pool), std::move(*recovered))));
    co_await store->pool_->start();
    if (const auto loaded = co_await store->pool_->caches.load(); !loaded) {
        report.say("the keys of its caches cannot be read: {}", describe(loaded.error()));
        (void)co_await store->close();
        co_return fail(loaded.error());
    }
    co_return store;
}

EngineStore::EngineStore(std::unique_ptr<OpenPool> pool) : pool_(std::move(pool)) {}
EngineStore::~EngineStore() = default;

Task<Result<>> EngineStore::close() {
    RecoveredPool& base = *pool_->base;
    Cores& cores = base.cores;
    pool_->awaited.give_up();
    for (uint32_t i = 0; i < cores.size(); ++i) {
        co_await at(cores[i], cores.home(), cores[i].requests.wait_idle());
    }
    Result<> result;
    if (co_await pool_->stop()) {
        const std::string& reason = pool_->committer.read_only_reason();
        if (reason.empty()) result = co_await pool_->checkpointer.checkpoint();
        // From now on a copy of one device that was made while the pool was open counts as old.
        if (base.devices.size() > 1 && reason.empty() && result) {
            Report report;
            result =
                co_await renew_superblocks(base.env.reactor, base.devices, base.superblock, report);
            if (!result) base.env.log.warning(report.text());
        }
        if (pool_->committer.states().has_volatile()) result = fail(Code::io);
    }
    co_await base.close();
    co_return result;
}

Task<Result<>> EngineStore::checkpoint() {
    Checkpointer& checkpointer = pool_->checkpointer;
    const RequestCount::Hold hold(pool_->base->cores.home().requests);
    if (!read_only_reason().empty()) co_return fail(Code::read_only);
    const uint64_t before = checkpointer.counters.checkpoints.value();
    // A checkpoint in progress may have cut too early for the caller: wait for a whole one.
    checkpointer.request();
    co_await checkpointer.finished();
    if (checkpointer.is_requested() && !pool_->committer.is_dead()) {
        co_await checkpointer.finished();
    }
    if (checkpointer.counters.checkpoints.value() == before) co_return fail(Code::read_only);
    co_return Result<>();
}

Task<Result<CheckedPool>> EngineStore::check(const Call& call, const CheckOptions& options) {
    RecoveredPool& base = *pool_->base;
    const RequestCount::Hold hold(base.cores.home().requests);
    const Recovered& recovered = pool_->recovered;
    if (recovered.is_damaged) options.problem({}, recovered.read_only_reason);
    ROS2S_CO_TRY_ASSIGN(CheckedPool checked, co_await PoolCheck(base, call, options).run());
    checked.replayed_groups = recovered.replayed_groups;
    co_return checked;
}

// ---- what it is ----------------------------------------------------------------------------

object::PoolId EngineStore::pool() const { return {pool_->base->superblock.pool}; }
std::string EngineStore::read_only_reason() const { return pool_->committer.read_only_reason(); }
uint64_t EngineStore::replayed_groups() const { return pool_->recovered.replayed_groups; }
uint32_t EngineStore::targets() const { return pool_->base->superblock.targets; }
uint32_t EngineStore::cores() const { return pool_->base->cores.size(); }

uint64_t EngineStore::memory_bytes() const {
    const RecoveredPool& p = *pool_->base;
    uint64_t bounced = 0;
    for (uint32_t i = 0; i < p.cores.size(); ++i) {
        bounced += p.cores[i].metrics.bounce_bytes.value();
    }
    return p.cores.cache_bytes() + pool_->committer.chunks.memory_bytes() + bounced +
           p.state.space.memory_bytes() + p.state.replies.memory_bytes() +
           pool_->checkpointer.batch_bytes() + pool_->cleaner.memory_bytes() +
           pool_->caches.memory_bytes() + pool_->committer.volatile_objects().memory_bytes();
}

std::vector<const device::BlockDevice*> EngineStore::devices() const {
    std::vector<const device::BlockDevice*> devices;
    for (const auto& device : pool_->base->devices) devices.push_back(device.get());
    for (uint32_t i = 1; i < pool_->base->cores.size(); ++i) {
        for (const auto& device : pool_->base->cores[i].own_devices)
            devices.push_back(device.get());
    }
    return devices;
}

object::Features EngineStore::features() const {
    return {.multi_object_transactions = true,
            .conditions = true,
            .stored_replies = true,
            .checksums = true,
            .durable = true,
            .chains = true,
            .caps = true,
            .seals = true,
            .locks = true,
            .leases = true,
            .deferred = true,
            .update_leases = true};
}

std::string EngineStore::path() const {
    const size_t count = pool_->base->devices.size();
    return std::string(pool_->base->options.name) + ", " + pool_->base->devices[0]->path() + ", " +
           std::to_string(count) + (count == 1 ? " device" : " devices") +
           (cores() == 1 ? "" : ", " + std::to_string(cores()) + " cores");
}

// ---- requests ------------------------------------------------------------------------------

namespace {

// From another core to core 0 and back. The caller's stop token stays on its core.
template <class Part, class R, class... Arguments>
Task<R> from_afar(Cores& cores, Part& part, Task<R> (Part::*request)(const Call&, Arguments...),
                  const Call& call, std::type_identity_t<Arguments>... arguments) {
    Reactor& from = cores.here().env.reactor;
    ROS2S_CO_TRY(call.check(from));
    Call inner = call;
    inner.stop = {};
    co_await hop(cores.home().env.reactor);
    R result = co_await (part.*request)(inner, std::forward<Arguments>(arguments)...);
    co_await hop(from);
    co_return result;
}
// Makes a request that core 0 executes.
template <class Part, class R, class... Arguments>
Task<R> at_home(Cores& cores, Part& part, Task<R> (Part::*request)(const Call&, Arguments...),
                const Call& call, std::type_identity_t<Arguments>... arguments) {
    if (!cores.home().is_current()) {
        return from_afar(cores, part, request, call, std::forward<Arguments>(arguments)...);
    }
    return (part.*request)(call, std::forward<Arguments>(arguments)...);
}

// Of the object, and of all that a transaction or fetch has.
uint64_t changed_by_others(const VolatileObjects& all, const Call& call,
                           object::ContainerId container, object::ObjectId object) {
    return all.changed_by_others(container, object, call.client->id);
}
template <class Items>
uint64_t changed_by_others(const VolatileObjects& all, const Call& call,
                           object::ContainerId container, const Items& items) {
    uint64_t last = 0;
    for (const auto& each : items) {
        last = std::max(last, changed_by_others(all, call, container, each.object));
    }
    return last;
}

}  // namespace

bool EngineStore::is_shown(const Call& call) const {
    return call.client == nullptr && !pool_->awaited.any();
}

// Waits also if the request failed: the error may say what is there. After the request, the objects
// are noted whose changes it has seen.
template <class T, class... Objects>
Task<Result<T>> EngineStore::shown(const Call& call, object::ContainerId container,
                                   Task<Result<T>> request, Objects... objects) {
    Committer& committer = pool_->committer;
    Cores& cores = pool_->base->cores;
    Core& here = cores.here();
    ROS2S_CO_TRY(committer.check_incarnation(call));
    if (pool_->awaited.any()) {
        const RequestCount::Hold hold(here.requests);
        ROS2S_CO_TRY(
            co_await at_home(cores, pool_->awaited, &AwaitedClients::wait, call, container));
    }
    const bool is_own = call.client == nullptr;
    if (!is_own && pool_->locks.has_container()) {
        const auto admit = [](object::LockTable& locks, object::ContainerId container, Uuid client,
                              Reactor& reactor) -> Task<Result<>> {
            co_return locks.admit(container, client, reactor.now());
        };
        ROS2S_CO_TRY(
            co_await at(cores.home(), here,
                        admit(pool_->locks, container, call.client->id, cores.home().env.reactor)));
    }
    Result<T> done = co_await std::move(request);
    if (is_own || !committer.volatile_objects().any() || !rules.show_durable_only) co_return done;
    const auto wait = [](Committer& committer, const Call& call, object::ContainerId container,
                         const Objects&... objects) -> Task<Result<>> {
        const uint64_t last =
            std::max({uint64_t{0}, changed_by_others(committer.volatile_objects(), call, container,
                                                     objects)...});
        co_return co_await committer.make_durable(last);
    };
    ROS2S_CO_TRY(co_await at(cores.home(), here, wait(committer, call, container, objects...)));
    co_return done;
}

Task<Result<>> EngineStore::fetch(const Call& call, object::ContainerId container,
                                  std::span<object::FetchItem> items) {
    const bool is_of_blocks = Caches::concerns(items);
    auto fetched = is_of_blocks ? at_home(pool_->base->cores, pool_->caches, &Caches::fetch, call,
                                          container, items)
                                : pool_->reader.fetch(call, container, items);
    if (is_shown(call)) return fetched;
    return shown(call, container, std::move(fetched), items);
}
Task<Result<object::Commit>> EngineStore::update(const Call& call, object::ContainerId container,
                                                 const object::Transaction& transaction) {
    auto updated =
        at_home(pool_->base->cores, pool_->writer, &Writer::update, call, container, transaction);
    if (is_shown(call)) return updated;
    return shown(call, container, std::move(updated), std::span(transaction.conditions),
                 std::span(transaction.operations));
}
Task<Result<object::ListReply>> EngineStore::list(const Call& call, object::ContainerId container,
                                                  const object::ListRequest& request) {
    auto listed =
        at_home(pool_->base->cores, pool_->lister, &Lister::list, call, container, request);
    if (is_shown(call)) return listed;
    const bool is_of_all = request.what == object::ListRequest::What::objects;
    return shown(call, container, std::move(listed),
                 is_of_all ? object::ObjectId{} : request.object);
}
Task<Result<object::QueryReply>> EngineStore::query(const Call& call, object::ContainerId container,
                                                    object::ObjectId object,
                                                    const object::Akey& akey) {
    auto found =
        at_home(pool_->base->cores, pool_->lister, &Lister::query, call, container, object, akey);
    if (is_shown(call)) return found;
    return shown(call, container, std::move(found), object);
}
Task<Result<object::ContainerRecord>> EngineStore::create_container(
    const Call& call, const object::ContainerProperties& properties) {
    return at_home(pool_->base->cores, pool_->containers, &Containers::create, call, properties);
}
Task<Result<object::ContainerRecord>> EngineStore::set_container(
    const Call& call, object::ContainerId container, const object::ContainerChange& change) {
    return at_home(pool_->base->cores, pool_->containers, &Containers::set, call, container,
                   change);
}
void EngineStore::set_owner_caps(const std::map<std::string, object::Amount>& caps) {
    pool_->base->state.set_owner_caps(caps);
}
std::vector<EngineStore::Capped> EngineStore::capped_containers() const {
    std::vector<Capped> all;
    for (const auto& [id, container] : pool_->base->state.containers) {
        const ContainerValue& value = container.value;
        if (value.retired || value.properties.caps == object::Amount{}) continue;
        all.push_back(
            {value.properties.label, value.used, value.properties.caps, container.refusals});
    }
    return all;
}
std::vector<EngineStore::Capped> EngineStore::capped_owners() const {
    std::vector<Capped> all;
    for (const auto& [name, owner] : pool_->base->state.owners) {
        if (owner.caps == object::Amount{}) continue;
        all.push_back({name, owner.used, owner.caps, owner.refusals});
    }
    return all;
}
Task<Result<>> EngineStore::destroy_container(const Call& call, object::ContainerId container) {
    return at_home(pool_->base->cores, pool_->containers, &Containers::destroy, call, container);
}
Task<Result<std::vector<object::ContainerRecord>>> EngineStore::list_containers(const Call& call) {
    return at_home(pool_->base->cores, pool_->containers, &Containers::list, call);
}
Task<Result<object::PoolSpace>> EngineStore::space(const Call& call,
                                                   object::ContainerId container) {
    return at_home(pool_->base->cores, pool_->containers, &Containers::space, call, container);
}
Task<Result<>> EngineStore::pin(const Call& call, object::ContainerId container,
                                const object::Holder& holder, object::FetchItem& item) {
    auto pinned =
        at_home(pool_->base->cores, pool_->reader, &Reader::pin, call, container, holder, item);
    if (is_shown(call)) return pinned;
    return shown(call, container, std::move(pinned), item.object);
}
Task<Result<>> EngineStore::fetch_chain(const Call& call, object::ContainerId container,
                                        const object::Holder& holder,
                                        std::span<object::FetchItem> items,
                                        std::span<object::Link> links) {
    return object::fetch_in_turn(*this, call, container, holder, items, links);
}
Task<Result<bool>> EngineStore::unpin(const Call& call, object::ContainerId container,
                                      const object::Holder& holder, object::ObjectId object) {
    return at_home(pool_->base->cores, pool_->reader, &Reader::unpin, call, container, holder,
                   object);
}
Task<Result<bool>> EngineStore::pinned_again(const Call& call, object::ContainerId container,
                                             const object::Holder& holder) {
    return at_home(pool_->base->cores, pool_->reader, &Reader::pinned_again, call, container,
                   holder);
}
Task<Result<std::optional<object::Lock>>> EngineStore::lock(const Call& call,
                                                            object::ContainerId container,
                                                            const object::Holder& holder,
                                                            const object::LockRequest& request) {
    auto locked =
        at_home(pool_->base->cores, pool_->reader, &Reader::lock, call, container, holder, request);
    // Who asks for the container learns here who has it.
    const bool is_of_container = request.lock.space == object::LockSpace::container;
    if (is_shown(call) || is_of_container) return locked;
    return shown(call, container, std::move(locked), request.object);
}
Task<Result<uint64_t>> EngineStore::sync(const Call& call, object::ContainerId container,
                                         const object::Holder& holder,
                                         const object::Acknowledged& known) {
    return at_home(pool_->base->cores, pool_->writer, &Writer::sync, call, container, holder,
                   known);
}
Task<Result<object::LeaseNews>> EngineStore::listen(const Call& call, object::ContainerId container,
                                                    const object::Holder& holder,
                                                    const object::Listening& listening) {
    return at_home(pool_->base->cores, pool_->reader, &Reader::listen, call, container, holder,
                   listening);
}
Task<Result<uint64_t>> EngineStore::lease(const Call& call, object::ContainerId container,
                                          const object::Holder& holder, object::ObjectId object) {
    return at_home(pool_->base->cores, pool_->reader, &Reader::lease, call, container, holder,
                   object);
}
void EngineStore::session_ended(uint64_t session) {
    const Time now = pool_->base->env.reactor.now();
    const Time until = now + pool_->base->options.pin_grace;
    pool_->pins.session_ended(session, now, until);
    pool_->holders.session_ended(session, now, until);
    pool_->caches.session_ended(session);
}
void EngineStore::client_ended(uint64_t session) {
    const Time now = pool_->base->env.reactor.now();
    pool_->locks.session_ended(session, now, now);
    pool_->pins.session_ended(session, now, now);
    pool_->leases.client_ended(session);
    pool_->holders.client_ended(session);
    pool_->caches.session_ended(session);
}

// ---- metrics -------------------------------------------------------------------------------

object::LeaseTable& EngineStore::leases() { return pool_->leases; }

void EngineStore::visit_times(const HistogramVisitor& visit) const {
    visit("ros2store_lease_answer_duration_seconds",
          "Time that updates waited for the answer to a recall.", {},
          pool_->leases.answers().read());
}

void EngineStore::visit_metrics(const MetricVisitor& visit) const {
    const RecoveredPool& p = *pool_->base;
    const auto counter = [&](std::string_view name, std::string_view help, const Counter& value) {
        visit(name, help, value.value());
    };
    const auto sum = [&](std::string_view name, std::string_view help, auto&& of) {
        uint64_t total = 0;
        for (uint32_t i = 0; i < p.cores.size(); ++i) total += of(p.cores[i]).value();
        visit(name, help, total);
    };
    const auto counted = [&](std::string_view name, std::string_view help,
                             Counter CoreMetrics::* metric) {
        sum(name, help, [&](const Core& core) -> const Counter& { return core.metrics.*metric; });
    };
    using Of = CoreMetrics;
    counted("ros2store_engine_fetches_total", "Fetch requests.", &Of::fetches);
    counted("ros2store_engine_fetch_items_total", "Extents and values fetched.", &Of::fetch_items);
    counted("ros2store_engine_fetch_bytes_total", "Bytes fetched.", &Of::fetch_bytes);
    counted("ros2store_engine_fetch_bounced_total", "Reads copied once more (unaligned).",
            &Of::fetch_bounced);
    counted("ros2store_engine_fetch_rereads_total",
            "Reads repeated into engine memory after a mismatch in the caller's.",
            &Of::fetch_rereads);
    counted("ros2store_engine_fetch_corrupt_total", "Reads whose media bytes were rotten.",
            &Of::fetch_corrupt);
    counted("ros2store_engine_updates_total", "Update requests.", &Of::updates);
    counted("ros2store_engine_update_bytes_total", "Bytes written to data blocks.",
            &Of::update_bytes);
    counted("ros2store_engine_updates_failed_total", "Update requests that failed.",
            &Of::updates_failed);
    counted("ros2store_engine_replays_total", "Updates answered from a stored reply.",
            &Of::replays);
    visit("ros2store_engine_stored_replies", "Request slots whose last answer is kept.",
          p.state.replies.count());
    visit("ros2store_engine_pins", "Open files that mounts have pinned.", pool_->pins.count());
    visit("ros2store_engine_locks", "Locks by fcntl and flock that mounts have.",
          pool_->locks.count());
    const object::LockTable::Counters& of_locks = pool_->locks.counters();
    counter("ros2store_engine_lock_refused_total",
            "Calls for locks with another lock in the way; one that waits asks again.",
            of_locks.refused);
    counter("ros2store_engine_lock_held_off_total",
            "Calls for locks after a start, before former holders have claimed theirs.",
            of_locks.held_off);
    counter("ros2store_engine_lock_bounded_total", "Locks that a bound refused.", of_locks.bounded);
    visit("ros2store_engine_leases", "Nodes that mounts may keep in their caches.",
          pool_->leases.count());
    visit("ros2store_engine_lease_holders", "Mounts that listen for recalls of leases.",
          pool_->leases.holders().size());
    const object::LeaseCounters& of_leases = pool_->leases.counters();
    counter("ros2store_engine_lease_recalls_total", "Leases that were asked back.",
            of_leases.recalls);
    counter("ros2store_engine_lease_expired_total", "Recalls without an answer in time.",
            of_leases.expired);
    counter("ros2store_engine_lease_refused_total", "Leases that a bound refused.",
            of_leases.refused);
    counter("ros2store_engine_lease_cuts_total", "Mounts cut off because they answered too late.",
            of_leases.cuts);
    counter("ros2store_engine_lease_evictions_total", "Mounts whose leases an operator ended.",
            of_leases.evictions);
    counted("ros2store_engine_partial_blocks_total", "Blocks read to be written in part.",
            &Of::partial_blocks);
    counted("ros2store_engine_lists_total", "List requests.", &Of::lists);
    counted("ros2store_engine_queries_total", "Query requests.", &Of::queries);
    sum("ros2store_engine_index_misses_total", "Entries loaded from the index.",
        [](const Core& core) -> const Counter& { return core.loader.counters.misses; });
    sum("ros2store_engine_index_scans_total", "Pages scanned in the index.",
        [](const Core& core) -> const Counter& { return core.loader.counters.scans; });
    visit("ros2store_engine_targets", "Partitions of the dkeys.", targets());
    visit("ros2store_engine_cores", "Cores that the targets are spread over.", cores());
    const Committer::Counters& c = pool_->committer.counters;
    counter("ros2store_engine_groups_total", "Groups committed.", c.groups);
    counter("ros2store_engine_empty_groups_total", "Groups committed to prove earlier ones.",
            c.empty_groups);
    counter("ros2store_engine_deferred_groups_total",
            "Groups acknowledged before their flush (durability=fsync).", c.deferred_groups);
    counter("ros2store_engine_deferred_flushes_total", "Flushes for these alone.",
            c.deferred_flushes);
    const GroupStates& states = pool_->committer.states();
    visit("ros2store_engine_awaited_clients",
          "Clients that may have to repeat changes that a loss of power took back.",
          pool_->awaited.count());
    visit("ros2store_engine_volatile_groups", "Acknowledged groups that await their flush.",
          states.visible() - std::min(states.visible(), states.durable()));
    visit("ros2store_engine_volatile_milliseconds", "For so long the first of them has waited.",
          static_cast<uint64_t>(
              std::chrono::duration_cast<std::chrono::milliseconds>(pool_->committer.volatile_for())
                  .count()));
    counter("ros2store_engine_transactions_total", "Transactions committed.", c.transactions);
    counter("ros2store_engine_blocks_total", "Data blocks written.", c.blocks);
    counter("ros2store_engine_runs_total", "Contiguous runs that they were written in.", c.runs);
    counter("ros2store_engine_journal_bytes_total", "Bytes of journal records.", c.record_bytes);
    counter("ros2store_engine_journal_waits_total", "Times a full journal held a group up.",
            c.journal_waits);
    const Checkpointer::Counters& k = pool_->checkpointer.counters;
    counter("ros2store_engine_checkpoints_total", "Checkpoints written.", k.checkpoints);
    counter("ros2store_engine_checkpoint_bytes_total", "Bytes of their batches.", k.batch_bytes);
    visit("ros2store_engine_cache_bytes", "Memory of cached entries.", p.cores.cache_bytes());
    visit("ros2store_engine_recovery_cache_bytes",
          "The most that cached entries took while the journal was replayed.",
          pool_->recovered.cache_bytes_max);
    visit("ros2store_engine_dirty_bytes", "Of these, not yet in the index.", p.cores.dirty_bytes());
    visit("ros2store_engine_memory_bytes", "Memory that the cap bounds.", memory_bytes());
    visit("ros2store_engine_staging_bytes", "Of it, for payload being written, and spare",
          pool_->committer.chunks.memory_bytes());
    visit("ros2store_engine_journal_used_bytes", "Journal in use.",
          p.journal.used_blocks() * block_bytes);
    visit("ros2store_engine_quarantined_bytes", "Displaced blocks not yet free.",
          p.state.space.quarantined_blocks() * block_bytes);
    const Discarder::Counters& d = pool_->committer.discarder().counters;
    counter("ros2store_engine_discards_total", "Discards (TRIM) that devices carried out.",
            d.discards);
    counter("ros2store_engine_discarded_bytes_total", "Bytes of them.", d.bytes);
    counter("ros2store_engine_discards_left_out_bytes_total",
            "Bytes that became free without a discard, because there was no room or time.",
            d.left_out_bytes);
    const Cleaner::Counters& cleaner = pool_->cleaner.counters;
    counter("ros2store_engine_cleaner_passes_total", "Times that the cleaner began.",
            cleaner.passes);
    visit("ros2store_engine_cleaner_moved_bytes_total",
          "Bytes that it moved. Write amplification: 1 + these / update_bytes_total.",
          cleaner.moved_blocks.value() * block_bytes);
    counter("ros2store_engine_cleaner_spared_blocks_total",
            "Blocks that it left because they could not be read or are corrupt.",
            cleaner.spared_blocks);
    uint64_t clear_blocks = 0;
    for (uint32_t d = 0; d < p.state.space.devices(); ++d) {
        clear_blocks += p.state.space.clear_blocks(d);
    }
    visit("ros2store_engine_clear_bytes", "Free space in whole, aligned MiB.",
          clear_blocks * block_bytes);
    visit("ros2store_engine_used_bytes", "Data in use.", p.state.space.used_blocks() * block_bytes);
    visit("ros2store_engine_total_bytes", "Room for data.",
          p.state.space.total_blocks() * block_bytes);
    sum("ros2store_engine_lock_waits_total", "Times a transaction waited for another.",
        [](const Core& core) -> const Counter& { return core.locks.waits(); });
    const object::CacheUse caches = pool_->caches.use();
    visit("ros2store_cache_blocks", "Blocks in caches.", caches.blocks);
    visit("ros2store_cache_pinned_blocks", "Blocks that are pinned.", caches.pinned);
    visit("ros2store_cache_hits_total", "Blocks of caches that were read.", caches.hits);
    visit("ros2store_cache_misses_total", "Reads of blocks that are not in their cache.",
          caches.misses);
    visit("ros2store_cache_puts_total", "Blocks put into caches.", caches.puts);
    visit("ros2store_cache_evictions_total", "Blocks removed for others.", caches.evicted);
    visit("ros2store_cache_expired_total", "Blocks removed because of their age.", caches.expired);
    visit("ros2store_cache_removed_total", "Blocks removed by request.", caches.removed);
    visit("ros2store_cache_table_bytes", "Memory of the keys of blocks.",
          pool_->caches.memory_bytes());
    visit("ros2store_engine_inconsistencies_total", "Blocks used or freed twice; always 0.",
          p.state.inconsistencies);
}

}  // namespace ros2s::engine
