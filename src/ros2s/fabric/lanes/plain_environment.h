// PlainEnvironment: while one exists, the process's environment has no variables of a
// prefix ("UCX_", "FI_"), but for those that we put there: the libraries apply them when they are
// loaded and when something of them is opened. Another thread's getenv() meanwhile lacks only
// those; if one calls setenv(), the environment that it made stays. One exists at a time; others
// wait for it.
#pragma once
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ros2s::fabric::lanes {

class PlainEnvironment {
  public:
    // `plain` becomes the environment's entries, and outlives this for long: another thread's
    // getenv() may still be looking there. So do the `settings` ("NAME=value").
    PlainEnvironment(std::string_view prefix, std::vector<char*>& plain,
                     std::span<std::string> settings = {});
    PlainEnvironment(const PlainEnvironment&) = delete;
    PlainEnvironment& operator=(const PlainEnvironment&) = delete;
    ~PlainEnvironment();

  private:
    static std::mutex& one_at_a_time();
    std::lock_guard<std::mutex> lock_;
    char** before_;
    std::vector<char*>& plain_;
};

}  // namespace ros2s::fabric::lanes
