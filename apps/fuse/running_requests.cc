#include "running_requests.h"

#include <linux/fuse.h>
#include <unistd.h>

#include <cerrno>
#include <tuple>
#include <utility>

namespace ros2s::fuse {

RunningRequests::Running::Running(RunningRequests& all, Request request) noexcept
    : all_(all), request_(request), next_(all.first_) {
    if (next_ != nullptr) next_->previous_ = this;
    all_.first_ = this;
}

RunningRequests::Running::~Running() {
    all_.forget_signal(*this);
    (previous_ != nullptr ? previous_->next_ : all_.first_) = next_;
    if (next_ != nullptr) next_->previous_ = previous_;
}

bool RunningRequests::note_signal(Running& request, Time now) noexcept {
    if (request.request_.thread == 0 || request.is_left_behind_) return false;
    if (!request.signalled_) {
        request.signalled_ = now;
        ++signalled_;
    }
    return true;
}

bool RunningRequests::note_signal(uint64_t unique, Time now) noexcept {
    for (Running* each = first_; each != nullptr; each = each->next_) {
        if (each->request_.unique == unique) return note_signal(*each, now);
    }
    return false;
}

void RunningRequests::note_signals(Time now) noexcept {
    for (Running* each = first_; each != nullptr; each = each->next_) note_signal(*each, now);
}

bool RunningRequests::leave_behind(uint64_t unique) noexcept {
    for (Running* each = first_; each != nullptr; each = each->next_) {
        if (each->request_.unique == unique) return !std::exchange(each->is_left_behind_, true);
    }
    return false;
}

void answer_killed(int fuse_descriptor, uint64_t unique) noexcept {
    const fuse_out_header answer{.len = sizeof answer, .error = -EINTR, .unique = unique};
    std::ignore = ::write(fuse_descriptor, &answer, sizeof answer);
}

}  // namespace ros2s::fuse
