#include "audit_event.h"

#include <fmt/format.h>
#include <string.h>

#include "log_fields.h"

namespace ros2s {

std::string_view to_string(AuditAction action) noexcept {
    switch (action) {
        case AuditAction::connect: return "connect";
        case AuditAction::session: return "session";
        case AuditAction::use: return "use";
        case AuditAction::mount: return "mount";
        case AuditAction::create: return "create";
        case AuditAction::destroy: return "destroy";
        case AuditAction::administer: return "administer";
        case AuditAction::capability: return "capability";
        case AuditAction::memory: return "memory";
        case AuditAction::call: return "call";
        case AuditAction::read: return "read";
        case AuditAction::write: return "write";
        case AuditAction::look: return "look";
        case AuditAction::change: return "change";
    }
    return "unknown";
}

std::string_view to_string(AuditDecision decision) noexcept {
    switch (decision) {
        case AuditDecision::allowed: return "allowed";
        case AuditDecision::refused: return "refused";
        case AuditDecision::ended: return "ended";
    }
    return "unknown";
}

namespace {

std::string number_or_empty(uint64_t number) {
    return number == 0 ? std::string() : fmt::to_string(number);
}

// "EPERM": what an application gets.
std::string_view errno_name(const std::optional<Error>& reason) {
    if (!reason) return "none";
    const char* const name = ::strerrorname_np(to_errno(*reason));
    return name != nullptr ? name : "unknown";
}

}  // namespace

std::string audit_line(const AuditEvent& event, uint64_t left_out) {
    const AuditObject& object = *event.object;
    const std::string more =
        left_out == 0 ? "" : fmt::format(" ({} earlier ones were not logged)", left_out);
    // Each session has two of these, and they are no news to who looks for what was done.
    const bool is_usual = *event.action == AuditAction::session && !*event.reason;
    return fmt::format("{}{}{}{}", is_usual ? "" : "audit: ", *event.text, more,
                       log_fields({{"session", number_or_empty(*event.session)},
                                   {"tenant", *event.subject},
                                   {"shown_by", event.shown_by},
                                   {"peer", *event.peer},
                                   {"action", to_string(*event.action)},
                                   {"pool", object.pool},
                                   {"container", object.container},
                                   {"subtree", object.subtree},
                                   {"node", number_or_empty(object.node)},
                                   {"decision", to_string(*event.decision)},
                                   {"reason", errno_name(*event.reason)},
                                   {"left_out", number_or_empty(left_out)}}));
}

}  // namespace ros2s
