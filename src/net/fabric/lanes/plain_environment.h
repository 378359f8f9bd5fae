// PlainEnvironment: while one exists, the process's environment has no variables of a prefix
// ("UCX_", "FI_"), except those that we set: the libraries read them when they are loaded and when
// one of their objects is opened. Meanwhile another thread's getenv() lacks only those variables.
// If a thread calls setenv(), the environment that it made stays. One exists at a time; others wait
// for it.
#pragma once
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ros2s/base/result.h"

namespace ros2s::fabric::lanes {

class PlainEnvironment {
  public:
    // `plain` becomes the environment's entries and must outlive this object by far: another
    // thread's getenv() may still read them. So must the `settings` ("NAME=value").
    PlainEnvironment(std::string_view prefix, std::vector<char*>& plain,
                     std::span<std::string> settings = {});
    PlainEnvironment& operator=(PlainEnvironment&&) = delete;
    ~PlainEnvironment();

  private:
    static std::mutex& one_at_a_time();
    std::lock_guard<std::mutex> lock_;
    char** before_;
    std::vector<char*>& plain_;
};

// ForkedUse: one user of UCX or libfabric in this process. In a child that was forked while the
// parent had a user, the library cannot be used again: its thread is missing, and what it waits
// with belongs to both processes, so that a new user would disturb the parent.
//
// Owned by a domain. From any thread.
class ForkedUse {
  public:
    // "ucx+tcp", "ofi+verbs". Errors: unsupported.
    [[nodiscard]] static Result<> check(std::string_view provider, Report& report);

    explicit ForkedUse(std::string_view provider) noexcept;
    ForkedUse& operator=(ForkedUse&&) = delete;
    ~ForkedUse();

  private:
    const bool is_ucx_;
};

}  // namespace ros2s::fabric::lanes
