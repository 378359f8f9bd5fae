#include "grpc_address.h"

#include <string_view>

namespace ros2s::control {
namespace {

bool stays(char c) {
    constexpr std::string_view others = "/._~-";
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           others.contains(c);
}

}  // namespace

std::string grpc_address(const std::string& address) {
    constexpr std::string_view scheme = "unix:";
    constexpr std::string_view hex = "0123456789ABCDEF";
    if (!address.starts_with(scheme)) return address;
    std::string encoded(scheme);
    for (const char c : std::string_view(address).substr(scheme.size())) {
        const auto byte = static_cast<unsigned char>(c);
        if (stays(c)) {
            encoded += c;
        } else {
            encoded += '%';
            encoded += hex[byte >> 4];
            encoded += hex[byte & 15];
        }
    }
    return encoded;
}

}  // namespace ros2s::control
