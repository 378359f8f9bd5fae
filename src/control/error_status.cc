#include "error_status.h"

#include <algorithm>
#include <iterator>

#include "ros2s/base/check.h"
#include "status.pb.h"

namespace ros2s::control {
namespace {

using grpc::StatusCode;

struct Row {
    Code code;
    const char* name;  // on the wire; never changes
    StatusCode status;
};

constexpr Row rows[] = {
    {Code::not_found, "not_found", StatusCode::NOT_FOUND},
    {Code::exists, "exists", StatusCode::ALREADY_EXISTS},
    {Code::invalid, "invalid", StatusCode::INVALID_ARGUMENT},
    {Code::not_directory, "not_directory", StatusCode::FAILED_PRECONDITION},
    {Code::is_directory, "is_directory", StatusCode::FAILED_PRECONDITION},
    {Code::not_empty, "not_empty", StatusCode::FAILED_PRECONDITION},
    {Code::loop, "loop", StatusCode::FAILED_PRECONDITION},
    {Code::name_too_long, "name_too_long", StatusCode::INVALID_ARGUMENT},
    {Code::no_space, "no_space", StatusCode::RESOURCE_EXHAUSTED},
    {Code::no_memory, "no_memory", StatusCode::RESOURCE_EXHAUSTED},
    {Code::read_only, "read_only", StatusCode::FAILED_PRECONDITION},
    {Code::denied, "denied", StatusCode::PERMISSION_DENIED},
    {Code::busy, "busy", StatusCode::FAILED_PRECONDITION},
    {Code::condition_failed, "condition_failed", StatusCode::ABORTED},
    {Code::corrupt, "corrupt", StatusCode::DATA_LOSS},
    {Code::io, "io", StatusCode::INTERNAL},
    {Code::no_attribute, "no_attribute", StatusCode::NOT_FOUND},
    {Code::too_small, "too_small", StatusCode::OUT_OF_RANGE},
    {Code::too_large, "too_large", StatusCode::OUT_OF_RANGE},
    {Code::stale, "stale", StatusCode::NOT_FOUND},
    {Code::unsupported, "unsupported", StatusCode::UNIMPLEMENTED},
    {Code::bad_version, "bad_version", StatusCode::FAILED_PRECONDITION},
    {Code::cancelled, "cancelled", StatusCode::CANCELLED},
    {Code::deadline, "deadline", StatusCode::DEADLINE_EXCEEDED},
    {Code::closed, "closed", StatusCode::UNAVAILABLE},
    {Code::disconnected, "disconnected", StatusCode::UNAVAILABLE},
};

const Row& row_of(Code code) {
    const auto* const row = std::ranges::find(rows, code, &Row::code);
    ROS2S_CHECK(row != std::end(rows));
    return *row;
}

// What gRPC itself says when no handler of ours has spoken.
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
    const Row& row = row_of(error.code);
    v1::Error whole;
    whole.set_code(row.name);
    whole.set_os_errno(error.os_errno);
    whole.set_detail(error.detail);
    v1::StatusDetails details;
    details.set_code(row.status);
    details.set_message(sentence.empty() ? describe(error) : sentence);
    details.add_details()->PackFrom(whole);
    return {row.status, details.message(), details.SerializeAsString()};
}

Error to_error(const grpc::Status& status, Report& report) {
    report.say(status.error_message());
    v1::StatusDetails details;
    if (details.ParseFromString(status.error_details())) {
        for (const auto& each : details.details()) {
            v1::Error whole;
            if (!each.UnpackTo(&whole)) continue;
            const auto* const row =
                std::ranges::find(rows, whole.code(), [](const Row& one) { return one.name; });
            if (row == std::end(rows)) break;  // a newer server's: the status says what it is like
            return {row->code, whole.os_errno(), whole.detail()};
        }
    }
    return {code_of(status.error_code()), 0, 0};
}

}  // namespace ros2s::control
