// Starter: how the program goes into the background. The process that the user started waits until
// the mount answers or has failed, so that its exit status and what it printed are the truth.
#pragma once
#include <string_view>

namespace ros2s::fuse {

class Starter {
  public:
    Starter() = default;  // in the foreground
    Starter(const Starter&) = delete;
    Starter& operator=(const Starter&) = delete;

    // Forks. In the child it returns; the parent ends here, with status 0 when the child said
    // ready() and the child's own otherwise. Before the first thread and the first open file.
    void go_into_background();
    [[nodiscard]] bool in_background() const noexcept { return pipe_ >= 0; }
    // The mount answers: the parent ends, and this process lets go of the terminal.
    void ready() noexcept;

  private:
    int pipe_ = -1;
};

}  // namespace ros2s::fuse
