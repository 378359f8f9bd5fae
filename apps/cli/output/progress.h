// Progress: one line on a terminal, for work that takes longer than a second. Nothing is printed if
// standard error is not a terminal, or with --json.
//
//     copying  [#########-----------]  45 %  312 MiB of 690 MiB  156 MiB/s  2 s left
//     waiting for ros2store-engine: 3 s
#pragma once
#include <chrono>
#include <cstdint>
#include <string>

namespace ros2s::cli {

class Progress {
  public:
    enum class Unit : uint8_t { bytes, files, seconds };
    Progress(std::string what, Unit unit, bool shown);
    Progress& operator=(Progress&&) = delete;
    ~Progress();

    // total 0: unknown. For a line that shows seconds, both are ignored.
    void update(uint64_t done = 0, uint64_t total = 0);

  private:
    using Clock = std::chrono::steady_clock;
    std::string what_;
    Unit unit_;
    bool shown_;
    bool drawn_ = false;
    Clock::time_point begin_ = Clock::now();
    Clock::time_point drawn_at_{};
};

// The line itself, for a terminal `width` characters wide.
[[nodiscard]] std::string progress_line(const std::string& what, Progress::Unit unit, uint64_t done,
                                        uint64_t total, double seconds, size_t width);

}  // namespace ros2s::cli
