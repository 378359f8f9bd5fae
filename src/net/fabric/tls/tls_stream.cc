#include "tls_stream.h"

#include <poll.h>

#include "ros2s/runtime/ring.h"

namespace ros2s::fabric::tls {

std::unexpected<Error> TlsStream::error_of(Progress progress) {
    return fail(progress == Progress::ended ? Code::disconnected : Code::denied);
}

Task<Result<>> TlsStream::wait(Progress for_what, StopToken stop) {
    const bool input = for_what == Progress::wants_input;
    if (!input && for_what != Progress::wants_output) co_return error_of(for_what);
    const auto polled =
        co_await reactor_.ring()->poll(fd_, input ? POLLIN | POLLRDHUP : POLLOUT, stop);
    if (!polled) co_return fail(polled.error());
    co_return Result<>{};
}

Result<bool> TlsStream::step() {
    last_ = secure_->shake_hands();
    if (last_ == Progress::done) return true;
    if (last_ == Progress::wants_input || last_ == Progress::wants_output) return false;
    return error_of(last_);
}

Task<Result<>> TlsStream::wait_after_step(StopToken stop) { return wait(last_, stop); }

Task<Result<>> TlsStream::send(ConstBytes bytes, StopToken stop) {
    while (!bytes.empty()) {
        const Moved moved = secure_->write(bytes, false);
        if (moved.progress == Progress::done) {
            bytes = bytes.subspan(moved.bytes);
        } else {
            ROS2S_CO_TRY(co_await wait(moved.progress, stop));
        }
    }
    co_return Result<>{};
}

Task<Result<>> TlsStream::receive(Bytes into, StopToken stop) {
    while (!into.empty()) {
        const Moved moved = secure_->read(into);
        if (moved.progress == Progress::done) {
            into = into.subspan(moved.bytes);
        } else {
            ROS2S_CO_TRY(co_await wait(moved.progress, stop));
        }
    }
    co_return Result<>{};
}

void TlsStream::send_now(ConstBytes bytes) noexcept {
    while (!bytes.empty()) {
        const Moved moved = secure_->write(bytes, false);
        if (moved.progress != Progress::done) return;
        bytes = bytes.subspan(moved.bytes);
    }
}

}  // namespace ros2s::fabric::tls
