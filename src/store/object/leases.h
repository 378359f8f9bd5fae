// LeaseTable: the read leases of a store's objects. A holder (a mount) that has one may keep what
// it has read of the object. An update by another holder is refused with `leased` until the lease
// has ended; its sender asks again after a moment. Nothing waits here for others.
//
//     listen ──► granted, with a fetch ──► recalled, by the first update that is refused
//                  ──► given back; or the holder's time is over ──► the update is done
//
// Time. The leases of a holder last until lease_time after the last answer to its listening, and it
// stops using them lease_use_time after it sent the request that was answered. A holder that does
// not give a recalled lease back within lease_time is cut off: nothing is extended any more, its
// owner gets no leases for a while, and its others end by their time. So is an owner for whose slow
// answers others have waited that long in a minute.
//
// A grant must not fall between a conflicting update's check and the moment at which readers see
// it. So updates that have been admitted are counted by object until then, and there is no grant
// meanwhile. Nor is there one for an object that others wait to change, or that is recalled often.
//
// Leases exist in memory only. A store that was just opened admits no update of a container in
// which another holder than its sender is awaited (PinTable), for lease_time.
//
// Used on one core. Bounded in all, per object, per session and per owner, as PinTable.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ros2s/base/latency_histogram.h"
#include "ros2s/object/lease_holders.h"
#include "ros2s/object/object_store.h"
#include "ros2s/object/pins.h"
#include "ros2s/object/slow_answers.h"
#include "ros2s/runtime/reactor.h"
#include "ros2s/runtime/stop.h"

namespace ros2s::object {

inline constexpr Duration lease_time = std::chrono::seconds(2);
inline constexpr Duration lease_use_time = std::chrono::milliseconds(1600);
// Listening is answered after this time without news.
inline constexpr Duration listening_max = std::chrono::milliseconds(500);
// In one answer, and in one request to give back.
inline constexpr size_t lease_news_max = 512;

// It has Condition::Kind::lease.
[[nodiscard]] bool wants_lease(const Transaction& transaction);

class LeaseTable {
  public:
    static constexpr size_t leases_max = size_t{1} << 20;
    static constexpr size_t session_leases_max = size_t{1} << 18;
    static constexpr size_t object_leases_max = 1024;

    // `pins` knows which holders are awaited since `opened`. It outlives this.
    LeaseTable(Reactor& reactor, PinTable& pins)
        : reactor_(reactor), pins_(pins), opened_(reactor.now()) {}
    LeaseTable& operator=(LeaseTable&&) = delete;

    // As ObjectStore::listen().
    Task<Result<LeaseNews>> listen(const Call& call, ContainerId container, const Holder& holder,
                                   const Listening& listening);
    // The number of the holder's lease of the object; 0: none now. What is read after this is
    // covered.
    [[nodiscard]] uint64_t grant(ContainerId container, ObjectId object, const Holder& holder);
    // The lease that a condition of the transaction wants, just before begin(); 0: none.
    [[nodiscard]] uint64_t grant(ContainerId container, const Transaction& transaction);
    // Asks for leases back that the transaction conflicts with. Errors: leased.
    [[nodiscard]] Result<> ask(ContainerId container, const Transaction& transaction);
    // The same just before begin(), also for holders of which nothing is known yet.
    [[nodiscard]] Result<> admit(ContainerId container, const Transaction& transaction);
    // Another holder listens in the container.
    [[nodiscard]] bool has_another(ContainerId container, const Holder& holder) const;
    // The holders of this session are gone.
    void client_ended(uint64_t session);
    // Before a container is destroyed: grants nothing there any more, and ends what its holders
    // have. Returns when they know it, within lease_time.
    Task<> end_all(ContainerId container);
    // The container was not destroyed, or is gone.
    void reopen(ContainerId container) { ending_.extract(container); }
    // Between these the transaction takes effect. Nothing may suspend between admit() and begin().
    void begin(ContainerId container, const Transaction& transaction) {
        count_in_flight(container, transaction, 1);
    }
    void end(ContainerId container, const Transaction& transaction) {
        count_in_flight(container, transaction, -1);
    }
    // It has taken effect. Objects that its holder has punched need no lease: nobody uses them
    // again.
    void done(ContainerId container, const Transaction& transaction);
    // Ends all listening, for the end of the store.
    void close();

    // ---- for operators
    [[nodiscard]] std::vector<LeaseHolder> holders() const;
    // The owners that get no leases now, and until when.
    [[nodiscard]] std::vector<std::pair<Uuid, Time>> barred() const;
    // Ends the leases of the holder, which may begin again. Others wait for at most lease_time
    // more. False: it has none.
    bool evict(const HolderName& holder);
    // Called when an update has waited for over a second for one holder.
    void on_slow_answer(std::function<void(const SlowLease&)> call) { slow_ = std::move(call); }
    [[nodiscard]] const LatencyHistogram& answers() const { return answers_; }
    [[nodiscard]] size_t count() const { return count_; }
    [[nodiscard]] const LeaseCounters& counters() const { return counters_; }

  private:
    using Key = std::pair<ContainerId, ObjectId>;
    struct KeyHash {
        size_t operator()(const Key& key) const noexcept;
    };
    struct Recall {
        Key key;
        Time begun{};
        Holder waiter;               // the first
        std::optional<Time> told{};  // to the holder
    };
    struct HolderState {
        explicit HolderState(HolderName named) : name(named) {}
        const HolderName name;
        uint64_t session = 0;
        Time begun{};
        Time until{};
        bool is_cut = false;
        std::unordered_map<Key, uint64_t, KeyHash> leases;  // their numbers
        std::map<uint64_t, Recall> recalls;                 // outstanding, by those numbers
        size_t untold = 0;
        StopSource* listening = nullptr;  // ends the wait of its last request
        void wake() {
            if (listening != nullptr) std::exchange(listening, nullptr)->request_stop();
        }
    };
    using HolderPointer = std::shared_ptr<HolderState>;
    struct Granted {
        HolderState* holder = nullptr;
        uint64_t number = 0;
    };
    struct Owner {
        size_t leases = 0;
        SlowAnswers answers;
    };
    // An object that was recalled lately.
    struct Recalled {
        Key key{};
        uint32_t recalls = 0;   // changes in this second that began some
        uint32_t backoffs = 0;  // in a row
        Time second{};
        Time spared_until{};  // it was recalled often
    };
    // Of the objects with one hash.
    struct Bucket {
        uint32_t in_flight = 0;
        Time wanted_until{};  // others wait to change one
        Recalled recalled;    // only one of them: many hot objects must not cost others theirs
    };
    static constexpr size_t bucket_count = 4096;

    [[nodiscard]] Bucket& bucket_of(const Key& key) {
        return buckets_[KeyHash()(key) % bucket_count];
    }
    [[nodiscard]] HolderState* find(ContainerId container, const Holder& holder);
    void end(const HolderName& name);
    HolderPointer begin_listening(ContainerId container, const Holder& holder);
    [[nodiscard]] LeaseNews news_for(HolderState& holder);
    [[nodiscard]] bool has_room(const HolderState& holder) const;
    [[nodiscard]] bool awaits_another(ContainerId container, const Holder& holder) const;
    // True: the object may not be changed yet. `by`: the waiter, null if it has no leases.
    [[nodiscard]] bool ask_back(const Key& key, const HolderState* by, const Holder& waiter);
    void begin_recall(const Granted& granted, const Key& key, const Holder& waiter);
    void note_recalls(const Key& key);
    // The holder has answered, or did not in time.
    void end_recall(HolderState& holder, const Recall& recall, bool is_answered);
    void cut(HolderState& holder) {
        holder.is_cut = true;
        holder.wake();
    }
    void give_back(HolderState& holder, const Key& key, uint64_t number);
    void drop(HolderState& holder, Key key);
    void drop_some_ended();
    void count_in_flight(ContainerId container, const Transaction& transaction, int more);

    Reactor& reactor_;
    PinTable& pins_;
    const Time opened_;
    uint64_t last_number_ = 0;
    size_t count_ = 0;
    LeaseCounters counters_;
    LatencyHistogram answers_;  // how long others waited for each
    std::function<void(const SlowLease&)> slow_;
    bool is_closed_ = false;
    Time looked_{};  // for holders that do not listen any more
    std::unordered_map<Key, std::vector<Granted>, KeyHash> objects_;
    std::map<HolderName, HolderPointer> holders_;
    std::vector<HolderPointer> ended_;  // their leases are dropped in slices
    std::map<Uuid, Owner> owners_;
    std::multiset<ContainerId> ending_;
    std::vector<Bucket> buckets_ = std::vector<Bucket>(bucket_count);
};

}  // namespace ros2s::object
