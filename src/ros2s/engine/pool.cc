// Creating, opening, growing and closing a pool.
#include <fmt/format.h>

#include <algorithm>

#include "parts.h"
#include "ros2s/base/check.h"
#include "ros2s/runtime/rest.h"
#include "superblocks.h"

namespace ros2s::engine {
namespace {

constexpr uint64_t journal_bytes_min = 16 << 20;
constexpr uint64_t journal_bytes_max = 256 << 20;
constexpr uint64_t checkpoint_block = 1;  // and 2
constexpr uint64_t journal_block = 3;
constexpr uint64_t journal_blocks_least = 16;
constexpr uint32_t target_count = 16;
constexpr std::string_view index_directory = "index";

Task<> close_all(EngineStore::Devices& devices) {
    for (auto& device : devices) {
        if (device != nullptr) co_await device->close();
    }
    devices.clear();
}

Result<Superblock> plan_pool(const Env& env, std::span<device::BlockDevice* const> devices,
                             const CreateOptions& options, Report& report) {
    if (devices.empty() || devices.size() > pool_devices_max) {
        return report.fail(Code::invalid, fmt::format("a pool has 1 to {} devices, not {}",
                                                      pool_devices_max, devices.size()));
    }
    const uint64_t first_bytes = devices[0]->size();
    const uint64_t journal_bytes =
        options.journal_bytes != 0
            ? options.journal_bytes
            : std::clamp(first_bytes / 16, journal_bytes_min, journal_bytes_max);
    Superblock pool{
        .pool = Uuid::make(env.reactor.secrets()),
        .generation = 1,
        .settled_generation = 1,
        .device_number = 0,
        .devices = {},
        .checkpoint_first = checkpoint_block,
        .journal_first = journal_block,
        .journal_blocks = journal_bytes / block_bytes,
        .created_ns = static_cast<uint64_t>(env.reactor.wall_time().time_since_epoch().count()),
        .targets = target_count,
        .index_directory = std::string(index_directory)};
    for (const device::BlockDevice* device : devices) {
        pool.devices.push_back(
            {Uuid::make(env.reactor.secrets()), blocks_of(*device), identity_of(*device)});
        const auto number = static_cast<uint32_t>(pool.devices.size() - 1);
        if (pool.journal_blocks < journal_blocks_least ||
            pool.data_first(number) + 16 > pool.data_end(number)) {
            return report.fail(
                Code::invalid,
                fmt::format("{}: {} bytes are too few: a pool's first device needs {} bytes for "
                            "its journal, at least {} KiB, and room for data. Give it more",
                            device->name(), device->size(), journal_bytes,
                            journal_blocks_least * block_bytes / 1024));
        }
    }
    return pool;
}

}  // namespace

Task<Result<>> EngineStore::create(const Env& env, std::span<device::BlockDevice* const> devices,
                                   IndexFactory factory, CreateOptions options, Report& report) {
    ROS2S_CO_TRY_ASSIGN(Superblock pool, plan_pool(env, devices, options, report));
    const uint64_t steps = devices.size() + 2;
    const auto step = [&](uint64_t done) {
        if (options.progress) options.progress(done, steps);
    };
    const auto failed = [&](const device::BlockDevice& device, const Error& error) {
        return report.fail(error, fmt::format("{}: writing the new pool failed: {}", device.name(),
                                              describe(error)));
    };
    step(0);
    // The index first, the superblocks last: what is half made is no pool.
    IndexBatch batch;
    batch.put(meta_key().view(), encode(MetaValue{.pool = pool.pool}));
    const Result<> made = co_await env.blocking.run(env.reactor, [&]() -> Result<> {
        ROS2S_TRY_ASSIGN(const std::unique_ptr<Index> index,
                         factory(pool.index_directory, true, report));
        Result<> done = index->apply(std::move(batch));
        if (done) done = index->flush();
        const Result<> closed = index->close();
        return done ? closed : done;
    });
    if (!made) {
        co_return report.fail(made.error(),
                              "making the pool's index failed: " + describe(made.error()));
    }
    step(1);
    const CheckpointSlot slot{.pool = pool.pool,
                              .number = 1,
                              .next_id = env.reactor.secrets().next(),
                              .previous_id = env.reactor.secrets().next(),
                              .next_epoch = 1};
    AlignedBuffer block(block_bytes);
    for (const uint64_t place :
         {checkpoint_block + slot.number % 2, checkpoint_block + (slot.number + 1) % 2}) {
        // The other slot is made invalid: an old pool's must not be found there.
        if (place == checkpoint_block + slot.number % 2) {
            encode(slot, block.bytes());
        } else {
            std::ranges::fill(block.bytes(), std::byte{0});
        }
        const Result<> written = co_await devices[0]->write(place * block_bytes, block.bytes());
        if (!written) co_return failed(*devices[0], written.error());
    }
    const Result<> flushed = co_await devices[0]->flush();
    if (!flushed) co_return failed(*devices[0], flushed.error());
    step(2);
    for (size_t i = devices.size(); i-- > 0;) {
        pool.device_number = static_cast<uint32_t>(i);
        const Result<> written = co_await write_superblocks(pool, *devices[i]);
        if (!written) co_return failed(*devices[i], written.error());
        step(2 + devices.size() - i);
    }
    co_return Result<>();
}

// ---- opening -------------------------------------------------------------------------------

static CommitRules rules_of(const EngineOptions& options) {
    return options.rules != nullptr ? *options.rules : default_rules();
}

static RepliesOptions replies_options(const EngineOptions& options) {
    const CommitRules rules = rules_of(options);
    const size_t most = std::max<size_t>(options.replies_share() / Replies::slot_bytes, 4096);
    return {.per_owner_max = std::min<size_t>(options.replies_per_owner, most / 4),
            .slots_max = most,
            .lease = options.reply_lease,
            .expire_unknown = rules.expire_unknown,
            .keep_for_lease = rules.keep_for_lease};
}

EngineStore::Parts::Parts(const Env& environment, Devices pool_devices,
                          const Superblock& pool_superblock, std::unique_ptr<Index> pool_index,
                          const EngineOptions& pool_options)
    : env(environment),
      options(pool_options),
      rules(rules_of(pool_options)),
      superblock(pool_superblock),
      devices(std::move(pool_devices)),
      index(std::move(pool_index)),
      state(replies_options(pool_options)),
      journal(superblock.journal_first, superblock.journal_blocks),
      cores(env, *index, superblock.targets, rules, options),
      publisher(env, cores, state),
      reader(cores, state, publisher, pins),
      lister(cores, state) {
    for (uint32_t d = 0; d < devices.size(); ++d) {
        add_space(d);
        state.placement = state.placement->with_device(devices[d]->is_memory());
        cores.home().devices.push_back(devices[d].get());
    }
}

void EngineStore::Parts::add_space(uint32_t device) {
    // What a full pool needs to be written to in place: 16 MiB of a large device.
    constexpr uint64_t part = 64, blocks_least = 4, blocks_most = 4096;
    const uint64_t first = superblock.data_first(device), end = superblock.data_end(device);
    state.space.add_device(first, end);
    state.space.keep_back(device, std::clamp((end - first) / part, blocks_least, blocks_most));
}

std::vector<device::BlockDevice*> EngineStore::Parts::device_pointers() const {
    std::vector<device::BlockDevice*> pointers;
    for (const auto& device : devices) pointers.push_back(device.get());
    return pointers;
}

std::string EngineStore::Parts::read_only_reason() const {
    if (committer) return committer->read_only_reason();
    if (!damage.empty()) return damage;
    if (superblock.read_only_features != 0) {
        return fmt::format(
            "it uses features that this program can read but not write (bits "
            "{:#x}): write to it with the version of ros2store that made it",
            superblock.read_only_features);
    }
    if (options.read_only) return "the pool was opened read-only, as asked";
    return {};
}

void EngineStore::Parts::start(const Committer::Chain& chain, uint64_t checkpoint_number) {
    committer.emplace(env, device_pointers(), cores, publisher, state, journal, options, rules,
                      chain, read_only_reason());
    checkpointer.emplace(env, *index, *devices[0], cores, publisher, state, journal, *committer,
                         superblock.pool, superblock.checkpoint_first, checkpoint_number);
    writer.emplace(cores, state, *committer, *checkpointer, pins, options.staging_share());
    containers.emplace(cores, state, *committer, *checkpointer, journal);
    publisher.reads_moved = [this] { committer->release_space(); };
    committer->want_checkpoint = [this] { checkpointer->request(); };
}

Task<Result<>> EngineStore::Parts::recover(Report& report) {
    ROS2S_CO_TRY(co_await open_handles(0, report));
    Recovery recovery(env, device_pointers(), superblock, cores, publisher, state, journal, *index,
                      rules);
    recovery.relieve = [this, &report](const Committer::Chain& chain, Recovered& out,
                                       bool durable) {
        return relieve(chain, out, durable, report);
    };
    ROS2S_CO_TRY_ASSIGN(Recovered recovered, co_await recovery.run(report));
    replayed_groups = recovered.replayed_groups;
    damage = std::move(recovered.damage);
    co_await cores.share_containers(state.visible_containers());
    if (!read_only_reason().empty()) {
        start(recovered.chain, recovered.checkpoint_number);
        co_return Result<>();
    }
    ROS2S_CO_TRY(co_await recovery.write_again(report));
    if (!journal.fits(1)) {
        // No room for the restart record. All that was replayed is durable: a checkpoint makes it.
        ROS2S_CO_TRY(
            co_await checkpoint_recovered(recovered.chain, recovered.checkpoint_number, report));
    }
    ROS2S_CO_TRY(co_await recovery.restart(recovered.chain, report));
    ROS2S_CO_TRY(co_await renew_superblocks(env.reactor, devices, superblock, rules, report));
    start(recovered.chain, recovered.checkpoint_number);
    background.emplace(env.reactor, 3 + cores.size());
    for (uint32_t i = 1; i < cores.size(); ++i) {
        co_await background->spawn(publisher.listen(cores[i]));
    }
    co_await background->spawn(committer->run());
    co_await background->spawn(checkpointer->run());
    co_await background->spawn(containers->resume_purges());
    if (options.rest_after > Duration{}) co_await background->spawn(give_back_at_rest());
    if (journal.used_blocks() > journal.blocks() / 2) checkpointer->request();
    co_return Result<>();
}

Task<Result<>> EngineStore::Parts::checkpoint_recovered(const Committer::Chain& chain,
                                                        uint64_t& number, Report& report) {
    start(chain, number);
    const Result<> written = co_await checkpointer->checkpoint();
    writer.reset();
    containers.reset();
    checkpointer.reset();
    committer.reset();
    if (!written) {
        co_return report.fail(written.error(),
                              "the checkpoint in recovery failed: " + describe(written.error()));
    }
    ++number;
    co_return Result<>();
}

Task<Result<>> EngineStore::Parts::relieve(const Committer::Chain& chain, Recovered& recovered,
                                           bool durable, Report& report) {
    recovery_cache_bytes_max = std::max(recovery_cache_bytes_max, cores.cache_bytes());
    const bool writes = read_only_reason().empty() && recovered.damage.empty();
    if (writes && durable && cores.is_dirty_beyond(cores.dirty_share())) {
        ROS2S_CO_TRY(co_await checkpoint_recovered(chain, recovered.checkpoint_number, report));
    }
    co_await cores.trim();
    // What was replayed stays in memory where nothing may be written. The journal can hold more of
    // it than a pool has that is opened with less memory than it was used with.
    if (writes || !cores.is_dirty_beyond(cores.home().cache_bytes_max)) co_return Result<>();
    co_return report.fail(
        Code::no_memory,
        fmt::format("replaying the journal without writing to the pool takes more than the {} MiB "
                    "that caches have of engine.memory. Raise engine.memory in config.yaml{}; "
                    "nothing was changed",
                    options.cache_share() >> 20,
                    recovered.damage.empty() ? ", or open the pool for writing" : ""));
}

Task<> EngineStore::Parts::give_back_at_rest() {
    RestWatch rest;
    while (co_await sleep_for(env.reactor, options.rest_after, closing.token())) {
        if (rest.came_to_rest(committer->counters.transactions.value())) {
            committer->chunks.drop_spare();
        }
    }
}

Task<Result<std::unique_ptr<EngineStore>>> EngineStore::open(const Env& env, Devices devices,
                                                             IndexFactory factory,
                                                             EngineOptions options,
                                                             Report& report) {
    std::vector<Superblock> found;
    Result<> result;
    if (devices.empty()) result = report.fail(Code::invalid, "a pool needs at least one device");
    for (const auto& device : devices) {
        if (!result) break;
        Result<Superblock> one = co_await read_superblock(*device, report);
        if (one) {
            found.push_back(std::move(*one));
        } else {
            result = fail(one.error());
        }
    }
    Superblock superblock;
    if (result) {
        Result<Superblock> matched = match_devices(devices, found, rules_of(options), report);
        if (matched) {
            superblock = std::move(*matched);
            result = check_identities(devices, superblock, options.accept_copies, report);
        } else {
            result = fail(matched.error());
        }
    }
    Result<std::unique_ptr<Index>> index;
    if (result) {
        Report said;
        index = co_await env.blocking.run(
            env.reactor, [&] { return factory(superblock.index_directory, false, said); });
        if (!index) {
            result = report.fail(
                index.error(),
                said.empty() ? fmt::format("the pool's index (directory {}) cannot be opened: {}",
                                           superblock.index_directory, describe(index.error()))
                             : said.text());
        }
    }
    if (!result) {
        co_await close_all(devices);
        co_return fail(result.error());
    }
    auto parts =
        std::make_unique<Parts>(env, std::move(devices), superblock, std::move(*index), options);
    result = co_await parts->recover(report);
    if (parts->options.begins_with_grace) {
        parts->pins.begin_grace(parts->env.reactor.now() + parts->options.pin_grace);
    }
    std::unique_ptr<EngineStore> store(new EngineStore(std::move(parts)));
    if (!result) {
        co_await store->parts_->close_parts();
        co_return fail(result.error());
    }
    co_return store;
}

// ---- the cores' own handles of the devices ----------------------------------------------------

namespace {

Task<> add_handles(Core& core, EngineStore::Devices handles) {
    for (auto& handle : handles) {
        core.devices.push_back(handle.get());
        core.own_devices.push_back(std::move(handle));
    }
    co_return;
}
Task<> close_handles(Core& core) {
    core.devices.clear();
    co_await close_all(core.own_devices);
}

}  // namespace

Task<Result<>> EngineStore::Parts::open_handles(size_t first, Report& report) {
    for (uint32_t i = 1; i < cores.size(); ++i) {
        Devices handles;
        Result<> result;
        for (size_t d = first; d < devices.size() && result; ++d) {
            auto handle = devices[d]->handle_on(cores[i].env.reactor);
            if (handle) {
                handles.push_back(std::move(*handle));
            } else {
                result = report.fail(handle.error(),
                                     fmt::format("{}: cannot be used by a second core: {}",
                                                 devices[d]->name(), describe(handle.error())));
            }
        }
        co_await at(cores[i], cores.home(), add_handles(cores[i], std::move(handles)));
        ROS2S_CO_TRY(result);
    }
    co_return Result<>();
}

// ---- closing -------------------------------------------------------------------------------

Task<> EngineStore::Parts::close_parts() {
    if (background) {
        closing.request_stop();
        checkpointer->stop();
        committer->stop();
        co_await publisher.stop_listening();
        co_await background->join();
        background.reset();
    }
    co_await publisher.join();
    for (uint32_t i = 1; i < cores.size(); ++i) {
        co_await at(cores[i], cores.home(), close_handles(cores[i]));
    }
    const Result<> closed = co_await env.blocking.run(env.reactor, [&] { return index->close(); });
    if (!closed) {
        env.log.warning("closing the pool's index failed: " + describe(closed.error()));
    }
    co_await close_all(devices);
    is_closed = true;
}

Task<Result<>> EngineStore::close() {
    Parts& parts = *parts_;
    Core& home = parts.cores.home();
    for (uint32_t i = 0; i < parts.cores.size(); ++i) {
        co_await at(parts.cores[i], home, parts.cores[i].gate.wait_idle());
    }
    Result<> result;
    if (parts.background) {
        parts.closing.request_stop();
        parts.checkpointer->stop();
        parts.committer->stop();
        co_await parts.publisher.stop_listening();
        co_await parts.background->join();
        if (parts.read_only_reason().empty()) result = co_await parts.checkpointer->checkpoint();
        // A copy of one device that was taken while the pool was open is an old one from now on.
        if (parts.devices.size() > 1 && parts.read_only_reason().empty() && result) {
            Report report;
            result = co_await renew_superblocks(parts.env.reactor, parts.devices, parts.superblock,
                                                parts.rules, report);
            if (!result) parts.env.log.warning(report.text());
        }
    }
    co_await parts.close_parts();
    co_return result;
}

EngineStore::EngineStore(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
EngineStore::~EngineStore() { ROS2S_CHECK(parts_->is_closed); }

Task<Result<>> EngineStore::checkpoint() {
    Parts& parts = *parts_;
    const Gate::Hold hold(parts.cores.home().gate);
    if (!parts.read_only_reason().empty()) co_return fail(Code::read_only);
    const uint64_t before = parts.checkpointer->counters.checkpoints.value();
    // One that is under way may have cut too early for the caller: wait for a whole one.
    parts.checkpointer->request();
    co_await parts.checkpointer->finished();
    if (parts.checkpointer->is_requested() && !parts.committer->is_dead()) {
        co_await parts.checkpointer->finished();
    }
    if (parts.checkpointer->counters.checkpoints.value() == before) co_return fail(Code::read_only);
    co_return Result<>();
}

// ---- growing -------------------------------------------------------------------------------

Task<Result<>> EngineStore::grow(std::unique_ptr<device::BlockDevice> device, Report& report) {
    Parts& parts = *parts_;
    const Gate::Hold hold(parts.cores.home().gate);
    co_await parts.containers->turn.acquire();
    const SemaphoreHold turn(parts.containers->turn);
    const std::string reason = parts.read_only_reason();
    Superblock grown = parts.superblock;
    Result<> result;
    if (!reason.empty()) {
        result = report.fail(Code::read_only, "the pool cannot grow: " + reason);
    } else if (grown.devices.size() == pool_devices_max) {
        result = report.fail(Code::too_large,
                             fmt::format("a pool has at most {} devices", pool_devices_max));
    } else if (blocks_of(*device) < 32) {
        result = report.fail(Code::invalid, fmt::format("{}: {} bytes are too few for a device",
                                                        device->name(), device->size()));
    }
    if (!result) {
        co_await device->close();
        co_return result;
    }
    ++grown.generation;
    grown.devices.push_back(
        {Uuid::make(parts.env.reactor.secrets()), blocks_of(*device), identity_of(*device)});
    // The new device first: as long as only it knows, the pool opens without it.
    const auto number = static_cast<uint32_t>(grown.devices.size() - 1);
    parts.devices.push_back(std::move(device));
    parts.cores.home().devices.push_back(parts.devices[number].get());
    ROS2S_CO_TRY(co_await parts.open_handles(number, report));
    for (const uint64_t settled : {grown.settled_generation, grown.generation}) {
        grown.settled_generation = settled;
        for (uint32_t i = number + 1; i-- > 0;) {
            grown.device_number = parts.rules.new_device_first ? i : number - i;
            device::BlockDevice& at = *parts.devices[grown.device_number];
            const Result<> written = co_await write_superblocks(grown, at);
            if (written) continue;
            parts.committer->die(
                written.error(),
                fmt::format("{}: writing its superblock failed: {}. Open the pool again with all "
                            "devices",
                            at.name(), describe(written.error())));
            co_return report.fail(written.error(), parts.read_only_reason());
        }
    }
    grown.device_number = 0;
    parts.superblock = std::move(grown);
    parts.add_space(number);
    parts.state.placement = parts.state.placement->with_device(parts.devices[number]->is_memory());
    parts.state.space.make_available(number);
    parts.committer->add_device(parts.devices[number].get());
    parts.committer->progress().wake_all();
    co_return Result<>();
}

}  // namespace ros2s::engine
