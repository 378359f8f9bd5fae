// CO_TEST: a test that is a coroutine in the world of its rig.
//
//     CO_TEST(FreedBlocks, AreDiscarded, Pool, pool, 1) {
//         EXPECT_OK(co_await pool.open());
//     }
//
// The rig is made from the arguments behind its name. It is a World, or has one.
#pragma once
#include <gtest/gtest.h>

#include <concepts>

#include "ros2s/runtime/sim/world.h"

namespace ros2s::sim {

template <class Rig>
World& world_of(Rig& rig) {
    if constexpr (std::same_as<Rig, World>) {
        return rig;
    } else if constexpr (requires { rig.world(); }) {
        return rig.world();
    } else {
        return rig.world;
    }
}

}  // namespace ros2s::sim

#define CO_TEST(suite, name, Rig, rig, ...)                 \
    static ros2s::Task<> suite##_##name(Rig& rig);          \
    TEST(suite, name) {                                     \
        auto rig = Rig(__VA_ARGS__);                        \
        ros2s::sim::world_of(rig).run(suite##_##name(rig)); \
    }                                                       \
    static ros2s::Task<> suite##_##name(Rig& rig)
