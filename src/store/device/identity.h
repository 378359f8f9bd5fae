// DeviceIdentity: the identity of a medium, independent of where it is attached. It is recorded in
// the superblock (docs/formats/superblock.md), so that a copy is not accepted as the original.
// Files have none.
#pragma once
#include <array>
#include <cstdint>
#include <string>

namespace ros2s::device {

struct DeviceIdentity {
    // Numbers as stored on the media.
    enum class Kind : uint8_t {
        none = 0,
        nguid = 1,   // 16 bytes, of an NVMe namespace
        eui64 = 2,   // 8 bytes, of an NVMe namespace that has no NGUID
        serial = 3,  // 20 characters of the controller, then 4 bytes of the namespace's number
    };
    Kind kind = Kind::none;
    std::array<uint8_t, 24> bytes{};

    friend bool operator==(const DeviceIdentity&, const DeviceIdentity&) = default;
    // "eui.5254000000000001", "serial lab0, namespace 1"; "" if there is none.
    [[nodiscard]] std::string to_string() const;
};

}  // namespace ros2s::device
