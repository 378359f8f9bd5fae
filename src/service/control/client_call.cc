#include "client_call.h"

#include <fmt/format.h>
#include <grpcpp/generic/generic_stub.h>

#include <algorithm>
#include <chrono>
#include <initializer_list>

namespace ros2s::control {

PendingCall::PendingCall(ControlClient::Parts& parts, const Call& call, const Message& reply)
    : parts_(parts),
      state_(std::make_shared<State>()),
      stopped_(call.stop.source(), *this),
      deadline_(
          parts.reactor, [](void* self) noexcept { static_cast<PendingCall*>(self)->time_out(); },
          this) {
    state_->reply.reset(reply.New());
    if (call.deadline == Time::max()) return;
    deadline_.set(call.deadline);
    const auto left = call.deadline - parts.reactor.now();
    context().set_deadline(std::chrono::system_clock::now() +
                           std::chrono::duration_cast<std::chrono::system_clock::duration>(left));
}

PendingCall::Done PendingCall::done() {
    return [state = state_, &posts = parts_.posts](grpc::Status status) mutable {
        State& its = *state;
        if (its.has_ended.exchange(true)) return;  // nobody waits, and `posts` may be gone
        its.status = std::move(status);
        // The waiting frame keeps the last one: if a thread of gRPC ended the context, that could
        // meet the end of the process.
        state.reset();
        posts.post(its.post);
    };
}

void PendingCall::cancel() {
    is_cancelled_ = true;
    deadline_.set(parts_.reactor.now() + end_within);
    context().TryCancel();
}

void PendingCall::time_out() {
    if (!is_cancelled_) {
        is_late_ = true;
        cancel();
        return;
    }
    if (state_->has_ended.exchange(true)) return;
    state_->status = grpc::Status(grpc::StatusCode::CANCELLED, "Cancelled");
    parts_.reactor.post(state_->post.handle);
}

void PendingCall::finish() {
    if (!is_late_ || status().error_code() != grpc::StatusCode::CANCELLED) return;
    state_->status = grpc::Status(grpc::StatusCode::DEADLINE_EXCEEDED, "Deadline Exceeded");
}

std::string why_unanswered(std::string_view grpc_text) {
    const auto says = [grpc_text](std::initializer_list<std::string_view> words) {
        return std::ranges::any_of(words,
                                   [&](std::string_view each) { return grpc_text.contains(each); });
    };
    if (says({"Handshake read failed", "Handshake timed out", "SETTINGS frame"})) {
        return "it accepts the connection, and then sends nothing or closes it: the daemon "
               "hangs, or this is not a control plane (`ros2store doctor URI` finds out)";
    }
    // Checked first, because gRPC joins the messages of all attempts.
    if (says({"handshake", "Handshake", "SSL", "TLS", "certificate"})) {
        return "the TLS handshake fails: `ros2store doctor URI` shows which certificate is wrong";
    }
    if (says({"Connection refused", "No such file or directory"})) {
        return "nothing listens there: the daemon does not run";
    }
    if (says({"Network is unreachable", "No route to host"})) {
        return "it is unreachable: this machine has no route to it";
    }
    if (says({"Permission denied"})) return "permission denied: this user may not use its socket";
    if (says({"DNS", "resolution"})) return "its host name is unknown";
    if (says({"Socket closed", "GOAWAY", "reset", "Broken pipe", "recvmsg"})) {
        return "the connection ended: check that it runs, accepts this certificate "
               "(`ros2store doctor URI`), and is not at its limit of open files (its log)";
    }
    return fmt::format(
        "{}: check that it runs, and that no firewall blocks it (`ros2store doctor URI`)",
        grpc_text);
}

Error failure(const std::string& address, const grpc::Status& status, Report& report) {
    Report theirs;
    const Error error = to_error(status, theirs);
    // An error of our server has its own sentence.
    const bool is_ours = !status.error_details().empty();
    if (!is_ours && error.code == Code::disconnected) {
        report.say(fmt::format("the control plane at {} does not answer: {}", address,
                               why_unanswered(theirs.text())));
    } else if (!is_ours && error.code == Code::deadline) {
        report.say(
            fmt::format("the control plane at {} did not answer in time: the daemon hangs "
                        "or is overloaded; try again (`ros2store doctor URI` finds out)",
                        address));
    } else {
        report.say(theirs.text());
    }
    return error;
}

Task<Result<>> exchange(ControlClient::Parts& parts, const Call& call, const Message& request,
                        Message& reply, Report& report) {
    ROS2S_CO_TRY(call.check(parts.reactor));
    Report unused;  // if it fails, the old channel is used
    (void)parts.renew(unused);
    PendingCall pending(parts, call, reply);
    co_await pending.run([&](PendingCall::Done done) {
        grpc::TemplatedGenericStub<Message, Message>(parts.channel)
            .UnaryCall(&pending.context(), path_of(method_of(request, reply)), {}, &request,
                       &pending.reply(), std::move(done));
    });
    if (pending.status().ok()) {
        reply.GetReflection()->Swap(&reply, &pending.reply());
        co_return Result<>{};
    }
    const Error error = failure(parts.options.address, pending.status(), report);
    if (error.code == Code::disconnected) parts.connect_again();
    co_return fail(error);
}

}  // namespace ros2s::control
