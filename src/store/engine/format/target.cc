#include "target.h"

#include <bit>
#include <cstring>

namespace ros2s::engine {
namespace {

constexpr uint64_t mix(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
}

// Up to eight bytes as a little-endian number, whatever the machine.
uint64_t word_of(std::string_view bytes) {
    uint64_t word = 0;
    if constexpr (std::endian::native == std::endian::little) {
        std::memcpy(&word, bytes.data(), bytes.size());
        return word;
    }
    for (size_t i = bytes.size(); i-- > 0;) word = word << 8 | static_cast<uint8_t>(bytes[i]);
    return word;
}

}  // namespace

uint32_t target_of(object::ContainerId container, object::ObjectId object, std::string_view dkey,
                   uint32_t targets) {
    const std::string_view uuid(reinterpret_cast<const char*>(container.uuid.bytes.data()), 16);
    uint64_t hash = mix(word_of(uuid.substr(0, 8)));
    hash = mix(hash ^ word_of(uuid.substr(8)));
    hash = mix(hash ^ object.high);
    hash = mix(hash ^ object.low);
    hash = mix(hash ^ dkey.size());
    for (size_t at = 0; at < dkey.size(); at += 8) hash = mix(hash ^ word_of(dkey.substr(at, 8)));
    return static_cast<uint32_t>(hash % targets);
}

}  // namespace ros2s::engine
