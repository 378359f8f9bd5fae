// History: what simulated clients asked of a store and were told, and the judgement over it.
//
// After a restart the store's whole content is compared with the oracle's (object::MemoryStore),
// which goes through the same transactions in epoch order: those that were acknowledged, and of the
// others those that the store shows to have happened. That is read off a *witness*: a key that only
// one client writes and each of its transactions touches, so that its epoch is the epoch of the
// client's last transaction that happened. A client has one transaction open at a time.
//
// Judged
// - Every acknowledged transaction is there, whole, at its epoch; every other one is there whole or
//   not at all; nothing else is there; lists, queries and free space say the same.
// - Epochs are given once, rise over checks, and follow real time: a transaction that was called
//   after another had returned has the greater one.
// - Each transaction's conditions held at its epoch, in the order of epochs.
// - A read saw one state of its key: not older than what had been acknowledged, or seen by another
//   read, when it began, and nothing that did not happen.
// - A repeated operation id happened once. Its reply is kept for the lease of its client; after
// that
//   it is refused, and what came of it is read off the store.
// - A transaction's time is the machine's, between its call and its return, also where the clock
//   was set back; queries say the same, after restarts too.
#pragma once
#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ros2s/object/contract/batch.h"
#include "ros2s/object/memory_store.h"
#include "snapshot.h"

namespace ros2s::sim {

using object::contract::Batch;

// A transaction that a client issued, from its first call to the end of the check.
struct Issued {
    Batch batch;
    object::Epoch acknowledged_before{};  // the greatest epoch acknowledged before its first call
    // Once it is known to have happened; 0 before.
    object::Epoch epoch{};
    // It cannot have happened: it was never sent, or not since a check did not find it.
    bool fresh = true;
    bool sent_fresh = true;  // it was when it was last sent
    uint64_t number = 0;     // for people: the how manieth of its client
    // When it was last sent: by the clock, and how often that had been set; and at first.
    WallTime called{};
    uint64_t clock_steps = 0;
    std::optional<uint64_t> first_clock_steps;
};

// One fetched extent.
struct SeenRead {
    Place place;
    object::Extent extent{};
    object::Epoch visible_before{};  // the greatest epoch acknowledged or read before the fetch
    bool exists = false;
    bool is_value = false;
    object::Epoch epoch{};
    uint64_t size = 0;
    uint32_t crc = 0;  // of the bytes read; of a value: of its bytes
};

class History {
  public:
    History(Reactor& reactor, std::vector<Place> witnesses, std::vector<Column> columns);
    // Before anything else. `repeats`: as Rig::repeats_requests().
    Task<> open(bool repeats = false);

    [[nodiscard]] object::Epoch acknowledged() const { return acknowledged_; }
    // The client's open transaction; null when there is none.
    [[nodiscard]] std::shared_ptr<Issued> pending(size_t client) const {
        return clients_[client].pending;
    }
    std::shared_ptr<Issued> issue(size_t client, Batch batch);
    void sends(Issued& issued, WallTime now) {
        issued.sent_fresh = issued.fresh;
        issued.fresh = false;
        issued.called = now;
        issued.clock_steps = clock_steps_;
        if (!issued.first_clock_steps) issued.first_clock_steps = clock_steps_;
    }
    // The machine's clock was set.
    void clock_stepped() { ++clock_steps_; }
    void acknowledge(size_t client, const std::shared_ptr<Issued>& issued,
                     const object::Commit& commit);
    // The store does not know any more whether it happened. May be only where the client has been
    // silent for the lease.
    void expires(size_t client, std::optional<Duration> lease, WallTime now);
    // The epoch of the client's witness, after that.
    void finds(size_t client, const std::shared_ptr<Issued>& issued, object::Epoch witness);
    // The store said that it did not happen.
    void refuse(size_t client, const std::shared_ptr<Issued>& issued, const Error& error);
    // The client will not ask again. False where what has become of it is not judged yet.
    bool abandon(size_t client);
    // What has been acknowledged, or returned by a read.
    [[nodiscard]] object::Epoch visible() const { return std::max(acknowledged_, seen_); }
    void saw(SeenRead read) {
        seen_ = std::max(seen_, read.epoch);
        reads_.push_back(std::move(read));
    }
    void problem(std::string text);

    // Something else was acknowledged at this epoch: in another container of the pool.
    void passed(object::Epoch epoch) { acknowledged_ = std::max(acknowledged_, epoch); }

    // After a restart, while nothing runs: judges all since the last check. `used_elsewhere` is
    // what the pool's other containers use, in bytes.
    Task<> check(object::ObjectStore& store, object::ContainerId container,
                 uint64_t used_elsewhere);

    [[nodiscard]] const std::vector<std::string>& problems() const { return problems_; }
    [[nodiscard]] uint64_t transactions() const { return transactions_; }
    [[nodiscard]] uint64_t expired() const { return expired_; }
    [[nodiscard]] uint64_t reads_judged() const { return reads_judged_; }

  private:
    struct Client {
        Place witness;
        object::Epoch last{};  // of its last transaction that is known to have happened
        std::shared_ptr<Issued> pending;
        uint64_t issued = 0;
        // The time of the last one that was acknowledged, and how often the clock had been set when
        // it was sent.
        WallTime time{};
        uint64_t clock_steps = 0;
    };
    // What lay at a place from an epoch on.
    struct Version {
        object::Epoch from{};
        bool exists = false;
        SnapshotEntry entry;
    };

    void judge_time(const std::string& who, const Issued& issued, const object::Commit& commit);
    void judge_witness(size_t number, const Snapshot& snapshot);
    Task<> apply_happened();
    Task<> apply(const Issued& issued);
    [[nodiscard]] object::Transaction translate(const object::Transaction& transaction) const;
    Task<> judge_space(object::ObjectStore& store, uint64_t used);
    Task<Version> look(Place place, object::Epoch from);
    Task<> follow(const object::Transaction& transaction, object::Epoch epoch);
    void judge_read(const SeenRead& read);
    void compare(const Snapshot& found, const Snapshot& expected);
    void compare_entries(const Snapshot& found, const Snapshot& expected);
    void compare_query(const Column& column, const object::QueryReply& found,
                       const object::QueryReply& expected);
    // The store's epoch for the oracle's.
    [[nodiscard]] object::Epoch real(object::Epoch oracle) const { return epochs_[oracle.value]; }

    Reactor& reactor_;
    bool repeats_ = false;
    object::MemoryStore oracle_;
    object::ContainerId container_{};
    std::vector<object::Epoch> epochs_{object::Epoch{}};  // by the oracle's
    std::map<object::Epoch, object::Epoch> oracle_epochs_;
    std::vector<Column> columns_;
    std::vector<Client> clients_;
    std::map<object::Epoch, WallTime> times_;  // of those that were acknowledged
    uint64_t clock_steps_ = 0;
    object::Epoch acknowledged_{};
    object::Epoch seen_{};                           // the greatest epoch that a read returned
    object::Epoch checked_{};                        // the greatest epoch of the last check
    std::vector<std::shared_ptr<Issued>> happened_;  // since the last check
    std::vector<SeenRead> reads_;
    std::map<Place, std::vector<Version>> versions_;  // of what the reads read
    std::vector<std::string> problems_;
    uint64_t transactions_ = 0;
    uint64_t expired_ = 0;  // repetitions whose reply was gone
    uint64_t reads_judged_ = 0;
};

}  // namespace ros2s::sim
