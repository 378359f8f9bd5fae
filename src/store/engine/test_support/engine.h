// For this module's tests: a pool on simulated disks and an ordered-map index, in a simulation.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "engine_store.h"
#include "ros2s/device/sim/sim_device.h"
#include "ros2s/engine/index/sim/ordered_map_index.h"
#include "ros2s/runtime/sim/world.h"

#define EXPECT_OK(...)                                                 \
    do {                                                               \
        const auto& result_ = (__VA_ARGS__);                           \
        EXPECT_TRUE(result_.has_value()) << describe(result_.error()); \
    } while (false)

namespace ros2s::engine {

// A pool's media, and the store that has them open.
struct Bench {
    explicit Bench(uint64_t seed, size_t devices = 1, uint64_t device_bytes = 16 << 20,
                   size_t cores = 1)
        : world(seed, cores), env{world.core(), world.blocking()} {
        for (size_t i = 1; i < cores; ++i) more_reactors.push_back(&world.core(i));
        env.more_reactors = more_reactors;
        for (size_t i = 0; i < devices; ++i) add_disk(device_bytes);
    }

    void add_disk(uint64_t bytes, bool memory = false) {
        disks.push_back(std::make_unique<device::SimDisk>(
            world.random(),
            device::SimDiskOptions{
                .size = bytes, .flush_latency = std::chrono::microseconds(100), .memory = memory},
            "device-" + std::to_string(disks.size())));
    }
    Task<Result<std::unique_ptr<device::BlockDevice>>> device(size_t i) {
        return device::SimDevice::open(world.core(), *disks[i], report);
    }
    Task<Result<EngineStore::Devices>> devices() {
        EngineStore::Devices all;
        for (size_t i = 0; i < disks.size(); ++i) {
            ROS2S_CO_TRY_ASSIGN(all.emplace_back(), co_await device(i));
        }
        co_return all;
    }
    IndexFactory factory() {
        return [this](std::string_view, bool, Report&) -> Result<std::unique_ptr<Index>> {
            return (index_source != nullptr ? *index_source : index_medium).open();
        };
    }
    Task<Result<>> create() {
        ROS2S_CO_TRY_ASSIGN(const EngineStore::Devices all, co_await devices());
        std::vector<device::BlockDevice*> pointers;
        for (const auto& one : all) pointers.push_back(one.get());
        const Result<> made =
            co_await EngineStore::create(env, pointers, factory(), create_options, report);
        for (const auto& one : all) co_await one->close();
        co_return made;
    }
    Task<Result<>> open() {
        ROS2S_CO_TRY_ASSIGN(EngineStore::Devices all, co_await devices());
        ROS2S_CO_TRY_ASSIGN(
            store, co_await EngineStore::open(env, std::move(all), factory(), options, report));
        co_return Result<>();
    }
    Task<Result<>> close() {
        const Result<> closed = co_await store->close();
        store.reset();
        co_return closed;
    }
    Task<Result<>> reopen() {
        ROS2S_CO_TRY(co_await close());
        co_return co_await open();
    }
    // A loss of power. Afterwards the journal has the changes that the index lacks.
    Task<Result<>> crash_and_open() {
        for (auto& disk : disks) disk->power_loss();
        index_medium.crash(world.random());
        // The checkpoint fails, unless a group did so before: then there is none.
        const Result<> closed = co_await store->close();
        EXPECT_TRUE(!closed || !store->read_only_reason().empty());
        store.reset();
        co_return co_await open();
    }

    sim::World world;
    Environment env;
    std::vector<Reactor*> more_reactors;
    Call call;
    Report report;
    CreateOptions create_options{.journal_bytes = 1 << 20, .progress = {}};
    EngineOptions options;
    std::vector<std::unique_ptr<device::SimDisk>> disks;
    OrderedMapMedium index_medium;
    OrderedMapMedium* index_source = nullptr;  // instead of it
    std::unique_ptr<EngineStore> store;
};

}  // namespace ros2s::engine
