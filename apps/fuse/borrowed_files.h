// BorrowedFiles: serves reads and writes of files that programs have open on this mount over shared
// memory, past the kernel (docs/usrbio.md). A program asks by ioctls on its descriptors
// (hostlink/lending.h). It then is a client of a LinkServer in this process, as a host is of one in
// a DPU, whose only operations are those of the files that it has borrowed.
//
//     program: LinkClient ~> LinkServer → borrowed files → the mount's FileSystem
//
// Rights: a borrowed handle is the handle of the descriptor on which it was asked for, and ends
// with it. So it can read or write as the descriptor can. Tickets are for the user who asked.
//
// Nothing listens until the first program asks. Used on the server's core; close() before
// destruction.
#pragma once
#include <sys/types.h>

#include <memory>

#include "borrowed_table.h"
#include "fuse_api.h"
#include "kernel_view.h"
#include "ros2s/fs/file_system.h"
#include "ros2s/hostlink/lending.h"
#include "ros2s/runtime/sync.h"

namespace ros2s::fuse {

class Server;

class BorrowedFiles {
  public:
    explicit BorrowedFiles(Server& server);
    ~BorrowedFiles();
    BorrowedFiles& operator=(BorrowedFiles&&) = delete;

    struct Program {
        uid_t user = 0;
        pid_t process = 0;
    };
    // Errors: busy and no_memory (a bound of sessions or tickets), those of rpc::Server::listen().
    Task<Result<hostlink::LendingSession>> begin(hostlink::LendingSession asked, Program program);
    // `handle`: of the descriptor. Errors: stale (not a session of the program's user), busy (a
    // bound of handles), invalid (not a regular file), those of get_attributes().
    Task<Result<hostlink::BorrowedFile>> lend(hostlink::BorrowedFile asked, Program program,
                                              fs::NodeId node, fs::FileHandle handle);
    // Before the handle of a descriptor is closed. Returns when nothing uses it.
    Task<> end(fs::FileHandle handle) { return table_.end(handle); }
    // The descriptor's handle was lent.
    [[nodiscard]] bool has(fs::FileHandle handle) const { return table_.has(handle); }
    [[nodiscard]] KernelView& kernel() noexcept { return kernel_; }
    // Programs lose their files.
    Task<> close();

  private:
    struct Link;
    Server& server_;
    KernelView kernel_;
    BorrowedTable table_;
    Semaphore turn_;  // of beginning
    std::unique_ptr<Link> link_;
};

// Continues an ioctl of hostlink/lending.h. False: it is another one.
[[nodiscard]] bool lend_by_ioctl(fuse_req_t request, fs::NodeId node, unsigned command,
                                 const fuse_file_info* file, const void* given, size_t bytes);

}  // namespace ros2s::fuse
