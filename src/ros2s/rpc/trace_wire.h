// The trace of a request on its way back: what the server did for it, step by step, behind the
// answer's body (docs/formats/rpc.md). The server's clock is its own, so times count from the
// request's arrival there; the client lays them in the middle of the time that it waited.
//
// Plain functions; any bytes decode or are refused. Used on the channel's core.
#pragma once
#include <set>
#include <string>
#include <string_view>

#include "ros2s/base/bytes.h"
#include "ros2s/base/result.h"
#include "ros2s/runtime/trace.h"

namespace ros2s::rpc {

// Of the steps of one answer; what does not fit is left out, from the end.
inline constexpr size_t trace_bytes_max = 2048;

// The steps since `arrived`, up to `now`, which ends those that are still open. Returns what it
// wrote.
ConstBytes encode_trace(const Trace& trace, Time arrived, Time now, Bytes into);

// Names that came from servers. A trace's steps name them, and so must not outlive this.
class StepNames {
  public:
    std::string_view keep(std::string_view name);

  private:
    // A server that makes up names without end gets this many.
    static constexpr size_t names_max = 256;
    std::set<std::string, std::less<>> names_;
};

// Adds the steps below the one that is open in `trace`, which waited from `sent` to `answered`.
// Errors: corrupt.
[[nodiscard]] Result<> add_steps(Trace& trace, ConstBytes bytes, Time sent, Time answered,
                                 StepNames& names);

}  // namespace ros2s::rpc
