#include "audit_lines.h"

#include <fmt/format.h>

#include <chrono>

namespace ros2s::session {
namespace {

constexpr std::string_view shared_place = "*";

}  // namespace

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
        const bool has_place = by_subject.size() < audit_subjects_max;
        lines = by_subject.emplace(has_place ? subject : shared_place, 0).first;
    }
    // The first line of each has room: a few subjects do not hide all others.
    if (lines->second >= audit_lines_per_second_max ||
        (in_all >= audit_lines_in_all_max && lines->second > 0)) {
        leave_out(lines->first);
        return false;
    }
    ++lines->second;
    ++in_all;
    return true;
}

void AuditLines::leave_out(std::string_view place) {
    metrics_.left_out.add();
    auto unsaid = unsaid_.find(place);
    if (unsaid == unsaid_.end()) {
        const bool has_place = unsaid_.size() < audit_subjects_max;
        unsaid = unsaid_.emplace(has_place ? place : shared_place, 0).first;
    }
    ++unsaid->second;
}

void AuditLines::write(const AuditEvent& event) {
    const Kind kind = kind_of(event);
    uint64_t left_out = 0;
    auto unsaid = unsaid_.find(*event.subject);
    if (unsaid == unsaid_.end()) unsaid = unsaid_.find(shared_place);
    if (unsaid != unsaid_.end()) {
        left_out = unsaid->second;
        unsaid_.erase(unsaid);
    }
    log_.say(kind == Kind::refusal ? LogLevel::warning : LogLevel::info,
             audit_line(event, left_out));
}

std::string not_allowed_text(std::string_view subject, std::string_view peer, std::string_view what,
                             std::string_view object, std::string_view right) {
    return fmt::format(
        "{0} ({1}) may not {2} {3}: refused; to allow it, the settings need: access: {{\"{0}\": "
        "{{{4}}}}}",
        subject, peer, what, object, right);
}

}  // namespace ros2s::session
