// The fields of the rpc layer's own bodies, and of the trace that follows a reply's body.
#pragma once
#include "ros2s/base/fields.h"
#include "ros2s/rpc/frame.h"

namespace ros2s::rpc {

inline constexpr auto hello_fields = [](auto& io, auto& hello) {
    io("least version", hello.version_least);
    io("greatest version", hello.version_most);
    io("service", hello.service);
    io("client instance", hello.client);
    io.text("ticket", hello.ticket, HelloBody::ticket_bytes_max);
    io.refuse_when(hello.version_least > hello.version_most);
};

inline constexpr auto welcome_fields = [](auto& io, auto& welcome) {
    io("version", welcome.version);
    io("requests at once", welcome.requests_max);
    io("largest reply frame that needs no window", welcome.inline_reply_max);
    io("payload of one request at most", welcome.payload_bytes_max);
    io("incarnation of the server's process", welcome.incarnation);
    io.refuse_when(welcome.requests_max == 0 || welcome.payload_bytes_max < payload_bytes_least ||
                   welcome.payload_bytes_max > payload_bytes_most);
};

inline constexpr auto failure_fields = []<class Io>(Io& io, auto& failure) {
    uint16_t code = to_wire(failure.error.code);
    io("code", code);
    io.known("0", uint16_t{0});
    io("errno", failure.error.os_errno);
    io("detail", failure.error.detail);
    io.text("for people", failure.text, FailureBody::text_bytes_max);
    if constexpr (Io::reads) failure.error.code = code_from_wire(code);
    io.refuse_when(failure.error.os_errno < 0);
};

inline constexpr size_t step_name_bytes_max = 64;
// Times count from the request's arrival.
struct StepBody {
    uint8_t depth = 0;
    std::string_view name;
    uint64_t begin_ns = 0, took_ns = 0;
};
inline constexpr auto step_fields = [](auto& io, auto& step) {
    io("depth", step.depth);
    io.text("name", step.name, step_name_bytes_max);
    io("nanoseconds to its begin", step.begin_ns);
    io("nanoseconds that it took", step.took_ns);
};
inline constexpr auto trace_fields = [](auto& io, auto& took_ns, auto& count) {
    io("nanoseconds from its arrival to the answer", took_ns);
    io("steps", count);
};

}  // namespace ros2s::rpc
