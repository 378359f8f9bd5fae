// AuditLines: one line in the log, "audit: …", for each time that somebody reached for what is not
// his (a warning), and for each change of what there is and who has it (a mount, a container made
// or destroyed). A flood is bounded: of more than `audit_lines_per_second_max` of one subject in a
// second the rest is counted, and the number is said with the next line. One subject's flood does
// not hide what another one does.
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
// With a bound of their own in one second; further ones share one.
inline constexpr size_t audit_subjects_max = 64;

class AuditLines {
  public:
    AuditLines(Reactor& reactor, Log log) : reactor_(reactor), log_(std::move(log)) {}
    // Refused, to that subject (empty: nobody knows who). `fields`: of log_fields().
    void refused(std::string_view subject, std::string_view what, std::string_view fields = {}) {
        say(LogLevel::warning, subject, what, fields);
    }
    // Done, by that subject.
    void done(std::string_view subject, std::string_view what, std::string_view fields = {}) {
        say(LogLevel::info, subject, what, fields);
    }
    // Said or not.
    [[nodiscard]] uint64_t count() const { return count_.value(); }

  private:
    void say(LogLevel level, std::string_view subject, std::string_view what,
             std::string_view fields);
    Reactor& reactor_;
    Log log_;
    Counter count_;
    int64_t second_ = -1;                                 // of the lines counted so far
    std::map<std::string, uint32_t, std::less<>> lines_;  // by subject
    uint64_t unsaid_ = 0;
};

}  // namespace ros2s::session
