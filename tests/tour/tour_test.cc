// The tours in docs/tour/ list the steps of a request. This runs the whole embedded set-up in a
// simulation, and checks that its trace has the tour's steps in the tour's order.
#include <gtest/gtest.h>

#include <fstream>

#include "ros2s/base/bytes.h"
#include "ros2s/client/counted_store.h"
#include "ros2s/device/sim/sim_device.h"
#include "ros2s/engine/engine_store.h"
#include "ros2s/engine/index/sim/ordered_map_index.h"
#include "ros2s/fs/dfs.h"
#include "ros2s/runtime/sim/world.h"
#include "ros2s/runtime/trace.h"

namespace ros2s {
namespace {

// The steps of a tour: its lines "span: `NAME`".
std::vector<std::string> spans_of(const std::string& name) {
    std::ifstream file(std::string(TOUR_DIRECTORY "/") + name);
    EXPECT_TRUE(file.is_open()) << name;
    std::vector<std::string> spans;
    for (std::string line; std::getline(file, line);) {
        const std::string begin = "span: `";
        if (line.starts_with(begin)) {
            spans.push_back(line.substr(begin.size(), line.size() - begin.size() - 1));
        }
    }
    return spans;
}

std::vector<std::string> spans_of(const Trace& trace) {
    std::vector<std::string> spans;
    for (const TraceStep& step : trace.steps()) spans.emplace_back(step.name);
    return spans;
}

// Each step is within the time of its parent.
void expect_nested(const Trace& trace) {
    std::vector<const TraceStep*> open;
    for (const TraceStep& step : trace.steps()) {
        open.resize(static_cast<size_t>(step.depth));
        if (!open.empty()) {
            EXPECT_GE(step.begin, open.back()->begin) << step.name;
            EXPECT_LE(step.end, open.back()->end) << step.name;
        }
        EXPECT_LE(step.begin, step.end) << step.name;
        open.push_back(&step);
    }
}

struct Embedded {
    sim::World world{1};
    Environment env{world.core(), world.blocking()};
    device::SimDisk disk{world.random(), {.size = 32 << 20}, "device-0"};
    engine::OrderedMapMedium index_medium;
    Report report;
    Call call;

    engine::IndexFactory factory() {
        return [this](std::string_view, bool, Report&) -> Result<std::unique_ptr<engine::Index>> {
            return index_medium.open();
        };
    }
    Task<Result<>> trace_requests(Trace& read, Trace& write);
    Task<Result<>> trace_in(object::ObjectStore& store, Trace& read, Trace& write);
    Task<Result<>> trace_file(fs::FileSystem& file_system, Trace& read, Trace& write);
};

Task<Result<>> Embedded::trace_requests(Trace& read, Trace& write) {
    {
        ROS2S_CO_TRY_ASSIGN(const auto device,
                            co_await device::SimDevice::open(world.core(), disk, report));
        device::BlockDevice* const devices[] = {device.get()};
        const auto made = co_await engine::EngineStore::create(env, devices, factory(), {}, report);
        co_await device->close();
        ROS2S_CO_TRY(made);
    }
    engine::EngineStore::Devices devices;
    ROS2S_CO_TRY_ASSIGN(devices.emplace_back(),
                        co_await device::SimDevice::open(world.core(), disk, report));
    ROS2S_CO_TRY_ASSIGN(const auto engine, co_await engine::EngineStore::open(
                                               env, std::move(devices), factory(), {}, report));
    client::CountedStore client(world.core(), *engine);
    const auto traced = co_await trace_in(client, read, write);
    const auto closed = co_await engine->close();
    co_return traced ? closed : traced;
}

Task<Result<>> Embedded::trace_in(object::ObjectStore& store, Trace& read, Trace& write) {
    ROS2S_CO_TRY_ASSIGN(const auto container,
                        co_await store.create_container(call, {.label = "main"}));
    ROS2S_CO_TRY(co_await fs::Dfs::format(call, store, container.id, world.core(), {}, report));
    ROS2S_CO_TRY_ASSIGN(const auto file_system, co_await fs::Dfs::mount(call, store, container.id,
                                                                        world.core(), {}, report));
    const auto traced = co_await trace_file(*file_system, read, write);
    co_await file_system->close_all();
    co_return traced;
}

Task<Result<>> Embedded::trace_file(fs::FileSystem& file_system, Trace& read, Trace& write) {
    ROS2S_CO_TRY_ASSIGN(const auto file, co_await file_system.create(call, fs::root_node, "file",
                                                                     0644, {.write = true}, {}));
    const AlignedBuffer buffer(block_bytes);
    std::memset(buffer.data(), 7, buffer.size());
    const fs::Window window = fs::Window::local(buffer.bytes());
    // One request runs without a trace first, so that the traced one is in the steady state.
    ROS2S_CO_TRY(co_await file_system.pwrite(call, file.handle, window, 0));
    Call traced = call;
    traced.trace = &write;
    ROS2S_CO_TRY(co_await file_system.pwrite(traced, file.handle, window, 0));
    traced.trace = &read;
    ROS2S_CO_TRY_ASSIGN(const uint64_t bytes,
                        co_await file_system.pread(traced, file.handle, window, 0));
    EXPECT_EQ(bytes, block_bytes);
    co_return co_await file_system.close(call, file.handle);
}

TEST(Tour, TracedRequestsFollowTheTours) {
    Embedded embedded;
    Trace read, write;
    const auto done = embedded.world.run(embedded.trace_requests(read, write));
    ASSERT_TRUE(done) << describe(done.error()) << embedded.report.text();
    EXPECT_EQ(spans_of(read), spans_of("read-4k.md"));
    EXPECT_EQ(spans_of(write), spans_of("write-4k.md"));
    expect_nested(read);
    expect_nested(write);
}

}  // namespace
}  // namespace ros2s
