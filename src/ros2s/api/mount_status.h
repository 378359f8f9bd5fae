// The question that `ros2store status` asks the process that has a container mounted: an ioctl on
// the mount's root, as mount_why.h. Whoever may list the root may ask. Layout: docs/formats/why.md.
#pragma once
#include <linux/ioctl.h>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace ros2s::pool {
class EmbeddedPool;
}

namespace ros2s::api {

inline constexpr uint32_t mount_status_version = 1;

struct MountStatus {
    uint32_t version = mount_status_version;
    uint32_t targets = 0;
    uint32_t read_only = 0;  // 1: the pool takes no updates, because of `reason`
    uint32_t reserved = 0;
    std::array<char, 496> reason{};  // a sentence for people, padded with zeros
};
static_assert(sizeof(MountStatus) == 512);

inline constexpr unsigned long mount_status_ioctl = _IOR('R', 0x53, MountStatus);

[[nodiscard]] MountStatus status_of(const pool::EmbeddedPool& pool);
// Takes any bytes.
[[nodiscard]] std::string reason_of(const MountStatus& status);

}  // namespace ros2s::api
