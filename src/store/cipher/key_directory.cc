#include "key_directory.h"

#include <fmt/format.h>

#include "ros2s/base/text_parts.h"

namespace ros2s::cipher {
namespace {

constexpr size_t digits = key_bytes * 2;

}  // namespace

Result<SecretKey> KeyDirectory::read(const std::string& name, Report& report) const {
    ROS2S_TRY(check_key_name(name, report));
    const std::string path = fmt::format("{}/{}.key", directory_, name);
    PrivateText file;
    ROS2S_TRY(read_private_file(path, file, report));
    const std::string_view text = file.text();
    SecretKey key;
    bool good = text.size() == digits;
    for (size_t i = 0; good && i < key_bytes; ++i) {
        uint8_t byte = 0;
        good = parse_number(text.substr(2 * i, 2), byte, 16);
        key.bytes()[i] = std::byte{byte};
    }
    if (!good) {
        return reject_key(
            report,
            fmt::format(
                "{} is not a key: {} hexadecimal digits, as `openssl rand -hex {}` writes them",
                path, digits, key_bytes));
    }
    return key;
}

Result<WrappedKey> KeyDirectory::wrap(const std::string& name, const SecretKey& key,
                                      Report& report) const {
    ROS2S_TRY_ASSIGN(const SecretKey wrapping, read(name, report));
    return cipher::wrap(wrapping, key);
}

Result<SecretKey> KeyDirectory::unwrap(const std::string& name, const WrappedKey& wrapped,
                                       Report& report) const {
    ROS2S_TRY_ASSIGN(const SecretKey wrapping, read(name, report));
    auto key = cipher::unwrap(wrapping, wrapped);
    if (key) return key;
    return reject_key(report, fmt::format("{}/{}.key is not the key with which the container's key "
                                          "was wrapped: put that key back",
                                          directory_, name));
}

}  // namespace ros2s::cipher
