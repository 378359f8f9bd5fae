#include "recovered_pool.h"

#include <fmt/format.h>

#include <algorithm>

#include "checkpointer.h"
#include "ros2s/base/check.h"
#include "superblocks.h"

namespace ros2s::engine {

Task<> close_all(Devices& devices) {
    for (auto& device : devices) {
        if (device != nullptr) co_await device->close();
    }
    devices.clear();
}

namespace {

RepliesOptions replies_options(const EngineOptions& options) {
    const size_t most = std::max<size_t>(options.replies_share() / Replies::slot_bytes, 4096);
    return {.per_owner_max = std::min<size_t>(options.replies_per_owner, most / 4),
            .slots_max = most,
            .lease = options.reply_lease};
}

// Of the devices from number `first` on.
Task<> add_handles(Core& core, Devices handles, const Superblock& pool, uint32_t first) {
    for (auto& handle : handles) {
        core.add_device(*handle, pool.data_first(first), pool.data_end(first));
        core.own_devices.push_back(std::move(handle));
        ++first;
    }
    co_return;
}
Task<> close_handles(Core& core) {
    core.devices.clear();
    co_await close_all(core.own_devices);
}

}  // namespace

RecoveredPool::RecoveredPool(const Environment& environment, Devices pool_devices,
                             Superblock pool_superblock, std::unique_ptr<Index> pool_index,
                             const EngineOptions& pool_options)
    : env(environment),
      options(pool_options),
      superblock(std::move(pool_superblock)),
      devices(std::move(pool_devices)),
      index(std::move(pool_index)),
      state(replies_options(options)),
      journal(superblock.journal_first, superblock.journal_blocks),
      cores(env, *index, superblock.targets, options),
      publisher(env, cores, state) {
    state.space.set_section_blocks(options.section_blocks);
    for (uint32_t d = 0; d < devices.size(); ++d) {
        add_space(d);
        cores.home().add_device(*devices[d], superblock.data_first(d), superblock.data_end(d));
    }
}
RecoveredPool::~RecoveredPool() { ROS2S_CHECK(is_closed_); }

void RecoveredPool::add_space(uint32_t device) {
    // The blocks that a full pool needs for writes in place: 16 MiB of a large device.
    constexpr uint64_t part = 64, blocks_least = 4, blocks_most = 4096;
    const uint64_t first = superblock.data_first(device), end = superblock.data_end(device);
    state.space.add_device(first, end);
    state.space.keep_back(device, std::clamp((end - first) / part, blocks_least, blocks_most));
    state.homes = state.homes->with_device(devices[device]->is_memory());
}

Task<Result<>> RecoveredPool::open_handles(const Superblock& pool, uint32_t first, Report& report) {
    for (uint32_t i = 1; i < cores.size(); ++i) {
        Devices handles;
        Result<> result;
        for (size_t d = first; d < devices.size() && result; ++d) {
            auto handle = devices[d]->handle_on(cores[i].env.reactor);
            if (handle) {
                handles.push_back(std::move(*handle));
            } else {
                result = report.fail(handle.error(), "{}: cannot be used by a second core: {}",
                                     devices[d]->name(), describe(handle.error()));
            }
        }
        co_await at(cores[i], cores.home(), add_handles(cores[i], std::move(handles), pool, first));
        ROS2S_CO_TRY(result);
    }
    co_return Result<>();
}

Task<> RecoveredPool::close() {
    co_await publisher.join();
    for (uint32_t i = 1; i < cores.size(); ++i) {
        co_await at(cores[i], cores.home(), close_handles(cores[i]));
    }
    const Result<> closed = co_await env.blocking.run(env.reactor, [&] { return index->close(); });
    if (!closed) {
        env.log.warning("closing the pool's index failed: " + describe(closed.error()));
    }
    co_await close_all(devices);
    is_closed_ = true;
}

std::string RecoveredPool::read_only_reason() const {
    if (superblock.read_only_features != 0) {
        return fmt::format(
            "it uses features that this program can read but not write (bits "
            "{:#x}): write to it with the version of ros2store that made it",
            superblock.read_only_features);
    }
    if (options.read_only) return std::string(options.read_only_reason);
    return {};
}

Task<Result<Recovered>> RecoveredPool::recover(Report& report) {
    ROS2S_CO_TRY(co_await open_handles(superblock, 0, report));
    Recovery recovery(env, cores.home().devices, superblock, cores, publisher, state, journal,
                      *index);
    recovery.relieve = [this, &report](const Committer::JournalEnd& journal_end, Recovered& out,
                                       bool durable) {
        return relieve(journal_end, out, durable, report);
    };
    ROS2S_CO_TRY_ASSIGN(Recovered recovered, co_await recovery.run(report));
    if (recovered.read_only_reason.empty()) recovered.read_only_reason = read_only_reason();
    co_await cores.share_containers(state.visible_containers());
    if (!recovered.read_only_reason.empty()) co_return recovered;
    ROS2S_CO_TRY(co_await recovery.write_again(report));
    if (!journal.fits(1)) {
        // No room for the restart record. Everything replayed is durable, so a checkpoint can make
        // room.
        ROS2S_CO_TRY(
            co_await checkpoint(recovered.journal_end, recovered.checkpoint_number, report));
    }
    ROS2S_CO_TRY(co_await recovery.restart(recovered.journal_end, report));
    ROS2S_CO_TRY(co_await renew_superblocks(env.reactor, devices, superblock, report));
    co_return recovered;
}

Task<Result<>> RecoveredPool::checkpoint(const Committer::JournalEnd& journal_end, uint64_t& number,
                                         Report& report) {
    Committer committer(env, cores.home().devices, cores, publisher, state, journal, options,
                        journal_end, {});
    Checkpointer checkpointer(env, *index, *devices[0], cores, publisher, state, journal, committer,
                              superblock.pool, superblock.checkpoint_first, number);
    const Result<> written = co_await checkpointer.checkpoint();
    if (!written) {
        co_return report.fail(written.error(),
                              "the checkpoint in recovery failed: " + describe(written.error()));
    }
    ++number;
    co_return Result<>();
}

Task<Result<>> RecoveredPool::relieve(const Committer::JournalEnd& journal_end,
                                      Recovered& recovered, bool durable, Report& report) {
    recovered.cache_bytes_max = std::max(recovered.cache_bytes_max, cores.cache_bytes());
    const bool writes = read_only_reason().empty() && recovered.read_only_reason.empty();
    if (writes && durable && cores.is_dirty_beyond(cores.dirty_share())) {
        ROS2S_CO_TRY(co_await checkpoint(journal_end, recovered.checkpoint_number, report));
    }
    co_await cores.trim();
    // If nothing may be written, the replayed changes stay in memory. The journal can hold more of
    // them than a pool has memory for, if it is opened with less memory than before.
    if (writes || !cores.is_dirty_beyond(cores.home().cache_bytes_max)) co_return Result<>();
    co_return report.fail(
        Code::no_memory,
        "replaying the journal needs more memory than the {} MiB for caches in engine.memory, "
        "because nothing may be written to the pool. Raise engine.memory in config.yaml{}; nothing "
        "was changed",
        options.cache_share() >> 20,
        recovered.read_only_reason.empty() ? ", or open the pool for writing" : "");
}

}  // namespace ros2s::engine
