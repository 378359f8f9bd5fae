// Checks of the fields of requests. Requests come from outside, so every field is checked before it
// is used. A refusal names the field, what is wrong with it, and what would be valid.
//
// Plain functions. Errors: invalid, unless stated otherwise, with a sentence in the report.
#pragma once
#include <string>
#include <string_view>

#include "ros2s/base/digest.h"
#include "ros2s/capability/chain.h"
#include "ros2s/control/files.pb.h"
#include "ros2s/control/session.pb.h"
#include "ros2s/fs/caller.h"
#include "ros2s/fs/file_system.h"
#include "ros2s/session/sessions.h"

namespace ros2s::control {

using object::label_bytes_max;
inline constexpr size_t program_bytes_max = 256;
inline constexpr size_t provider_bytes_max = 32;
inline constexpr int providers_max = 16;
inline constexpr int forgets_max = 1024;

// The label of a pool or container.
[[nodiscard]] Result<> check_label(std::string_view field, std::string_view label, Report& report);

[[nodiscard]] Result<> check_size(std::string_view field, std::string_view bytes, size_t most,
                                  Report& report);
[[nodiscard]] Result<capability::Chain> decode(
    const google::protobuf::RepeatedPtrField<std::string>& chain, Report& report);

[[nodiscard]] Result<session::SessionRequest> decode(const v1::OpenSessionRequest& request,
                                                     std::string subject, Report& report);
// Errors: invalid (too many groups).
[[nodiscard]] Result<fs::UserClaim> decode(const v1::User& user, Report& report);
[[nodiscard]] fs::SetAttributes decode(const v1::SetAttributesRequest& request);
[[nodiscard]] fs::OpenFlags decode(const v1::OpenFlags& flags);
[[nodiscard]] Result<fs::SetXattr> decode(v1::XattrChange how, Report& report);

// The digest of a request without the field that differs when it is sent again.
template <class Request>
[[nodiscard]] uint64_t digest_without(Request request, void (Request::*clear)()) {
    (request.*clear)();
    return Digest()
        .add(std::string_view(Request::descriptor()->full_name()))
        .add(std::string_view(request.SerializeAsString()))
        .value();
}

// Nanoseconds since 1970.
[[nodiscard]] int64_t count_of(WallTime time);
void encode(const fs::Attributes& attributes, v1::Attributes& into);

}  // namespace ros2s::control
