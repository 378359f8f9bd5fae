#include "rights_leases.h"

#include <algorithm>

#include "ros2s/fabric/deadline.h"
#include "ros2s/rpc/options.h"
#include "ros2s/runtime/wake_on_stop.h"

namespace ros2s::session {

void RightsLeases::renew(const std::string& pool, Time until) {
    leases_[pool] = {.until = until, .ends = reactor_.wall_time() + (until - reactor_.now())};
    first_end_ = Time::max();
    for (const auto& [name, lease] : leases_) first_end_ = std::min(first_end_, lease.until);
    renewed_.wake_all();
}

bool RightsLeases::holds(std::string_view pool) const {
    const auto lease = leases_.find(pool);
    return lease == leases_.end() || reactor_.now() <= lease->second.until;
}

Task<Result<>> RightsLeases::wait(const Call& call, std::string pool, Duration most) {
    if (holds(pool)) co_return Result<>{};
    ROS2S_CO_TRY(call.check(reactor_));
    fabric::Deadline limit(reactor_, std::min(call.deadline, reactor_.now() + most), call.stop);
    {
        const WakeOnStop wake(limit.token(), renewed_);
        while (!holds(pool) && !limit.token().stop_requested()) co_await renewed_;
    }
    co_await limit.finish();
    if (holds(pool)) co_return Result<>{};
    ROS2S_CO_TRY(call.check(reactor_));
    const auto ended = std::chrono::floor<std::chrono::seconds>(leases_.find(pool)->second.ends);
    co_return fail(Error{.code = Code::disconnected,
                         .os_errno = rpc::absent_behind,
                         .detail = static_cast<uint64_t>(ended.time_since_epoch().count())});
}

}  // namespace ros2s::session
