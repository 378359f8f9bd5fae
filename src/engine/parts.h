// EngineStore::Parts: what an open pool is made of, in dependency order. The requests are
// coroutines in fetch.cc, update.cc, containers.cc and list.cc that work on these parts.
#pragma once
#include <map>
#include <optional>

#include "checkpointer.h"
#include "commit_rules.h"
#include "committer.h"
#include "draft.h"
#include "engine_store.h"
#include "loader.h"
#include "locks.h"
#include "recovery.h"
#include "ros2s/runtime/nursery.h"

namespace ros2s::engine {

// Counts requests, so that close() can wait for them.
class Gate {
  public:
    explicit Gate(Reactor& reactor) : idle_(reactor) { idle_.set(); }
    class Hold {
      public:
        explicit Hold(Gate& gate) : gate_(gate) {
            if (gate_.count_++ == 0) gate_.idle_.reset();
        }
        Hold(const Hold&) = delete;
        Hold& operator=(const Hold&) = delete;
        ~Hold() {
            if (--gate_.count_ == 0) gate_.idle_.set();
        }

      private:
        Gate& gate_;
    };
    Task<> wait_idle() {
        while (count_ > 0) co_await idle_;
    }

  private:
    size_t count_ = 0;
    Event idle_;
};

class EngineStore::Parts {
  public:
    Parts(const Env& environment, Devices pool_devices, const Superblock& pool_superblock,
          std::unique_ptr<Index> pool_index, const EngineOptions& pool_options);

    Env env;
    EngineOptions options;
    CommitRules rules;
    Superblock superblock;
    Devices devices;
    std::unique_ptr<Index> index;
    State state;
    Journal journal;
    Loader loader;
    LockTable locks;
    Gate gate;
    Semaphore staging;  // blocks of staged payload
    Semaphore bounce;   // blocks of bounce memory
    uint64_t staging_blocks, bounce_blocks;
    uint64_t replayed_groups = 0;
    std::string damage;
    std::optional<Committer> committer;
    std::optional<Checkpointer> checkpointer;
    EngineMetrics metrics;
    // Updates under way, by request slot: a repetition waits for the first.
    std::map<std::pair<Uuid, uint32_t>, uint64_t> running;
    Event slot_done;
    Semaphore container_turn;  // creations and destructions go one by one, growths too
    std::optional<Nursery> background;
    bool is_closed = false;

    [[nodiscard]] std::vector<device::BlockDevice*> device_pointers() const;
    [[nodiscard]] std::string read_only_reason() const;
    void start(const Committer::Chain& chain, uint64_t checkpoint_number);
    Task<Result<>> recover(Report& report);
    Task<Result<>> renew_superblocks(Report& report);
    Task<> resume_purges();
    Task<> close_parts();
    // Keeps the cache under its share, and what is dirty in it; called after anything that may have
    // brought in nodes or changed them.
    void trim() {
        if (state.cache.bytes() > options.cache_share()) {
            state.cache.shrink(options.cache_share());
        }
        if (state.cache.dirty_bytes() > options.dirty_share() && !checkpointer->is_writing()) {
            checkpointer->request();
        }
    }

    // update.cc
    Task<Result<object::Commit>> update(const Call& call, object::ContainerId container,
                                        const object::Transaction& transaction);
    Task<Result<object::Commit>> update_once(const Call& call, object::ContainerId container,
                                             const object::Transaction& transaction);
    Task<Result<>> reserve(const Call& call, Draft& draft);
    [[nodiscard]] bool try_reserve(Draft& draft);
    Task<Result<object::Commit>> update_locked(const Call& call, object::ContainerId container,
                                               const object::Transaction& transaction, Draft& draft,
                                               bool& reserved);
    Task<Result<>> judge(object::ContainerId container, const object::Transaction& transaction);
    Task<Result<bool>> holds(object::ContainerId container, const object::Condition& condition);
    Task<Result<>> read_edges(const Call& call, Draft& draft);
    Task<Result<object::Commit>> commit(TransactionRecord record, std::vector<Node*> pins);
    Task<Result<object::Commit>> commit_change(object::ContainerId container, Change change);

    // fetch.cc
    Task<> fetch_item(const Call& call, object::ContainerId container, object::FetchItem& item);
    Task<Result<>> fetch_array(const Call& call, object::ContainerId container,
                               object::FetchItem& item, uint64_t size);
    Task<> fetch_items(const Call& call, object::ContainerId container,
                       std::span<object::FetchItem> items);
    [[nodiscard]] Node* resident_segment(object::ContainerId container,
                                         const object::FetchItem& item, uint64_t segment);
    [[nodiscard]] static std::string segment_key(object::ContainerId container,
                                                 const object::FetchItem& item, uint64_t segment);
    [[nodiscard]] bool plan_direct(object::FetchItem& item, const EntryValue& entry,
                                   BlockAddress& first);
    void say_rotten(object::ContainerId container, const object::FetchItem& item) const;
    Task<Result<>> reread(Trace* trace, BlockAddress first, std::span<const uint32_t> crcs,
                          Bytes window);
    Task<> fetch_run(Trace* trace, object::FetchItem& item, std::span<const BlockRef> run,
                     size_t at, Result<>& result);
    // Reads blocks of the media into engine memory and verifies them. Errors: io; corrupt, whose
    // detail is where the first bad one ends.
    Task<Result<>> read_verified(Trace* trace, std::span<const BlockRef> blocks, Bytes into);

    // list.cc
    Task<Result<object::ListReply>> list_objects(object::ContainerId container,
                                                 const object::ListRequest& request);
    Task<Result<object::ListReply>> list_dkeys(object::ContainerId container,
                                               const object::ListRequest& request);
    Task<Result<object::ListReply>> list_akeys(object::ContainerId container,
                                               const object::ListRequest& request);
    Task<Result<object::QueryReply>> query(object::ContainerId container, object::ObjectId object,
                                           const object::Akey& akey);
    Task<Result<>> find_highest(object::ContainerId container, object::ObjectId object,
                                const object::Akey& akey, Node& summary);

    // containers.cc
    Task<Result<>> purge(object::ContainerId container);
};

}  // namespace ros2s::engine
