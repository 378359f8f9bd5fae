// AuditLines: one warning in the log, "audit: …", for each time that somebody reached for what is
// not his. A flood is bounded: of more than `audit_lines_per_second_max` in a second the rest is
// counted, and the number is said with the next line.
//
// Owned by the session table; used on its core.
#pragma once
#include <string>
#include <string_view>

#include "ros2s/base/log.h"
#include "ros2s/base/metrics.h"
#include "ros2s/runtime/reactor.h"

namespace ros2s::session {

inline constexpr uint32_t audit_lines_per_second_max = 20;

class AuditLines {
  public:
    AuditLines(Reactor& reactor, Log log) : reactor_(reactor), log_(std::move(log)) {}
    // `fields`: of log_fields().
    void say(std::string_view what, std::string_view fields = {});
    // Said or not.
    [[nodiscard]] uint64_t count() const { return count_.value(); }

  private:
    Reactor& reactor_;
    Log log_;
    Counter count_;
    int64_t second_ = -1;  // of the lines counted so far
    uint32_t lines_ = 0;
    uint64_t unsaid_ = 0;
};

}  // namespace ros2s::session
