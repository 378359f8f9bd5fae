// The contract of FileSystem as test cases: the requirements for every implementation. Each case
// uses one new file system. A test program registers each implementation that it can create:
//
//     const bool registered = fs::contract::register_contract("Dfs", traits, make_subject);
//
// Cases run on a simulated, seeded reactor, so concurrent cases are repeatable.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "ros2s/fs/caller.h"
#include "ros2s/fs/file_system.h"
#include "ros2s/runtime/sim/world.h"

namespace ros2s::fs::contract {

// A new, empty file system and everything that it needs.
class Subject {
  public:
    virtual ~Subject() = default;
    [[nodiscard]] virtual FileSystem& file_system() = 0;
    [[nodiscard]] virtual sim::World& world() = 0;
    // Called between two changes whose times are compared, in addition to virtual time passing.
    virtual void let_time_pass() {}
    // The user of the cases' calls; null: none. Users 1000 and root must be able to do everything.
    [[nodiscard]] virtual const Caller* caller() const { return nullptr; }
};

// Permitted differences between implementations. The defaults are those of Dfs.
struct Traits {
    bool clears_set_ids = true;       // writes clear S_ISUID and S_ISGID (OpenFlags)
    bool exact_space = true;          // no other user of its space; freed space becomes available
    bool finds_holes = true;          // FileSystem::seek() reports large ones
    uint32_t xattr_bytes = 64 << 10;  // the largest value of an extended attribute
    uint64_t chunk_bytes = 1 << 20;   // boundaries that test I/O crosses
    // Cases of what the implementation does not have, and the reason for each.
    std::map<std::string, std::string> lacks{};
    bool hard_links = true;
    bool special_nodes = true;  // FIFOs, sockets, devices
    bool whiteouts = true;      // renames leave them
    bool node_flags = true;     // they can be set
    bool access_lists = true;   // acl.h
    bool sticky_bit = true;
    bool locks = true;               // FileSystem::lock()
    bool nameless_files = true;      // an open file exists until it is closed
    std::set<std::string> suites{};  // "Names", "Files", …; empty: all
    int property_runs = 20;          // seeds of the property test
    int property_steps = 150;        // operations per seed
};

// Whether the file system of this machine's temporary files has whiteouts. overlayfs, as in
// containers, has none.
[[nodiscard]] bool directories_have_whiteouts();

using Factory = std::function<std::unique_ptr<Subject>(uint64_t seed)>;

// Registers every case for one implementation. Returns true.
bool register_contract(const std::string& implementation, Traits traits, Factory factory);

}  // namespace ros2s::fs::contract
