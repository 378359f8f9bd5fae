// The fork rule: a forked child has a copy of our memory but none of our threads, and shares our
// descriptors. So in a child
// - everything opened before the fork is dead: in_forked_child() tells, and the API answers
//   `closed`; nothing of the runtime may be used or is destroyed there (destructors leave it be);
// - our descriptors are closed at once, so that a pool's lock and a ring's pinned memory end with
//   the process that owns them and not with the last of its children.
//
// It costs a load per question: the generation is counted up by a pthread_atfork handler. getpid()
// would be a system call each time. fork() and everything built on it (Python's multiprocessing,
// fio's forked jobs) run the handlers; vfork and posix_spawn go on to exec, where O_CLOEXEC does
// it; a bare clone() without CLONE_VM is not covered.
#pragma once
#include <cstdint>

namespace ros2s {

// From any thread, also in a child.
[[nodiscard]] uint32_t fork_generation() noexcept;

// Remembers the process in which it was made.
class ForkMark {
  public:
    ForkMark() noexcept : generation_(fork_generation()) {}
    [[nodiscard]] bool in_forked_child() const noexcept { return generation_ != fork_generation(); }

  private:
    uint32_t generation_;
};

// From any thread. A descriptor so listed is closed in every forked child.
void close_in_forked_child(int descriptor);
// Takes it off the list, for whoever closes it by other means.
void forget_in_forked_child(int descriptor) noexcept;
// Takes it off the list and closes it. In a forked child, where it is closed already, does nothing.
void close_everywhere(int descriptor) noexcept;

}  // namespace ros2s
