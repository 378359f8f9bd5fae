// EngineStore::Parts: what an open pool is made of, in dependency order. The requests are
// coroutines in fetch.cc, update.cc, containers.cc and list.cc that work on these parts.
#pragma once
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <type_traits>

#include "checkpointer.h"
#include "commit_rules.h"
#include "committer.h"
#include "draft.h"
#include "engine_store.h"
#include "loader.h"
#include "recovery.h"
#include "ros2s/object/pins.h"
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
    [[nodiscard]] uint64_t cache_share() const { return options.cache_share() / cores.size(); }
    [[nodiscard]] uint64_t dirty_share() const { return options.dirty_share() / cores.size(); }
    // Keeps a core's cache under its share; called there after anything that may have brought in
    // nodes.
    void trim(Core& core) {
        if (core.cache.bytes() > cache_share()) core.cache.shrink(cache_share());
        if (!cores.is_one()) core.note_memory();
    }
    // The same for all cores; called on core 0.
    Task<> trim_all();
    // On core 0, after anything that may have changed nodes: a checkpoint before too many are
    // dirty.
    void limit_dirty() {
        if (is_dirty_beyond(dirty_share()) && !checkpointer->is_writing()) checkpointer->request();
    }
    // Some core's nodes are.
    [[nodiscard]] bool is_dirty_beyond(uint64_t bytes) const {
        if (cores[0].cache.dirty_bytes() > bytes) return true;
        for (uint32_t i = 1; i < cores.size(); ++i) {
            if (cores[i].metrics.dirty_bytes.value() > bytes) return true;
        }
        return false;
    }
    [[nodiscard]] uint64_t cache_bytes() const;
    [[nodiscard]] uint64_t dirty_bytes() const;
    [[nodiscard]] bool has_container(Core& core, object::ContainerId container) const {
        return core.number == 0 ? state.has_container(container)
                                : core.containers.contains(container);
    }
    // Makes a request of another core on core 0: the caller's stop token stays where it belongs.
    template <class R, class... Arguments>
    Task<R> from_afar(Task<R> (Parts::*request)(const Call&, Arguments...), const Call& call,
                      std::type_identity_t<Arguments>... arguments);
    [[nodiscard]] bool is_afar() const { return !cores.is_one() && !env.reactor.is_current(); }

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

    // fetch.cc: on the core that they are given
    Task<> fetch_item(Core& from, Trace* trace, object::ContainerId container,
                      object::FetchItem& item);
    Task<> fetch_at(Core& core, Trace* trace, object::ContainerId container,
                    object::FetchItem& item);
    Task<Result<>> fetch_array(Core& core, Trace* trace, object::ContainerId container,
                               object::FetchItem& item, uint64_t size);
    Task<> fetch_items(Core& from, Trace* trace, object::ContainerId container,
                       std::span<object::FetchItem> items);
    [[nodiscard]] static Node* resident_segment(Core& core, object::ContainerId container,
                                                const object::FetchItem& item, uint64_t segment);
    [[nodiscard]] static std::string segment_key(object::ContainerId container,
                                                 const object::FetchItem& item, uint64_t segment);
    [[nodiscard]] static bool plan_direct(object::FetchItem& item, const EntryValue& entry,
                                          BlockAddress& first);
    static void say_rotten(Core& core, object::ContainerId container,
                           const object::FetchItem& item);
    void read_ended(Core& core);
    Task<Result<>> reread(Core& core, Trace* trace, BlockAddress first,
                          std::span<const uint32_t> crcs, Bytes window);
    Task<> fetch_run(Core& core, Trace* trace, object::FetchItem& item,
                     std::span<const BlockRef> run, size_t at, Result<>& result);
    // Reads blocks of the media into engine memory and verifies them. Errors: io; corrupt, whose
    // detail is where the first bad one ends.
    Task<Result<>> read_verified(Core& core, Trace* trace, std::span<const BlockRef> blocks,
                                 Bytes into);

    // scan.cc: of all cores' keys; on core 0
    Task<Result<Loader::Page>> scan(std::string from, std::string to, size_t limit,
                                    bool reverse = false);

    // pin.cc
    Task<Result<>> pin(const Call& call, object::ContainerId container,
                       const object::Holder& holder, object::FetchItem& item);
    Task<Result<bool>> unpin(const Call& call, object::ContainerId container,
                             const object::Holder& holder, object::ObjectId object);

    // list.cc
    Task<Result<object::ListReply>> list(const Call& call, object::ContainerId container,
                                         const object::ListRequest& request);
    Task<Result<object::ListReply>> list_objects(object::ContainerId container,
                                                 const object::ListRequest& request);
    Task<Result<object::ListReply>> list_dkeys(object::ContainerId container,
                                               const object::ListRequest& request);
    Task<Result<object::ListReply>> list_akeys(object::ContainerId container,
                                               const object::ListRequest& request);
    Task<Result<object::QueryReply>> query(const Call& call, object::ContainerId container,
                                           object::ObjectId object, const object::Akey& akey);
    Task<Result<object::QueryReply>> query_object(object::ContainerId container,
                                                  object::ObjectId object,
                                                  const object::Akey& akey);
    Task<Result<std::optional<object::QueryReply>>> look_at(object::ContainerId container,
                                                            object::ObjectId object,
                                                            const object::Akey& akey);
    Task<Result<>> find_highest(object::ContainerId container, object::ObjectId object,
                                const object::Akey& akey, Node& summary);

    // containers.cc
    Task<Result<object::ContainerRecord>> create_container(
        const Call& call, const object::ContainerProperties& properties);
    Task<Result<>> destroy_container(const Call& call, object::ContainerId container);
    Task<Result<std::vector<object::ContainerRecord>>> list_containers(const Call& call);
    Task<Result<object::PoolSpace>> space(const Call& call);
    Task<Result<>> purge(object::ContainerId container);
    Task<Result<>> commit_steps(object::ContainerId container, std::vector<Change> changes);
};

template <class R, class... Arguments>
Task<R> EngineStore::Parts::from_afar(Task<R> (Parts::*request)(const Call&, Arguments...),
                                      const Call& call,
                                      std::type_identity_t<Arguments>... arguments) {
    Reactor& from = cores.here().env.reactor;
    const Result<> begin = call.check(from.now());
    if (!begin) co_return fail(begin.error());
    Call inner = call;
    inner.stop = {};
    co_await hop(env.reactor);
    R result = co_await (this->*request)(inner, std::forward<Arguments>(arguments)...);
    co_await hop(from);
    co_return result;
}

}  // namespace ros2s::engine
