// ServedCall: one RPC on its way from gRPC's thread to the core and back.
//
//     gRPC's thread                    the core
//     begin() ── post ───────────────► admitted? ──► handler (a coroutine)
//     OnCancel() ── post ────────────► request_stop()
//     OnDone() ◄── gRPC ◄── Finish() ◄── its result
//
// The object lives while gRPC, the core or a post on its way has a share of it. Everything that a
// handler works with is touched on the core alone; request and reply stay put until OnDone(), which
// follows Finish().
#pragma once
#include <grpcpp/grpcpp.h>

#include <coroutine>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "connections.h"
#include "ros2s/base/latency_histogram.h"
#include "ros2s/base/log.h"
#include "ros2s/base/metrics.h"
#include "ros2s/runtime/call.h"
#include "ros2s/runtime/nursery.h"
#include "ros2s/runtime/reactor.h"
#include "trust.h"

namespace ros2s::control {

// What bounds and counts the calls of one server. Used on the core, but for `reactor`.
struct CallGate {
    CallGate(Reactor& core, Connections& come_over, Trust& callers, size_t calls_max,
             uint32_t per_subject_max)
        : reactor(core),
          connections(come_over),
          trust(callers),
          nursery(core, calls_max),
          subject_max(per_subject_max) {}

    Reactor& reactor;
    Connections& connections;
    Trust& trust;
    Nursery nursery;
    uint32_t subject_max;
    std::map<std::string, uint32_t> by_subject;
    Counter served, failed, refused_busy, cancelled;
    std::map<std::string, LatencyHistogram, std::less<>> times;  // by method, of which few are
};

// What a handler gets: on whose behalf, until when, and where to say what is wrong.
struct Served {
    Call call;
    UpdateName update;  // call's, once a request has named one
    std::string subject;
    session::Credential credential;  // of the connection that it came by
    std::string peer;                // its address: "ipv4:192.0.2.7:51234", "unix:"
    Report report;
};

class ServedCall : public grpc::ServerUnaryReactor,
                   public std::enable_shared_from_this<ServedCall> {
  public:
    ServedCall(CallGate& gate, grpc::CallbackServerContext& context)
        : gate_(gate), context_(context) {}

    // Once, on gRPC's thread.
    void begin();
    void OnCancel() override;
    void OnDone() override { self_.reset(); }

  private:
    [[nodiscard]] virtual Task<Result<>> handle(Served& served) = 0;
    // "OpenSession".
    [[nodiscard]] virtual std::string_view name() const = 0;
    // Which of the three ways a call reaches the core by; see the picture.
    class Crossing;
    static Crossing arrive(std::shared_ptr<ServedCall> call);
    static Crossing give_up(std::shared_ptr<ServedCall> call);
    static Task<> run(std::shared_ptr<ServedCall> call);
    void admit();
    void finish(const Result<>& result);
    [[nodiscard]] Result<> check_caller();

    CallGate& gate_;
    grpc::CallbackServerContext& context_;
    std::shared_ptr<ServedCall> self_;  // gRPC's share
    StopSource stop_;
    Served served_;
};

// A service method's body: `return serve(gate, context, request, reply, *this, &Files::lookup)`.
template <class Service, class Request, class Reply>
grpc::ServerUnaryReactor* serve(CallGate& gate, grpc::CallbackServerContext* context,
                                const Request* request, Reply* reply, Service* service,
                                Task<Result<>> (Service::*handler)(Served&, const Request&,
                                                                   Reply&)) {
    class Call final : public ServedCall {
      public:
        Call(CallGate& calls, grpc::CallbackServerContext& one, const Request& asked, Reply& answer,
             Service& by, decltype(handler) method)
            : ServedCall(calls, one),
              request_(asked),
              reply_(answer),
              service_(by),
              method_(method) {}

      private:
        Task<Result<>> handle(Served& served) override {
            return (service_.*method_)(served, request_, reply_);
        }
        [[nodiscard]] std::string_view name() const override {
            std::string_view message = Request::descriptor()->name();
            message.remove_suffix(std::string_view("Request").size());
            return message;
        }
        const Request& request_;
        Reply& reply_;
        Service& service_;
        decltype(handler) method_;
    };
    const auto call = std::make_shared<Call>(gate, *context, *request, *reply, *service, handler);
    call->begin();
    return call.get();
}

// One RPC of a service: the method that gRPC calls, and the handler that does it.
#define ROS2S_SERVE(Method, Request, Reply, handler)                                          \
    grpc::ServerUnaryReactor* Method(grpc::CallbackServerContext* context,                    \
                                     const v1::Request* request, v1::Reply* reply) override { \
        return serve(ground_.gate, context, request, reply, this,                             \
                     &std::remove_pointer_t<decltype(this)>::handler);                        \
    }                                                                                         \
    Task<Result<>> handler(Served& served, const v1::Request& request, v1::Reply& reply);

}  // namespace ros2s::control
