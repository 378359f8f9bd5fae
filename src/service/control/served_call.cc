#include "served_call.h"

#include <grpcpp/impl/codegen/server_callback_handlers.h>
#include <grpcpp/impl/rpc_service_method.h>

#include <chrono>
#include <coroutine>

#include "error_status.h"
#include "ros2s/rpc/request.h"
#include "tls.h"

namespace ros2s::control {

// A coroutine that starts on the core, never waits there, and frees itself.
class ServedCall::Crossing {
  public:
    struct promise_type {
        RemotePost post{};
        Crossing get_return_object() noexcept {
            return Crossing(std::coroutine_handle<promise_type>::from_promise(*this));
        }
        std::suspend_always initial_suspend() const noexcept { return {}; }
        std::suspend_never final_suspend() const noexcept { return {}; }
        void return_void() const noexcept {}
        [[noreturn]] void unhandled_exception() const noexcept { std::terminate(); }
    };
    void post_to(Reactor& reactor) const {
        RemotePost& post = handle_.promise().post;
        post.handle = handle_;
        reactor.post_remote(post);
    }

  private:
    explicit Crossing(std::coroutine_handle<promise_type> handle) : handle_(handle) {}
    std::coroutine_handle<promise_type> handle_;
};

CallReactor* ServedCall::begin() {
    self_ = share();
    served_.subject = subject_of(*context_.auth_context());
    served_.peer = context_.peer();
    std::string whose;
    if (const auto room = gate_.arrivals.begin(*this, served_.subject, &whose); !room) {
        arrival_ = served_.report.fail(
            room.error(),
            "{}: {} requests are being received, which is the limit; wait for some of them", whose,
            room.error().detail);
        arrive(share()).post_to(gate_.reactor);
    } else {
        StartRead(request_.get());
    }
    return this;
}

void ServedCall::OnReadDone(bool whole) {
    if (!gate_.arrivals.end(*this)) return;
    if (!whole) {
        arrival_ = served_.report.fail(Code::cancelled, "the request did not come");
    }
    arrive(share()).post_to(gate_.reactor);
}

void ServedCall::too_late() {
    gate_.refused_late.add();
    end(served_.report.fail(
        Code::deadline, "the request was not complete within {} s",
        std::chrono::round<std::chrono::seconds>(gate_.arrivals.bounds().time_max).count()));
}

void ServedCall::OnCancel() { stop(share()).post_to(gate_.reactor); }

void ServedCall::OnDone() {
    gate_.answers.end(context_);
    if (!counted_) return self_.reset();
    leave(std::move(self_)).post_to(gate_.reactor);
}

ServedCall::Crossing ServedCall::arrive(std::shared_ptr<ServedCall> call) {
    call->admit();
    co_return;
}

ServedCall::Crossing ServedCall::stop(std::shared_ptr<ServedCall> call) {
    call->stop_.request_stop();
    co_return;
}

ServedCall::Crossing ServedCall::leave(std::shared_ptr<ServedCall> call) {
    ServerCalls& gate = call->gate_;
    gate.shares.give_back(call->served_.subject);
    co_return;
}

Result<> ServedCall::check_caller() {
    if (served_.subject.empty()) {
        return served_.report.fail(
            Code::denied, "the client's certificate names no subject; issue one that does");
    }
    served_.credential.chain = chain_of(*context_.auth_context());
    ROS2S_TRY_ASSIGN(served_.credential.until,
                     gate_.trust.check(served_.subject, served_.credential.chain, served_.report));
    std::string whose;
    if (const auto fits = gate_.connections.proven(served_.peer, served_.subject, &whose); !fits) {
        gate_.refused_busy.add();
        return served_.report.fail(fits.error(),
                                   "{} has {} connections, which is the limit; close some of them",
                                   whose, fits.error().detail);
    }
    return {};
}

Result<> ServedCall::count() {
    std::string whose;
    if (const auto room = gate_.shares.take(served_.subject, &whose); !room) {
        gate_.refused_busy.add();
        return served_.report.fail(
            room.error(), "{} has {} calls in progress, which is the limit; wait for some of them",
            whose, room.error().detail);
    }
    counted_ = true;
    return {};
}

void ServedCall::admit() {
    if (!arrival_) {
        if (arrival_.error().code == Code::busy) gate_.refused_busy.add();
        return refuse(arrival_);
    }
    if (const auto fit = check_caller(); !fit) return refuse(fit);
    if (const auto room = count(); !room) return refuse(room);
    const auto now = std::chrono::system_clock::now();
    served_.call.stop = stop_.token();
    if (context_.deadline() < now + std::chrono::hours(24 * 365)) {
        served_.call.deadline = gate_.reactor.now() + (context_.deadline() - now);
    }
    // A call counts for longer than it runs.
    ROS2S_CHECK(gate_.nursery.try_spawn(run(share())));
}

Task<> ServedCall::run(std::shared_ptr<ServedCall> call) {
    const Time begun = call->gate_.reactor.now();
    Result<> result = call->served_.call.check(begun);
    if (result) result = co_await call->handle(call->served_);
    const Duration took = call->gate_.reactor.now() - begun;
    call->gate_.times[std::string(call->name())].add(static_cast<uint64_t>(took.count()));
    call->end(result);
}

std::string_view ServedCall::name() const {
    std::string_view name = kind_.name();  // "OpenSessionRequest"
    name.remove_suffix(std::string_view("Request").size());
    return name;
}

// It does not count, so it keeps little while its status is not taken.
void ServedCall::refuse(const Result<>& why) {
    request_.reset();
    end(why);
}

void ServedCall::end(const Result<>& result) {
    gate_.answers.begin(context_);
    if (result) {
        gate_.served.add();
        return StartWriteAndFinish(reply_.get(), {}, grpc::Status::OK);
    }
    const bool is_for_the_log =
        rpc::is_refusal(result.error().code) || !served_.report.notes().empty();
    if (is_for_the_log && !served_.audited) {
        gate_.refused(served_, name(), result.error());
    }
    (result.error().code == Code::cancelled ? gate_.cancelled : gate_.failed).add();
    Finish(to_status(result.error(), served_.report.text()));
}

bool OfferedService::offer(const MethodDescriptor& method, Start start) {
    name_ = method.service()->full_name();
    AddMethod(new grpc::internal::RpcServiceMethod(paths_.emplace_back(path_of(method)).c_str(),
                                                   grpc::internal::RpcMethod::BIDI_STREAMING,
                                                   nullptr));
    MarkMethodCallback(static_cast<int>(paths_.size() - 1),
                       new grpc::internal::CallbackBidiHandler<Message, Message>(std::move(start)));
    return true;
}

bool OfferedService::offer(const Message& request, const Message& reply, Handler handler) {
    class Unary final : public ServedCall {
      public:
        Unary(ServerCalls& gate, grpc::CallbackServerContext& context, const Message& request,
              const Message& reply, const Handler& handler)
            : ServedCall(gate, context, request, reply), handler_(handler) {}

      private:
        Task<Result<>> handle(Served& served) override {
            return handler_(served, *request_, *reply_);
        }
        const Handler& handler_;
    };
    return offer(method_of(request, reply), [this, &request, &reply, handler = std::move(handler)](
                                                grpc::CallbackServerContext* context) {
        return std::make_shared<Unary>(gate_, *context, request, reply, handler)->begin();
    });
}

}  // namespace ros2s::control
