#include "waiting.h"

#include <fmt/format.h>
#include <unistd.h>

#include <utility>

namespace ros2s::cli {

Waiting::Waiting(std::string what, bool shown)
    : what_(std::move(what)), shown_(shown && isatty(STDERR_FILENO) == 1) {}

Waiting::~Waiting() {
    if (drawn_seconds_ > 0) fmt::print(stderr, "\r\033[K");
}

void Waiting::update() {
    const auto waited =
        std::chrono::floor<std::chrono::seconds>(std::chrono::steady_clock::now() - begin_);
    if (!shown_ || waited.count() <= drawn_seconds_) return;
    drawn_seconds_ = waited.count();
    fmt::print(stderr, "\r{}: {} s\033[K", what_, drawn_seconds_);
}

}  // namespace ros2s::cli
