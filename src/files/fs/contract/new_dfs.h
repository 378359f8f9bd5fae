// A new Dfs in a store, for tests of what is above it.
#pragma once
#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "ros2s/fs/dfs.h"

namespace ros2s::fs::contract {

inline Task<std::unique_ptr<FileSystem>> new_dfs(object::ObjectStore& store, Reactor& reactor,
                                                 Owner owner_of_root = {}) {
    const Call call;
    Report report;
    const auto container = co_await store.create_container(call, {.label = "c"});
    EXPECT_TRUE(container.has_value());
    EXPECT_TRUE(co_await Dfs::format(call, store, container->id, reactor, owner_of_root, report));
    auto mounted = co_await Dfs::mount(call, store, container->id, reactor, {}, report);
    EXPECT_TRUE(mounted.has_value()) << report.text();
    co_return std::move(*mounted);
}

}  // namespace ros2s::fs::contract
