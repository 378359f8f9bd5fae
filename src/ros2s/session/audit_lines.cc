#include "audit_lines.h"

#include <fmt/format.h>

#include <chrono>
#include <utility>

namespace ros2s::session {

void AuditMetrics::visit(const MetricVisitor& visit) const {
    visit("ros2store_audit_events_total", "Audit events, with and without a line in the log.",
          events.value());
    visit("ros2store_audit_left_out_total",
          "Audit events without a line in the log, because there were too many in one second.",
          left_out.value());
}

AuditLines::Kind AuditLines::kind_of(const AuditEvent& event) {
    switch (*event.action) {
        case AuditAction::read:
        case AuditAction::write:
        case AuditAction::look:
        case AuditAction::change: return Kind::request;
        default: break;
    }
    if (*event.reason) return Kind::refusal;
    return *event.action == AuditAction::session ? Kind::session : Kind::action;
}

bool AuditLines::has_room(Kind kind, std::string_view subject) {
    metrics_.events.add();
    const int64_t second =
        std::chrono::floor<std::chrono::seconds>(reactor_.now().time_since_epoch()).count();
    if (second != second_) written_ = {};
    second_ = second;
    auto& [in_all, by_subject] = written_[static_cast<size_t>(kind)];
    auto lines = by_subject.find(subject);
    if (lines == by_subject.end()) {
        lines = by_subject.emplace(by_subject.size() < audit_subjects_max ? subject : "*", 0).first;
    }
    // The first line of each has room: a few subjects do not hide all others.
    if (lines->second >= audit_lines_per_second_max ||
        (in_all >= audit_lines_in_all_max && lines->second > 0)) {
        ++unsaid_;
        metrics_.left_out.add();
        return false;
    }
    ++lines->second;
    ++in_all;
    return true;
}

void AuditLines::write(const AuditEvent& event) {
    log_.say(kind_of(event) == Kind::refusal ? LogLevel::warning : LogLevel::info,
             audit_line(event, std::exchange(unsaid_, 0)));
}

std::string not_allowed_text(std::string_view subject, std::string_view peer, std::string_view what,
                             std::string_view object, std::string_view right) {
    return fmt::format(
        "{0} ({1}) may not {2} {3}: refused; to allow it, the settings need: access: {{\"{0}\": "
        "{{{4}}}}}",
        subject, peer, what, object, right);
}

}  // namespace ros2s::session
