// Audit: who was refused before any service saw him. gRPC says so nowhere but in its own log, one
// line per failed handshake, so this listens there while a server of ours is up: one warning for
// each, in words, and the rest of gRPC's errors as they are.
//
// gRPC's log is one for the process, and so is this: with several servers each hears of all.
// Lines come from gRPC's threads. A flood is bounded: of more than `lines_per_second_max` refusals
// in a second the rest is counted, and the number is said with the next line.
#pragma once
#include <string>
#include <string_view>

#include "ros2s/base/log.h"
#include "ros2s/base/metrics.h"

namespace ros2s::control {

inline constexpr uint32_t lines_per_second_max = 20;

// While it lives, refusals go to `log`, and are counted.
class Audit {
  public:
    explicit Audit(Log log);
    Audit(const Audit&) = delete;
    Audit& operator=(const Audit&) = delete;
    ~Audit();

    // Read from any thread.
    [[nodiscard]] uint64_t refused() const { return refused_.value(); }

  private:
    friend struct AuditedProcess;
    void refuse(std::string_view why);

    Log log_;
    Counter refused_;
    int64_t second_ = 0;  // of the lines counted so far
    uint32_t lines_ = 0;
    uint64_t unsaid_ = 0;
};

// In words, what gRPC's log says about a handshake: "it showed no certificate". Exposed for tests.
[[nodiscard]] std::string why_refused(std::string_view grpc_line);

}  // namespace ros2s::control
