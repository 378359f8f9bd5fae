// A reply carries the trace of its request: the server's steps follow the reply's body
// (docs/formats/rpc.md). The server has its own clock, so times count from the request's arrival
// there. The client places them in the middle of the time that it waited.
//
// Plain functions; any bytes are decoded or refused. Used on the channel's core.
#pragma once
#include <set>
#include <string>
#include <string_view>

#include "ros2s/base/bytes.h"
#include "ros2s/base/result.h"
#include "ros2s/runtime/trace.h"

namespace ros2s::rpc {

// For the steps of one reply. Steps that do not fit are left out, from the end.
inline constexpr size_t trace_bytes_max = 2048;

// The steps since `arrived`, up to `now`, which ends the open ones. Returns the written bytes.
ConstBytes encode_trace(const Trace& trace, Time arrived, Time now, Bytes into);

// Names that came from servers. The steps of a trace use them, so a trace must not outlive this.
class StepNames {
  public:
    std::string_view keep(std::string_view name);

  private:
    // The limit for a server that sends ever new names.
    static constexpr size_t names_max = 256;
    std::set<std::string, std::less<>> names_;
};

// Adds the steps below the open step of `trace`, which waited from `sent` to `answered`. Errors:
// corrupt.
[[nodiscard]] Result<> add_steps(Trace& trace, ConstBytes bytes, Time sent, Time answered,
                                 StepNames& names);

}  // namespace ros2s::rpc
