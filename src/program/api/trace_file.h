// A file's traced requests as a trace file (runtime/trace_events.h): docs/formats/why.md.
#pragma once
#include <string>

#include "ros2s/api/file_trace.h"

namespace ros2s::api {

[[nodiscard]] std::string to_trace_file(const FileTrace& trace);

}  // namespace ros2s::api
