#include "error_status.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "ros2s/base/check.h"
#include "ros2s/control/status.pb.h"

namespace ros2s::control {
namespace {

using grpc::StatusCode;

// What a code is over gRPC. The names never change.
struct OverGrpc {
    std::string_view name;
    StatusCode status;
};
// A new Code fails to compile here. Without a name: there is no such code.
constexpr OverGrpc over_grpc(Code code) {
    switch (code) {
        case Code::not_found: return {"not_found", StatusCode::NOT_FOUND};
        case Code::exists: return {"exists", StatusCode::ALREADY_EXISTS};
        case Code::invalid: return {"invalid", StatusCode::INVALID_ARGUMENT};
        case Code::not_directory: return {"not_directory", StatusCode::FAILED_PRECONDITION};
        case Code::is_directory: return {"is_directory", StatusCode::FAILED_PRECONDITION};
        case Code::not_empty: return {"not_empty", StatusCode::FAILED_PRECONDITION};
        case Code::loop: return {"loop", StatusCode::FAILED_PRECONDITION};
        case Code::name_too_long: return {"name_too_long", StatusCode::INVALID_ARGUMENT};
        case Code::no_space: return {"no_space", StatusCode::RESOURCE_EXHAUSTED};
        case Code::no_memory: return {"no_memory", StatusCode::RESOURCE_EXHAUSTED};
        case Code::read_only: return {"read_only", StatusCode::FAILED_PRECONDITION};
        case Code::denied: return {"denied", StatusCode::PERMISSION_DENIED};
        case Code::busy: return {"busy", StatusCode::FAILED_PRECONDITION};
        case Code::condition_failed: return {"condition_failed", StatusCode::ABORTED};
        case Code::corrupt: return {"corrupt", StatusCode::DATA_LOSS};
        case Code::io: return {"io", StatusCode::INTERNAL};
        case Code::no_attribute: return {"no_attribute", StatusCode::NOT_FOUND};
        case Code::too_small: return {"too_small", StatusCode::OUT_OF_RANGE};
        case Code::too_large: return {"too_large", StatusCode::OUT_OF_RANGE};
        case Code::stale: return {"stale", StatusCode::NOT_FOUND};
        case Code::unsupported: return {"unsupported", StatusCode::UNIMPLEMENTED};
        case Code::bad_version: return {"bad_version", StatusCode::FAILED_PRECONDITION};
        case Code::cancelled: return {"cancelled", StatusCode::CANCELLED};
        case Code::deadline: return {"deadline", StatusCode::DEADLINE_EXCEEDED};
        case Code::closed: return {"closed", StatusCode::UNAVAILABLE};
        case Code::disconnected: return {"disconnected", StatusCode::UNAVAILABLE};
        case Code::name_taken: return {"name_taken", StatusCode::ABORTED};
        case Code::expired: return {"expired", StatusCode::ABORTED};
        case Code::over_cap: return {"over_cap", StatusCode::RESOURCE_EXHAUSTED};
        case Code::leased: return {"leased", StatusCode::FAILED_PRECONDITION};
    }
    return {"", StatusCode::UNKNOWN};
}

// The codes are 0, 1, …
std::optional<Code> code_named(std::string_view name) {
    for (uint16_t number = 0;; ++number) {
        const auto code = static_cast<Code>(number);
        if (over_grpc(code).name.empty()) return std::nullopt;
        if (over_grpc(code).name == name) return code;
    }
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
    const auto [name, status] = over_grpc(error.code);
    ROS2S_CHECK(!name.empty());
    v1::Error whole;
    whole.set_code(std::string(name));
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
            const auto code = code_named(whole.code());
            if (!code) break;  // of a newer server: use the status
            // 0 is none. A negative one could become a count.
            return {*code, std::max(whole.os_errno(), 0), whole.detail()};
        }
    }
    return {code_of(status.error_code()), 0, 0};
}

}  // namespace ros2s::control
