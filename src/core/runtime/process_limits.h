// The limits of this process: files, their size, threads, address space. Code checks them before an
// operation that could not end cleanly at a limit.
#pragma once
#include <signal.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "ros2s/base/result.h"

namespace ros2s {

// ulimit -n, -f. UINT64_MAX: there is no limit.
[[nodiscard]] uint64_t descriptors_max() noexcept;
[[nodiscard]] uint64_t file_bytes_max() noexcept;

// A file of `bytes` may be written to its end. Otherwise a write would fail, or send a signal that
// ends the process. Errors: too_large (EFBIG), reported.
[[nodiscard]] Result<> check_file_bytes(const std::string& path, uint64_t bytes, Report& report);

// A share of the descriptors that the process may have open, beyond those that it needs in any
// case: one of `shares`, at least 1 and at most `most`.
[[nodiscard]] size_t descriptor_share(size_t shares, size_t most) noexcept;

// For libraries that end the process when they cannot start a thread: starts `count` threads at
// once, and ends them. `whose`: "RocksDB". Blocks for a millisecond. Errors: io (EAGAIN), reported.
[[nodiscard]] Result<> check_threads(size_t count, const char* whose, Report& report);

// Checks that so many files can be opened. Errors: io (EMFILE, ENFILE), reported.
[[nodiscard]] Result<> check_descriptors(size_t count, const char* whose, Report& report);

// The largest piece of address space that is left under ulimit -v. UINT64_MAX: there is no limit.
[[nodiscard]] uint64_t address_space_left() noexcept;

// Of it, a thread's stack takes so much.
[[nodiscard]] uint64_t thread_stack_bytes() noexcept;

// For libraries that wait for ever or end the process when address space is used up: that so much
// is left as `threads` threads take, with their stacks and heaps, and `bytes` beside. `whose`: "a
// client of a server". Errors: io (ENOMEM), reported with the limit that would do.
[[nodiscard]] Result<> check_address_space(size_t threads, uint64_t bytes, const std::string& whose,
                                           Report& report);

// For programs of ours, before the first thread: a write beyond ulimit -f fails with EFBIG, and
// under ulimit -v all threads share one heap.
void prepare_for_limits() noexcept;

// For programs of ours: one whose memory is used up ends with a sentence and status 1.
void end_without_memory() noexcept;

// For the library. While it exists, a write of this thread beyond ulimit -f fails with EFBIG, and
// no signal is sent to the process. The handlers of the process are left as they are. For a few
// system calls, not for each write.
class NoFileSizeSignal {
  public:
    NoFileSizeSignal() noexcept;
    ~NoFileSizeSignal();
    NoFileSizeSignal& operator=(NoFileSizeSignal&&) = delete;

  private:
    sigset_t before_;
    bool was_pending_ = false;
};

}  // namespace ros2s
