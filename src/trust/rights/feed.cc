#include "feed.h"

#include <algorithm>

#include "ros2s/fabric/deadline.h"
#include "ros2s/rpc/options.h"
#include "ros2s/runtime/sync.h"

namespace ros2s::rights {

Feed::Feed(Reactor& reactor)
    : reactor_(reactor),
      renewed_(reactor),
      alarm_(
          reactor, [](void* self) noexcept { static_cast<Feed*>(self)->look_at_ends(); }, this) {}

Policy Feed::replace(Parties parties) {
    return std::exchange(policy_, policy_.next(std::move(parties)));
}

void Feed::renew(const std::string& pool, Time until) {
    policy_ = policy_.renewed(pool, until);
    look_at_ends();
    renewed_.wake_all();
}

void Feed::look_at_ends() {
    const Time now = reactor_.now();
    Time next = Time::max();
    for (const auto& [pool, end] : policy_.ends()) {
        if (policy_.is_over(pool, now)) {
            over_.insert(pool);
        } else {
            over_.erase(pool);
            next = std::min(next, end);
        }
    }
    next_end_ = next;
    if (next != Time::max()) alarm_.set(next + Duration(1));
}

Task<Result<>> Feed::wait(const Call& call, std::string pool, Duration most) {
    look_at_ends();
    if (!is_over(pool)) co_return Result<>{};
    ROS2S_CO_TRY(call.check(reactor_));
    fabric::Deadline limit(reactor_, std::min(call.deadline, reactor_.now() + most), call.stop);
    {
        const WakeOnStop wake(limit.token(), renewed_);
        while (is_over(pool) && !limit.token().stop_requested()) co_await renewed_;
    }
    co_await limit.finish();
    if (!is_over(pool)) co_return Result<>{};
    ROS2S_CO_TRY(call.check(reactor_));
    const WallTime ended = reactor_.wall_time() + (policy_.end_of(pool) - reactor_.now());
    const auto seconds = std::chrono::floor<std::chrono::seconds>(ended).time_since_epoch();
    co_return fail(Error{.code = Code::disconnected,
                         .os_errno = rpc::absent_behind,
                         .detail = static_cast<uint64_t>(seconds.count())});
}

}  // namespace ros2s::rights
