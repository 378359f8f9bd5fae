// KeyLocks: isolates transactions in progress from each other. Two levels: objects and dkeys, each
// named by a 64-bit hash (after a collision, unrelated transactions wait for each other). A
// transaction takes all its locks at once, in ascending order, and holds them until its group is
// visible. So its conditions are checked against the latest state, and there is no deadlock.
//
//   mode            taken by                                                compatible with
//   intent_shared   object: a condition on one of its keys                  is, ix, s
//   intent_update   object: an update of one of its dkeys;                  is, ix
//                   dkey: a write of whole blocks, which needs no order
//   shared          dkey: a condition; object: no_dkeys                     is, s
//   exclusive       dkey: any other update; object: punch of many dkeys,    -
//                   and on core 0 the condition `unpinned`
//
// First come, first served: a waiter is not overtaken on its lock. Each core has one table, for its
// targets' dkeys. An object's own lock is in all of them: a transaction on one dkey takes it on
// that dkey's core, a transaction on the object takes it on each. Used on its core.
#pragma once
#include <algorithm>
#include <cstdint>
#include <deque>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ros2s/base/inline_vector.h"
#include "ros2s/base/metrics.h"
#include "ros2s/object/vocabulary.h"
#include "ros2s/runtime/reactor.h"
#include "ros2s/runtime/task.h"

namespace ros2s::engine {

enum class KeyLockMode : uint8_t { intent_shared, intent_update, shared, exclusive };

// `hash_key`: see hash.h.
class LockNames {
  public:
    explicit LockNames(uint64_t hash_key) : hash_key_(hash_key) {}
    // Of an object.
    [[nodiscard]] uint64_t of(object::ContainerId container, object::ObjectId object) const;
    // Of a dkey of the object with this name.
    [[nodiscard]] static uint64_t of(uint64_t object, std::string_view dkey);

  private:
    uint64_t hash_key_;
};

class KeyLocks {
  public:
    struct Wanted {
        uint64_t name = 0;
        KeyLockMode mode{};
    };
    explicit KeyLocks(Reactor& reactor) : reactor_(reactor) {}
    KeyLocks& operator=(KeyLocks&&) = delete;
    ~KeyLocks();

    // The locks of a transaction. Four: those of one operation and one condition.
    using WantedLocks = InlineVector<Wanted, 4>;
    // Sorts, and merges entries of the same lock to the weakest mode that covers both. Call it once
    // before lock().
    static void prepare(WantedLocks& wanted);

    // co_await table.lock(wanted[i]) for each i in order; unlock() each in any order.
    [[nodiscard]] auto lock(Wanted wanted) {
        struct Awaiter {
            KeyLocks& table;
            Wanted wanted;
            std::coroutine_handle<> handle{};
            bool await_ready() { return table.try_lock(wanted); }
            void await_suspend(std::coroutine_handle<> waiter) { table.wait(wanted, waiter); }
            void await_resume() const noexcept {}
        };
        return Awaiter{*this, wanted};
    }
    void unlock(Wanted wanted);
    // The number of waits.
    [[nodiscard]] const Counter& waits() const { return waits_; }

  private:
    struct Waiter {
        KeyLockMode mode;
        std::coroutine_handle<> handle;
    };
    struct Lock {
        uint32_t holders[4] = {};
        std::deque<Waiter>* waiters = nullptr;
        [[nodiscard]] bool admits(KeyLockMode mode) const;
        [[nodiscard]] bool is_free() const;
    };
    bool try_lock(Wanted wanted);
    void wait(Wanted wanted, std::coroutine_handle<> handle);

    Reactor& reactor_;
    std::unordered_map<uint64_t, Lock> locks_;
    // Unused locks keep their memory, because a workload that waited once will wait again.
    std::vector<std::unordered_map<uint64_t, Lock>::node_type> spare_;
    Counter waits_;
};

// The locks of a transaction in one table.
class LocksHeld {
  public:
    explicit LocksHeld(KeyLocks& table) : table_(table) {}
    LocksHeld(LocksHeld&&) = default;  // empties the source
    LocksHeld& operator=(LocksHeld&&) = delete;
    ~LocksHeld() { clear(); }
    // Called once: waits for each lock in order.
    Task<> lock(KeyLocks::WantedLocks wanted) {
        wanted_ = std::move(wanted);
        for (; held_ < wanted_.size(); ++held_) co_await table_.lock(wanted_[held_]);
    }
    void clear() {
        for (size_t i = 0; i < std::min(held_, wanted_.size()); ++i) table_.unlock(wanted_[i]);
        wanted_.clear();
    }

  private:
    KeyLocks& table_;
    KeyLocks::WantedLocks wanted_;
    size_t held_ = 0;  // the number of held locks, from the first on
};

}  // namespace ros2s::engine
