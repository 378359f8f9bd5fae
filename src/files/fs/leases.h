// LeaseSet: the leases of a client's file system. A lease permits to keep what a reply said of a
// node: its attributes; of a directory also its names, present and absent. The server asks for a
// lease back (a recall) before a change by another client takes effect, and awaits the answer. The
// client's own changes do not end its leases.
//
//     call with Call::leases ──► reply ──► kept, and used while holds() is true
//     recall ──► not held any more ──► observers drop what they keep ──► the server is answered
//
// Leases end by themselves if the server does not extend them in time
// (docs/decisions/0707-leases.md).
//
// Used on the file system's core.
#pragma once
#include <algorithm>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "ros2s/runtime/call.h"
#include "ros2s/runtime/reactor.h"
#include "ros2s/runtime/stop.h"
#include "ros2s/runtime/sync.h"
#include "ros2s/runtime/task.h"

namespace ros2s::fs {

// A file, directory or link; also its st_ino. Never reused within a file system.
struct NodeId {
    uint64_t value = 0;
    friend auto operator<=>(const NodeId&, const NodeId&) = default;
};

// Keeps what leases cover, for example in the kernel. Outlives its registration.
class LeaseObserver {
  public:
    virtual ~LeaseObserver() = default;
    // The nodes of these leases, or all, may be changed by others when the task is done. It must
    // not wait for requests to the file system that wait for other clients.
    virtual Task<> lost(std::span<const Leased> leases) = 0;
    virtual Task<> lost_all() = 0;
};

// The server that gives the leases, as LeaseSet::listen() asks it.
class LeaseServer {
  public:
    struct News {
        bool lost = true;  // all leases; or the server did not answer
        Time until{};      // leases are held until then
        std::vector<Leased> recalled{};
    };
    virtual ~LeaseServer() = default;
    // False: it gives none now.
    [[nodiscard]] virtual bool may_listen() const { return true; }
    // Requests news, and answers the recalls of the last news. `begins`: nothing is kept. `sent`:
    // now.
    virtual Task<News> hear(bool begins, Time sent) = 0;
    // Nobody has to wait for a client that is gone.
    virtual Task<> leave() = 0;
};

class LeaseSet {
  public:
    static constexpr size_t leases_max = size_t{1} << 20;

    explicit LeaseSet(Reactor& reactor) : reactor_(reactor), wanted_(reactor) {}
    LeaseSet& operator=(LeaseSet&&) = delete;

    // ---- for users of the file system
    [[nodiscard]] bool holds(const Leased& lease) const;
    // holds() all of these for the node: the number of one, or 0. Of two the first was recalled,
    // and a part of what came with them may be older.
    [[nodiscard]] uint64_t held(std::span<const Leased> leases, NodeId node) const;
    // The number of the lease of the node that is held; 0: none.
    [[nodiscard]] uint64_t number_of(NodeId node) const;
    // Until then leases that are not recalled are held.
    [[nodiscard]] Time until() const { return until_; }
    void observe(LeaseObserver& observer) {
        observers_.push_back(&observer);
        wanted_.set();
    }
    // A call to it may still run.
    void unobserve(LeaseObserver& observer) { std::erase(observers_, &observer); }

    // ---- for the file system. An era begins when the server has answered that it knows that no
    // leases are held. Numbers of leases of different eras are not compared.
    [[nodiscard]] uint64_t era() const { return era_; }  // 0: none has begun, or all was lost
    [[nodiscard]] Task<> begin(uint64_t era);
    // The server has answered a request of the era.
    void extend(uint64_t era, Time until);
    // A reply to a request that was sent in the era came with the lease. False: it was recalled
    // meanwhile, or is of no use.
    bool take(uint64_t era, const Leased& lease);
    // The server asks for these leases, and older ones of the nodes.
    Task<> recall(std::vector<Leased> leases);
    // All leases have ended, or may have.
    Task<> lose_all();
    // Does all this with the news of the server, until it is stopped. Then it leaves.
    Task<> listen(LeaseServer& server, StopToken stop);
    [[nodiscard]] size_t count() const { return held_.size(); }
    // Set when somebody observes: leases are of no use before.
    [[nodiscard]] Event& wanted() { return wanted_; }

  private:
    // A reply that comes after a recall may bring a lease that was recalled. Nodes of one bucket
    // share the greatest number.
    static constexpr size_t buckets = 4096;
    void make_room(uint64_t node);
    [[nodiscard]] static size_t bucket_of(uint64_t node) {
        return (node * 0x9E3779B97F4A7C15) >> 52;
    }

    Reactor& reactor_;
    uint64_t era_ = 0;
    Time until_{};
    std::unordered_map<uint64_t, uint64_t> held_;  // numbers, by node
    std::vector<uint64_t> recalled_ = std::vector<uint64_t>(buckets);
    std::vector<LeaseObserver*> observers_;
    Event wanted_;
};

}  // namespace ros2s::fs
