// Audit: refusals that happen before any service sees the caller. gRPC reports them only in its own
// log, one line per failed handshake. So this reads that log while a server of ours is up. It
// writes one warning for each refusal, as a sentence, and the rest of gRPC's errors as they are.
//
// gRPC's log is one per process, and so is this: with several servers, each gets the refusals of
// all. Lines come from gRPC's threads. A flood is bounded: of more than `lines_per_second_max`
// refusals in a second the rest is counted, and the next line has the number.
#pragma once
#include <string>
#include <string_view>

#include "ros2s/base/log.h"
#include "ros2s/base/metrics.h"

namespace ros2s::control {

inline constexpr uint32_t lines_per_second_max = 20;

// While it exists, refusals are counted and go to `log`.
class Audit {
  public:
    explicit Audit(Log log);
    Audit& operator=(Audit&&) = delete;
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

// The meaning of a handshake line in gRPC's log: "it showed no certificate". Exposed for tests.
[[nodiscard]] std::string why_refused(std::string_view grpc_line);

}  // namespace ros2s::control
