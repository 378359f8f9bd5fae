// getlk, setlk, flock. If others share the file system, locks are refused with ENOLCK. The kernel
// would grant them among the users of this mount, and another mount would grant the same lock
// again.
#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>

#include "request.h"

namespace ros2s::fuse {
namespace {

void getlk(fuse_req_t request, fuse_ino_t, fuse_file_info*, struct flock*) {
    fuse_reply_err(request, ENOLCK);
}
// Releasing a lock that is not held succeeds, as POSIX requires.
void setlk(fuse_req_t request, fuse_ino_t, fuse_file_info*, struct flock* lock, int) {
    fuse_reply_err(request, lock->l_type == F_UNLCK ? 0 : ENOLCK);
}
void flock(fuse_req_t request, fuse_ino_t, fuse_file_info*, int operation) {
    fuse_reply_err(request, (operation & LOCK_UN) != 0 ? 0 : ENOLCK);
}

}  // namespace

void add_lock_operations(fuse_lowlevel_ops& table) noexcept {
    table.getlk = getlk;
    table.setlk = setlk;
    table.flock = flock;
}

}  // namespace ros2s::fuse
