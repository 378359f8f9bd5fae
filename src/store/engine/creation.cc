// Making a pool, and growing one.
#include <fmt/format.h>

#include <algorithm>

#include "open_pool.h"

#include "ros2s/engine/rules/commit_rules.h"

namespace ros2s::engine {
namespace {

constexpr uint64_t journal_bytes_min = 16 << 20;
constexpr uint64_t journal_bytes_max = 256 << 20;
constexpr uint64_t checkpoint_block = 1;  // and 2
constexpr uint64_t journal_block = 3;
constexpr uint32_t target_count = 16;
constexpr std::string_view index_directory = "index";

Result<Superblock> plan_pool(const Environment& env, std::span<device::BlockDevice* const> devices,
                             const CreateOptions& options, Report& report) {
    if (devices.empty() || devices.size() > pool_devices_max) {
        return report.fail(Code::invalid, "a pool has 1 to {} devices, not {}", pool_devices_max,
                           devices.size());
    }
    const uint64_t first_bytes = devices[0]->size();
    const uint64_t journal_bytes =
        options.journal_bytes != 0
            ? options.journal_bytes
            : std::clamp(first_bytes / 16, journal_bytes_min, journal_bytes_max);
    Superblock pool{
        .pool = Uuid::make(env.reactor.secrets()),
        .generation = 1,
        .reached_generation = 1,
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
            pool.data_first(number) + data_blocks_least > pool.data_end(number)) {
            return report.fail(Code::invalid,
                               "{}: {} bytes are too few: a pool's first device needs {} bytes for "
                               "its journal, at least {} KiB, and room for data. Give it more",
                               device->name(), device->size(), journal_bytes,
                               journal_blocks_least * block_bytes / 1024);
        }
    }
    return pool;
}

}  // namespace

Task<Result<>> EngineStore::create(const Environment& env,
                                   std::span<device::BlockDevice* const> devices,
                                   IndexFactory factory, CreateOptions options, Report& report) {
    ROS2S_CO_TRY_ASSIGN(Superblock pool, plan_pool(env, devices, options, report));
    const uint64_t steps = devices.size() + 2;
    const auto step = [&](uint64_t done) {
        if (options.progress) options.progress(done, steps);
    };
    const auto failed = [&](const device::BlockDevice& device, const Error& error) {
        return report.fail(error, "{}: writing the new pool failed: {}", device.name(),
                           describe(error));
    };
    step(0);
    // The index first, the superblocks last: a pool that is made only in part is no pool.
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
                              .next_epoch = 1,
                              .incarnation = env.reactor.secrets().next()};
    AlignedBuffer block(block_bytes);
    for (const uint64_t place :
         {checkpoint_block + slot.number % 2, checkpoint_block + (slot.number + 1) % 2}) {
        // The other slot is made invalid: it must not have an old pool's checkpoint.
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

// ---- growing -------------------------------------------------------------------------------

Task<Result<>> EngineStore::grow(std::unique_ptr<device::BlockDevice> device, Report& report) {
    RecoveredPool& base = *pool_->base;
    Committer& committer = pool_->committer;
    const RequestCount::Hold hold(base.cores.home().requests);
    co_await pool_->containers.turn.acquire();
    const SemaphoreHold turn(pool_->containers.turn);
    const std::string& reason = committer.read_only_reason();
    Superblock grown = base.superblock;
    Result<> result;
    if (!reason.empty()) {
        result = report.fail(Code::read_only, "the pool cannot grow: " + reason);
    } else if (grown.devices.size() == pool_devices_max) {
        result = report.fail(Code::too_large, "a pool has at most {} devices", pool_devices_max);
    } else if (blocks_of(*device) < 32) {
        result = report.fail(Code::invalid, "{}: {} bytes are too few for a device", device->name(),
                             device->size());
    }
    if (result) {
        ++grown.generation;
        grown.devices.push_back(
            {Uuid::make(base.env.reactor.secrets()), blocks_of(*device), identity_of(*device)});
        result = check_space_map(grown, base.options.memory_bytes, report);
    }
    if (!result) {
        co_await device->close();
        co_return result;
    }
    // The new device first: as long as no other device names it, the pool opens without it.
    const auto number = static_cast<uint32_t>(grown.devices.size() - 1);
    base.devices.push_back(std::move(device));
    base.cores.home().add_device(*base.devices[number], grown.data_first(number),
                                 grown.data_end(number));
    const Result<> opened = co_await base.open_handles(grown, number, report);
    if (!opened) {
        // Some cores have a handle of it. The pool opens without it.
        committer.die(opened.error(),
                      "a new device could not be opened on each core: open the "
                      "pool again");
        co_return opened;
    }
    for (const uint64_t reached : {grown.reached_generation, grown.generation}) {
        grown.reached_generation = reached;
        for (uint32_t i = number + 1; i-- > 0;) {
            grown.device_number = rules.new_device_first ? i : number - i;
            device::BlockDevice& at = *base.devices[grown.device_number];
            const Result<> written = co_await write_superblocks(grown, at);
            if (written) continue;
            committer.die(
                written.error(),
                fmt::format("{}: writing its superblock failed: {}. Open the pool again with all "
                            "devices",
                            at.name(), describe(written.error())));
            co_return report.fail(written.error(), reason);
        }
    }
    grown.device_number = 0;
    base.superblock = std::move(grown);
    base.add_space(number);
    base.state.space.make_available(number);
    committer.add_device(base.devices[number].get());
    committer.progress().wake_all();
    co_return Result<>();
}

}  // namespace ros2s::engine
