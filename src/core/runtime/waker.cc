#include "waker.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>

#include "ros2s/base/check.h"
#include "ros2s/runtime/fork.h"

namespace ros2s {

Result<std::unique_ptr<Waker>> Waker::create(Report& report) {
    const int descriptor = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (descriptor < 0) {
        return report.fail(fail_errno(errno).error(),
                           "cannot create an eventfd: raise the limit on open files (ulimit -n)");
    }
    close_in_forked_child(descriptor);
    return std::make_unique<Waker>(descriptor);
}

Waker::~Waker() { close_everywhere(descriptor_); }

void Waker::write_event() noexcept {
    const uint64_t one = 1;
    // EAGAIN means that 2^64 - 2 wake-ups are pending, which wakes too.
    const auto written = ::write(descriptor_, &one, sizeof one);
    ROS2S_CHECK(written == sizeof one || errno == EAGAIN);
}

void Waker::drain() noexcept {
    uint64_t count = 0;
    const auto got = ::read(descriptor_, &count, sizeof count);
    ROS2S_CHECK(got == sizeof count || errno == EAGAIN || errno == EINTR);
}

}  // namespace ros2s
