#include "fields.h"

#include <algorithm>

#include "ros2s/object/object_store.h"

namespace ros2s::control {
namespace {

Result<> check_text(std::string_view field, std::string_view text, size_t bytes_max,
                    Report& report) {
    if (text.size() > bytes_max) {
        return report.fail(Code::invalid, "{} has {} bytes; the limit is {}", field, text.size(),
                           bytes_max);
    }
    const bool printable = std::ranges::all_of(text, [](char c) { return c >= ' ' && c != 0x7f; });
    if (!printable) {
        return report.fail(Code::invalid,
                           "{} has characters that cannot be printed; give plain text", field);
    }
    return {};
}

WallTime time_of(int64_t nanoseconds) { return WallTime(Duration(nanoseconds)); }

}  // namespace

int64_t count_of(WallTime time) { return time.time_since_epoch().count(); }

Result<> check_label(std::string_view field, std::string_view label, Report& report) {
    if (object::is_valid_label(label)) return {};
    return report.fail(Code::invalid, "{} is not a label: give 1 to {} of A-Z a-z 0-9 . _ -", field,
                       label_bytes_max);
}

Result<> check_size(std::string_view field, std::string_view bytes, size_t most, Report& report) {
    if (!bytes.empty() && bytes.size() <= most) return {};
    return report.fail(Code::invalid, "{} has {} bytes; give 1 to {}", field, bytes.size(), most);
}

Result<capability::Chain> decode(const google::protobuf::RepeatedPtrField<std::string>& chain,
                                 Report& report) {
    if (chain.empty() || chain.size() > capability::depth_max) {
        return report.fail(Code::invalid, "chain has {} capabilities; give 1 or {}", chain.size(),
                           capability::depth_max);
    }
    for (const std::string& link : chain) {
        ROS2S_TRY(
            check_size("a capability in chain", link, capability::capability_bytes_max, report));
    }
    return capability::Chain(chain.begin(), chain.end());
}

Result<session::SessionRequest> decode(const v1::OpenSessionRequest& request, std::string subject,
                                       Report& report) {
    session::SessionRequest wanted{
        .subject = std::move(subject), .pool = request.pool(), .program = request.program()};
    if (request.client().size() != wanted.client.bytes.size()) {
        return report.fail(Code::invalid,
                           "client has {} bytes; give the 16 random bytes of the opened library",
                           request.client().size());
    }
    std::ranges::copy(request.client(), wanted.client.bytes.begin());
    if (wanted.client.is_nil()) {
        return report.fail(Code::invalid, "client is all zeros; give 16 random bytes");
    }
    switch (request.purpose()) {
        case v1::PURPOSE_STORE: wanted.purpose = session::Purpose::store; break;
        case v1::PURPOSE_LINK: wanted.purpose = session::Purpose::link; break;
        default:
            return report.fail(Code::invalid,
                               "purpose is {}; give PURPOSE_STORE (1) or PURPOSE_LINK (2)",
                               static_cast<int>(request.purpose()));
    }
    ROS2S_TRY(check_label("pool", request.pool(), report));
    ROS2S_TRY(check_text("program", request.program(), program_bytes_max, report));
    if (request.providers_size() == 0 || request.providers_size() > providers_max) {
        return report.fail(Code::invalid, "providers has {} entries; name 1 to {}, best first",
                           request.providers_size(), providers_max);
    }
    for (const std::string& provider : request.providers()) {
        ROS2S_TRY(check_text("a name in providers", provider, provider_bytes_max, report));
    }
    return wanted;
}

Result<fs::UserClaim> decode(const v1::User& user, Report& report) {
    if (static_cast<size_t>(user.groups_size()) > fs::caller_groups_max) {
        return report.fail(Code::invalid, "the user has {} groups; the limit is {}",
                           user.groups_size(), fs::caller_groups_max);
    }
    return fs::UserClaim{.uid = user.uid(),
                         .gid = user.gid(),
                         .groups = {user.groups().begin(), user.groups().end()}};
}

fs::SetAttributes decode(const v1::SetAttributesRequest& request) {
    fs::SetAttributes changes;
    if (request.has_mode()) changes.mode = request.mode();
    if (request.has_uid()) changes.uid = request.uid();
    if (request.has_gid()) changes.gid = request.gid();
    if (request.has_size()) changes.size = request.size();
    if (request.has_accessed_ns()) changes.accessed = time_of(request.accessed_ns());
    if (request.has_modified_ns()) changes.modified = time_of(request.modified_ns());
    if (request.has_flags()) changes.flags = request.flags();
    changes.keeps_set_ids = request.keeps_set_ids();
    changes.clears_set_ids = request.clears_set_ids();
    return changes;
}

fs::OpenFlags decode(const v1::OpenFlags& flags) {
    return {.read = flags.read(),
            .write = flags.write(),
            .append = flags.append(),
            .truncate = flags.truncate(),
            .exclusive = flags.exclusive(),
            .nameless = flags.nameless(),
            .execute = flags.execute(),
            .keeps_set_ids = flags.keeps_set_ids()};
}

Result<fs::SetXattr> decode(v1::XattrChange how, Report& report) {
    switch (how) {
        case v1::XATTR_CHANGE_ANY: return fs::SetXattr::any;
        case v1::XATTR_CHANGE_CREATE: return fs::SetXattr::create;
        case v1::XATTR_CHANGE_REPLACE: return fs::SetXattr::replace;
        default:
            return report.fail(Code::invalid, "how is {}; give 0 (any), 1 (create) or 2 (replace)",
                               static_cast<int>(how));
    }
}

void encode(const fs::Attributes& attributes, v1::Attributes& into) {
    into.set_node(attributes.node.value);
    into.set_mode(attributes.mode);
    into.set_links(attributes.links);
    into.set_uid(attributes.uid);
    into.set_gid(attributes.gid);
    into.set_size(attributes.size);
    into.set_bytes_used(attributes.bytes_used);
    into.set_device(attributes.device);
    into.set_accessed_ns(count_of(attributes.accessed));
    into.set_modified_ns(count_of(attributes.modified));
    into.set_changed_ns(count_of(attributes.changed));
    into.set_created_ns(count_of(attributes.created));
    into.set_flags(attributes.flags);
}

}  // namespace ros2s::control
