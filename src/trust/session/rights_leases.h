// RightsLeases: the time until which a server may act on rights that it received. The engine of
// each pool sends a DPU, again and again, the rights in the pool. If nothing arrives, rights may
// have been revoked meanwhile. Requests that need rights in the pool then wait until the engine's
// next message.
//
//     engine's answer ─ renew(pool, until) ─► hold() ─► requests, sessions, mounts
//                                                └ no: wait()
//
// A pool without a lease is one whose rights this server keeps itself. Owned by the session table;
// used on its core.
#pragma once
#include <map>
#include <string>
#include <string_view>

#include "ros2s/base/result.h"
#include "ros2s/runtime/call.h"
#include "ros2s/runtime/reactor.h"
#include "ros2s/runtime/sync.h"

namespace ros2s::session {

class RightsLeases {
  public:
    // The time that a request of the data plane waits, as for a server that cannot be reached
    // (rpc/options.h). A call of the control plane waits for less: its clients give up after 10 s,
    // and should receive the reason before.
    static constexpr Duration patience = std::chrono::seconds(30);
    static constexpr Duration patience_of_calls = std::chrono::seconds(4);

    explicit RightsLeases(Reactor& reactor) : reactor_(reactor), renewed_(reactor) {}

    // From now on the pool has a lease.
    void renew(const std::string& pool, Time until);
    // All leases hold.
    [[nodiscard]] bool hold() const { return reactor_.now() <= first_end_; }
    [[nodiscard]] bool holds(std::string_view pool) const;
    // Waits until the pool's lease holds. Errors: cancelled, deadline (of the call), disconnected
    // with rpc::absent_behind (the patience is over; detail = when the lease ended, in seconds
    // since 1970).
    Task<Result<>> wait(const Call& call, std::string pool, Duration most = patience);

  private:
    struct Lease {
        Time until{};
        WallTime ends{};
    };
    Reactor& reactor_;
    std::map<std::string, Lease, std::less<>> leases_;  // by pool
    Time first_end_ = Time::max();
    Event renewed_;
};

}  // namespace ros2s::session
