#include "capability.h"

#include <algorithm>

#include "ros2s/base/codec.h"

namespace ros2s::capability {
namespace {

constexpr uint32_t capability_magic = 0x43533252;  // "R2SC"
constexpr uint32_t wish_magic = 0x57533252;        // "R2SW"
constexpr uint16_t capability_version = 1;

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

WallTime take_time(Decoder& in) { return WallTime(Duration(in.number<int64_t>())); }

template <size_t N>
void take(Decoder& in, std::array<uint8_t, N>& into) {
    for (uint8_t& byte : into) byte = in.number<uint8_t>();
}

std::string take(Decoder& in, size_t count) {
    std::string text;
    if (count > in.left()) in.refuse();
    for (size_t i = 0; i < count && in.ok(); ++i) text += static_cast<char>(in.number<uint8_t>());
    return text;
}

template <class Fill>
std::string encoded(Fill fill) {
    Measure measure;
    fill(measure);
    std::string bytes(measure.size(), '\0');
    Encoder out(std::as_writable_bytes(std::span(bytes.data(), bytes.size())));
    fill(out);
    return bytes;
}

Result<> check_head(Decoder& in, uint32_t magic) {
    if (in.number<uint32_t>() != magic) return fail(Code::invalid);
    const auto version = in.number<uint16_t>();
    if (in.ok() && version != capability_version) return fail(Code::bad_version, version);
    return {};
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
    return encoded([&](auto& out) {
        out.number(capability_magic);
        out.number(capability_version);
        out.number(c.depth);
        out.number(c.use.rights);
        out.number(static_cast<uint8_t>(c.use.directories));
        out.number(static_cast<uint8_t>(c.tenant.size()));
        out.number(static_cast<uint8_t>(c.use.container.size()));
        out.number(uint8_t{0});
        out.uuid(c.id);
        out.uuid(c.audience);
        out.raw(c.issuer.data(), c.issuer.size());
        out.raw(c.holder.data(), c.holder.size());
        out.raw(c.parent.data(), c.parent.size());
        out.number(int64_t{c.not_before.time_since_epoch().count()});
        out.number(int64_t{c.expires.time_since_epoch().count()});
        out.number(c.generation);
        out.raw(c.tenant.data(), c.tenant.size());
        out.raw(c.use.container.data(), c.use.container.size());
    });
}

Result<Capability> decode(std::string_view bytes) {
    if (bytes.size() <= signature_bytes || bytes.size() > capability_bytes_max) {
        return fail(Code::invalid);
    }
    Decoder in(as_bytes(signed_part(bytes)));
    ROS2S_TRY(check_head(in, capability_magic));
    Capability c;
    c.depth = in.number<uint8_t>();
    c.use.rights = in.number<uint8_t>();
    const auto directories = in.number<uint8_t>();
    const auto tenant_bytes = in.number<uint8_t>();
    const auto container_bytes = in.number<uint8_t>();
    const auto reserved = in.number<uint8_t>();
    c.use.directories = directories != 0;
    c.id = in.uuid();
    c.audience = in.uuid();
    take(in, c.issuer);
    take(in, c.holder);
    take(in, c.parent);
    c.not_before = take_time(in);
    c.expires = take_time(in);
    c.generation = in.number<uint64_t>();
    c.tenant = take(in, tenant_bytes);
    c.use.container = take(in, container_bytes);
    const bool has_parent = c.parent != Hash{};
    const bool is_valid = in.done() && c.depth >= 1 && c.depth <= depth_max && directories <= 1 &&
                          reserved == 0 && is_label(c.tenant) && is_use(c.use) &&
                          has_parent == (c.depth > 1) && c.not_before >= WallTime() &&
                          c.not_before < c.expires;
    if (!is_valid) return fail(Code::invalid);
    return c;
}

std::string encode(const Wish& wish) {
    ROS2S_CHECK(wish.use.container.size() <= container_bytes_max);
    return encoded([&](auto& out) {
        out.number(wish_magic);
        out.number(capability_version);
        out.number(wish.use.rights);
        out.number(static_cast<uint8_t>(wish.use.directories));
        out.uuid(wish.audience);
        out.raw(wish.holder.data(), wish.holder.size());
        out.number(static_cast<uint8_t>(wish.use.container.size()));
        out.raw(wish.use.container.data(), wish.use.container.size());
    });
}

Result<Wish> decode_wish(std::string_view bytes) {
    if (bytes.size() > capability_bytes_max) return fail(Code::invalid);
    Decoder in(as_bytes(bytes));
    ROS2S_TRY(check_head(in, wish_magic));
    Wish wish;
    wish.use.rights = in.number<uint8_t>();
    const auto directories = in.number<uint8_t>();
    wish.use.directories = directories != 0;
    wish.audience = in.uuid();
    take(in, wish.holder);
    wish.use.container = take(in, in.number<uint8_t>());
    if (!in.done() || directories > 1 || !is_use(wish.use)) return fail(Code::invalid);
    return wish;
}

}  // namespace ros2s::capability
