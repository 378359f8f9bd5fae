// Caches over one Dfs in memory, for tests: clients whose leases a LeaseTable joins.
#pragma once
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "cached_file_system.h"
#include "ros2s/access/checked_file_system.h"
#include "ros2s/fs/contract/new_dfs.h"
#include "ros2s/object/test_support/memory_store.h"
#include "ros2s/runtime/sim/world.h"
#include "test_support/lending_file_system.h"

namespace ros2s::cache {

// A Dfs, and the same with the rights of callers.
class OneDfs {
  public:
    explicit OneDfs(uint64_t seed, Duration delay_max = {}, fs::Owner owner_of_root = {})
        : world(seed), store_(world.core(), {.delay_max = delay_max}) {
        auto made = world.run(fs::contract::new_dfs(store_, world.core(), owner_of_root));
        dfs = made.get();
        checked = std::make_unique<access::CheckedFileSystem>(world.core(), std::move(made));
    }
    OneDfs& operator=(OneDfs&&) = delete;
    ~OneDfs() { world.run(checked->close_all()); }

    sim::World world;

  private:
    object::MemoryStore store_;

  public:
    fs::FileSystem* dfs = nullptr;
    std::unique_ptr<access::CheckedFileSystem> checked;
};

struct CacheClient {
    CacheClient(sim::World& world, LeaseTable& table, fs::FileSystem& below,
                CachedFileSystem::Options options = {})
        : lending(world.core(), table, below) {
        world.run(lending.start());
        cached = std::make_unique<CachedFileSystem>(world.core(), lending, std::move(options));
    }
    LendingFileSystem lending;
    std::unique_ptr<CachedFileSystem> cached;
};

}  // namespace ros2s::cache
