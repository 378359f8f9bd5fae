// HostFiles: a container of a ros2store-dpu, for a host. Sessions and mounts go over the control
// plane, and all of FileSystem over the host link. The host has no credential of the storage
// network and no route to it.
//
//     FileSystem = LinkClient ─ rpc::Channel ─ shm or … ──── ros2store-dpu ─── engine
//
// A lost connection is opened again automatically, and requests in progress are sent again. A DPU
// that was restarted, also after kill -9, has lost its sessions, mounts and handles. They are made
// again while calls wait (30 s at most). Updates that were done before are not done again.
//
// Owned by its opener; used on the reactor's core; close() before destruction. Fork rule: a
// forked child must not use it, nor destroy it.
#pragma once
#include <memory>
#include <string>

#include "ros2s/base/log.h"
#include "ros2s/base/metrics.h"
#include "ros2s/connection/connection.h"
#include "ros2s/fs/caller.h"
#include "ros2s/fs/file_system.h"
#include "ros2s/runtime/call.h"
#include "ros2s/runtime/reactor.h"
#include "ros2s/runtime/stack.h"

namespace ros2s::hostlink {
class LinkClient;
}
namespace ros2s::rpc {
class Channel;
}

namespace ros2s::connection {

class HostMountLocator;

// The user of this process, and as many of its groups as a request has room for.
[[nodiscard]] fs::UserClaim user_of_process();

struct HostOptions {
    ServerAccess dpu;
    std::string container;
    control::MountAs how{};
    bool takes_leases = true;  // if the DPU lends some
    Call opening{};            // bounds open()
    Log log{};
};

class HostFiles {
  public:
    // Errors, with a sentence: those of control::ControlClient (not_found: the pool, the
    // container), unsupported (no common provider), those of rpc::Channel::open().
    [[nodiscard]] static Task<Result<std::unique_ptr<HostFiles>>> open(Reactor& reactor,
                                                                       HostOptions options,
                                                                       Report& report);
    // Closes open files, unmounts, and ends the session.
    Task<Result<>> close();

    [[nodiscard]] fs::FileSystem& file_system();
    // How the DPU takes users of this machine: user 0 acts as nobody.
    [[nodiscard]] bool squashes_root() const;
    // "offload over shm to the DPU at /run/ros2store/dpu.sock".
    [[nodiscard]] std::string path() const;
    void visit_metrics(const MetricVisitor& visit) const { stack_.visit_metrics(visit); }
    [[nodiscard]] std::string layers() const { return stack_.names(); }

  private:
    HostFiles() = default;
    Task<Result<>> begin(Reactor& reactor, HostOptions options, Report& report);

    Stack stack_;
    rpc::Channel* channel_ = nullptr;
    HostMountLocator* locator_ = nullptr;
    hostlink::LinkClient* link_ = nullptr;
};

}  // namespace ros2s::connection
