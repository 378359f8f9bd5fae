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

bool is_container(std::string_view text) {
    if (!text.ends_with('*')) return is_label(text);
    text.remove_suffix(1);
    return text.empty() || is_label(text);
}

bool is_use(const Use& use) { return use.rights <= rights_all && is_container(use.container); }

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

std::string rights_text(uint8_t rights) {
    constexpr std::array<std::string_view, 4> names{"read", "write", "create", "destroy"};
    std::string text;
    for (size_t bit = 0; bit < names.size(); ++bit) {
        if ((rights >> bit & 1) == 0) continue;
        text += text.empty() ? "" : ", ";
        text += names[bit];
    }
    return text.empty() ? "see" : text;
}

bool Use::has_container(std::string_view label_or_pattern) const {
    if (!container.ends_with('*')) return container == label_or_pattern;
    return label_or_pattern.starts_with(
        std::string_view(container).substr(0, container.size() - 1));
}

bool Use::covers(const Use& other) const {
    const uint8_t has = (rights & right_write) != 0 ? rights | right_read : rights;
    return (other.rights & ~has) == 0 && (other.directories || !directories) &&
           has_container(other.container);
}

std::string encode(const Capability& c) {
    ROS2S_CHECK(c.tenant.size() <= tenant_bytes_max &&
                c.use.container.size() <= container_bytes_max);
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
    ROS2S_CHECK(wanted.use.container.size() <= container_bytes_max);
    return written(request_fields, wanted, version_value);
}

Result<CapabilityRequest> decode_request(std::string_view bytes) {
    if (bytes.size() > capability_bytes_max) return fail(Code::invalid);
    ROS2S_TRY_ASSIGN(CapabilityRequest wanted, decoded<CapabilityRequest>(bytes, request_fields));
    if (!is_use(wanted.use)) return fail(Code::invalid);
    return wanted;
}

}  // namespace ros2s::capability
