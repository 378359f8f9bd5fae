// A file's traced requests as a trace file: the JSON object of the Trace Event Format (complete
// events, "ph": "X"), which Perfetto (ui.perfetto.dev) and chrome://tracing open. One process each
// for the host and for every server on the way, in which the requests are threads.
// docs/formats/why.md.
#pragma once
#include <string>

#include "ros2s/api/file_trace.h"

namespace ros2s::api {

[[nodiscard]] std::string to_trace_file(const FileTrace& trace);

}  // namespace ros2s::api
