// Waiting: one line on a terminal while something takes longer than a second.
//
//     waiting for ros2store-engine: 3 s
#pragma once
#include <chrono>
#include <cstdint>
#include <string>

namespace ros2s::cli {

class Waiting {
  public:
    Waiting(std::string what, bool shown);
    Waiting(const Waiting&) = delete;
    Waiting& operator=(const Waiting&) = delete;
    ~Waiting();
    void update();

  private:
    std::string what_;
    bool shown_;
    int64_t drawn_seconds_ = 0;
    std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace ros2s::cli
