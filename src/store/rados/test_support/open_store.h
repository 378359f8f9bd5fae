// A simulated cluster, and stores on it.
#pragma once
#include <gtest/gtest.h>

#include "rados_store.h"
#include "ros2s/rados/sim/sim_rados.h"
#include "ros2s/runtime/sim/co_test.h"

namespace ros2s::rados {

struct RadosWorld {
    sim::World world{1};
    Reactor& reactor = world.core();
    SimRados cluster{reactor};
};

inline RadosOptions without_replies() { return {.keeps_replies = false}; }

inline Task<std::unique_ptr<RadosStore>> open_store(Reactor& reactor, Pool& pool,
                                                    RadosOptions options = {}) {
    Report report;
    auto opened = co_await RadosStore::open({}, reactor, pool, pool, options, report);
    EXPECT_TRUE(opened) << report.text();
    co_return std::move(opened.value());
}

}  // namespace ros2s::rados
