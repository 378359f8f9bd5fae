// check_pool() opens a pool directory for reading only, and checks it: the index against the
// journal and the space map, the names of each container against its nodes, counts and, if asked
// for, all data. It writes nothing. The journal is replayed in memory.
//
// An engine writes to the pool while it has it open, so the pool must have no owner. Meanwhile no
// process can become its owner.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ros2s/base/result.h"
#include "ros2s/fs/names_check.h"
#include "ros2s/runtime/call.h"
#include "ros2s/runtime/environment.h"
#include "ros2s/runtime/task.h"

namespace ros2s::pool {

struct PoolCheckOptions {
    bool data = false;  // also reads all data and compares it with its checksums
    // Receives each problem when it is found, in a sentence: what, where, what to do. `container`
    // is the label of the one that has it; empty: it is one of the pool.
    std::function<void(const std::string& container, const std::string& sentence)> problem;
    // Receives what cannot be judged because of a problem, or without a newer program.
    std::function<void(const std::string& container, const std::string& sentence)> unjudged;
    // May be empty. `files`: nodes of file systems, of which the number is not known before.
    // Otherwise bytes in use.
    std::function<void(bool files, uint64_t done, uint64_t total)> progress;
};

struct CheckedContainer {
    std::string label;
    bool is_retired = false;  // it was destroyed, and the removal of its objects goes on
    uint64_t objects = 0, akeys = 0, bytes = 0, problems = 0;
    std::optional<fs::CheckedNames> files;  // empty: it has no file system, or is not judged
};
struct CheckedPool {
    std::string name;
    uint64_t devices = 0, used_bytes = 0, total_bytes = 0;
    uint64_t replayed_groups = 0;  // of the journal
    std::vector<CheckedContainer> containers;
    uint64_t problems = 0;  // all
};

// Errors: those of EmbeddedPool::open(); each with a sentence. `corrupt` is a problem of the pool
// that prevents its opening, all others mean that it cannot be checked.
[[nodiscard]] Task<Result<CheckedPool>> check_pool(const Call& call, Environment environment,
                                                   std::string directory, PoolCheckOptions options,
                                                   Report& report);

}  // namespace ros2s::pool
