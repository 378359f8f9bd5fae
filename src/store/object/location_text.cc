#include "location_text.h"

#include <fmt/format.h>

#include "ros2s/base/bytes.h"

namespace ros2s::object {
namespace {

// Printable characters as they are; all others as \xNN.
std::string quoted(std::string_view key) {
    std::string text = "\"";
    for (const char c : key) {
        if (c >= 0x20 && c < 0x7f && c != '"' && c != '\\') {
            text += c;
        } else {
            text += fmt::format("\\x{:02x}", static_cast<uint8_t>(c));
        }
    }
    return text + '"';
}

}  // namespace

std::string location_text(ContainerId container, const FetchItem& item, Extent bytes) {
    return fmt::format("container {} object {:016x}.{:016x} dkey {} akey {} {} [{}, {})",
                       container.uuid.to_string(), item.object.high, item.object.low,
                       quoted(item.dkey.bytes), quoted(item.akey.bytes),
                       item.is_value ? "value" : "extent", bytes.offset, bytes.end());
}

Extent damaged(const FetchItem& item) {
    const uint64_t end = item.status ? 0 : item.status.error().detail;
    if (end == 0 || item.is_value) return item.extent;
    const uint64_t begin = round_down(end - 1, block_bytes);
    return {begin, end - begin};
}

}  // namespace ros2s::object
