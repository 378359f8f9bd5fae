#include "ros2s/device/identity.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstring>
#include <span>

namespace ros2s::device {
namespace {

std::string hexadecimal(std::string_view prefix, std::span<const uint8_t> bytes) {
    return fmt::format("{}{:02x}", prefix, fmt::join(bytes, ""));
}

}  // namespace

std::string DeviceIdentity::to_string() const {
    switch (kind) {
        case Kind::nguid: return hexadecimal("nguid.", std::span(bytes).first<16>());
        case Kind::eui64: return hexadecimal("eui.", std::span(bytes).first<8>());
        case Kind::serial: {
            std::string serial;
            for (const uint8_t byte : std::span(bytes).first<20>()) {
                serial += std::isprint(byte) != 0 ? static_cast<char>(byte) : '?';
            }
            serial.erase(serial.find_last_not_of(' ') + 1);
            uint32_t number = 0;
            std::memcpy(&number, bytes.data() + 20, sizeof number);
            return fmt::format("serial {}, namespace {}", serial, number);
        }
        default: return {};
    }
}

}  // namespace ros2s::device
