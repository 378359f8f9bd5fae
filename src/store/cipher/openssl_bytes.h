// Bytes as OpenSSL takes them.
#pragma once
#include "ros2s/base/bytes.h"

namespace ros2s::cipher {

inline const unsigned char* octets(ConstBytes bytes) noexcept {
    return reinterpret_cast<const unsigned char*>(bytes.data());
}
inline unsigned char* octets(Bytes bytes) noexcept {
    return reinterpret_cast<unsigned char*>(bytes.data());
}

}  // namespace ros2s::cipher
