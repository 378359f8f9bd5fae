// History: the requests of simulated clients to a store and their results, and the check of them.
//
// After a restart the store's whole content is compared with the oracle's (object::MemoryStore).
// The oracle gets the same transactions in epoch order: the acknowledged ones, and of the others
// those that happened according to the store. That is read from a *witness*: a key that only one
// client writes, and that each of its transactions changes. Its epoch is therefore the epoch of the
// client's last transaction that happened. A client has one open transaction at a time.
//
// Checked
// - Every acknowledged transaction is there, whole, at its epoch; every other one is there whole or
//   not at all; nothing else is there; lists, queries and free space agree.
// - Epochs are used once, increase over checks, and follow real time: a transaction that was called
//   after another had returned has the greater one.
// - Each transaction's conditions held at its epoch, in the order of epochs.
// - A read saw one state of its key. It is not older than what was acknowledged, or seen by another
//   read, before the read began. It contains nothing that did not happen.
// - A repeated update name happened once. Its reply is kept for the lease of its client. Later it
//   is refused, and its result is read from the store.
// - With deferred transactions: all acknowledged ones up to an epoch are there, and none of the
//   later ones. Those that a sync covered, or that another process has seen, are among them.
// - A transaction's time is the machine's, between its call and its return, even if the clock was
//   set back. Queries return the same time, after restarts too.
#pragma once
#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ros2s/object/test_support/batch.h"
#include "ros2s/object/test_support/memory_store.h"
#include "snapshot.h"

namespace ros2s::sim {

using object::Batch;

// A transaction that a client issued, from its first call to the end of the check.
struct Issued {
    Batch batch;
    object::Epoch acknowledged_before{};  // the greatest epoch acknowledged before its first call
    // Set once it is known to have happened; 0 before.
    object::Epoch epoch{};
    // It cannot have happened: it was never sent, or was not sent since a check did not find it.
    bool fresh = true;
    bool sent_fresh = true;  // `fresh` when it was last sent
    uint64_t number = 0;     // for people: its position among its client's
    // When it was last sent, by the clock, and how often the clock had been set; and the same of
    // the first time.
    WallTime called{};
    uint64_t clock_steps = 0;
    std::optional<uint64_t> first_clock_steps;
};

// One fetched extent.
struct SeenRead {
    AkeyAddress place;
    object::Extent extent{};
    object::Epoch visible_before{};  // the greatest epoch acknowledged or read before the fetch
    bool exists = false;
    bool is_value = false;
    object::Epoch epoch{};
    uint64_t size = 0;
    uint32_t crc = 0;  // of the bytes that were read, or of the value
};

class History {
  public:
    History(Reactor& reactor, std::vector<AkeyAddress> witnesses, std::vector<Column> columns);
    // Called first. `repeats`: as Rig::repeats_requests().
    Task<> open(bool repeats = false);

    [[nodiscard]] object::Epoch acknowledged() const { return acknowledged_; }
    // The client's open transaction; null if there is none.
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
    // The store can no longer determine whether it happened. Permitted only if the client was
    // silent for the lease.
    void expires(size_t client, std::optional<Duration> lease, WallTime now);
    // The epoch of the client's witness, after expires().
    void finds(size_t client, const std::shared_ptr<Issued>& issued, object::Epoch witness);
    // The store reported that it did not happen.
    void refuse(size_t client, const std::shared_ptr<Issued>& issued, const Error& error);
    // The client will not send it again. False if its result is not known yet.
    bool abandon(size_t client);
    // The greatest epoch that was acknowledged, or returned by a read.
    [[nodiscard]] object::Epoch visible() const { return std::max(acknowledged_, seen_); }
    void saw(SeenRead read) {
        seen_ = std::max(seen_, read.epoch);
        reads_.push_back(std::move(read));
    }
    void problem(std::string text);

    // Another update was acknowledged at this epoch, in another container of the pool.
    void passed(object::Epoch epoch) {
        acknowledged_ = std::max(acknowledged_, epoch);
        durable(epoch);
    }

    // What has this epoch survives from now on, and so does what has a smaller one. The others, of
    // deferred transactions, may be lost.
    void durable(object::Epoch epoch) { durable_ = std::max(durable_, epoch); }
    // After a restart: finds which of them are lost, and forgets these. What survives is all up to
    // an epoch. `none`: nothing may be lost.
    Task<> forget_lost(object::ObjectStore& store, object::ContainerId container, bool none);

    // After a restart, while no client works: checks everything since the last check.
    // `used_elsewhere`: the bytes that the pool's other containers use.
    Task<> check(object::ObjectStore& store, object::ContainerId container,
                 uint64_t used_elsewhere);

    [[nodiscard]] const std::vector<std::string>& problems() const { return problems_; }
    [[nodiscard]] uint64_t transactions() const { return transactions_; }
    [[nodiscard]] uint64_t expired() const { return expired_; }
    [[nodiscard]] uint64_t reads_judged() const { return reads_judged_; }

  private:
    struct Client {
        AkeyAddress witness;
        object::Epoch last{};  // of its last transaction that is known to have happened
        std::shared_ptr<Issued> pending;
        uint64_t issued = 0;
        // The time of the last acknowledged one, and how often the clock had been set when it was
        // sent.
        WallTime time{};
        uint64_t clock_steps = 0;
    };
    // The content of a place from an epoch on.
    struct Version {
        object::Epoch from{};
        bool exists = false;
        SnapshotEntry entry;
    };

    void forget_after(object::Epoch last);
    void judge_time(const std::string& who, const Issued& issued, const object::Commit& commit);
    void judge_witness(size_t number, const Snapshot& snapshot);
    Task<> apply_happened();
    Task<> apply(const Issued& issued);
    [[nodiscard]] object::Transaction translate(const object::Transaction& transaction) const;
    Task<> judge_space(object::ObjectStore& store, uint64_t used);
    Task<> judge_use(object::ObjectStore& store, object::ContainerId container,
                     const Snapshot& expected);
    Task<Version> look(AkeyAddress place, object::Epoch from);
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
    std::vector<object::Epoch> epochs_{object::Epoch{}};  // by the oracle's epoch
    std::map<object::Epoch, object::Epoch> oracle_epochs_;
    std::vector<Column> columns_;
    std::vector<Client> clients_;
    std::map<object::Epoch, WallTime> times_;  // of the acknowledged ones
    uint64_t clock_steps_ = 0;
    object::Epoch acknowledged_{};
    object::Epoch seen_{};                           // the greatest epoch that a read returned
    object::Epoch durable_{};                        // all up to it are
    object::Epoch checked_{};                        // the greatest epoch of the last check
    std::vector<std::shared_ptr<Issued>> happened_;  // since the last check
    std::vector<SeenRead> reads_;
    std::map<AkeyAddress, std::vector<Version>> versions_;  // of the places that reads read
    std::vector<std::string> problems_;
    uint64_t transactions_ = 0;
    uint64_t expired_ = 0;  // repetitions whose reply was dropped
    uint64_t reads_judged_ = 0;
};

}  // namespace ros2s::sim
