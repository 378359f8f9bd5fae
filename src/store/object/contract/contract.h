// The contract suite: the requirements for every ObjectStore, as tests over a factory.
//
//     std::unique_ptr<contract::Setup> make(const contract::Needs& needs);
//     ROS2S_OBJECT_STORE_CONTRACT(EngineStore, make);
//
// Use it in a *_test.cc of a program that links GTest's main. It registers every case as
// EngineStore.<case>. Cases that need a feature which the store does not declare are skipped.
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "ros2s/object/object_store.h"
#include "ros2s/runtime/reactor.h"

namespace ros2s::object::contract {

// The requirements of a case for its store.
struct Needs {
    uint64_t seed = 1;  // of the simulation, if there is one
    uint64_t capacity_bytes = uint64_t{128}
                              << 20;  // at least, for data; a `scarce` one at most twice that
    bool scarce = false;              // the case fills the store up
};

// A new, empty store, and the reactor that runs tasks on its core. The destructor closes it.
class Setup {
  public:
    virtual ~Setup() = default;
    [[nodiscard]] virtual ObjectStore& store() = 0;
    [[nodiscard]] virtual Reactor& reactor() = 0;
    // Runs the task on the store's core and returns when the task is done.
    virtual void run(Task<> task) = 0;
    // Closes the store and opens it again on the same media; store() is then another object.
    // Returns false if there is nothing to open again; the case then does not test durability.
    virtual Task<bool> reopen() { co_return false; }
    // Cases that wait for seconds are for stores in virtual time.
    [[nodiscard]] virtual bool is_in_real_time() const { return false; }
    // From now on the store refuses updates. Returns false if that is not possible.
    virtual bool make_read_only() { return false; }
};

using Factory = std::function<std::unique_ptr<Setup>(const Needs&)>;

// Called once, before GTest runs.
bool register_contract(const std::string& name, const Factory& factory);

}  // namespace ros2s::object::contract

#define ROS2S_OBJECT_STORE_CONTRACT(name, factory)           \
    [[maybe_unused]] static const bool name##_has_contract = \
        ::ros2s::object::contract::register_contract(#name, factory)
