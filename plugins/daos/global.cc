#include "global.h"

#include <charconv>
#include <cstring>
#include <string_view>

namespace ros2s::daos {
namespace {

constexpr std::string_view magic = "ROS2S-1";

}  // namespace

int write_global(d_iov_t* global, std::initializer_list<std::string> parts) {
    if (global == nullptr) return -DER_INVAL;
    std::string bytes(magic);
    bytes += '\0';
    for (const auto& part : parts) bytes.append(part.c_str(), part.size() + 1);
    if (global->iov_buf == nullptr) {
        global->iov_buf_len = bytes.size();
        return 0;
    }
    const bool fits = global->iov_buf_len >= bytes.size();
    global->iov_buf_len = bytes.size();
    if (!fits) return -DER_TRUNC;
    std::memcpy(global->iov_buf, bytes.data(), bytes.size());
    global->iov_len = bytes.size();
    return 0;
}

std::vector<std::string> read_global(const d_iov_t& global, size_t count) {
    if (global.iov_buf == nullptr) return {};
    std::string_view rest(static_cast<const char*>(global.iov_buf), global.iov_buf_len);
    std::vector<std::string> parts;
    while (parts.size() <= count) {
        const auto end = rest.find('\0');
        if (end == std::string_view::npos) return {};
        parts.emplace_back(rest.substr(0, end));
        rest.remove_prefix(end + 1);
    }
    if (parts.front() != magic) return {};
    parts.erase(parts.begin());
    return parts;
}

uint64_t parse_number(const std::string& text) {
    uint64_t value = 0;
    std::from_chars(text.data(), text.data() + text.size(), value);
    return value;
}

}  // namespace ros2s::daos
