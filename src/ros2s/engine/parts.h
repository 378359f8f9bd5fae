// EngineStore::Parts: what an open pool is made of, in dependency order.
#pragma once
#include <deque>
#include <map>
#include <optional>
#include <set>

#include "checkpointer.h"
#include "commit_rules.h"
#include "committer.h"
#include "draft.h"
#include "engine_store.h"
#include "lister.h"
#include "reader.h"
#include "recovery.h"
#include "ros2s/runtime/nursery.h"

namespace ros2s::engine {

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
    Cores cores;
    Publisher publisher;
    Semaphore staging;  // blocks of staged payload
    uint64_t staging_blocks;
    Semaphore in_place_turn;  // for the blocks that a full pool keeps back
    uint64_t replayed_groups = 0;
    uint64_t recovery_cache_bytes_max = 0;
    std::string damage;
    std::optional<Committer> committer;
    std::optional<Checkpointer> checkpointer;
    // Updates under way, by request slot: a repetition waits for the first.
    std::set<ReplyKey> running;
    Event slot_done;
    Semaphore container_turn;  // creations and destructions go one by one, growths too
    object::PinTable pins;
    Reader reader;
    Lister lister;
    std::optional<Nursery> background;
    StopSource closing;
    bool is_closed = false;

    [[nodiscard]] std::vector<device::BlockDevice*> device_pointers() const;
    [[nodiscard]] std::string read_only_reason() const;
    void add_space(uint32_t device);
    void start(const Committer::Chain& chain, uint64_t checkpoint_number);
    Task<Result<>> recover(Report& report);
    Task<> resume_purges();
    Task<> give_back_at_rest();
    // Writes a checkpoint of what has been recovered so far, all of which is durable.
    Task<Result<>> checkpoint_recovered(const Committer::Chain& chain, uint64_t& number,
                                        Report& report);
    // Recovery obeys the memory's cap: caches are trimmed, and what has changed goes to the index.
    // `durable`: all that was replayed so far is. Errors: no_memory, where it may not be written.
    Task<Result<>> relieve(const Committer::Chain& chain, Recovered& recovered, bool durable,
                           Report& report);
    Task<> close_parts();
    // Each core's own handles of the devices from number `first` on.
    Task<Result<>> open_handles(size_t first, Report& report);
    // update.cc
    Task<Result<object::Commit>> update(const Call& call, object::ContainerId container,
                                        const object::Transaction& transaction);
    // `id`: the transaction's, with its digest.
    Task<Result<object::Commit>> update_once(const Call& call, object::ContainerId container,
                                             const object::Transaction& transaction,
                                             object::OperationId id);
    Task<Result<>> reserve(const Call& call, Draft& draft);
    Task<Result<>> reserve_in_place(const Call& call, Draft& draft);
    Task<Result<>> reserve_for(const Call& call, Draft& draft, SpaceMap::Need need);
    [[nodiscard]] bool try_reserve(Draft& draft, SpaceMap::Need need);
    Task<Result<object::Commit>> update_here(const Call& call, object::ContainerId container,
                                             const object::Transaction& transaction, Draft& draft,
                                             bool& reserved);
    // Between admission and join(), where nothing suspends.
    [[nodiscard]] Result<> stage(object::ContainerId container,
                                 const object::Transaction& transaction, Draft& draft,
                                 bool& reserved);
    Task<Result<object::Commit>> commit(TransactionRecord record, std::vector<Node*> pins,
                                        Trace* trace = nullptr);
    // `id`: whose stored answer it becomes; nil: nobody's.
    Task<Result<object::Commit>> commit_change(object::ContainerId container, Change change,
                                               const object::OperationId& id = {});

    // update_across.cc
    struct Visit;
    Task<Result<object::Commit>> update_across(const Call& call, object::ContainerId container,
                                               const object::Transaction& transaction, Draft& draft,
                                               bool& reserved);
    Task<Result<object::Commit>> update_visiting(const Call& call, object::ContainerId container,
                                                 const object::Transaction& transaction,
                                                 Draft& draft, bool& reserved,
                                                 std::deque<Visit>& visits);
    Task<Result<>> plan_at(Visit& visit, const Call& call, object::ContainerId container,
                           Draft& draft);
    Task<Result<>> prepare_alone(Visit& visit, const Call& call, object::ContainerId container,
                                 const object::Transaction& transaction, Draft& draft);
    Task<Result<>> prepare_together(const Call& call, object::ContainerId container,
                                    const object::Transaction& transaction, Draft& draft,
                                    std::deque<Visit>& visits);

    // update_steps.cc: on the core that they are given
    Task<Result<>> judge(Core& core, object::ContainerId container,
                         const object::Transaction& transaction, const Draft& draft);
    Task<Result<bool>> holds(Core& core, object::ContainerId container,
                             const object::Condition& condition);
    Task<Result<>> read_edges(Core& core, Trace* trace, Draft& draft);

    // containers.cc
    Task<Result<object::ContainerRecord>> create_container(
        const Call& call, const object::ContainerProperties& properties);
    Task<Result<>> destroy_container(const Call& call, object::ContainerId container);
    Task<Result<std::vector<object::ContainerRecord>>> list_containers(const Call& call);
    Task<Result<object::PoolSpace>> space(const Call& call);
    Task<Result<>> purge(object::ContainerId container);
    Task<Result<>> commit_steps(object::ContainerId container, std::vector<Change> changes);
};

}  // namespace ros2s::engine
