// HelperClient: the client of a control plane in a forked child, through the control helper.
//
// Owned by its creator; outlives its users; used on its reactor's core. Errors: those of the
// helper's ControlClient; disconnected also if the helper ended, and those of
// ControlHelper::send().
#pragma once
#include "ros2s/control/control_client.h"
#include "ros2s/control/process/control_helper.h"

namespace ros2s::control {

struct HelperReply;
struct HelperRequest;

class HelperClient final : public SessionClient {
  public:
    // The paths in `options` may be relative to the current directory.
    HelperClient(Reactor& reactor, ClientOptions options, ControlHelper& helper);

    Task<Result<OpenedSession>> open_session(const Call& call, SessionOptions wanted,
                                             Report& report) override;
    Task<Result<Duration>> keep_alive(const Call& call, session::SessionId id,
                                      Report& report) override;
    Task<Result<GivenTicket>> issue_ticket(const Call& call, session::SessionId id,
                                           Report& report) override;
    // unsupported: hosts have no capabilities.
    Task<Result<ShownReply>> show_capability(const Call& call, session::SessionId id,
                                             capability::Chain chain, std::string proof,
                                             Report& report) override;
    Task<Result<>> close_session(const Call& call, session::SessionId id, Report& report) override;
    Task<Result<std::optional<Duration>>> delegate(const Call& call, std::string pool,
                                                   capability::Use use, Report& report) override;
    Task<Result<MountedAt>> mount(const Call& call, session::SessionId id, std::string container,
                                  MountAs how, Report& report) override;
    Task<Result<>> unmount(const Call& call, session::SessionId id, session::MountId mount,
                           Report& report) override;

  private:
    Task<Result<HelperReply>> ask(const Call& call, HelperRequest request, Report& report);

    Reactor& reactor_;
    ClientOptions options_;
    ControlHelper& helper_;
};

}  // namespace ros2s::control
