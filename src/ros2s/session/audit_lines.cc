#include "audit_lines.h"

#include <fmt/format.h>

#include <chrono>

namespace ros2s::session {

void AuditLines::not_allowed(std::string_view subject, std::string_view peer, std::string_view what,
                             std::string_view object, std::string_view right,
                             std::string_view fields) {
    refused(subject,
            fmt::format("{0} ({1}) may not {2} {3}: refused; to allow it, the settings need: "
                        "access: {{\"{0}\": {{{4}}}}}",
                        subject, peer, what, object, right),
            fields);
}

void AuditLines::say(Kind kind, std::string_view subject, std::string_view what,
                     std::string_view fields) {
    if (kind != Kind::session) count_.add();
    const int64_t second =
        std::chrono::floor<std::chrono::seconds>(reactor_.now().time_since_epoch()).count();
    if (second != second_) lines_.clear();
    second_ = second;
    auto& by_subject = lines_[kind];
    auto lines = by_subject.find(subject);
    if (lines == by_subject.end()) {
        lines = by_subject.emplace(by_subject.size() < audit_subjects_max ? subject : "", 0).first;
    }
    if (lines->second++ >= audit_lines_per_second_max) {
        ++unsaid_;
        return;
    }
    const std::string more =
        unsaid_ == 0 ? "" : fmt::format(" ({} earlier ones were not logged)", unsaid_);
    unsaid_ = 0;
    log_.say(kind == Kind::refusal ? LogLevel::warning : LogLevel::info,
             fmt::format("{}{}{}{}", kind == Kind::session ? "" : "audit: ", what, more, fields));
}

}  // namespace ros2s::session
