// Starter: puts the program into the background. The process that the user started waits until the
// mount answers or has failed. Its exit status and output are therefore correct.
#pragma once

namespace ros2s::fuse {

class Starter {
  public:
    Starter() = default;  // in the foreground
    Starter& operator=(Starter&&) = delete;

    // Forks. In the child it returns. The parent ends here, with status 0 if the child called
    // ready(), otherwise with the child's status. If the parent is killed before that, the child
    // gets SIGTERM. Call it before the first thread and the first open file.
    void go_into_background();
    [[nodiscard]] bool in_background() const noexcept { return pipe_ >= 0; }
    // The mount answers: the parent ends, and this process leaves the terminal. Without a parent
    // it gets SIGTERM, too.
    void ready() noexcept;

  private:
    int pipe_ = -1;
};

}  // namespace ros2s::fuse
