// ServedCall: one RPC on its way from gRPC's thread to the core and back.
//
//     gRPC's thread                       the core
//     begin(): may its request be read?
//     arrived(): it is read ── post ────► admitted? ──► handler (a coroutine)
//     give_up() ── post ────────────────► request_stop()
//     done() ◄── gRPC ◄── finish() ◄───── its result
//       └─ post ────────────────────────► leave(): it counts no longer
//
// A call counts until gRPC is done with it, and gRPC keeps the reply until the client has taken it.
// A client that does not take it in time has the call cancelled (answers.h).
//
// To clients a method is unary. To gRPC it is a stream of one request and one reply: only then is a
// request read when we ask for it, after its caller and the number of requests being received were
// checked (arrivals.h).
//
// The object lives while gRPC, the core, the arrivals or a pending post has a share of it. A
// handler's data is used on the core only. Request and reply do not move until done(), which
// follows finish().
#pragma once
#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/codegen/server_callback_handlers.h>
#include <grpcpp/impl/rpc_service_method.h>
#include <grpcpp/impl/service_type.h>

#include <coroutine>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "answers.h"
#include "arrivals.h"
#include "connections.h"
#include "ros2s/base/latency_histogram.h"
#include "ros2s/base/log.h"
#include "ros2s/base/metrics.h"
#include "ros2s/fs/caller.h"
#include "ros2s/runtime/call.h"
#include "ros2s/runtime/nursery.h"
#include "ros2s/runtime/reactor.h"
#include "trust.h"

namespace ros2s::control {

struct Served;

// Bounds and counts the calls of one server. Used on the core, except `reactor`.
struct ServerCalls {
    ServerCalls(Reactor& core, Connections& come_over, Trust& callers, Arrivals::Bounds reading,
                size_t calls_max, uint32_t per_subject_max)
        : reactor(core),
          connections(come_over),
          trust(callers),
          arrivals(reading),
          answers(reading.time_max),
          nursery(core, calls_max),
          subject_max(per_subject_max) {}

    Reactor& reactor;
    Connections& connections;
    Trust& trust;
    Arrivals arrivals;
    Answers answers;
    Nursery nursery;
    uint32_t subject_max;
    size_t calls = 0;  // admitted, until gRPC is done with them
    std::map<std::string, uint32_t> by_subject;
    Counter served, failed, refused_busy, refused_late, cancelled;
    // Called for each call that ends with a refusal (rpc::is_refusal()), unless Served::audited.
    std::function<void(const Served& served, std::string_view method, const Error& error)> refused;
    std::map<std::string, LatencyHistogram, std::less<>> times;  // by method; there are few
};

// The input of a handler: the caller, the deadline, and the report for its sentence.
struct Served {
    Call call;
    UpdateName update;   // the call's, once a request has named one
    fs::UserClaim user;  // as the request names it
    fs::Caller caller;   // the call's, once it is known as whom the user acts
    std::string subject;
    session::Credential credential;  // of the connection that it came over
    std::string peer;                // its address: "ipv4:192.0.2.7:51234", "unix:"
    bool audited = false;            // what refuses it leaves an audit line of its own
    Report report;
};

class ServedCall : public Arriving {
  public:
    ServedCall(ServerCalls& gate, grpc::CallbackServerContext& context)
        : gate_(gate), context_(context) {}

    // Once, on gRPC's thread.
    void begin();
    void too_late() override;

  protected:
    // Called on gRPC's threads.
    void arrived(bool whole);
    void give_up();
    void done();

  private:
    virtual void read() = 0;
    // Frees the request, which nobody reads or writes any more.
    virtual void drop_request() = 0;
    [[nodiscard]] virtual Task<Result<>> handle(Served& served) = 0;
    // With the reply, if it succeeded.
    virtual void finish(const grpc::Status& status) = 0;
    // "OpenSession".
    [[nodiscard]] virtual std::string_view name() const = 0;
    // How a call reaches the core; see the diagram.
    class Crossing;
    static Crossing arrive(std::shared_ptr<ServedCall> call);
    static Crossing stop(std::shared_ptr<ServedCall> call);
    static Crossing leave(std::shared_ptr<ServedCall> call);
    static Task<> run(std::shared_ptr<ServedCall> call);
    [[nodiscard]] std::shared_ptr<ServedCall> share() {
        return std::static_pointer_cast<ServedCall>(shared_from_this());
    }
    void admit();
    void refuse(const Result<>& why);
    void end(const Result<>& result);
    [[nodiscard]] Result<> check_caller();
    void count();

    ServerCalls& gate_;
    grpc::CallbackServerContext& context_;
    std::shared_ptr<ServedCall> self_;  // gRPC's share
    Result<> arrival_{};                // why there is no request
    bool counted_ = false;              // does not change after finish()
    StopSource stop_;
    Served served_;
};

template <class Request, class Reply>
class TypedCall : public ServedCall, public grpc::ServerBidiReactor<Request, Reply> {
  public:
    using ServedCall::ServedCall;

  protected:
    Request request_;
    Reply reply_;

  private:
    void OnReadDone(bool whole) override { arrived(whole); }
    void OnCancel() override { give_up(); }
    void OnDone() override { done(); }
    void read() override { this->StartRead(&request_); }
    void drop_request() override { Request().Swap(&request_); }
    void finish(const grpc::Status& status) override {
        if (!status.ok()) return this->Finish(status);
        this->StartWriteAndFinish(&reply_, {}, status);
    }
    [[nodiscard]] std::string_view name() const override {
        std::string_view message = Request::descriptor()->name();
        message.remove_suffix(std::string_view("Request").size());
        return message;
    }
};

// A service whose methods are TypedCalls.
class OfferedService : public grpc::Service {
  public:
    [[nodiscard]] const std::string& name() const { return name_; }

  protected:
    // `name`: "ros2s.control.v1.Files".
    OfferedService(ServerCalls& gate, std::string name) : gate_(gate), name_(std::move(name)) {}

    // A method whose calls `make` creates. Returns true.
    template <class Request, class Reply, class Make>
    bool offer_calls(std::string_view method, Make make) {
        const std::string& path = paths_.emplace_back("/" + name_ + "/" + std::string(method));
        AddMethod(new grpc::internal::RpcServiceMethod(
            path.c_str(), grpc::internal::RpcMethod::BIDI_STREAMING, nullptr));
        MarkMethodCallback(static_cast<int>(paths_.size() - 1),
                           new grpc::internal::CallbackBidiHandler<Request, Reply>(
                               [make](grpc::CallbackServerContext* context)
                                   -> grpc::ServerBidiReactor<Request, Reply>* {
                                   const auto call = make(*context);
                                   call->begin();
                                   return call.get();
                               }));
        return true;
    }
    template <class Self, class Request, class Reply>
    bool offer(std::string_view method, Self* self,
               Task<Result<>> (Self::*handler)(Served&, const Request&, Reply&)) {
        class Call final : public TypedCall<Request, Reply> {
          public:
            Call(ServerCalls& gate, grpc::CallbackServerContext& context, Self& by,
                 decltype(handler) method)
                : TypedCall<Request, Reply>(gate, context), service_(by), method_(method) {}

          private:
            Task<Result<>> handle(Served& served) override {
                return (service_.*method_)(served, this->request_, this->reply_);
            }
            Self& service_;
            decltype(handler) method_;
        };
        return offer_calls<Request, Reply>(
            method, [this, self, handler](grpc::CallbackServerContext& context) {
                return std::make_shared<Call>(gate_, context, *self, handler);
            });
    }

  private:
    ServerCalls& gate_;
    const std::string name_;
    std::deque<std::string> paths_;  // gRPC keeps pointers to them
};

// One RPC of a service, and its handler.
#define ROS2S_SERVE(Method, Request, Reply, handler)                                      \
    Task<Result<>> handler(Served& served, const v1::Request& request, v1::Reply& reply); \
    const bool handler##_offered_ = /* NOLINT(readability-identifier-naming) */           \
        offer(#Method, this, &std::remove_pointer_t<decltype(this)>::handler);

}  // namespace ros2s::control
