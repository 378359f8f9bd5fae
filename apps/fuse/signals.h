// SIGINT, SIGTERM and SIGHUP, as events of the reactor. They request that the mount ends.
#pragma once
#include <string>

#include "poll_wait.h"
#include "root_mount.h"
#include "ros2s/base/log.h"
#include "ros2s/runtime/blocking.h"
#include "ros2s/runtime/task.h"
#include "server.h"

namespace ros2s::fuse {

// Blocks these signals in this thread and those that it starts, so that only SignalWatch sees them.
// Call it before the first thread starts.
void block_stop_signals() noexcept;

class SignalWatch {
  public:
    // Errors: io. block_stop_signals() was called.
    [[nodiscard]] static Result<int> open_descriptor();
    // `root_mount`: of the mount, or none.
    SignalWatch(Reactor& reactor, BlockingPool& blocking, Log log, int descriptor,
                RootMount* root_mount) noexcept
        : reactor_(reactor),
          blocking_(blocking),
          log_(std::move(log)),
          root_mount_(root_mount),
          descriptor_(descriptor),
          wait_(reactor, descriptor) {}

    // Returns after a signal, when the server's end was requested, or after stop(). A signal first
    // unmounts as `umount` does. If files are open, it has them written back and then ends the
    // server, and their programs get errors.
    Task<> watch(Server& server, std::string mount_point);
    void stop() noexcept { wait_.cancel(); }

  private:
    Reactor& reactor_;
    BlockingPool& blocking_;
    Log log_;
    RootMount* root_mount_;
    int descriptor_;
    PollWait wait_;
};

}  // namespace ros2s::fuse
