#include "key_directory.h"

#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/crypto.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

#include "ros2s/object/object_store.h"

namespace ros2s::cipher {
namespace {

constexpr size_t digits = key_bytes * 2;

std::unexpected<Error> rejected(Report& report, std::string sentence) {
    return report.fail(fail_errno(EKEYREJECTED).error(), std::move(sentence));
}

int digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

// The content of a key file. The memory is overwritten when it ends.
struct KeyText {
    char bytes[digits + 2] = {};
    ssize_t size = -1;
    KeyText() = default;
    KeyText(const KeyText&) = delete;
    KeyText& operator=(const KeyText&) = delete;
    ~KeyText() { OPENSSL_cleanse(bytes, sizeof bytes); }
    [[nodiscard]] bool has_form() const {
        return size == digits || (size == digits + 1 && bytes[digits] == '\n');
    }
};

}  // namespace

Result<SecretKey> KeyDirectory::read(const std::string& name, Report& report) const {
    if (!object::is_valid_label(name)) {
        return report.fail(Code::invalid,
                           fmt::format("'{}' is not the name of a key: 1 to 127 of A-Z a-z 0-9 . _ "
                                       "-",
                                       name));
    }
    const std::string path = fmt::format("{}/{}.key", directory_, name);
    const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (file < 0) {
        return rejected(report, fmt::format("the key '{}' cannot be read from {}: {}", name, path,
                                            std::strerror(errno)));
    }
    struct stat facts{};
    KeyText text;
    const bool known = ::fstat(file, &facts) == 0;
    if (known && S_ISREG(facts.st_mode)) text.size = ::read(file, text.bytes, sizeof text.bytes);
    ::close(file);
    if (!known || (facts.st_uid != ::geteuid() && facts.st_uid != 0)) {
        return rejected(report, fmt::format("{} belongs to another user (uid {}): give it to the "
                                            "user of this program",
                                            path, facts.st_uid));
    }
    if ((facts.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
        return rejected(report, fmt::format("{} may be used by others (mode {:o}): chmod 600 {}",
                                            path, facts.st_mode & 07777, path));
    }
    SecretKey key;
    bool good = text.has_form();
    for (size_t i = 0; good && i < key_bytes; ++i) {
        const int high = digit(text.bytes[2 * i]);
        const int low = digit(text.bytes[2 * i + 1]);
        good = high >= 0 && low >= 0;
        if (good) key.bytes()[i] = static_cast<std::byte>(high * 16 + low);
    }
    if (!good) {
        return rejected(report, fmt::format("{} is not a key: {} hexadecimal digits, as `openssl "
                                            "rand -hex {}` writes them",
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
    return rejected(report, fmt::format("{}/{}.key is not the key with which the container's key "
                                        "was wrapped: put that key back",
                                        directory_, name));
}

}  // namespace ros2s::cipher
