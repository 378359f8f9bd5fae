#include "capability.h"

#include <algorithm>

#include "fields.h"

namespace ros2s::capability {
namespace {

bool is_label(std::string_view text) {
    return !text.empty() && text.size() <= tenant_bytes_max &&
           std::ranges::all_of(text, [](char c) {
               return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                      c == '.' || c == '_' || c == '-';
           });
}

bool is_use(const Use& use) {
    return use.rights.without(rights::every_right).is_empty() &&
           (use.container.text == "*" || is_label(use.container.label()));
}

template <class Part>
Result<Part> decoded(std::string_view bytes, auto fields) {
    Part part;
    uint16_t version = 0;
    FieldReader in(as_bytes(bytes));
    fields(in, part, version);
    if (version > version_value) return fail(Code::bad_version, version);
    if (!in.done() || version != version_value) return fail(Code::invalid);
    return part;
}

}  // namespace

std::string Use::text() const {
    return to_string(rights) + (directories ? " directories of " : " ") + container.text;
}

std::string encode(const Capability& c) {
    ROS2S_CHECK(c.tenant.size() <= tenant_bytes_max &&
                c.use.container.text.size() <= container_bytes_max);
    return written(capability_fields, c, version_value);
}

Result<Capability> decode(std::string_view bytes) {
    if (bytes.size() <= signature_bytes || bytes.size() > capability_bytes_max) {
        return fail(Code::invalid);
    }
    ROS2S_TRY_ASSIGN(Capability c, decoded<Capability>(signed_part(bytes), capability_fields));
    const bool has_parent = c.parent != Hash{};
    const bool is_valid = c.depth >= 1 && c.depth <= depth_max && is_label(c.tenant) &&
                          is_use(c.use) && has_parent == (c.depth > 1) &&
                          c.not_before >= WallTime() && c.not_before < c.expires;
    if (!is_valid) return fail(Code::invalid);
    return c;
}

std::string encode(const CapabilityRequest& wanted) {
    ROS2S_CHECK(wanted.use.container.text.size() <= container_bytes_max);
    return written(request_fields, wanted, version_value);
}

Result<CapabilityRequest> decode_request(std::string_view bytes) {
    if (bytes.size() > capability_bytes_max) return fail(Code::invalid);
    ROS2S_TRY_ASSIGN(CapabilityRequest wanted, decoded<CapabilityRequest>(bytes, request_fields));
    if (!is_use(wanted.use)) return fail(Code::invalid);
    return wanted;
}

}  // namespace ros2s::capability
