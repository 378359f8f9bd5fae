// OrderedMapIndex: the index of a simulation: a std::map with the worst behaviour that the crash
// contract of index.h allows. Its durable state is an OrderedMapMedium, which outlives it: close or
// crash, then open another index on the same medium.
//
// Fault model
// - crash(random): a random number of the newest unflushed batches is lost, from none to all; the
//   others survive. Power loss and the death of the process have the same effect, as for RocksDB
//   without its log.
// - fail_with(error): from now on every call fails, and nothing changes, until crash().
// - set_full(true): from now on apply() and flush() fail with no_space and change nothing, until
//   reset. Reads continue.
// - An index opened before a crash is dead: its calls fail with io.
// get_cached() and scan_cached() answer every second time.
// Memory is not bounded: memory_bytes() and disk_bytes() count the whole map.
#pragma once
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "ros2s/base/random.h"
#include "ros2s/engine/index/index.h"

namespace ros2s::engine {

class OrderedMapMedium {
  public:
    OrderedMapMedium& operator=(OrderedMapMedium&&) = delete;

    // An index over the surviving state. The medium must outlive it.
    [[nodiscard]] std::unique_ptr<Index> open();

    void crash(Random& random);
    void fail_with(const Error& error);
    void set_full(bool full);

    // Batches applied and not flushed: a crash can lose this many.
    [[nodiscard]] size_t unflushed() const;

  private:
    friend class OrderedMapIndex;
    // The values that a batch replaced, newest last. Undoing a batch replays its list from the end.
    using Undo = std::vector<std::pair<std::string, std::optional<std::string>>>;
    void set(std::string_view key, const std::string_view* value, Undo& undo);
    void take_back(Undo undo);

    // BlockingPool calls from several threads when a program runs on real reactors; in a
    // simulation there is one thread and the lock is never contended.
    mutable std::mutex mutex_;
    std::map<std::string, std::string, std::less<>> map_;
    std::vector<Undo> unflushed_;
    std::optional<Error> failure_;
    bool full_ = false;
    uint64_t generation_ = 0;  // counts crashes: an index of an earlier one is dead
    uint64_t bytes_ = 0;
    bool in_memory_ = false;  // what was asked for last: every second question
};

}  // namespace ros2s::engine
