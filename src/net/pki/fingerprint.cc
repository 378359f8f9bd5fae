#include "fingerprint.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>

#include "ros2s/base/check.h"

namespace ros2s::pki {

Uuid fingerprint(std::string_view text) {
    std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
    ROS2S_CHECK(
        EVP_Digest(text.data(), text.size(), digest.data(), nullptr, EVP_sha256(), nullptr) == 1);
    Uuid uuid;
    std::copy_n(digest.begin(), uuid.bytes.size(), uuid.bytes.begin());
    return uuid;
}

}  // namespace ros2s::pki
