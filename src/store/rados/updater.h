// Updater: does transactions. It reads what a transaction needs, plans it, and lets the Publisher
// make the changes. If an object has changed meanwhile, it starts again. Part of an open store.
// Used on one core.
//
// Invariants
// - Bytes of arrays are never overwritten: new ones are written first, and then published.
// - A transaction holds the mutexes of its objects, so those of one store wait for each other and
//   conflict only with those of other stores.
// - Conditions hold in the state that the changes are made from, also those of a shared change.
// - Data is not published later than half of orphan_age after its write began.
#pragma once
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "containers.h"
#include "publisher.h"
#include "ros2s/object/pins.h"
#include "ros2s/rados/rados_store.h"

namespace ros2s::rados {

// PinsAhead: the pins of transactions that are being published. A transaction takes its pins first,
// because others may take the remaining room meanwhile, and because its objects must be pinned
// before it is visible. The destructor removes the new pins, unless keep() was called. The table
// outlives this object.
class PinsAhead {
  public:
    explicit PinsAhead(object::PinTable& table) : table_(table) {}
    PinsAhead& operator=(PinsAhead&&) = delete;
    ~PinsAhead() {
        for (const auto& [container, object, holder] : taken_) {
            table_.remove(container, object, holder);
        }
    }

    // Adds the pins that the transaction's conditions name. Errors: those of PinTable::judge() and
    // add().
    [[nodiscard]] Result<> take(object::ContainerId container,
                                const object::Transaction& transaction, Time now) {
        ROS2S_TRY(table_.judge(container, transaction, now));
        for (const object::Condition& condition : transaction.conditions) {
            if (condition.kind != object::Condition::Kind::pin) continue;
            const object::Holder& holder = transaction.holder;
            const bool had = table_.has(container, condition.object, holder);
            ROS2S_TRY(table_.add(container, condition.object, holder));
            if (!had) taken_.emplace_back(container, condition.object, holder);
        }
        return {};
    }
    // The transactions are done.
    void keep() { taken_.clear(); }

  private:
    object::PinTable& table_;
    std::vector<std::tuple<object::ContainerId, object::ObjectId, object::Holder>> taken_;
};

class Updater {
  public:
    Updater(const Env& env, Epochs& epochs, object::PinTable& pins, Coordinator& coordinator,
            Heads& heads, Containers& containers, Tidier& tidier, Replies& replies,
            PayloadWriter& payloads, Rewriter& rewriter, Publisher& publisher);
    // Joins the rewrites.
    Task<> close() { return rewrites_.join(); }

    // ObjectStore::update().
    Task<Result<object::Commit>> update(const Call& call, object::ContainerId container,
                                        const object::Transaction& transaction);

  private:
    struct Group;
    // Whether the transaction may share one change with others. Such a transaction concerns one
    // object.
    [[nodiscard]] bool can_share(const object::Transaction& transaction) const;
    Task<> update_together(std::string space, object::ObjectId object, Update& member);
    // Gives each member its result. Several members are of one object, and can_share() is true for
    // each.
    Task<> execute(std::string space, std::vector<Update*> members);
    // False: some members have no result yet. The caller tries again.
    Task<bool> attempt(std::string space, std::span<Update* const> all, bool may_guess);
    // The views that the members need, with what is known or may be guessed. Returns whether it is
    // a guess.
    [[nodiscard]] bool begin_views(const std::string& space, Views& views,
                                   std::span<Update* const> members, bool may_guess);
    // Reads until all views are complete, the plans have run and the slots are known. Errors: busy
    // (try again), those of reading.
    Task<Result<>> plan(const Call& call, std::string space, Views& views,
                        std::span<Update* const> members);
    // Reads until all views are complete and the plans have run, one after the other. Errors: those
    // of reading; busy (an object was locked and is now unlocked).
    Task<Result<>> complete(const Call& call, std::string space, Views& views,
                            std::span<Update* const> members);
    // Errors: those of its data and its call; deadline (its data is too old); those of pins.
    Task<Result<>> check_ready(Update& member, PinsAhead& pins);
    Task<> load(std::string space, View& view, Result<>& result);
    // Plans one member on top of the members before it.
    [[nodiscard]] Result<> run(const std::string& space, Views& views, Update& member);
    Task<Result<>> end_decisions(const Call& call, std::string space, Views& views);
    // Creates missing objects that will have data in the data pool, a reply, or the decision.
    // Errors: busy (another client created one first), those of Pool.
    Task<Result<>> make_objects(std::string space, Views& views, std::span<Update* const> members);
    void start_rewriting(const std::string& space, object::ObjectId object, const std::string& key);
    Task<> rewrite(std::string space, object::ObjectId object, std::string key);

    const Env& env_;
    Epochs& epochs_;
    object::PinTable& pins_;
    Coordinator& coordinator_;
    Heads& heads_;
    Containers& containers_;
    Tidier& tidier_;
    Replies& replies_;
    PayloadWriter& payloads_;
    Rewriter& rewriter_;
    Publisher& publisher_;
    std::map<std::string, std::shared_ptr<Group>> groups_;    // others can join
    std::set<std::pair<ObjectName, std::string>> rewriting_;  // segments
    Nursery rewrites_;
};

}  // namespace ros2s::rados
