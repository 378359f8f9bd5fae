#include "progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>

#include "console.h"

namespace ros2s::cli {
namespace {

std::string amount(Progress::Unit unit, uint64_t value) {
    return unit == Progress::Unit::bytes ? human_bytes(value) : fmt::format("{} files", value);
}

size_t terminal_width() {
    winsize size{};
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

}  // namespace

Progress::Progress(std::string what, Unit unit, bool shown)
    : what_(std::move(what)), unit_(unit), shown_(shown && isatty(STDERR_FILENO) == 1) {}

Progress::~Progress() {
    if (drawn_) fmt::print(stderr, "\r\033[K");
}

void Progress::update(uint64_t done, uint64_t total) {
    if (!shown_) return;
    const auto now = Clock::now();
    if (now - begin_ < std::chrono::seconds(1) || now - drawn_at_ < std::chrono::milliseconds(100))
        return;
    drawn_at_ = now;
    drawn_ = true;
    const double seconds = std::chrono::duration<double>(now - begin_).count();
    fmt::print(stderr, "\r{}\033[K",
               progress_line(what_, unit_, done, total, seconds, terminal_width() - 1));
}

std::string progress_line(const std::string& what, Progress::Unit unit, uint64_t done,
                          uint64_t total, double seconds, size_t width) {
    const double rate = seconds > 0 ? static_cast<double>(done) / seconds : 0;
    const std::string speed = amount(unit, static_cast<uint64_t>(rate)) + "/s";
    std::string line;
    if (unit == Progress::Unit::seconds) {
        line = fmt::format("{}: {} s", what, static_cast<uint64_t>(seconds));
    } else if (total == 0) {
        line = fmt::format("{}  {}  {}", what, amount(unit, done), speed);
    } else {
        const double share = std::min(1.0, static_cast<double>(done) / static_cast<double>(total));
        const auto filled = static_cast<size_t>(share * 20);
        const double left =
            rate > 0 ? static_cast<double>(total - std::min(done, total)) / rate : 0;
        line = fmt::format("{}  [{}{}] {:3.0f} %  {} of {}  {}  {:.0f} s left", what,
                           std::string(filled, '#'), std::string(20 - filled, '-'), share * 100,
                           amount(unit, done), amount(unit, total), speed, left);
    }
    return line.substr(0, width);
}

}  // namespace ros2s::cli
