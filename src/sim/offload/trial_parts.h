// What the trials of this module have in common.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ros2s/fs/file_system.h"
#include "ros2s/sim/remote/storage_server.h"
#include "ros2s/sim/trace_hash.h"

namespace ros2s::sim {

// What calls of clients returned. Failures are problems.
struct CallNotes {
    World& world;
    std::vector<std::string>& problems;
    TraceHash* trace;  // null: none

    void add(size_t client, std::string_view what, const Result<>& done, bool may_fail = false);
};

// On the store itself, or with the cipher's layer between. Null: it does not mount, which is a
// problem.
[[nodiscard]] Task<std::unique_ptr<fs::FileSystem>> mount_directly(
    World& world, StorageServer& storage, std::vector<std::string>& problems,
    object::ObjectStore* cipher = nullptr);
// For a random time, at most this.
Task<> pause(World& world, Random& random, Duration most);

}  // namespace ros2s::sim
