// RadosStore: an ObjectStore on RADOS, for those whose data outgrows one engine: Ceph replicates
// and distributes. docs/formats/rados.md has the mapping, the protocol of transactions, and what is
// weaker than in the engine.
//
// Ownership: the pools are borrowed. close() before destruction: it waits for the removal of data
// that transactions have replaced, and stores replies unless the cluster does not answer. Thread
// rule: used on the reactor's core. Several stores, also of several machines, may have the same
// pool open.
//
// Invariants
// - Bytes of arrays are never overwritten: new ones are written to new RADOS objects, and a change
//   of the object's omap publishes them.
// - Every change of an object is conditional on its head, so it is based on what was read.
#pragma once
#include <map>
#include <memory>
#include <set>
#include <string>

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

// Data that no object refers to is removed when it is older.
inline constexpr Duration orphan_age = std::chrono::hours(1);

struct RadosOptions {
    // A transaction of another client that locks an object for longer is aborted.
    Duration patience = std::chrono::seconds(1);
    // A container that another client has destroyed may be used for so long.
    Duration container_check = std::chrono::seconds(1);
    // Replies to a client that has not used them for so long are removed.
    Duration reply_age = std::chrono::hours(24);
    // Objects that a sweep looks at in a second, so that it leaves the cluster to others. 0: as
    // many as it can.
    uint64_t sweep_rate = 0;
    // False: nobody repeats transactions, so they count as unnamed, which takes fewer requests.
    bool keeps_replies = true;
    // Empty RADOS pools are made a pool of ros2store. Otherwise nothing is written, and opening
    // fails with not_found.
    bool formats = true;
};

class RadosStore final : public object::ObjectStore {
  public:
    // `metadata` needs omaps. `data` may be the same pool, or one of erasure codes. Errors, with a
    // sentence: exists (the pool has objects that are not of a RadosStore), unsupported (it has no
    // omap), not_found (it is empty), invalid (its data is in another pool), those of Pool.
    [[nodiscard]] static Task<Result<std::unique_ptr<RadosStore>>> open(const Call& call,
                                                                        Reactor& reactor,
                                                                        Pool& metadata, Pool& data,
                                                                        RadosOptions options,
                                                                        Report& report);
    ~RadosStore() override;
    Task<> close();

    // What a sweep of a container saw, and when it saw that first.
    struct Orphans {
        std::map<std::pair<object::ObjectId, DataId>, Time> data;  // that no object refers to
        struct Replies {
            std::string marks;  // other ones: they were used
            Time since{};
        };
        std::map<std::string, Replies> replies;  // by name
    };

    // Removes the remains of crashed clients in the container: data that no object refers to, locks
    // and records of transactions that nobody ends, and objects without entries. Reads the names of
    // all its objects. Without `seen` the age of data is what its writer's clock says. With it,
    // data is also to have been seen by an earlier sweep, long enough ago by this machine's steady
    // clock; and replies that have not changed since an earlier sweep, reply_age ago by that clock,
    // are removed as well. What is damaged is passed over. Errors, with a sentence: not_found,
    // those of the call and of Pool; corrupt, bad_version, after the rest is swept.
    Task<Result<>> sweep(const Call& call, object::ContainerId container, Report& report,
                         Orphans* seen = nullptr);

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
    // False: the data has gone meanwhile, so that the item is to be read again.
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
    // The part of a run whose bytes the reply has. Errors: not_found; corrupt (detail: the end of
    // the bad block).
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
    // All visible bytes of a segment within the extent. Errors: busy: it has changed; corrupt.
    Task<Result<>> read_visible(std::string space, object::ObjectId object, const Segment& segment,
                                object::Extent extent, Bytes into);
    struct Target {
        object::Extent part;
        Bytes into;
    };
    // `targets` ascend.
    Task<> read_run(ObjectName name, const Run& run, std::vector<Target> targets, Result<>& result);
    // As read_parts(), and those in the omap.
    Task<> read_all(std::string space, object::ObjectId object, object::Extent extent,
                    const Parts& parts, Bytes window, std::vector<Result<>>& results);
    // As Pool::read(), of an object that is not locked by a committed transaction. A reply without
    // values: there is no such object. `head` is set.
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
    // What is known of the objects may be guessed. False: a guess was wrong.
    Task<Result<bool>> follow(const Call& call, std::string space, Chained& chain);
    Task<> read_chained(const Call& call, std::string space, object::ObjectId object,
                        ChainedObject& wanted);
    Task<Result<>> take_chained(const Call& call, const Read& read, ChainedObject& object,
                                ReadReply reply);
    [[nodiscard]] bool is_still_seen(const ObjectName& name, const ChainedObject& object) const;
    [[nodiscard]] static bool has_same(const ChainedObject& object, const ReadReply& reply);

    // sweep.cc
    // `failed`: the name of the object that the error is of, if it is of one.
    Task<Result<>> sweep_container(const Call& call, object::ContainerId container, Orphans* seen,
                                   std::string& failed);
    // `seen` may be null. What was seen and remains is added to `still`.
    Task<Result<>> sweep_data(const Call& call, std::string space, object::ObjectId object,
                              std::vector<DataId> data, const Orphans* seen, Orphans& still);
    void keep_recent(object::ObjectId object, const Orphans& seen, Orphans& still,
                     std::set<DataId>& orphans);
    // Takes away from `orphans` what segments of the object name: each page of them at its time.
    Task<Result<>> forget_named(const Call& call, std::string space, object::ObjectId object,
                                std::set<DataId>& orphans);
    // Changes the object's head, while it is not locked. False: others were faster each time.
    Task<Result<bool>> touch(const Call& call, std::string space, object::ObjectId object);
    Task<Result<>> sweep_object(const Call& call, std::string space, object::ObjectId object);
    // `page`: the read that has found them.
    Task<Result<>> sweep_notes(const Call& call, Read page,
                               std::map<std::string, std::string> noted);
    Task<Result<>> unlock_object(const Call& call, ObjectName name);
    Task<Result<>> remove_if_empty(const Call& call, ObjectName name);
    // The unnamed transactions of another store.
    Task<Result<>> sweep_log(const Call& call, std::string space, std::string log, WallTime before);
    // The replies to one client.
    Task<Result<>> sweep_replies(const Call& call, std::string space, std::string name,
                                 const Orphans& seen, Orphans& still);
    // Waits after `count` objects, as the rate says. Errors: cancelled, deadline.
    Task<Result<>> pace(const Call& call, size_t count);

    // updating.cc
    struct Payload;
    struct Member;
    struct Group;
    struct Rewrite;
    // It is of one object, and may be made by one change with others of that object.
    [[nodiscard]] bool can_share(const object::Transaction& transaction) const;
    Task<> update_together(std::string space, object::ObjectId object, Member& member);
    // Gives each member its result. If they are several, can_share() all, and all are of one
    // object.
    Task<> execute(std::string space, std::vector<Member*> members);
    // False: some have no result, and it is to be tried again.
    Task<bool> attempt(std::string space, std::span<Member* const> all, bool may_guess);
    // The views begin with what this store wrote last, if it is remembered. Returns whether any is.
    bool begin_with_known(const std::string& space, Views& views);
    void remember(const std::string& space, View view, const Pending& stored);
    // Reads until all views are complete and the plans have run, one after the other. Errors: those
    // of reading; busy: something was locked, and is not any more.
    Task<Result<>> complete(const Call& call, std::string space, Views& views,
                            std::span<Member* const> members);
    // Guesses what a transaction of one caller adds. Some views are known.
    static void guess_absent(const object::Transaction& transaction, Views& views);
    // Plans one after those before it.
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
    // Makes the objects that get data in the data pool, or replies, and do not exist. Errors: busy
    // (others were faster), those of Pool.
    Task<Result<>> make_objects(std::string space, Views& views, std::span<Member* const> members);
    Task<> load(std::string space, View& view, Result<>& result);
    Task<Result<>> publish(const Call& call, std::string space, RecordLocation location,
                           Views& views, std::span<Member* const> members, bool is_guess);
    // What a change comes to that has failed: nothing, if it was made all the same. Errors: those
    // of the change; deadline (nobody can tell); those of Pool.
    Task<Result<>> outcome_of(Error error, std::string space, std::span<Member* const> members);
    // Whether the members' data in the data pool was published by a change that failed in its
    // condition. False if they have none there.
    Task<Result<bool>> has_published(std::string space, std::span<Member* const> members);
    [[nodiscard]] Pending changes_of(const View& view, std::span<Member* const> members);
    [[nodiscard]] bool keeps_reply(const object::Transaction& transaction) const;

    // replying.cc: what slots say, in their places, and of writes that share changes first in the
    // object that was written
    // The reply that the slot has for it, if any; otherwise the slot is ready for it.
    Task<Result<std::optional<object::Commit>>> stored_reply(const Call& call,
                                                             const object::Transaction& transaction,
                                                             RecordLocation& location);
    // What the slot has; of sequence 0: nothing. No transaction is pending there. The replies are
    // made if the client has none.
    Task<Result<Coordination>> read_reply(const Call& call, const object::Transaction& transaction,
                                          RecordLocation& location);
    // As read_reply(), and nothing is made.
    Task<Result<Coordination>> decided_reply(const Call& call, RecordLocation& location);
    // Errors: expired.
    Task<Result<>> make_replies(const object::Transaction& transaction,
                                const RecordLocation& location);
    using SlotName = std::pair<ObjectName, std::string>;
    [[nodiscard]] static SlotName slot_of(const std::string& space, const object::OperationId& id);
    // Unless this store knows that it is done: applies a committed transaction of a slot.
    Task<Result<>> finish_slot(const SlotName& name, const Coordination& record);
    // What was read of slots for so long is read again, because a client may use other stores.
    void distrust_old_slots(const std::string& space, std::span<Member* const> members);
    void distrust_slot(const SlotName& name);
    // Reads the slots of members of which nothing is known since their object is. False: some were
    // read, so that the plans must run again. A member whose slot refuses it gets its result.
    Task<bool> know_slots(std::string space, const Views& views, std::span<Member* const> members);
    Task<> read_slot(std::string space, Member& member);
    // What the object and the slot say. Errors: stale, name_taken, expired; corrupt, bad_version.
    [[nodiscard]] Result<std::optional<object::Commit>> noted_reply(const std::string& space,
                                                                    View& view,
                                                                    const Member& member) const;
    // It is noted with the object now, and gets into its slot later.
    void note_reply(const std::string& space, const Member& member);
    Task<> store_replies();
    // Those of one client.
    Task<> store_noted(ObjectName replies);
    // Puts what is later than what the slots have. `stored` gets the slots that have it then, or a
    // later one. Others have a pending transaction, or change meanwhile. Errors: condition_failed
    // (slots have changed each time), those of Pool.
    Task<Result<>> put_replies(ObjectName replies, std::map<std::string, Coordination> wanted,
                               std::set<SlotName>& stored);
    // Before they are removed from an object: by key. Then their slots have them.
    Task<Result<>> store_notes(const Call& call, std::string space,
                               std::map<std::string, std::string> noted);
    [[nodiscard]] bool is_stored_note(const std::string& space, const View& view,
                                      const std::string& key) const;
    // The view's changes remove what slots have; and they are made.
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

    // rewriting.cc: segments of many parts are written anew
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
    // False: too much is being removed; it stays.
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
    std::map<std::string, std::shared_ptr<Group>> groups_;  // that others can join
    Coordinator coordinator_;
    object::PinTable pins_;
    // Objects as this store has left them. A transaction that begins with one is conditional on its
    // head, as always.
    std::map<ObjectName, View> known_;
    size_t known_bytes_ = 0;
    SeenFacts seen_;
    std::map<ObjectName, std::shared_ptr<SharedRead>> shared_reads_;  // that others can join
    KeyMutexes read_turns_;
    std::set<ObjectName> crowded_;  // have many bytes in their omap
    // What tidy() removes.
    struct Leftovers {
        std::vector<std::string> garbage;  // keys, of records as well
        std::string dead_head;             // of an object that has nothing else; empty: it has
    };
    std::map<ObjectName, Leftovers> leftovers_;
    std::set<std::pair<ObjectName, std::string>> rewriting_;  // segments
    std::map<object::ContainerId, Time> containers_;          // when it was last seen to exist
    std::set<ObjectName> logs_;                               // that exist
    // The committed transactions of slots that are applied to all their objects.
    std::map<std::pair<ObjectName, std::string>, Uuid> finished_;
    // Of objects that decided transactions: the keys of decisions that nobody needs any more.
    std::map<ObjectName, std::vector<std::string>> ended_decisions_;
    // What this store knows of slots whose clients write.
    struct WriterSlot {
        uint64_t asked = 0;  // the moment before it was read; 0: it must be read
        Time asked_at{};
        Coordination last;         // sequence 0: none
        bool may_be_lost = false;  // it has no reply, and the client may have been here before
    };
    std::map<SlotName, WriterSlot> slots_;
    // Replies that only their object has, by their client; and those that their slot has as well.
    using NoteName = std::pair<ObjectName, std::string>;  // the object, and the key there
    std::map<ObjectName, std::map<NoteName, Coordination>> noted_;
    size_t noted_count_ = 0;
    std::map<ObjectName, std::map<std::string, std::string>> stored_notes_;
    std::set<ObjectName> clients_storing_;  // whose replies are being put into slots
    bool is_answering_ = true;              // the cluster, when replies were put last
    // Counts reads of slots and objects, to tell which was first.
    uint64_t moments_ = 0;
    StopSource closing_;
    Nursery storing_;   // store_replies()
    Nursery applying_;  // what was decided
    Nursery tidying_;
};

}  // namespace ros2s::rados
