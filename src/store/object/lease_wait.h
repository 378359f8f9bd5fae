// Asking again while others have leases of what a request changes or reads, or have to repeat
// changes first.
#pragma once
#include <optional>

#include "ros2s/object/object_store.h"
#include "ros2s/runtime/backoff.h"
#include "ros2s/runtime/reactor.h"

namespace ros2s::object {

// The wait of one call. Leases end within lease_time, so this ends too, unless others always come
// first.
class LeaseWait {
  public:
    explicit LeaseWait(Reactor& reactor) : reactor_(reactor) {}
    // Returns after a pause. False: the call has waited for long enough. Errors: cancelled,
    // deadline.
    Task<Result<bool>> again(const Call& call) {
        const Time now = reactor_.now();
        if (!until_) until_ = now + patience;
        if (now >= *until_) co_return false;
        (void)co_await sleep_for(reactor_, pauses_.next(), call.stop);
        ROS2S_CO_TRY(call.check(reactor_));
        co_return true;
    }

  private:
    static constexpr Duration patience = std::chrono::seconds(20);
    Reactor& reactor_;
    std::optional<Time> until_;
    Backoff pauses_{.first = std::chrono::microseconds(200),
                    .longest = std::chrono::milliseconds(16)};
};

// `done`: the result of the first attempt. Errors: those of update(); leased: for too long.
inline Task<Result<Commit>> await_leases(ObjectStore& store, Reactor& reactor, const Call& call,
                                         ContainerId container, const Transaction& transaction,
                                         Result<Commit> done) {
    LeaseWait wait(reactor);
    while (!done && done.error().code == Code::leased) {
        ROS2S_CO_TRY_ASSIGN(const bool again, co_await wait.again(call));
        if (!again) break;
        done = co_await store.update(call, container, transaction);
    }
    co_return done;
}

}  // namespace ros2s::object
