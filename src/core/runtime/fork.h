// The fork rule: a forked child has a copy of our memory and none of our threads, and shares our
// descriptors. In a child therefore
// - everything that was opened before the fork is unusable: in_forked_child() is true. No part of
//   the runtime may be used or destroyed there; destructors do nothing. The C ABI opens what it can
//   again (api/c/renewal.cc).
// - our descriptors are closed at once. A pool's lock and a ring's pinned memory therefore end with
//   the process that owns them, not with the last of its children.
//
// A check costs one load: a pthread_atfork handler increments the generation. getpid() would be a
// system call each time. fork() and all that uses it (Python's multiprocessing, fio's forked jobs)
// run the handlers. vfork and posix_spawn call exec, where O_CLOEXEC closes the descriptors. A bare
// clone() without CLONE_VM is not supported.
#pragma once
#include <cstdint>

namespace ros2s {

// May be called from any thread, also in a child.
[[nodiscard]] uint32_t fork_generation() noexcept;

// Stores the process in which it was made.
class ForkMark {
  public:
    ForkMark() noexcept : generation_(fork_generation()) {}
    [[nodiscard]] bool in_forked_child() const noexcept { return generation_ != fork_generation(); }

  private:
    uint32_t generation_;
};

// May be called from any thread. The descriptor will be closed in every forked child.
void close_in_forked_child(int descriptor);
// Removes the descriptor from the list, for callers that close it by other means.
void forget_in_forked_child(int descriptor) noexcept;
// Removes the descriptor from the list and closes it. Does nothing in a forked child, where it is
// already closed.
void close_everywhere(int descriptor) noexcept;

// LibraryOpening: an opening that uses a library whose static objects wait at exit for its threads,
// as RocksDB's and gRPC's do. A forked child does not have these threads. There exit() therefore
// ends the process when it comes to these objects: it flushes the C streams, and destroys no static
// object that is as old as they are. In a child that is forked during the opening it does so at
// once.
//
// In fork.cc. From any thread.
class LibraryOpening {
  public:
    LibraryOpening() noexcept;
    // `is_first`: the library may have made its static objects.
    void done(bool is_first) noexcept;
};

}  // namespace ros2s
