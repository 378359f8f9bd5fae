#include "held_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>

namespace ros2s::cli {
namespace {

constexpr size_t lines_max = 16;  // of each level

void add(std::vector<std::string>& lines, std::string_view line) {
    if (lines.size() < lines_max && std::ranges::find(lines, line) == lines.end()) {
        lines.emplace_back(line);
    }
}

}  // namespace

struct HeldLog::Lines {
    std::mutex mutex;
    std::vector<std::string> errors;
    std::vector<std::string> warnings;

    std::vector<std::string> weightiest() {
        const std::scoped_lock lock(mutex);
        return errors.empty() ? warnings : errors;
    }
};

HeldLog::HeldLog() : lines_(std::make_shared<Lines>()) {}

Log HeldLog::log() const {
    return Log(
        [lines = lines_](LogLevel level, std::string_view line) {
            const std::scoped_lock lock(lines->mutex);
            add(level == LogLevel::error ? lines->errors : lines->warnings, line);
        },
        LogLevel::warning);
}

std::string HeldLog::with_cause(std::string complaint) const {
    const auto lines = lines_->weightiest();
    if (lines.empty() || complaint.contains(lines.front())) return complaint;
    return fmt::format("{} ({})", complaint, lines.front());
}

void HeldLog::warn(const Console& console) const {
    for (const std::string& line : lines_->weightiest()) console.warn(line);
}

}  // namespace ros2s::cli
