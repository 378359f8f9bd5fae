// The operations of clients in these tests, and their expected final state. None is idempotent, so
// one that is done twice or not at all is detected.
#pragma once
#include <fmt/format.h>

#include <string>
#include <vector>

#include "ros2s/base/random.h"
#include "ros2s/fs/file_system.h"
#include "ros2s/remote/remote_store.h"
#include "ros2s/runtime/sim/world.h"

namespace ros2s {

inline constexpr uint64_t hosts = 3;
inline constexpr uint64_t tasks_per_host = 3;
inline constexpr uint64_t rounds = 12;

// The work of one client in a test.
struct Part {
    remote::RemoteStore* store;  // null behind a DPU
    sim::World& world;
    fs::FileSystem& files;
    object::ContainerId container;
    uint64_t number;
    Uuid client;
    Random random;
    std::vector<std::string>& problems;
    template <class... Args>
    void problem(fmt::format_string<Args...> format, Args&&... args) {
        problems.push_back(fmt::format("client {}: ", number) +
                           fmt::format(format, std::forward<Args>(args)...));
    }
};

struct Kind {
    Task<> (*prepare)(fs::FileSystem& files, object::ObjectStore& store,
                      object::ContainerId container);
    Task<> (*work)(Part& part);
    // Checks the final state, directly at the engine.
    Task<> (*judge)(fs::FileSystem& files, object::ObjectStore& store,
                    object::ContainerId container, std::vector<std::string>& problems);
};

// Appends to one log; exclusive creations; renames that replace nothing; files that are used after
// they were unlinked; and all of these at random, compared with a model.
extern const Kind appends, creations, renames, unlinked_files, mixed;

Task<> make_nothing(fs::FileSystem& files, object::ObjectStore& store,
                    object::ContainerId container);

}  // namespace ros2s
