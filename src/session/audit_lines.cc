#include "audit_lines.h"

#include <fmt/format.h>

#include <chrono>

namespace ros2s::session {

void AuditLines::say(std::string_view what, std::string_view fields) {
    count_.add();
    const int64_t second =
        std::chrono::floor<std::chrono::seconds>(reactor_.now().time_since_epoch()).count();
    if (second != second_) lines_ = 0;
    second_ = second;
    if (lines_++ >= audit_lines_per_second_max) {
        ++unsaid_;
        return;
    }
    const std::string more =
        unsaid_ == 0 ? "" : fmt::format(" ({} more before were not said)", unsaid_);
    unsaid_ = 0;
    log_.warning(fmt::format("audit: {}{}{}", what, more, fields));
}

}  // namespace ros2s::session
