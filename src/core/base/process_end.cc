#include "process_end.h"

#include <fmt/format.h>

#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>

namespace ros2s {
namespace {

// From include/linux/sched.h: the process has begun to exit; it was killed by a signal, which comes
// just before.
constexpr uint64_t exiting = 0x4, signalled = 0x400;

// The leader is a zombie as soon as its own thread has ended, whatever its other threads still
// hold.
bool has_begun_to_end(const std::string& stat) {
    // The name before it may contain any character.
    const size_t name_end = stat.rfind(')');
    if (name_end == std::string::npos) return false;
    std::istringstream fields(stat.substr(name_end + 1));
    char state = 'X';
    int64_t skipped = 0;
    uint64_t flags = 0;
    fields >> state;
    for (int number = 4; number <= 8; ++number) fields >> skipped;
    fields >> flags;
    return state == 'Z' || state == 'X' || (flags & (exiting | signalled)) != 0;
}

bool is_kill_pending(std::string_view line) {
    if (!line.starts_with("SigPnd:\t") && !line.starts_with("ShdPnd:\t")) return false;
    line.remove_prefix(line.find('\t') + 1);
    uint64_t pending = 0;
    std::from_chars(line.data(), line.data() + line.size(), pending, 16);
    return (pending >> (SIGKILL - 1) & 1) != 0;
}

}  // namespace

bool is_killed(pid_t thread) {
    std::ifstream status(fmt::format("/proc/{}/status", thread));
    std::string line;
    while (std::getline(status, line)) {
        if (is_kill_pending(line)) return true;
    }
    return false;
}

bool is_ending(pid_t pid) {
    // The signal is checked first: a process that receives it between the two checks then shows its
    // flags.
    if (is_killed(pid)) return true;
    std::ifstream stat(fmt::format("/proc/{}/stat", pid));
    // Not by iterators of its buffer, which throw if the process has just ended.
    std::string text;
    std::getline(stat, text, '\0');
    if (!text.empty()) return has_begun_to_end(text);
    // It has ended, or belongs to another user and /proc hides those.
    return ::kill(pid, 0) != 0 && errno == ESRCH;
}

bool has_ended(pid_t pid) {
    if (!is_ending(pid)) return false;
    std::error_code failed;
    std::filesystem::directory_iterator thread(fmt::format("/proc/{}/task", pid), failed);
    size_t threads = 0;
    for (; !failed && thread != std::filesystem::directory_iterator(); thread.increment(failed)) {
        ++threads;
    }
    return threads <= 1;
}

}  // namespace ros2s
