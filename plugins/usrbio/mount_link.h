// MountLink: this process as a client of one mounted container, past the kernel. It gets its
// session by an ioctl on a descriptor of the mount (hostlink/lending.h). If the mount ends, all
// requests fail with ENOTCONN; another mount at the same place is another MountLink.
//
//     LinkClient ─ rpc::Channel ─ shm ─── the mount's process
//
// Any thread, but see the functions.
#pragma once
#include <sys/types.h>

#include <memory>

#include "ros2s/hostlink/lending.h"
#include "ros2s/hostlink/link_client.h"
#include "ros2s/rpc/channel.h"
#include "ros2s/runtime/os_reactor.h"
#include "ros2s/runtime/stack.h"
#include "ros2s/session/mount_location.h"

namespace ros2s::usrbio {

class MountLink {
  public:
    // `fd`: of any file or directory of the mount. Errors: bad descriptors and other file systems
    // (ENOTTY, EBADF), those of rpc::Channel::open().
    static Result<std::shared_ptr<MountLink>> open(OsReactor& reactor, int fd);
    // Ends the session, if this is the process that began it.
    ~MountLink();
    MountLink& operator=(MountLink&&) = delete;

    // The file of the descriptor, which `status` describes as fcntl(2) with F_GETFL. Errors: ENOTTY
    // (not a file of the mount), invalid (not a regular file), stale (the session has ended), busy.
    Result<fs::FileHandle> borrow(int fd, int status);
    void give_back(fs::FileHandle handle);
    [[nodiscard]] bool has_ended();

    [[nodiscard]] OsReactor& reactor() noexcept { return reactor_; }
    [[nodiscard]] fs::FileSystem& files() noexcept { return *client_; }

  private:
    explicit MountLink(OsReactor& reactor) : reactor_(reactor) {}
    Task<Result<>> connect(hostlink::LendingSession session);
    Task<fs::FileHandle> adopt(hostlink::BorrowedFile file, int access);
    [[nodiscard]] Task<bool> is_disconnected() const;

    OsReactor& reactor_;
    session::MountLocation place_;
    std::unique_ptr<rpc::TicketSource> ticket_;
    std::unique_ptr<session::MountLocator> locator_;
    Stack stack_;
    rpc::Channel* channel_ = nullptr;
    hostlink::LinkClient* client_ = nullptr;
};

// True if the descriptor is of a mount that lends files.
[[nodiscard]] bool is_of_lending_mount(int fd);

}  // namespace ros2s::usrbio
