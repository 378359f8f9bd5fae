// Containers: the pool's record, its containers, and the clock that stores leave to each other. All
// are keys of one object. Part of an open store. Used on one core.
//
// Invariants
// - RADOS pools with other objects than those of a RadosStore are not changed.
// - A container that is being removed has a key until all its objects are gone. The next opening or
//   removal finishes what was begun.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "env.h"
#include "ros2s/base/result.h"
#include "ros2s/runtime/call.h"

namespace ros2s::rados {

class Containers {
  public:
    Containers(const Env& env, Epochs& epochs) : env_(env), epochs_(epochs) {}

    // Reads the pool's record, or makes it. Errors: those of RadosStore::open().
    Task<Result<>> open(const Call& call, Report& report);
    // Writes the clock.
    Task<> close();

    // As those of ObjectStore.
    Task<Result<std::vector<object::ContainerRecord>>> list(const Call& call);
    Task<Result<object::ContainerRecord>> create(const Call& call,
                                                 const object::ContainerProperties& properties);
    Task<Result<>> destroy(const Call& call, object::ContainerId container);
    // Asks the cluster if that was not done for RadosOptions::container_check. Errors: not_found,
    // those of the call and of Pool.
    Task<Result<>> check(const Call& call, object::ContainerId container);

  private:
    Task<Result<>> format(Report& report);
    Task<Result<>> check_no_strangers(Report& report);
    Task<Result<>> finish_destroying();
    // The pool's keys with the prefix.
    Task<Result<std::map<std::string, std::string>>> read_all(std::string prefix);
    Task<Result<>> remove_all(Pool& pool, std::string space);

    const Env& env_;
    Epochs& epochs_;
    std::map<object::ContainerId, Time> seen_;  // when each was last seen to exist
};

}  // namespace ros2s::rados
