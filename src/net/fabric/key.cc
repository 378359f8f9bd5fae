#include "ros2s/fabric/key.h"

#include "ros2s/base/crc32c.h"

namespace ros2s::fabric {

void RemoteKey::seal() noexcept {
    crc = crc32c(object_bytes(*this).first(offsetof(RemoteKey, crc)));
}

Result<> RemoteKey::check() const {
    if (magic != magic_value) return fail(Code::corrupt);
    if (crc != crc32c(object_bytes(*this).first(offsetof(RemoteKey, crc)))) {
        return fail(Code::corrupt);
    }
    if (version != current_version) return fail(Code::bad_version, version);
    if (static_cast<uint8_t>(rights) == 0 || static_cast<uint8_t>(rights) > 3 ||
        static_cast<uint8_t>(memory) > 1 || native_bytes > native.size() || reserved != 0) {
        return fail(Code::invalid);
    }
    return {};
}

Result<RemoteKey> RemoteKey::decode(ConstBytes bytes) {
    if (bytes.size() != sizeof(RemoteKey)) return fail(Code::corrupt);
    RemoteKey key;
    std::memcpy(&key, bytes.data(), sizeof key);
    ROS2S_TRY(key.check());
    return key;
}

}  // namespace ros2s::fabric
