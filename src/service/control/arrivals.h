// Arrivals: requests that are being received. gRPC would read each request before it reports it, so
// the half-sent requests of one client could take the memory of all. Here a call is admitted first,
// and then its request is read. The request must be complete within a limited time.
//
// Answers: calls that were answered and that gRPC still holds, because their client has not taken
// the answer. A client that takes none would keep them for as long as it likes. Here each has a
// limited time; then it is cancelled.
//
// Owned by the gate. Threads: any; a lock, because calls begin and end on gRPC's threads.
// end_late() runs on the core, periodically.
#pragma once
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <condition_variable>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "ros2s/base/result.h"
#include "ros2s/runtime/time.h"
#include "tenant_shares.h"

namespace ros2s::control {

// What waits, in the order of arrival, and by a key.
template <class Key, class Value>
class WaitingList {
  public:
    void add(Key key, Value value) {
        places_[key] = waiting_.insert(waiting_.end(), {key, std::move(value), Clock::now()});
    }
    // Nothing: it does not wait any more.
    std::optional<Value> take(Key key) {
        const auto place = places_.find(key);
        if (place == places_.end()) return std::nullopt;
        Value value = std::move(place->second->value);
        waiting_.erase(place->second);
        places_.erase(place);
        return value;
    }
    // The first, if it has waited for longer than that.
    std::optional<Value> take_late(Duration most) {
        if (waiting_.empty() || waiting_.front().since >= Clock::now() - most) return std::nullopt;
        return take(waiting_.front().key);
    }

  private:
    using Clock = std::chrono::steady_clock;
    struct Entry {
        Key key;
        Value value;
        Clock::time_point since;
    };
    std::list<Entry> waiting_;
    std::map<Key, typename std::list<Entry>::iterator> places_;
};

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
    Arrivals(const Arrivals&) = delete;
    Arrivals& operator=(const Arrivals&) = delete;

    // Its request may be read. Errors, and `whose`: those of TenantShares::take().
    [[nodiscard]] Result<> begin(Arriving& one, const std::string& subject,
                                 std::string* whose = nullptr);
    // The request was read. False: too_late() has ended the call, or is about to.
    [[nodiscard]] bool end(Arriving& one);
    // Ends those that have taken too long.
    void end_late();
    [[nodiscard]] const Bounds& bounds() const { return bounds_; }

  private:
    struct Reading {
        std::shared_ptr<Arriving> one;
        std::string subject;
    };
    const Bounds bounds_;
    std::mutex mutex_;
    WaitingList<const Arriving*, Reading> reading_;
    TenantShares shares_;
};

class Answers {
  public:
    using Context = grpc::CallbackServerContext;
    explicit Answers(Duration time_max) : time_max_(time_max) {}
    Answers(const Answers&) = delete;
    Answers& operator=(const Answers&) = delete;

    // Before Finish() or StartWriteAndFinish().
    void begin(const Context& call);
    // In OnDone(), after which gRPC destroys the context.
    void end(const Context& call);
    // Cancels some of those that have taken too long. True: there may be more.
    bool end_late();

  private:
    static constexpr int at_once = 64;

    const Duration time_max_;
    std::mutex mutex_;
    WaitingList<const Context*, const Context*> untaken_;
    const Context* cancelling_ = nullptr;  // end() waits for it
    std::condition_variable cancelled_;
};

}  // namespace ros2s::control
