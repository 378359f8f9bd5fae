// PlainEnvironment: while one exists, the process's environment has no UCX_* variables, but for
// those that we put there. UCX applies them whatever prefix it is asked to read, when it is loaded
// and when a context is made. Another thread's getenv() meanwhile lacks only those; if one calls
// setenv(), the environment that it made stays. One exists at a time; others wait for it.
#pragma once
#include <mutex>
#include <span>
#include <vector>

namespace ros2s::fabric::ucx {

class PlainEnvironment {
  public:
    // `plain` becomes the environment's entries, and outlives this for long: another thread's
    // getenv() may still be looking there. So do the `settings` ("UCX_NAME=value").
    explicit PlainEnvironment(std::vector<char*>& plain, std::span<char* const> settings = {});
    PlainEnvironment(const PlainEnvironment&) = delete;
    PlainEnvironment& operator=(const PlainEnvironment&) = delete;
    ~PlainEnvironment();

  private:
    static std::mutex& one_at_a_time();
    std::lock_guard<std::mutex> lock_;
    char** before_;
    std::vector<char*>& plain_;
};

}  // namespace ros2s::fabric::ucx
