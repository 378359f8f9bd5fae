// AuditLines: lines "audit: …" in the log. A warning records an attempt to use something of another
// subject. An info line records a change: a mount, a container created or destroyed. Lines about
// sessions that were opened or have ended are a kind of their own, without "audit: ". At most
// `audit_lines_per_second_max` lines of each kind and subject are written in a second. The rest is
// counted, and the next line has the number. A flood of one subject therefore does not hide lines
// of another one, and a flood of refusals does not hide what the same subject did.
//
// Owned by the session table; used on its core.
#pragma once
#include <map>
#include <string>
#include <string_view>

#include "ros2s/base/log.h"
#include "ros2s/base/metrics.h"
#include "ros2s/runtime/reactor.h"

namespace ros2s::session {

inline constexpr uint32_t audit_lines_per_second_max = 20;
// Subjects with a limit of their own in one second; all further ones share one.
inline constexpr size_t audit_subjects_max = 64;

class AuditLines {
  public:
    AuditLines(Reactor& reactor, Log log) : reactor_(reactor), log_(std::move(log)) {}
    // A refusal to that subject (empty: unknown). `fields`: from log_fields().
    void refused(std::string_view subject, std::string_view what, std::string_view fields = {}) {
        say(Kind::refusal, subject, what, fields);
    }
    // A refusal that the settings under `access` could change: `what` the subject wanted of
    // `object`, and the right that is missing ("read: pool/images").
    void not_allowed(std::string_view subject, std::string_view peer, std::string_view what,
                     std::string_view object, std::string_view right, std::string_view fields);
    // An action of that subject.
    void done(std::string_view subject, std::string_view what, std::string_view fields = {}) {
        say(Kind::action, subject, what, fields);
    }
    // A session of that subject was opened or has ended. Not in count().
    void session(std::string_view subject, std::string_view what, std::string_view fields) {
        say(Kind::session, subject, what, fields);
    }
    // Includes lines that were not written.
    [[nodiscard]] uint64_t count() const { return count_.value(); }

  private:
    enum class Kind : uint8_t { refusal, action, session };
    void say(Kind kind, std::string_view subject, std::string_view what, std::string_view fields);
    Reactor& reactor_;
    Log log_;
    Counter count_;
    int64_t second_ = -1;  // the second of the lines counted so far
    std::map<Kind, std::map<std::string, uint32_t, std::less<>>> lines_;  // by subject
    uint64_t unsaid_ = 0;
};

}  // namespace ros2s::session
