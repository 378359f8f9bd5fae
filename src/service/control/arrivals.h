// Arrivals: requests that are being received. gRPC would read each request before it reports it, so
// the half-sent requests of one client could take the memory of all. Here a call is admitted first,
// and then its request is read. The request must be complete within a limited time.
//
// Owned by the gate. Threads: any; a lock, because calls begin on gRPC's threads. end_late() runs
// on the core.
#pragma once
#include <chrono>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "ros2s/base/result.h"
#include "ros2s/runtime/time.h"
#include "tenant_shares.h"

namespace ros2s::control {

// A request that is being read.
class Arriving : public std::enable_shared_from_this<Arriving> {
  public:
    virtual ~Arriving() = default;
    // It was not complete in time. Ends the call. Called on the core.
    virtual void too_late() = 0;
};

class Arrivals {
  public:
    struct Bounds {
        size_t all = 2048;
        size_t per_subject = 256;
        Duration time_max = std::chrono::seconds(10);
    };
    Arrivals(const admission::Accounts& accounts, Bounds bounds)
        : bounds_(bounds), shares_(accounts, bounds.all, bounds.per_subject) {}
    Arrivals& operator=(Arrivals&&) = delete;

    // Its request may be read. Errors, and `whose`: those of TenantShares::take().
    [[nodiscard]] Result<> begin(Arriving& one, const std::string& subject,
                                 std::string* whose = nullptr);
    // The request was read. False: too_late() has ended the call, or is about to.
    [[nodiscard]] bool end(Arriving& one);
    // Ends those that have taken too long. Called periodically.
    void end_late();
    [[nodiscard]] const Bounds& bounds() const { return bounds_; }

  private:
    using Clock = std::chrono::steady_clock;
    struct Reading {
        std::shared_ptr<Arriving> one;
        std::string subject;
        Clock::time_point since;
    };
    void remove(std::list<Reading>::iterator place);

    const Bounds bounds_;
    std::mutex mutex_;
    std::list<Reading> reading_;  // the oldest is the first
    std::map<const Arriving*, std::list<Reading>::iterator> places_;
    TenantShares shares_;
};

}  // namespace ros2s::control
