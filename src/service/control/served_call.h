// ServedCall: one RPC on its way from gRPC's thread to the core and back.
//
//     gRPC's thread                       the core
//     begin(): may its request be read?
//     OnReadDone(): it is read ── post ─► admitted? ──► handler (a coroutine)
//     OnCancel() ── post ───────────────► request_stop()
//     OnDone() ◄── gRPC ◄── end() ◄────── its result
//       └─ post ────────────────────────► leave(): it counts no longer
//
// A call counts until gRPC is done with it. gRPC keeps the reply until the client has received it.
// If the client does not receive it in time, the call is cancelled (answers.h).
//
// For clients a method is unary. For gRPC it is a stream of one request and one reply. This lets us
// read a request only after its caller and the number of requests being received were checked
// (arrivals.h).
//
// The object lives while gRPC, the core, the arrivals or a pending post shares it. A handler's data
// is used on the core only. Request and reply do not move until OnDone(), which follows end().
#pragma once
#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/service_type.h>

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "answers.h"
#include "arrivals.h"
#include "connections.h"
#include "method.h"
#include "ros2s/base/latency_histogram.h"
#include "ros2s/base/log.h"
#include "ros2s/base/metrics.h"
#include "ros2s/fs/caller.h"
#include "ros2s/runtime/call.h"
#include "ros2s/runtime/nursery.h"
#include "ros2s/runtime/reactor.h"
#include "tenant_shares.h"
#include "trust.h"

namespace ros2s::control {

struct Served;

// Bounds and counts the calls of one server. Used on the core, except `reactor`.
struct ServerCalls {
    ServerCalls(Reactor& core, Connections& come_over, Trust& callers,
                const admission::Accounts& accounts, Arrivals::Bounds reading, size_t calls_max,
                uint32_t per_subject_max)
        : reactor(core),
          connections(come_over),
          trust(callers),
          arrivals(accounts, reading),
          answers(reading.time_max),
          shares(accounts, calls_max, per_subject_max),
          nursery(core, calls_max) {}

    Reactor& reactor;
    Connections& connections;
    Trust& trust;
    Arrivals arrivals;
    Answers answers;
    TenantShares shares;  // of calls: admitted, until gRPC is done with them
    Nursery nursery;
    Counter served, failed, refused_busy, refused_late, cancelled;
    // Called for each call that ends with a refusal (rpc::is_refusal()) or whose report has notes,
    // unless Served::audited.
    std::function<void(const Served& served, std::string_view method, const Error& error)> refused;
    std::map<std::string, LatencyHistogram, std::less<>> times;  // by method; there are few
};

// The input of a handler: the caller, the deadline, and the report for its sentence.
struct Served {
    Call call;
    UpdateName update;   // the call's, once a request has one
    fs::UserClaim user;  // from the request
    fs::Caller caller;   // the call's, once the user was mapped
    std::string subject;
    session::Credential credential;  // of the call's connection
    std::string peer;                // its address: "ipv4:192.0.2.7:51234", "unix:"
    uint64_t session = 0;            // the subject's session that the call uses
    bool audited = false;  // the refusing code writes an audit line and counts the refusal
    bool counted = false;  // the refusing code counts the refusal, without an audit line
    Report report;
};

using CallReactor = grpc::ServerBidiReactor<Message, Message>;

class ServedCall : public Arriving, public CallReactor {
  public:
    // `request` and `reply` give the types of the messages.
    ServedCall(ServerCalls& gate, grpc::CallbackServerContext& context, const Message& request,
               const Message& reply)
        : request_(request.New()),
          reply_(reply.New()),
          gate_(gate),
          context_(context),
          kind_(*request.GetDescriptor()) {}

    // Called once, on gRPC's thread. Returns itself.
    CallReactor* begin();
    void too_late() override;

  protected:
    std::unique_ptr<Message> request_, reply_;

  private:
    // Called on gRPC's threads.
    void OnReadDone(bool whole) override;
    void OnCancel() override;
    void OnDone() override;
    // Fills the reply.
    [[nodiscard]] virtual Task<Result<>> handle(Served& served) = 0;
    // A call's way to the core; see the diagram.
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
    [[nodiscard]] Result<> count();
    // The method's name: "OpenSession".
    [[nodiscard]] std::string_view name() const;

    ServerCalls& gate_;
    grpc::CallbackServerContext& context_;
    const google::protobuf::Descriptor& kind_;  // of the request
    std::shared_ptr<ServedCall> self_;          // gRPC's share
    Result<> arrival_{};                        // the reason if there is no request
    bool counted_ = false;                      // does not change after the end
    StopSource stop_;
    Served served_;
};

// A service whose methods are CallReactors.
class OfferedService : public grpc::Service {
  public:
    // "ros2s.control.v1.Files".
    [[nodiscard]] const std::string& name() const { return name_; }

  protected:
    using Start = std::function<CallReactor*(grpc::CallbackServerContext*)>;
    using Handler = std::function<Task<Result<>>(Served&, const Message&, Message&)>;

    explicit OfferedService(ServerCalls& gate) : gate_(gate) {}

    // A method whose calls `start` creates and begins. Returns true, as each offer.
    bool offer(const MethodDescriptor& method, Start start);
    bool offer(const Message& request, const Message& reply, Handler handler);
    template <class Self, class Request, class Reply>
    bool offer(Self* self, Task<Result<>> (Self::*handler)(Served&, const Request&, Reply&)) {
        return offer(Request::default_instance(), Reply::default_instance(),
                     [self, handler](Served& served, const Message& request, Message& reply) {
                         return (self->*handler)(served, static_cast<const Request&>(request),
                                                 static_cast<Reply&>(reply));
                     });
    }

  private:
    ServerCalls& gate_;
    std::string name_;
    std::deque<std::string> paths_;  // gRPC keeps pointers to them
};

// One RPC of a service, and its handler.
#define ROS2S_SERVE(Request, Reply, handler)                                              \
    Task<Result<>> handler(Served& served, const v1::Request& request, v1::Reply& reply); \
    const bool handler##_offered_ = /* NOLINT(readability-identifier-naming) */           \
        offer(this, &std::remove_pointer_t<decltype(this)>::handler);

}  // namespace ros2s::control
