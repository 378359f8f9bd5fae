// One RPC from a core: sent at once, awaited as a coroutine, and resumed on the core by a post from
// gRPC's thread. The private side of ControlClient.
#pragma once
#include <grpcpp/grpcpp.h>

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "control_client.h"
#include "error_status.h"
#include "method.h"
#include "ros2s/pki/watched_identity.h"
#include "ros2s/runtime/alarm.h"
#include "ros2s/runtime/call.h"
#include "ros2s/runtime/foreign_posts.h"
#include "ros2s/runtime/reactor.h"
#include "ros2s/runtime/update_slots.h"

namespace ros2s::control {

// Needs no reactor: clients are made on any thread.
[[nodiscard]] inline Uuid any_uuid() { return Uuid::make(Secrets()); }

struct ControlClient::Parts {
    Parts(Reactor& core, ClientOptions how)
        : reactor(core),
          options(std::move(how)),
          identity(options.identity, Log()),
          changes(core, {.client = any_uuid()}, changes_max),
          posts(core),
          holder(capability::SigningKey::make_seed(Secrets())) {}

    // If the identity's files have changed, later calls use a new channel; calls in progress keep
    // theirs. Checks once a second. Errors: those of open_channel().
    Result<> renew(Report& report);
    // Connects again at once, if gRPC waits to do so. Its timers wait for points in wall time, so
    // after the clock was set back they do not end for as long as it was wrong.
    void connect_again();

    Reactor& reactor;
    ClientOptions options;
    pki::WatchedIdentity identity;
    Time next_look{}, next_connection{};
    std::shared_ptr<grpc::Channel> channel;
    // The number of creations and destructions of containers that may be in progress at once.
    static constexpr uint32_t changes_max = 16;
    UpdateSlots changes;
    bool has_found_server = false;  // a change is worth sending again
    ForeignPosts posts;             // of gRPC's threads
    // Pools whose server has reported that it acts by its own rights, and the time until which that
    // counts.
    static constexpr Duration own_rights_for = std::chrono::seconds(30);
    static constexpr size_t own_rights_max = 256;
    std::map<std::string, Time> own_rights;
    // Holds this program's capabilities. It is never stored.
    const capability::SigningKey holder;
};

// The parts of a call that do not depend on its types. It ends the call at its deadline itself:
// gRPC's timers may be late (Parts::connect_again). A cancelled call that gRPC does not end,
// because it could not start a thread, is left to gRPC after `end_within`. So what gRPC uses of a
// call is in a State that both own.
class PendingCall {
  public:
    using Done = std::function<void(grpc::Status)>;
    static constexpr Duration end_within = std::chrono::milliseconds(500);

    // `reply`: of the type that the reply has.
    PendingCall(ControlClient::Parts& parts, const Call& call, const Message& reply);
    PendingCall& operator=(PendingCall&&) = delete;

    [[nodiscard]] grpc::ClientContext& context() { return state_->context; }
    [[nodiscard]] const grpc::Status& status() const { return state_->status; }
    // For gRPC to fill.
    [[nodiscard]] Message& reply() { return *state_->reply; }

    // co_await pending.run(start): `start` gets the function that gRPC shall call, on any of its
    // threads.
    template <class Start>
    auto run(Start start) {
        struct Awaiter {
            PendingCall& pending;
            Start start;
            bool await_ready() const noexcept { return false; }
            void await_suspend(std::coroutine_handle<> handle) {
                pending.state_->post.handle = handle;
                start(pending.done());
            }
            void await_resume() const noexcept { pending.finish(); }
        };
        return Awaiter{*this, std::move(start)};
    }

  private:
    struct State {
        grpc::ClientContext context;
        grpc::Status status;
        std::unique_ptr<Message> reply;
        RemotePost post;
        // By whoever is first: gRPC's answer, or the end of its time.
        std::atomic<bool> has_ended = false;
    };
    struct Stopped : StopCallback {
        Stopped(StopSource* source, PendingCall& stopped)
            : StopCallback(
                  source,
                  [](StopCallback& self) noexcept { static_cast<Stopped&>(self).call.cancel(); }),
              call(stopped) {}
        PendingCall& call;
    };
    [[nodiscard]] Done done();
    void cancel();
    void time_out();
    void finish();

    ControlClient::Parts& parts_;
    const std::shared_ptr<State> state_;
    Stopped stopped_;
    Alarm deadline_;
    bool is_late_ = false;
    bool is_cancelled_ = false;
};

// The meaning of gRPC's message if no server answered: "nothing listens there: the daemon does not
// run".
[[nodiscard]] std::string why_unanswered(std::string_view grpc_text);
// The error of a status that is not OK. The report names the server if that helps.
[[nodiscard]] Error failure(const std::string& address, const grpc::Status& status, Report& report);

// Sends the request and fills the reply.
Task<Result<>> exchange(ControlClient::Parts& parts, const Call& call, const Message& request,
                        Message& reply, Report& report);

// co_await ask<v1::NodeReply>(parts, call, lookup_request, report)
template <class Reply, class Request>
Task<Result<Reply>> ask(ControlClient::Parts& parts, const Call& call, Request request,
                        Report& report) {
    Reply reply;
    ROS2S_CO_TRY(co_await exchange(parts, call, request, reply, report));
    co_return std::move(reply);
}

}  // namespace ros2s::control
