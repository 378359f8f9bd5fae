// Heads: the objects as this store knows them, and the requests that read them. Each change of an
// object gives its head other bytes. What was read or written of an object is therefore true as
// long as its head is the same. Part of an open store. Used on one core.
//
// Invariants
// - What is known is a guess: a change that starts from it is conditional on the head, and a reader
//   that uses it reads the head as well.
// - A read returns no state of a transaction that is not committed, and the state after one that
// is.
// - A read that several callers share begins after all of them have asked.
// - A view is used by one transaction at a time, which holds the mutex of its object.
// - Known views and facts each take at most about 16 MiB.
#pragma once
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "env.h"
#include "ros2s/rados/coordinator.h"
#include "ros2s/rados/key_mutexes.h"
#include "ros2s/rados/plan.h"
#include "ros2s/rados/seen.h"

namespace ros2s::rados {

// A request that several reads share.
struct SharedRead {
    explicit SharedRead(Reactor& reactor) : done(reactor) {}
    std::set<std::string> keys;
    Result<ReadReply> reply = fail(Code::io);
    Event done;
};

class Heads {
  public:
    Heads(const Env& env, Coordinator& coordinator)
        : mutexes(env.reactor), env_(env), coordinator_(coordinator), read_turns_(env.reactor) {}

    // By namespace and name of the object. Transactions of this store that change an object hold
    // its mutex.
    KeyMutexes mutexes;
    SeenFacts seen;

    // As Pool::read(), but first applies a committed transaction that locks the object. Sets
    // `head`. If the object does not exist, the reply has no values.
    Task<Result<ReadReply>> read_unlocked(const Call& call, Read read, Head& head);
    // Reads the head and the keys, together with others that wait for this object.
    Task<> read_shared(ObjectName object, std::vector<std::string> keys,
                       std::shared_ptr<SharedRead>& read);
    Task<Result<ReadReply>> read_with_others(ObjectName object, std::vector<std::string> keys);

    // Initializes the views with the state that this store wrote last. Returns whether there is
    // any.
    bool begin_with_known(const std::string& space, Views& views);
    // The store has changed the object from the view's state. `stored` is the whole change.
    void remember(const std::string& space, View view, const Pending& stored);
    // The moments of reads of objects and slots are in the order of these calls.
    [[nodiscard]] uint64_t next_moment() { return ++moments_; }

    // False: the object's omap has so many bytes that new ones go to the data pool.
    [[nodiscard]] bool has_room_inline(const ObjectName& object) const;
    void note_room(const ObjectName& object, const Pending& stored);

  private:
    const Env& env_;
    Coordinator& coordinator_;
    std::map<ObjectName, View> known_;
    size_t known_bytes_ = 0;
    uint64_t moments_ = 0;
    std::map<ObjectName, std::shared_ptr<SharedRead>> shared_reads_;  // others can join
    KeyMutexes read_turns_;
    std::set<ObjectName> crowded_;  // have many bytes in their omap
};

}  // namespace ros2s::rados
