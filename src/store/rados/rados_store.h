// RadosStore: an ObjectStore on RADOS, for data that outgrows one engine. Ceph replicates and
// distributes it. docs/formats/rados.md describes the mapping, the protocol of transactions, and
// the guarantees that are weaker than the engine's.
//
// Ownership: the pools are borrowed. close() before destruction: it waits until replaced data is
// removed, and stores replies unless the cluster does not answer. Thread rule: used on the
// reactor's core. Several stores, also on several machines, may have the same pool open.
//
// Invariants
// - Bytes of arrays are never overwritten: new ones are written to new RADOS objects, and a change
//   of the object's omap publishes them.
// - Every change of an object is conditional on its head, so it fails if the object changed since
//   it was read.
#pragma once
#include <map>
#include <memory>
#include <set>
#include <string>

#include "ros2s/base/log.h"
#include "ros2s/base/metrics.h"
#include "ros2s/object/object_store.h"
#include "ros2s/object/pins.h"
#include "ros2s/rados/coordinator.h"
#include "ros2s/rados/key_mutexes.h"
#include "ros2s/rados/plan.h"
#include "ros2s/rados/pool.h"
#include "ros2s/rados/seen.h"
#include "ros2s/rados/view.h"
#include "ros2s/runtime/nursery.h"
#include "ros2s/runtime/reactor.h"

namespace ros2s::rados {

// A sweep removes unreferenced data that is older than this.
inline constexpr Duration orphan_age = std::chrono::hours(1);

struct RadosOptions {
    // If another client's transaction locks an object for longer than this, it is aborted.
    Duration patience = std::chrono::seconds(1);
    // After another client destroys a container, this client may use it for up to this time.
    Duration container_check = std::chrono::seconds(1);
    // If a client has not used its replies for this time, a sweep removes them.
    Duration reply_age = std::chrono::hours(24);
    // The interval at which all containers are swept. 0: never.
    Duration sweep_every{};
    // The objects that a sweep reads per second. The limit leaves capacity for other clients. 0: no
    // limit.
    uint64_t sweep_rate = 0;
    // Gets a line for each sweep that failed.
    Log log{};
    // False: clients do not repeat transactions. They are then treated as unnamed, which takes
    // fewer requests.
    bool keeps_replies = true;
    // True: open() formats empty RADOS pools. False: it writes nothing to them and fails with
    // not_found.
    bool formats = true;
};

class RadosStore final : public object::ObjectStore {
  public:
    // `metadata` must support omaps. `data` may be the same pool, or an erasure-coded pool. Errors,
    // with a sentence: exists (the pool has objects that no RadosStore made), unsupported (it has
    // no omap), not_found (it is empty), invalid (its data is in another pool), those of Pool.
    [[nodiscard]] static Task<Result<std::unique_ptr<RadosStore>>> open(const Call& call,
                                                                        Reactor& reactor,
                                                                        Pool& metadata, Pool& data,
                                                                        RadosOptions options,
                                                                        Report& report);
    ~RadosStore() override;
    Task<> close();

    // The orphans and replies that sweeps of a container saw, with the time of the first sweep that
    // saw each.
    struct Orphans {
        std::map<std::pair<object::ObjectId, DataId>, Time> data;  // unreferenced
        struct Replies {
            std::string marks;  // if they differ, the replies were used
            Time since{};
        };
        std::map<std::string, Replies> replies;  // by name
    };

    // Removes the remains of crashed clients from the container: unreferenced data, locks and
    // records of abandoned transactions, and objects without entries. Lists all objects of the
    // container. Without `seen`, the age of data is by its writer's clock. With `seen`, an earlier
    // sweep must also have seen the data, long enough ago by this machine's steady clock. Replies
    // unchanged since a sweep reply_age ago are then removed, too. Skips damaged objects. Errors,
    // with a sentence: not_found, those of the call and of Pool; corrupt, bad_version, after the
    // rest is swept.
    Task<Result<>> sweep(const Call& call, object::ContainerId container, Report& report,
                         Orphans* seen = nullptr);

    void visit_metrics(const MetricVisitor& visit) const;

    [[nodiscard]] object::Features features() const override;
    [[nodiscard]] std::string path() const override { return metadata_.description(); }
    Task<Result<>> fetch(const Call& call, object::ContainerId container,
                         std::span<object::FetchItem> items) override;
    Task<Result<object::Commit>> update(const Call& call, object::ContainerId container,
                                        const object::Transaction& transaction) override;
    Task<Result<object::ListReply>> list(const Call& call, object::ContainerId container,
                                         const object::ListRequest& request) override;
    Task<Result<object::QueryReply>> query(const Call& call, object::ContainerId container,
                                           object::ObjectId object,
                                           const object::Akey& akey) override;
    Task<Result<object::ContainerRecord>> create_container(
        const Call& call, const object::ContainerProperties& properties) override;
    Task<Result<>> destroy_container(const Call& call, object::ContainerId container) override;
    Task<Result<std::vector<object::ContainerRecord>>> list_containers(const Call& call) override;
    Task<Result<object::PoolSpace>> space(const Call& call, object::ContainerId container) override;
    Task<Result<>> pin(const Call& call, object::ContainerId container,
                       const object::Holder& holder, object::FetchItem& item) override;
    Task<Result<>> fetch_chain(const Call& call, object::ContainerId container,
                               const object::Holder& holder, std::span<object::FetchItem> items,
                               std::span<object::Link> links) override;
    Task<Result<bool>> unpin(const Call& call, object::ContainerId container,
                             const object::Holder& holder, object::ObjectId object) override;
    [[nodiscard]] uint64_t pins_era() const override { return 0; }
    void session_ended(uint64_t session) override;

  private:
    RadosStore(Reactor& reactor, Pool& metadata, Pool& data, RadosOptions options);

    // rados_store.cc: containers
    Task<Result<>> open_pool(const Call& call, Report& report);
    Task<Result<>> format(Report& report);
    Task<Result<>> check_no_strangers(Report& report);
    Task<Result<>> finish_destroying();
    Task<Result<>> remove_all(Pool& pool, std::string space);
    // Errors: not_found.
    Task<Result<>> check_container(const Call& call, object::ContainerId container);

    // reading.cc
    Task<> fetch_item(const Call& call, std::string space, object::FetchItem& item,
                      Result<>& failure);
    // False: the data was removed meanwhile. The caller reads the item again.
    Task<Result<bool>> fetch_once(const Call& call, std::string space, object::FetchItem& item);
    struct Parts;
    struct SharedRead;
    Task<> read_shared(ObjectName object, std::vector<std::string> keys,
                       std::shared_ptr<SharedRead>& read);
    Task<Result<ReadReply>> read_with_others(ObjectName object, std::vector<std::string> keys);
    Task<> read_parts(std::string space, object::ObjectId object, object::Extent extent,
                      const Parts& parts, Bytes window, std::vector<Result<>>& results);
    void take_inline(const Parts& parts, object::Extent extent, const Result<ReadReply>& reply,
                     Bytes window, std::vector<Result<>>& results) const;
    // Copies a part of a run from the reply. Errors: not_found; corrupt (detail: the end of the bad
    // block).
    [[nodiscard]] static Result<> take_bytes(const Run& run, object::Extent part,
                                             const Result<ReadReply>& reply, Bytes into);
    [[nodiscard]] bool are_true(const ObjectName& object, const std::vector<std::string>& keys,
                                const Facts& facts, const Result<ReadReply>& reply) const;
    // Errors: not_found, invalid, too_small.
    [[nodiscard]] static Result<> take_value(const Fact& fact, object::FetchItem& item);
    Task<Result<object::QueryReply>> query_object(const Call& call, ObjectName name,
                                                  const object::Akey& akey);
    [[nodiscard]] static Read query_read(ObjectName object, const object::Akey& akey);
    Task<Result<std::optional<object::QueryReply>>> finish_query(const Call& call, ObjectName name,
                                                                 const object::Akey& akey,
                                                                 const ReadReply& found,
                                                                 const Head& head);
    // Reads all visible bytes of a segment within the extent. Errors: busy (the segment has
    // changed), corrupt.
    Task<Result<>> read_visible(std::string space, object::ObjectId object, const Segment& segment,
                                object::Extent extent, Bytes into);
    struct Target {
        object::Extent part;
        Bytes into;
    };
    // `targets` ascend.
    Task<> read_run(ObjectName name, const Run& run, std::vector<Target> targets, Result<>& result);
    // As read_parts(), but also reads the parts in the omap.
    Task<> read_all(std::string space, object::ObjectId object, object::Extent extent,
                    const Parts& parts, Bytes window, std::vector<Result<>>& results);
    // As Pool::read(), but first applies a committed transaction that locks the object. Sets
    // `head`. If the object does not exist, the reply has no values.
    Task<Result<ReadReply>> read_unlocked(const Call& call, Read read, Head& head);
    Task<Result<object::ListReply>> list_objects(const Call& call, std::string space,
                                                 const object::ListRequest& request);
    Task<Result<object::ListReply>> list_dkeys(const Call& call, std::string space,
                                               const object::ListRequest& request);
    Task<Result<object::ListReply>> list_akeys(const Call& call, std::string space,
                                               const object::ListRequest& request);

    // chaining.cc
    struct Chained;
    struct ChainedObject;
    // May guess that remembered facts about the objects are still true. False: a guess was wrong.
    Task<Result<bool>> follow(const Call& call, std::string space, Chained& chain);
    Task<> read_chained(const Call& call, std::string space, object::ObjectId object,
                        ChainedObject& wanted);
    Task<Result<>> take_chained(const Call& call, const Read& read, ChainedObject& object,
                                ReadReply reply);
    [[nodiscard]] bool is_still_seen(const ObjectName& name, const ChainedObject& object) const;
    [[nodiscard]] static bool has_same(const ChainedObject& object, const ReadReply& reply);

    // sweep.cc
    Task<> keep_sweeping();
    using SeenOrphans = std::map<object::ContainerId, Orphans>;
    Task<Result<>> sweep_all(const Call& call, SeenOrphans& seen, Report& report);
    // `failed`: the name of the object that caused the error, if one did.
    Task<Result<>> sweep_container(const Call& call, object::ContainerId container, Orphans* seen,
                                   std::string& failed);
    // `seen` may be null. Adds to `still` the orphans that were seen and are not removed.
    Task<Result<>> sweep_data(const Call& call, std::string space, object::ObjectId object,
                              std::vector<DataId> data, const Orphans* seen, Orphans& still);
    void keep_recent(object::ObjectId object, const Orphans& seen, Orphans& still,
                     std::set<DataId>& orphans);
    // Removes from `orphans` the data that segments of the object name. Reads the pages of segments
    // one after the other, so they may differ in age.
    Task<Result<>> forget_named(const Call& call, std::string space, object::ObjectId object,
                                std::set<DataId>& orphans);
    // Changes the object's head when no transaction locks it. False: others changed it before each
    // attempt.
    Task<Result<bool>> touch(const Call& call, std::string space, object::ObjectId object);
    Task<Result<>> sweep_object(const Call& call, std::string space, object::ObjectId object);
    // `page`: the read that found the notes.
    Task<Result<>> sweep_notes(const Call& call, Read page,
                               std::map<std::string, std::string> noted);
    Task<Result<>> unlock_object(const Call& call, ObjectName name);
    Task<Result<>> remove_if_empty(const Call& call, ObjectName name);
    // Removes the records of another store's unnamed transactions.
    Task<Result<>> sweep_log(const Call& call, std::string space, std::string log, WallTime before);
    // Removes the replies to one client.
    Task<Result<>> sweep_replies(const Call& call, std::string space, std::string name,
                                 const Orphans& seen, Orphans& still);
    // Waits as long as `count` objects take at the sweep rate. Errors: cancelled, deadline.
    Task<Result<>> pace(const Call& call, size_t count);

    // updating.cc
    struct Payload;
    struct Member;
    struct Group;
    struct Rewrite;
    // Whether the transaction may share one change with others. Such a transaction concerns one
    // object.
    [[nodiscard]] bool can_share(const object::Transaction& transaction) const;
    Task<> update_together(std::string space, object::ObjectId object, Member& member);
    // Gives each member its result. Several members are of one object, and can_share() is true for
    // each.
    Task<> execute(std::string space, std::vector<Member*> members);
    // False: some members have no result yet. The caller tries again.
    Task<bool> attempt(std::string space, std::span<Member* const> all, bool may_guess);
    // Initializes the views with the remembered state that this store wrote last. Returns whether
    // there is any.
    bool begin_with_known(const std::string& space, Views& views);
    void remember(const std::string& space, View view, const Pending& stored);
    // Reads until all views are complete and the plans have run, one after the other. Errors: those
    // of reading; busy (an object was locked and is now unlocked).
    Task<Result<>> complete(const Call& call, std::string space, Views& views,
                            std::span<Member* const> members);
    // Guesses that the keys and objects that the transaction adds do not exist. Some views are
    // known.
    static void guess_absent(const object::Transaction& transaction, Views& views);
    // Plans one member on top of the members before it.
    [[nodiscard]] Result<> run(const std::string& space, Views& views, Member& member);
    Task<Result<>> end_decisions(const Call& call, std::string space, Views& views);
    // The object that can decide a transaction without a name; end(): none can.
    [[nodiscard]] static std::vector<Participant>::const_iterator decider_of(
        const std::vector<Participant>& participants);
    Task<Result<>> publish_at(const Call& call, std::string space, Coordination record,
                              std::vector<Participant>& participants, size_t decider,
                              KeyMutexes::Hold& hold, bool even_if_full);
    struct Unapplied {
        View view;  // as it was
        Coordinator::Unapplied rest;
    };
    // Tests kill the process when it enters this.
    [[gnu::noinline]] Task<> apply_rest(std::string space, std::vector<Unapplied> objects,
                                        ObjectName decider, std::string key, KeyMutexes::Hold hold);
    void note_ended(const ObjectName& decider, std::vector<std::string> keys);
    // Creates missing objects that will have data in the data pool, or replies. Errors: busy
    // (another client created one first), those of Pool.
    Task<Result<>> make_objects(std::string space, Views& views, std::span<Member* const> members);
    Task<> load(std::string space, View& view, Result<>& result);
    Task<Result<>> publish(const Call& call, std::string space, RecordLocation location,
                           Views& views, std::span<Member* const> members, bool is_guess);
    // Finds out whether a change that returned an error was applied. Returns success if it was.
    // Errors: those of the change; deadline (it cannot be determined); those of Pool.
    Task<Result<>> outcome_of(Error error, std::string space, std::span<Member* const> members);
    // Whether a change with a failed condition published the members' data in the data pool. False
    // if they have no data there.
    Task<Result<bool>> has_published(std::string space, std::span<Member* const> members);
    [[nodiscard]] Pending changes_of(const View& view, std::span<Member* const> members);
    [[nodiscard]] bool keeps_reply(const object::Transaction& transaction) const;

    // replying.cc: replies in slots. A write that shares a change first notes its reply with its
    // object
    // Returns the transaction's reply if the slot has it. Otherwise the slot is ready for a new
    // reply.
    Task<Result<std::optional<object::Commit>>> stored_reply(const Call& call,
                                                             const object::Transaction& transaction,
                                                             RecordLocation& location);
    // Returns the slot's record, which is not pending. Sequence 0: the slot is empty. Creates the
    // client's replies object if it does not exist.
    Task<Result<Coordination>> read_reply(const Call& call, const object::Transaction& transaction,
                                          RecordLocation& location);
    // As read_reply(), but creates nothing.
    Task<Result<Coordination>> decided_reply(const Call& call, RecordLocation& location);
    // Errors: expired.
    Task<Result<>> make_replies(const object::Transaction& transaction,
                                const RecordLocation& location);
    using SlotName = std::pair<ObjectName, std::string>;
    [[nodiscard]] static SlotName slot_of(const std::string& space, const UpdateName& id);
    // Applies a committed transaction of a slot, unless this store knows that it is applied.
    Task<Result<>> finish_slot(const SlotName& name, const Coordination& record);
    // Marks slots that were read too long ago, so that they are read again. A client may also use
    // other stores.
    void distrust_old_slots(const std::string& space, std::span<Member* const> members);
    void distrust_slot(const SlotName& name);
    // Reads the slots of members that were not read since their object was. False: some were read,
    // so the plans must run again. If a slot refuses its member, the member gets that result.
    Task<bool> know_slots(std::string space, const Views& views, std::span<Member* const> members);
    Task<> read_slot(std::string space, Member& member);
    // The reply to the member, from the object or the slot, if any. Errors: stale, name_taken,
    // expired; corrupt, bad_version.
    [[nodiscard]] Result<std::optional<object::Commit>> noted_reply(const std::string& space,
                                                                    View& view,
                                                                    const Member& member) const;
    // The reply is now noted with the object. store_replies() later writes it to its slot.
    void note_reply(const std::string& space, const Member& member);
    Task<> store_replies();
    // Stores the noted replies of one client.
    Task<> store_noted(ObjectName replies);
    // Writes replies that are later than those in the slots. Adds to `stored` the slots that then
    // have the wanted reply or a later one. Skips slots that have a pending transaction or change
    // meanwhile. Errors: condition_failed (slots changed at each attempt), those of Pool.
    Task<Result<>> put_replies(ObjectName replies, std::map<std::string, Coordination> wanted,
                               std::set<SlotName>& stored);
    // Writes notes to their slots, before the caller removes them from an object. `noted`: by key.
    Task<Result<>> store_notes(const Call& call, std::string space,
                               std::map<std::string, std::string> noted);
    [[nodiscard]] bool is_stored_note(const std::string& space, const View& view,
                                      const std::string& key) const;
    // The view's changes remove the notes that slots have. The second function is called after the
    // changes are applied.
    void drop_stored_notes(const std::string& space, View& view);
    void forget_dropped_notes(const std::string& space, const View& view);

    // payload.cc
    // Cuts the payload into runs and starts to write them. Errors: corrupt, those of the call.
    Task<Result<>> send_payload(const Call& call, std::string space,
                                const object::Transaction& transaction, Payload& payload);
    Task<> write_run(ObjectName name, ConstBytes bytes, Result<>& result);
    [[nodiscard]] DataId next_data(bool is_inline);
    [[nodiscard]] bool has_room_inline(const ObjectName& object) const;
    void note_room(const ObjectName& object, const Pending& stored);

    // rewriting.cc: rewrites segments that have many parts
    void start_rewriting(const std::string& space, object::ObjectId object, const std::string& key);
    Task<> rewrite(std::string space, object::ObjectId object, std::string key);
    Task<Result<bool>> write_anew(std::string space, Rewrite& rewrite, Payload& payload);
    // Errors: condition_failed (nothing is left to replace); corrupt, bad_version.
    [[nodiscard]] static Result<> apply(View& view, Rewrite& rewrite);

    // tidying.cc
    Task<> remove_data(std::string space, object::ObjectId object, std::vector<DataId> data);
    void drop(const std::string& space, std::map<object::ObjectId, std::vector<DataId>>& data);
    void start_tidying(std::string space, object::ObjectId object, const Pending& pending);
    struct Leftovers;
    // False: too many removals are running, so nothing is removed.
    [[nodiscard]] bool leave(const ObjectName& name, Leftovers left);
    Task<> forget_keys(ObjectName name, std::vector<std::string> keys);
    Task<> tidy(ObjectName name);
    Task<> remove_one(ObjectName data, Result<>& result);

    Reactor& reactor_;
    Pool& metadata_;
    Pool& data_;
    const RadosOptions options_;
    const uint64_t number_;  // random: distinguishes it from other stores on the pool
    uint64_t data_written_ = 0;
    uint64_t last_epoch_ = 0;
    WallTime last_time_{};
    KeyMutexes mutexes_;
    std::map<std::string, std::shared_ptr<Group>> groups_;  // others can join
    Coordinator coordinator_;
    object::PinTable pins_;
    // The last state of objects that this store changed. A transaction that starts from one is
    // still conditional on its head.
    std::map<ObjectName, View> known_;
    size_t known_bytes_ = 0;
    SeenFacts seen_;
    std::map<ObjectName, std::shared_ptr<SharedRead>> shared_reads_;  // others can join
    KeyMutexes read_turns_;
    std::set<ObjectName> crowded_;  // have many bytes in their omap
    // The keys and the object that tidy() removes.
    struct Leftovers {
        std::vector<std::string> garbage;  // keys of garbage and of transaction records
        std::string dead_head;             // of an object to remove; empty: the object stays
    };
    std::map<ObjectName, Leftovers> leftovers_;
    std::set<std::pair<ObjectName, std::string>> rewriting_;  // segments
    std::map<object::ContainerId, Time> containers_;          // when each was last seen to exist
    std::set<ObjectName> logs_;                               // known to exist
    // By slot: the committed transaction that is applied to all its objects.
    std::map<std::pair<ObjectName, std::string>, Uuid> finished_;
    // By object that decided transactions: the keys of decisions that are no longer needed.
    std::map<ObjectName, std::vector<std::string>> ended_decisions_;
    // This store's knowledge of a slot whose client writes.
    struct WriterSlot {
        uint64_t asked = 0;  // the count in moments_ before the slot was read; 0: it must be read
        Time asked_at{};
        Coordination last;         // sequence 0: none
        bool may_be_lost = false;  // the slot is empty, but may have had a reply
    };
    std::map<SlotName, WriterSlot> slots_;
    // noted_: replies that only their object has, by client. stored_notes_: replies that their slot
    // has as well, by object.
    using NoteName = std::pair<ObjectName, std::string>;  // the object, and the key there
    std::map<ObjectName, std::map<NoteName, Coordination>> noted_;
    size_t noted_count_ = 0;
    std::map<ObjectName, std::map<std::string, std::string>> stored_notes_;
    std::set<ObjectName> clients_storing_;  // whose replies are being written to slots
    bool is_answering_ = true;              // the cluster, at the last write of replies
    // Counts reads of slots and objects. The count gives their order.
    uint64_t moments_ = 0;
    Counter sweeps_, failed_sweeps_;
    StopSource closing_;
    Nursery sweeping_;  // keep_sweeping()
    Nursery storing_;   // store_replies()
    Nursery applying_;  // apply_rest()
    Nursery tidying_;
};

}  // namespace ros2s::rados
