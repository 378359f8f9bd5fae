// Tidier: removes what changes leave behind: data that nothing names any more, records of it and of
// transactions, objects without entries. Nobody waits for it. Part of an open store. Used on one
// core.
//
// Invariants
// - Garbage is removed after the change that made it garbage, and its record after it.
// - An object is removed only if its head is the one that has no entries.
// - What is not removed, because too much waits or a request fails, is left to the sweep.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "env.h"
#include "ros2s/rados/keys.h"
#include "ros2s/rados/records.h"
#include "ros2s/runtime/nursery.h"

namespace ros2s::rados {

class Tidier {
  public:
    explicit Tidier(const Env& env);
    // Removes the decisions that wait, and joins all removals.
    Task<> close();

    // Removes data that was never published. Clears the map.
    void drop(const std::string& space, std::map<object::ObjectId, std::vector<DataId>>& data);
    // Removes what the change of the object leaves. Tests kill the process when it enters this.
    [[gnu::noinline]] void start(const ObjectName& object, const Pending& pending);
    // The decisions are no longer needed. They wait for the next change of their object, which
    // takes them, or are removed when many wait.
    void note_ended(const ObjectName& decider, std::vector<std::string> keys);
    [[nodiscard]] std::vector<std::string> take_ended(const ObjectName& decider);

  private:
    struct Leftovers {
        std::vector<std::string> garbage;  // keys of garbage and of decisions
        std::string dead_head;             // of an object to remove; empty: the object stays
    };
    // False: too many removals are running, so nothing is removed.
    [[nodiscard]] bool leave(const ObjectName& name, Leftovers left);
    Task<> tidy(ObjectName name);
    Task<> remove_data(std::string space, object::ObjectId object, std::vector<DataId> data);
    Task<> remove_one(ObjectName data, Result<>& result);
    Task<> forget_keys(ObjectName name, std::vector<std::string> keys);

    const Env& env_;
    std::map<ObjectName, Leftovers> leftovers_;
    std::map<ObjectName, std::vector<std::string>> ended_decisions_;  // by decider
    Nursery removals_;
};

}  // namespace ros2s::rados
