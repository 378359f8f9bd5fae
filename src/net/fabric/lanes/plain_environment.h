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

namespace ros2s::fabric::lanes {

class PlainEnvironment {
  public:
    // `plain` becomes the environment's entries and must outlive this object by far: another
    // thread's getenv() may still read them. So must the `settings` ("NAME=value").
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
