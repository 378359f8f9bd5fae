#include "error_status.h"

#include <algorithm>

#include "ros2s/control/status.pb.h"

namespace ros2s::control {
namespace {

using grpc::StatusCode;

// A new Code fails to compile here. It also needs a row in base/result.cc.
StatusCode status_of(Code code) {
    switch (code) {
        case Code::not_found:
        case Code::no_attribute:
        case Code::stale: return StatusCode::NOT_FOUND;
        case Code::exists: return StatusCode::ALREADY_EXISTS;
        case Code::invalid:
        case Code::name_too_long: return StatusCode::INVALID_ARGUMENT;
        case Code::not_directory:
        case Code::is_directory:
        case Code::not_empty:
        case Code::loop:
        case Code::read_only:
        case Code::busy:
        case Code::leased:
        case Code::bad_version: return StatusCode::FAILED_PRECONDITION;
        case Code::no_space:
        case Code::over_cap:
        case Code::no_memory: return StatusCode::RESOURCE_EXHAUSTED;
        case Code::denied: return StatusCode::PERMISSION_DENIED;
        case Code::condition_failed:
        case Code::name_taken:
        case Code::expired: return StatusCode::ABORTED;
        case Code::corrupt: return StatusCode::DATA_LOSS;
        case Code::io: return StatusCode::INTERNAL;
        case Code::too_small:
        case Code::too_large: return StatusCode::OUT_OF_RANGE;
        case Code::unsupported: return StatusCode::UNIMPLEMENTED;
        case Code::cancelled: return StatusCode::CANCELLED;
        case Code::deadline: return StatusCode::DEADLINE_EXCEEDED;
        case Code::closed:
        case Code::disconnected: return StatusCode::UNAVAILABLE;
    }
    return StatusCode::UNKNOWN;
}

// The code of a status that gRPC itself produced.
Code code_of(StatusCode status) {
    switch (status) {
        case StatusCode::CANCELLED: return Code::cancelled;
        case StatusCode::INVALID_ARGUMENT: return Code::invalid;
        case StatusCode::DEADLINE_EXCEEDED: return Code::deadline;
        case StatusCode::NOT_FOUND: return Code::not_found;
        case StatusCode::ALREADY_EXISTS: return Code::exists;
        case StatusCode::PERMISSION_DENIED:
        case StatusCode::UNAUTHENTICATED: return Code::denied;
        // A message over the limit.
        case StatusCode::RESOURCE_EXHAUSTED:
        case StatusCode::OUT_OF_RANGE: return Code::too_large;
        case StatusCode::FAILED_PRECONDITION: return Code::busy;
        case StatusCode::ABORTED: return Code::condition_failed;
        case StatusCode::UNIMPLEMENTED: return Code::unsupported;
        case StatusCode::UNAVAILABLE: return Code::disconnected;
        case StatusCode::DATA_LOSS: return Code::corrupt;
        default: return Code::io;
    }
}

}  // namespace

grpc::Status to_status(const Error& error, const std::string& sentence) {
    const StatusCode status = status_of(error.code);
    v1::Error whole;
    whole.set_code(std::string(name_of(error.code)));
    whole.set_os_errno(error.os_errno);
    whole.set_detail(error.detail);
    v1::StatusDetails details;
    details.set_code(status);
    details.set_message(sentence.empty() ? describe(error) : sentence);
    details.add_details()->PackFrom(whole);
    return {status, details.message(), details.SerializeAsString()};
}

Error to_error(const grpc::Status& status, Report& report) {
    report.say(status.error_message());
    v1::StatusDetails details;
    if (details.ParseFromString(status.error_details())) {
        for (const auto& each : details.details()) {
            v1::Error whole;
            if (!each.UnpackTo(&whole)) continue;
            const auto code = ros2s::code_of(whole.code());
            if (!code) break;  // of a newer server: use the status
            // 0 is none. A negative one could become a count.
            return {*code, std::max(whole.os_errno(), 0), whole.detail()};
        }
    }
    return {code_of(status.error_code()), 0, 0};
}

}  // namespace ros2s::control
