// HostMountLocator: a host's mount and its location. If the session has changed, because the DPU
// restarted or ended the session, it mounts again in the new session and opens all files again.
//
//     channel is lost ─ connects, takes a ticket ─ a new session ─► mount ─► reopen_all()
//                                                                     calls continue here
//
// Owned by HostFiles; used on its core; close() before destruction.
#pragma once
#include <functional>
#include <optional>
#include <string>

#include "ros2s/control/session_tickets.h"
#include "ros2s/runtime/nursery.h"
#include "ros2s/session/mount_location.h"

namespace ros2s::connection {

class HostMountLocator final : public session::MountLocator {
  public:
    HostMountLocator(Reactor& reactor, control::SessionClient& control,
                     control::SessionTickets& tickets, std::string pool, std::string container,
                     control::MountAs how);
    // Mounts in the current session, bounded by `opening`. Errors: those of SessionClient::mount().
    Task<Result<>> mount(const Call& opening, Report& report);
    // Opens the files of the mount again. It may run while another one does.
    using Reopen = std::function<Task<>(const Call&)>;
    // Watches for new sessions until stop(); calls `reopen` after each move.
    Task<> follow(Reopen reopen);
    // Ends the watch.
    Task<> stop();
    // Unmounts if the server can be reached. The end of the session unmounts, too.
    Task<> close();

    [[nodiscard]] session::MountLocation location() const override { return place_; }
    [[nodiscard]] std::string storage() const override { return storage_; }
    [[nodiscard]] bool may_lease() const override {
        return lends_leases_ && squashes_root_ == squashed_root_first_;
    }
    [[nodiscard]] bool is_deferred() const override { return is_deferred_; }
    [[nodiscard]] bool squashes_root() const { return squashes_root_; }
    Task<Result<>> moved(const Call& call, session::MountLocation from) override;

  private:
    static Task<> keep(HostMountLocator& self);
    // Hands the DPU a capability for the mount again and again, if it needs one.
    static Task<> keep_delegating(HostMountLocator& self);
    Task<Result<>> delegate(const Call& call, Report& report);
    Task<Result<>> mount_in(const Call& call, session::SessionId session, Report& report);

    Reactor& reactor_;
    control::SessionClient& control_;
    control::SessionTickets& tickets_;
    const std::string pool_, container_;
    const control::MountAs how_;
    Reopen reopen_;
    session::MountLocation place_;
    std::string storage_;
    bool lends_leases_ = false, squashes_root_ = false, is_deferred_ = false;
    std::optional<bool> squashed_root_first_;  // at the first mount
    std::optional<Error> failure_;         // why there is no location now, and will be none soon
    std::optional<Duration> renew_after_;  // none: the DPU needs no capability
    StopSource stop_;
    const Call call_{.stop = stop_.token()};
    Nursery keeping_;  // two tasks
    Nursery reopening_;
};

}  // namespace ros2s::connection
