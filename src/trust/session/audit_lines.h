// AuditLines: the audit events (base/audit_event.h) of one server, as lines of its log. A warning
// records an attempt to use something of another subject, or without a right. An info line records
// a change (a mount, a container created or destroyed), a session, or a refused request.
//
// There are four kinds of events. Per second, at most `audit_lines_per_second_max` lines are
// written for each kind and subject, and `audit_lines_in_all_max` for each kind, in addition to the
// first line of each subject. Further lines are counted, and the subject's next line has their
// number. A flood from one subject therefore does not hide another subject's lines, and a flood of
// refusals does not hide the same subject's actions.
//
// Owned by the session table; used on its core.
#pragma once
#include <array>
#include <map>
#include <string>
#include <string_view>

#include "ros2s/admission/cost.h"
#include "ros2s/base/audit_event.h"
#include "ros2s/base/log.h"
#include "ros2s/base/metrics.h"
#include "ros2s/rights/grants/grant.h"
#include "ros2s/runtime/reactor.h"

namespace ros2s::session {

inline constexpr uint32_t audit_lines_per_second_max = 20;
inline constexpr uint32_t audit_lines_in_all_max = 200;
// The number of subjects with their own limit per second, and their own count of lines left out.
// Further subjects share the entry "*". Clients without a certificate have the entry "".
inline constexpr size_t audit_subjects_max = 64;

// The audit action of an attempt to use the right.
[[nodiscard]] constexpr AuditAction action_of(rights::Right right) noexcept {
    if (right == rights::Right::create) return AuditAction::create;
    return right == rights::Right::destroy ? AuditAction::destroy : AuditAction::use;
}

struct AuditMetrics {
    Counter events;    // includes those whose lines were left out
    Counter left_out;  // their lines
    void visit(const MetricVisitor& visit) const;
};

class AuditLines {
  public:
    AuditLines(Reactor& reactor, Log log) : reactor_(reactor), log_(std::move(log)) {}
    void say(const AuditEvent& event) {
        if (has_room(kind_of(event), *event.subject)) write(event);
    }
    // Whether to make the event of a refused request and write() it. A client can cause many of
    // these. False: the event was counted. This then allocates nothing, unless it is the first
    // event of its entry in this second, or the first one left out.
    [[nodiscard]] bool has_room_for_request(std::string_view subject) {
        return has_room(Kind::request, subject);
    }
    void write(const AuditEvent& event);
    [[nodiscard]] const AuditMetrics& metrics() const { return metrics_; }

  private:
    enum class Kind : uint8_t { refusal, action, session, request, count };
    struct Written {
        uint32_t in_all = 0;
        std::map<std::string, uint32_t, std::less<>> by_subject;
    };
    [[nodiscard]] static Kind kind_of(const AuditEvent& event);
    [[nodiscard]] bool has_room(Kind kind, std::string_view subject);
    void leave_out(std::string_view place);

    Reactor& reactor_;
    Log log_;
    AuditMetrics metrics_;
    int64_t second_ = -1;  // the second of the lines counted so far
    std::array<Written, static_cast<size_t>(Kind::count)> written_;
    std::map<std::string, uint64_t, std::less<>> unsaid_;  // by entry
};

// The audit action of a request on the data plane.
[[nodiscard]] constexpr AuditAction action_of(admission::Work work) noexcept {
    switch (work) {
        case admission::Work::look: return AuditAction::look;
        case admission::Work::change: return AuditAction::change;
        case admission::Work::read: return AuditAction::read;
        case admission::Work::write: return AuditAction::write;
    }
    return AuditAction::look;
}

// The sentence for a refusal that a setting under `access` could allow. `what`: the action on
// `object`. `right`: the missing right ("read: pool/images").
[[nodiscard]] std::string not_allowed_text(std::string_view subject, std::string_view peer,
                                           std::string_view what, std::string_view object,
                                           std::string_view right);

}  // namespace ros2s::session
