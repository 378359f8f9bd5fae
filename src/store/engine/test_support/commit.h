// For the tests of a Writer and of Containers: a committer on one simulated disk. No pool is opened
// or recovered.
#pragma once
#include <gtest/gtest.h>

#include "checkpointer.h"
#include "ros2s/device/sim/sim_device.h"
#include "ros2s/engine/index/sim/ordered_map_index.h"
#include "ros2s/runtime/sim/world.h"

namespace ros2s::engine {

// Room for twenty blocks, and an empty container.
struct Twenty : State {
    static constexpr object::ContainerId id{Uuid{{1}}};
    Twenty() : State({.per_owner_max = 10, .slots_max = 10}) {
        containers[id];
        space.add_device(100, 120);
        homes = homes->with_device(false);
        space.make_available(0);
    }
};

struct CommitBench {
    CommitBench() {
        cores.home().devices = {device.get()};
        publisher.reads_moved = [this] { committer.release_space(); };
        committer.want_checkpoint = [] {};
    }
    // Runs `test` beside the committer.
    void run(Task<> test) { world.run(all(std::move(test))); }

    sim::World world{1};
    Environment env{world.core(), world.blocking()};
    Report report;
    Call call;
    device::SimDisk disk{world.random(), {.size = 1 << 20}, "disk"};
    std::unique_ptr<device::BlockDevice> device =
        *world.run(device::SimDevice::open(world.core(), disk, report));
    OrderedMapMedium medium;
    std::unique_ptr<Index> index = medium.open();
    EngineOptions options;
    Twenty state;
    Journal journal{3, 64};
    Cores cores{env, *index, 1, options};
    Publisher publisher{env, cores, state};
    Committer committer{env, {device.get()}, cores, publisher, state, journal, options, {}, {}};
    Checkpointer checkpointer{env,     *index,    *device, cores, publisher, state,
                              journal, committer, {},      1,     1};

  private:
    Task<> all(Task<> test) {
        Nursery background(world.core(), 1);
        co_await background.spawn(committer.run());
        co_await std::move(test);
        committer.stop();
        co_await background.join();
        co_await device->close();
    }
};

}  // namespace ros2s::engine
