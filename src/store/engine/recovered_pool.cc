#include "recovered_pool.h"

#include <algorithm>

#include "ros2s/base/check.h"

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

RecoveredPool::RecoveredPool(const Env& environment, Devices pool_devices,
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

}  // namespace ros2s::engine
