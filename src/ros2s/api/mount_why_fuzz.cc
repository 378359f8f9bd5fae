// Any bytes as the answer of a process that has a container mounted: read without a crash, written
// as a trace file, and the same again when they are encoded and decoded once more.
#include "ros2s/api/mount_why.h"

#include <algorithm>
#include <cstring>

#include "ros2s/api/trace_file.h"
#include "ros2s/base/check.h"

using namespace ros2s;
using namespace ros2s::api;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
    MountWhy answer;
    std::memcpy(static_cast<void*>(&answer), bytes, std::min(size, sizeof answer));
    const FileTrace trace = decode_answer(answer);
    ROS2S_CHECK(trace.read.steps.size() <= MountWhyRequest::steps_max);
    ROS2S_CHECK(!to_trace_file(trace).empty());
    const MountWhy written = encode_answer(answer, trace, Duration(1));
    const FileTrace again = decode_answer(written);
    ROS2S_CHECK(again.io.path == trace.io.path && again.io.staged == trace.io.staged);
    ROS2S_CHECK(again.read.steps.size() == trace.read.steps.size());
    ROS2S_CHECK(again.write.has_value() == trace.write.has_value());
    for (size_t i = 0; i < trace.read.steps.size(); ++i) {
        ROS2S_CHECK(again.read.steps[i].name == trace.read.steps[i].name);
        ROS2S_CHECK(again.read.steps[i].depth == trace.read.steps[i].depth);
    }
    return 0;
}
