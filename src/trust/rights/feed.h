// Feed: the policy of this server now. Its sources replace it, and say until when they vouch for
// it.
//
//     settings, tenants ─ replace() ─► policy(): another epoch
//     engine's answer   ─ renew(pool, until) ─► the same epoch, a later end
//     the end of a pool ─ one timer ─► is_over(): requests wait()
//
// The engine of each pool sends a DPU the rights in the pool again and again. If nothing arrives,
// rights may have been revoked meanwhile. Requests that need rights in the pool then wait until the
// engine's next message. A pool that is never renewed is one whose rights this server keeps itself.
//
// A request that arrived after the end waits, also if the process stood still until then and the
// timer has not run yet: the time of its arrival is compared with the first end. Owned by the
// session table; used on its core.
#pragma once
#include <set>
#include <string>
#include <string_view>

#include "ros2s/base/result.h"
#include "ros2s/rights/policy.h"
#include "ros2s/runtime/alarm.h"
#include "ros2s/runtime/call.h"
#include "ros2s/runtime/reactor.h"
#include "ros2s/runtime/sync.h"

namespace ros2s::rights {

class Feed {
  public:
    // The time that a request of the data plane waits, as for a server that cannot be reached
    // (rpc/options.h). A call of the control plane waits for less: its clients give up after 10 s,
    // and should receive the reason before.
    static constexpr Duration patience = std::chrono::seconds(30);
    static constexpr Duration patience_of_calls = std::chrono::seconds(4);

    explicit Feed(Reactor& reactor);  // nobody has a right

    // The content of this object changes, also while a caller waits.
    [[nodiscard]] const Policy& policy() const { return policy_; }
    // News. Returns the policy before it.
    Policy replace(Parties parties);
    // No news until then.
    void renew(const std::string& pool, Time until);

    // In some pool. For each request, with the time of its arrival.
    [[nodiscard]] bool is_over(Time now) const { return !over_.empty() || now > next_end_; }
    [[nodiscard]] bool is_over(std::string_view pool) const { return over_.contains(pool); }
    // Waits until the pool's part is not over. Errors: cancelled, deadline (of the call),
    // disconnected with rpc::absent_behind (the patience is over; detail = when it ended, in
    // seconds since 1970).
    Task<Result<>> wait(const Call& call, std::string pool, Duration most = patience);

  private:
    void look_at_ends();

    Reactor& reactor_;
    Policy policy_;
    std::set<std::string, std::less<>> over_;  // pools
    Time next_end_ = Time::max();              // of those that are not over
    Event renewed_;
    Alarm alarm_;
};

}  // namespace ros2s::rights
