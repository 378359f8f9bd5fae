// Opens a store on a simulated cluster.
#pragma once
#include <gtest/gtest.h>

#include "rados_store.h"

namespace ros2s::rados {

inline RadosOptions without_replies() { return {.keeps_replies = false}; }

inline Task<std::unique_ptr<RadosStore>> open_store(Reactor& reactor, Pool& pool,
                                                    RadosOptions options = {}) {
    Report report;
    auto opened = co_await RadosStore::open({}, reactor, pool, pool, options, report);
    EXPECT_TRUE(opened) << report.text();
    co_return std::move(opened.value());
}

}  // namespace ros2s::rados
