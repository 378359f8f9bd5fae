// For this module's tests: a pool on devices in memory and an ordered-map index, in a simulation.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "engine_store.h"
#include "ros2s/base/check.h"
#include "ros2s/engine/index/sim/ordered_map_index.h"
#include "ros2s/runtime/sim/world.h"

namespace ros2s::engine {

// What a MemoryDevice holds; outlives it.
struct MemoryMedium {
    explicit MemoryMedium(uint64_t size) : bytes(size) {}
    std::vector<std::byte> bytes;
    bool fails_writes = false;
};

// Writes are durable at once and everything takes a little time. Crashes are device/sim's matter.
class MemoryDevice final : public device::BlockDevice {
  public:
    MemoryDevice(Reactor& reactor, MemoryMedium& medium, std::string name)
        : reactor_(reactor), medium_(medium), name_(std::move(name)) {}
    const std::string& name() const noexcept override { return name_; }
    std::string path() const override { return "memory"; }
    uint64_t size() const noexcept override { return medium_.bytes.size(); }
    const device::DeviceCounters& counters() const noexcept override { return counters_; }
    Task<Result<>> read(uint64_t offset, Bytes into) override {
        ROS2S_CHECK(offset + into.size() <= size());
        co_await delay();
        counters_.reads.add();
        std::copy_n(medium_.bytes.begin() + static_cast<ptrdiff_t>(offset), into.size(),
                    into.begin());
        co_return Result<>();
    }
    Task<Result<>> write(uint64_t offset, ConstBytes from) override {
        ROS2S_CHECK(offset + from.size() <= size());
        co_await delay();
        if (medium_.fails_writes) co_return fail_errno(5);
        counters_.writes.add();
        std::ranges::copy(from, medium_.bytes.begin() + static_cast<ptrdiff_t>(offset));
        co_return Result<>();
    }
    Task<Result<>> flush() override {
        co_await delay();
        if (medium_.fails_writes) co_return fail_errno(5);
        counters_.flushes.add();
        co_return Result<>();
    }
    Task<Result<>> discard(uint64_t, uint64_t) override { co_return Result<>(); }
    Task<> close() override { co_return; }

  private:
    sleep_for delay() {
        return {reactor_, std::chrono::microseconds(10 + reactor_.random().below(90))};
    }
    Reactor& reactor_;
    MemoryMedium& medium_;
    std::string name_;
    device::DeviceCounters counters_;
};

// A pool's media, and the store that has them open.
struct Bench {
    explicit Bench(uint64_t seed, size_t devices = 1, uint64_t device_bytes = 16 << 20)
        : world(seed), env{world.core(), world.blocking()} {
        for (size_t i = 0; i < devices; ++i) {
            media.push_back(std::make_unique<MemoryMedium>(device_bytes));
        }
    }

    std::unique_ptr<device::BlockDevice> device(size_t i) {
        return std::make_unique<MemoryDevice>(world.core(), *media[i],
                                              "device-" + std::to_string(i));
    }
    EngineStore::Devices devices() {
        EngineStore::Devices all;
        for (size_t i = 0; i < media.size(); ++i) all.push_back(device(i));
        return all;
    }
    IndexFactory factory() {
        return [this](std::string_view, bool, Report&) -> Result<std::unique_ptr<Index>> {
            return index_medium.open();
        };
    }
    Task<Result<>> create() {
        const EngineStore::Devices all = devices();
        std::vector<device::BlockDevice*> pointers;
        for (const auto& one : all) pointers.push_back(one.get());
        const Result<> made =
            co_await EngineStore::create(env, pointers, factory(), create_options, report);
        for (const auto& one : all) co_await one->close();
        co_return made;
    }
    Task<Result<>> open() {
        ROS2S_CO_TRY_ASSIGN(store, co_await EngineStore::open(env, devices(), factory(), options,
                                                              report));
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
    // The index loses what was not flushed; the journal then says what it lacks.
    Task<Result<>> crash_and_open() {
        for (auto& medium : media) medium->fails_writes = true;
        index_medium.fail_with(Error{Code::io});
        const Result<> closed = co_await close();
        EXPECT_FALSE(closed.has_value());
        for (auto& medium : media) medium->fails_writes = false;
        index_medium.crash(world.random());
        co_return co_await open();
    }

    sim::World world;
    Env env;
    Call call;
    Report report;
    CreateOptions create_options{.journal_bytes = 1 << 20, .progress = {}};
    EngineOptions options;
    std::vector<std::unique_ptr<MemoryMedium>> media;
    OrderedMapMedium index_medium;
    std::unique_ptr<EngineStore> store;
};

}  // namespace ros2s::engine
