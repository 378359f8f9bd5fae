#include "client_call.h"

#include <fmt/format.h>

#include <chrono>

namespace ros2s::control {

PendingCall::PendingCall(Reactor& home, const Call& call)
    : home_(home), stopped_(call.stop.source(), context_) {
    if (call.deadline == Time::max()) return;
    const auto left = call.deadline - home.now();
    context_.set_deadline(std::chrono::system_clock::now() +
                          std::chrono::duration_cast<std::chrono::system_clock::duration>(left));
}

PendingCall::Done PendingCall::done() {
    return [this](grpc::Status status) {
        status_ = std::move(status);
        home_.post_remote(post_);  // from here on the frame may be gone
    };
}

Error failure(const std::string& address, const grpc::Status& status, Report& report) {
    Report theirs;
    const Error error = to_error(status, theirs);
    report.say(error.code == Code::disconnected
                   ? fmt::format("the control plane at {} does not answer ({}); see that it runs, "
                                 "and that certificates fit: ros2store certs show",
                                 address, theirs.text())
                   : theirs.text());
    return error;
}

}  // namespace ros2s::control
