// The contract of FileSystem as test cases: what every implementation must do, called against one
// fresh file system per case. A test program registers each implementation that it can make:
//
//     const bool registered = fs::contract::register_contract("Dfs", traits, make_subject);
//
// Cases run on a simulated reactor, seeded, so that concurrent ones repeat.
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "ros2s/fs/file_system.h"
#include "ros2s/runtime/sim/world.h"

namespace ros2s::fs::contract {

// A fresh, empty file system and all that it needs to live.
class Subject {
  public:
    virtual ~Subject() = default;
    [[nodiscard]] virtual FileSystem& file_system() = 0;
    [[nodiscard]] virtual sim::World& world() = 0;
    // Called between two changes whose times are compared, besides virtual time passing.
    virtual void let_time_pass() {}
};

// Where implementations may differ. The defaults are Dfs's.
struct Traits {
    bool clears_set_ids = true;       // a write takes S_ISUID and S_ISGID away, whoever writes
    bool exact_space = true;          // nobody else uses its space, and freed space comes back
    uint32_t xattr_bytes = 64 << 10;  // the largest value of an extended attribute
    uint64_t chunk_bytes = 1 << 20;   // borders that I/O should straddle
    int property_runs = 20;           // seeds of the property test
    int property_steps = 150;         // operations of each
};

using Factory = std::function<std::unique_ptr<Subject>(uint64_t seed)>;

// Registers every case for one implementation. Returns true.
bool register_contract(const std::string& implementation, Traits traits, Factory factory);

}  // namespace ros2s::fs::contract
