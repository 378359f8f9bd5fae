// Heads: the objects as this store knows them, and the requests that read them. Each change of an
// object gives its head other bytes. What was read or written of an object is therefore true as
// long as its head is the same. Part of an open store. Used on one core.
//
// Invariants
// - What is known is a guess: a change that starts from it is conditional on the head, and a reader
//   that uses it reads the head as well.
// - A read returns no state of a transaction that is not committed, and the state after one that
//   is.
// - A read that several callers share begins after all of them have asked.
// - Only the transaction that holds the mutex of an object changes what is known of it, when the
//   change is done. Others only add to it.
// - What is known takes at most about 32 MiB.
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
#include "ros2s/rados/view.h"

namespace ros2s::rados {

// A request that several reads share.
struct SharedRead {
    explicit SharedRead(Reactor& reactor) : done(reactor) {}
    std::set<std::string> keys{head_key};
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

    // As Pool::read(), but first applies a committed transaction that locks the object. Sets
    // `head`. If the object does not exist, the reply has no values.
    Task<Result<ReadReply>> read_unlocked(const Call& call, Read read, Head& head);
    // Reads the head and the keys, together with others that wait for this object.
    Task<> read_shared(ObjectName object, std::vector<std::string> keys,
                       std::shared_ptr<SharedRead>& read);
    Task<Result<ReadReply>> read_with_others(ObjectName object, std::vector<std::string> keys);

    // Null: nothing is known.
    [[nodiscard]] std::shared_ptr<CachedOmap> known(const ObjectName& object) const;
    // Whether the facts are still true for the object that was read. `is_applied`: see CachedOmap.
    [[nodiscard]] bool are_true(const ObjectName& object, const std::vector<std::string>& keys,
                                const Facts& facts, const Result<ReadReply>& reply,
                                bool is_applied) const;
    // Adds what a view has read to what is known.
    void learn(const std::string& space, const View& view);
    // Initializes the views with what is known. Returns whether there is any.
    bool begin_with_known(const std::string& space, Views& views);
    // The store has changed the object from the view's state. `stored` is the whole change. Until
    // it is applied, the object has the locked head, if that is not empty.
    void remember(const std::string& space, const View& view, const Pending& stored,
                  const std::string& locked_head);
    void note_applied(const ObjectName& object, const std::string& locked_head);
    // The moments of reads of objects and slots are in the order of these calls.
    [[nodiscard]] uint64_t next_moment() { return ++moments_; }

    // False: the object's omap has so many bytes that new ones go to the data pool.
    [[nodiscard]] bool has_room_inline(const ObjectName& object) const {
        return !crowded_.contains(object);
    }
    void note_room(const ObjectName& object, const Pending& stored);

  private:
    const Env& env_;
    Coordinator& coordinator_;
    struct Cached {
        std::shared_ptr<CachedOmap> known;
        size_t bytes = 0;  // as it is counted
    };
    void keep(const ObjectName& object, std::shared_ptr<CachedOmap> known);
    std::map<ObjectName, Cached> cache_;
    size_t cache_bytes_ = 0;
    uint64_t moments_ = 0;
    std::map<ObjectName, std::shared_ptr<SharedRead>> shared_reads_;  // others can join
    KeyMutexes read_turns_;
    std::set<ObjectName> crowded_;  // have many bytes in their omap
};

}  // namespace ros2s::rados
