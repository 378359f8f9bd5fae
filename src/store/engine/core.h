// Core: one reactor's part of an open pool: its targets' entries, the locks on them, the reads in
// progress, and handles of the devices. A fetch needs nothing else, so no other core takes part in
// it. Core 0 is home: the reactor that the pool was opened on. It has targets like the others, and
// also the parts that a pool has once: summaries, journal, space, replies, containers, and the
// committer.
//
// Everything here is used on the core's reactor, except const members and counters.
#pragma once
#include <cstdint>
#include <deque>
#include <memory>
#include <set>
#include <vector>

#include "key_locks.h"
#include "loader.h"
#include "partial_blocks.h"
#include "ros2s/device/block_device.h"

namespace ros2s::engine {

// ReadPins: a core's reads of the media in progress, by the last group that was visible when each
// began. They may still read a block displaced by a later group, so it must not be reused.
class ReadPins {
  public:
    // Is part of the reader's frame, from before it takes addresses until its last read is done.
    class Pin {
      public:
        Pin(ReadPins& owner, uint64_t visible) : owner_(owner), visible_(visible) {
            older_ = owner_.newest_;
            (older_ != nullptr ? older_->newer_ : owner_.oldest_) = this;
            owner_.newest_ = this;
        }
        Pin& operator=(Pin&&) = delete;
        ~Pin() {
            (older_ != nullptr ? older_->newer_ : owner_.oldest_) = newer_;
            (newer_ != nullptr ? newer_->older_ : owner_.newest_) = older_;
        }

      private:
        friend class ReadPins;
        ReadPins& owner_;
        uint64_t visible_;
        Pin* older_ = nullptr;
        Pin* newer_ = nullptr;
    };
    // No read uses blocks displaced by groups up to this one.
    [[nodiscard]] uint64_t unread_upto() const {
        return oldest_ == nullptr ? UINT64_MAX : oldest_->visible_;
    }

  private:
    Pin* oldest_ = nullptr;
    Pin* newest_ = nullptr;
};

// Counts requests, so that close() can wait for them.
class RequestCount {
  public:
    explicit RequestCount(Reactor& reactor) : idle_(reactor) { idle_.set(); }
    class Hold {
      public:
        explicit Hold(RequestCount& counted) : counted_(counted) {
            if (counted_.count_++ == 0) counted_.idle_.reset();
        }
        Hold& operator=(Hold&&) = delete;
        ~Hold() {
            if (--counted_.count_ == 0) counted_.idle_.set();
        }

      private:
        RequestCount& counted_;
    };
    Task<> wait_idle() {
        while (count_ > 0) co_await idle_;
    }

  private:
    size_t count_ = 0;
    Event idle_;
};

// The counters of a core. Their sums over the cores are Prometheus metrics.
struct CoreMetrics {
    Counter fetches, fetch_items, fetch_bytes, fetch_bounced, fetch_rereads, fetch_corrupt;
    Counter updates, update_bytes, updates_failed, replays, partial_blocks;
    Counter lists, queries;
    // Recent values of its cache; bytes in bounce buffers.
    Counter cache_bytes, dirty_bytes, bounce_bytes;
};

class Core {
  public:
    Core(uint32_t number, const Environment& pool, Reactor& reactor, Index& index,
         const Partition& partition, uint64_t bounce_blocks, uint64_t cache_bytes_max,
         uint64_t hash_key)
        : number(number),
          env{reactor, pool.blocking, pool.log},
          cache(number, hash_key),
          loader(env, index, cache, partition, number),
          locks(reactor),
          requests(reactor),
          bounce(reactor, bounce_blocks),
          bounce_blocks(bounce_blocks),
          cache_bytes_max(cache_bytes_max),
          news(reactor) {}
    Core& operator=(Core&&) = delete;

    const uint32_t number;
    const Environment env;  // the pool's, with this core's reactor
    NodeCache cache;
    PartialBlocks partial;
    Loader loader;
    KeyLocks locks;
    ReadPins reads;
    RequestCount requests;
    Semaphore bounce;  // blocks of bounce memory
    const uint64_t bounce_blocks;
    const uint64_t cache_bytes_max;  // of its nodes, if they can be dropped
    std::vector<device::BlockDevice*> devices;
    std::vector<std::unique_ptr<device::BlockDevice>> own_devices;  // not on core 0
    std::set<object::ContainerId> containers;  // the visible ones; core 0 uses State
    uint64_t visible = 0;                      // the last group applied to these nodes
    CoreMetrics metrics;

    // On core 0: the last report about reads here (ReadPins::unread_upto). See Publisher for
    // updates.
    uint64_t unread_told = UINT64_MAX;
    Event news;
    bool stopping = false;

    // The next device. Its data is in blocks [data_first, data_end).
    void add_device(device::BlockDevice& device, uint64_t data_first, uint64_t data_end) {
        devices.push_back(&device);
        loader.add_data_area(data_first, data_end);
    }
    [[nodiscard]] bool is_current() const { return env.reactor.is_current(); }
    // Drops evictable nodes beyond its share. Called after any step that may have loaded nodes.
    void trim() {
        if (cache.bytes() > cache_bytes_max) cache.shrink(cache_bytes_max);
        note_memory();
    }
    void note_memory() {
        metrics.cache_bytes.set(cache.bytes());
        metrics.dirty_bytes.set(cache.dirty_bytes());
    }
};

// Runs a task on a core's reactor and returns to the caller's. Costs nothing if they are the same.
template <class T>
[[nodiscard]] Task<T> at(Core& core, Core& from, Task<T> task) {
    if (&core == &from) return task;
    return on(core.env.reactor, from.env.reactor, std::move(task));
}

// All cores of a pool.
class Cores {
  public:
    Cores(const Environment& env, Index& index, uint32_t targets, const EngineOptions& options);

    [[nodiscard]] const Partition& partition() const { return partition_; }
    [[nodiscard]] const LockNames& lock_names() const { return lock_names_; }
    [[nodiscard]] uint32_t size() const { return partition_.cores; }
    // Two callers use it for a fast path: publish() then applies a group's effects directly and
    // does not suspend, instead of keeping them (an allocation each) until all cores are done;
    // scan() then returns the nodes themselves instead of merged copies of their values.
    [[nodiscard]] bool is_one() const { return partition_.cores == 1; }
    [[nodiscard]] Core& home() { return cores_.front(); }
    [[nodiscard]] Core& operator[](uint32_t number) { return cores_[number]; }
    [[nodiscard]] const Core& operator[](uint32_t number) const { return cores_[number]; }
    [[nodiscard]] Core& of(object::ContainerId container, object::ObjectId object,
                           std::string_view dkey) {
        return cores_[partition_.core_of(container, object, dkey)];
    }
    // The core that the caller runs on.
    [[nodiscard]] Core& here();

    // The size of all nodes: core 0's exact size, the others' recent sizes. Called on core 0.
    [[nodiscard]] uint64_t cache_bytes() const;
    [[nodiscard]] uint64_t dirty_bytes() const;
    // True if some core's dirty nodes exceed `bytes`. Called on core 0.
    [[nodiscard]] bool is_dirty_beyond(uint64_t bytes) const;
    // Each core's limit of dirty nodes before a checkpoint is due.
    [[nodiscard]] uint64_t dirty_share() const { return dirty_share_; }
    // Core::trim() of all cores. Called on core 0.
    Task<> trim();

    // Loads and pins all nodes that `change` affects, on any core, and sets its nodes. Appends them
    // to `pins`. Called on core 0. After an error nothing more is pinned than before. Errors: those
    // of Loader::prepare_entries().
    Task<Result<>> prepare(object::ContainerId container, Change& change, std::vector<Node*>& pins,
                           size_t bytes_max = SIZE_MAX);
    // For nodes of any cores. Called on core 0.
    Task<> unpin(std::vector<Node*> pins);
    // As Loader::scan(), over all cores' keys; on several cores items are raw. Called on core 0.
    Task<Result<Loader::Page>> scan(std::string from, std::string to, size_t limit,
                                    bool reverse = false);
    // Gives each core the visible containers. Called on core 0.
    Task<> share_containers(std::set<object::ContainerId> containers);

  private:
    Partition partition_;
    const uint64_t hash_key_;  // see hash.h
    LockNames lock_names_;
    const uint64_t dirty_share_;
    std::deque<Core> cores_;
};

}  // namespace ros2s::engine
