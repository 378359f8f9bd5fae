// Connections: the listening sockets of the control plane, and a bounded number of connections.
// They are accepted here, on a thread of its own, and then given to gRPC. gRPC's own accept never
// continues after one failure (1.51). When descriptors run out, this one waits and tries again.
//
// A connection is `unproven` until a call has come over it. gRPC does not distinguish Unix sockets:
// such a connection counts as unproven until the time at which gRPC would have ended it if it had
// shown no certificate. If there are too many connections, or too many unproven ones, one is ended
// to make room: the oldest unproven one of the peer that has most of them. A peer is a user of this
// machine (Unix sockets), an IPv4 address, or an IPv6 /64. A client without a certificate that
// opens connections and sends nothing therefore takes nothing from peers with one.
//
// gRPC owns a connection's descriptor and does not report when it is done with it. A duplicate is
// kept here, which shows the hang-up and can end the connection. Each connection therefore costs
// two descriptors.
//
// Owned by ControlServer. Threads: proven() and the counters from any; the rest by its owner. It
// has a lock, because gRPC's threads, the core and the accepting thread use it.
#pragma once
#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "listening.h"
#include "ros2s/base/log.h"
#include "ros2s/base/metrics.h"
#include "tenant_shares.h"

namespace ros2s::control {

class Connections {
  public:
    struct Bounds {
        size_t all = 4096;
        size_t unproven = 1024;
        size_t per_subject = 256;
        // gRPC ends a connection whose handshake takes longer.
        std::chrono::milliseconds handshake_max{10'000};
    };
    Connections(const admission::Accounts& accounts, Bounds bounds, Log log);
    ~Connections();  // call stop() first
    Connections& operator=(Connections&&) = delete;

    // Errors: those of open_listening().
    [[nodiscard]] Result<std::string> listen(const std::string& address, Report& report);
    // From now on `take` gets each connection, and owns its descriptor. It is called on the
    // accepting thread. Errors: io (no descriptors), no_memory.
    [[nodiscard]] Result<> start(std::function<void(int descriptor)> take);
    // Stops accepting. gRPC ends the existing connections. Blocks for a short time.
    void stop();

    // A call of `subject` came over the connection from `peer`, as gRPC writes addresses. Errors:
    // busy (the subject or its tenant has too many connections: this one is ended). `whose`: as
    // TenantShares::take().
    [[nodiscard]] Result<> proven(const std::string& peer, const std::string& subject,
                                  std::string* whose);

    // Increases at least once a second while the accepting thread works.
    [[nodiscard]] uint64_t rounds() const { return rounds_.value(); }
    [[nodiscard]] size_t count() const;
    [[nodiscard]] size_t unproven() const;
    [[nodiscard]] uint64_t ended_for_room() const { return ended_for_room_.value(); }
    [[nodiscard]] uint64_t without_descriptors() const { return without_descriptors_.value(); }

  private:
    struct Connection {
        Descriptor watched;   // the duplicate
        std::string address;  // as gRPC writes it; empty for Unix sockets, which all have the same
        std::string peer;
        std::string subject;  // empty: unproven. For Unix sockets it is the peer
    };
    struct NewUser {
        std::chrono::steady_clock::time_point come;
        uint64_t number;
    };
    // Connection numbers differ from all descriptors, and none is used twice.
    static constexpr uint64_t first_number = uint64_t{1} << 32;
    // In the order of arrival.
    using Numbered = std::map<uint64_t, Connection>;
    void run();
    // `tag`: the descriptor of a listening socket or of wake_, or the number of a connection.
    void look_at(uint64_t tag);
    // Accepts one. False: there is none, or no descriptor is free.
    bool accept_one(int listening);
    // False: there are too many, and all are proven.
    [[nodiscard]] bool add(Connection connection);
    // Ends the oldest unproven connection of the peer with most of them. False: all are proven.
    bool end_one();
    // Proves the Unix sockets that have outlived the time for a handshake.
    void believe_users();
    void forget(uint64_t number);
    void forget_unproven(const std::string& peer, uint64_t number);
    void starve(int error);

    const Bounds bounds_;
    const Log log_;
    std::function<void(int descriptor)> take_;
    std::vector<Descriptor> listening_;
    std::vector<std::string> paths_;  // of Unix sockets, to remove
    Descriptor poll_, wake_;
    std::thread thread_;
    // Used by the accepting thread: descriptors ran out, and it waits.
    bool is_starved_ = false;

    mutable std::mutex mutex_;
    uint64_t next_ = first_number;
    Numbered connections_;
    std::map<std::string, uint64_t> by_address_;
    std::map<std::string, std::set<uint64_t>> unproven_;  // by peer
    size_t unproven_count_ = 0;
    std::deque<NewUser> new_users_;  // Unix sockets, in the order of arrival
    TenantShares shares_;            // of proven ones
    Counter rounds_, ended_for_room_, without_descriptors_;
};

}  // namespace ros2s::control
