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
template <EngineStore::AwaitsRepetitions awaits, class T, class... Objects>
Task<Result<T>> EngineStore::shown(const Call& call, object::ContainerId container,
                                   Task<Result<T>> request, Objects... objects) {
    Committer& committer = pool_->committer;
    Cores& cores = pool_->base->cores;
    Core& here = cores.here();
    ROS2S_CO_TRY(committer.check_incarnation(call));
    if (awaits != AwaitsRepetitions::no && pool_->awaited.any()) {
        const RequestCount::Hold hold(here.requests);
        const auto wait = awaits == AwaitsRepetitions::yes ? &AwaitedClients::wait
                                                           : &AwaitedClients::wait_to_fetch;
        ROS2S_CO_TRY(co_await at_home(cores, pool_->awaited, wait, call, container));
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
        co_return co_await committer.make_durable(call, last);
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
    return shown<AwaitsRepetitions::unless_it_repeats>(call, container, std::move(fetched), items);
}
Task<Result<object::Commit>> EngineStore::update(const Call& call, object::ContainerId container,
                                                 const object::Transaction& transaction) {
    auto updated =
        at_home(pool_->base->cores, pool_->writer, &Writer::update, call, container, transaction);
    if (is_shown(call)) return updated;
    const auto conditions = std::span(transaction.conditions);
    const auto operations = std::span(transaction.operations);
    return transaction.was_lost
               ? shown<AwaitsRepetitions::no>(call, container, std::move(updated), conditions,
                                              operations)
               : shown(call, container, std::move(updated), conditions, operations);
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
EngineStore::Deferred EngineStore::deferred_of(uint64_t session) const {
    Deferred deferred;
    const Time now = pool_->base->env.reactor.now();
    const std::vector<Uuid> all(1);
    for (const Uuid& client : session == 0 ? all : pool_->holders.deferring(session)) {
        const auto amount = pool_->committer.volatile_objects().of_client(client);
        if (amount.changes == 0) continue;
        deferred.changes += amount.changes;
        deferred.bytes += amount.bytes;
        deferred.age = std::max(deferred.age, now - amount.since);
    }
    return deferred;
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
    if (is_of_container) return lock_container(call, std::move(locked));
    if (is_shown(call)) return locked;
    return shown(call, container, std::move(locked), request.object);
}
// Changes of others that were admitted before are visible before the holder reads anything.
Task<Result<std::optional<object::Lock>>> EngineStore::lock_container(
    const Call& call, Task<Result<std::optional<object::Lock>>> lock) {
    const auto done = co_await std::move(lock);
    if (!done || *done) co_return done;
    ROS2S_CO_TRY(
        co_await at_home(pool_->base->cores, pool_->committer, &Committer::wait_visible, call));
    co_return done;
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

object::LeaseTable& EngineStore::leases() { return pool_->leases; }

}  // namespace ros2s::engine
