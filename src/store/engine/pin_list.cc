#include "pin_list.h"

#include <fmt/format.h>

#include "ros2s/base/crc32c.h"

namespace ros2s::engine {
namespace {

constexpr std::string_view first_line = "ros2store pins 1\n";
constexpr size_t uuid_characters = 36;

// Uuid::to_string() formats. A list has thousands.
void append(std::string& text, const Uuid& uuid) {
    constexpr std::string_view digits = "0123456789abcdef";
    for (size_t i = 0; i < uuid.bytes.size(); ++i) {
        if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
        text += digits[uuid.bytes[i] >> 4];
        text += digits[uuid.bytes[i] & 15];
    }
}

constexpr size_t line_characters = 3 * (uuid_characters + 1);

std::string last_line(std::string_view text) {
    return fmt::format("crc {:08x}\n", crc32c(as_bytes(text)));
}

}  // namespace

std::string encode_pin_list(const std::vector<object::HolderName>& holders) {
    std::string text(first_line);
    text.reserve(first_line.size() + line_characters * (holders.size() + 1));
    for (const object::HolderName& each : holders) {
        append(text, each.container.uuid);
        append(text += ' ', each.owner);
        append(text += ' ', each.client);
        text += '\n';
    }
    return text + last_line(text);
}

std::optional<std::vector<object::HolderName>> decode_pin_list(std::string_view text) {
    const size_t end = last_line({}).size();
    if (text.size() < first_line.size() + end || !text.starts_with(first_line)) return {};
    const std::string_view lines = text.substr(0, text.size() - end);
    if (text.substr(lines.size()) != last_line(lines)) return {};
    std::string_view rest = lines.substr(first_line.size());
    if (rest.size() % line_characters != 0) return {};
    if (rest.size() / line_characters > pin_list_holders_max) return {};
    std::vector<object::HolderName> holders;
    for (; !rest.empty(); rest.remove_prefix(line_characters)) {
        const auto part = [&](size_t number) {
            return Uuid::parse(rest.substr(number * (uuid_characters + 1), uuid_characters));
        };
        const auto container = part(0), owner = part(1), client = part(2);
        if (!container || !owner || !client) return {};
        holders.push_back({{*container}, *owner, *client});
    }
    return holders;
}

}  // namespace ros2s::engine
