#include "private_file.h"

#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/crypto.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "key_provider.h"
#include "ros2s/base/descriptor.h"

namespace ros2s::cipher {
namespace {

// Returns what is wrong with the file; empty: nothing.
std::string trouble_with(const std::string& path, const struct stat& facts) {
    if (!S_ISREG(facts.st_mode)) return fmt::format("{} is not a regular file", path);
    if (facts.st_uid != ::geteuid() && facts.st_uid != 0) {
        return fmt::format(
            "{} belongs to another user (uid {}): give it to the user of this program", path,
            facts.st_uid);
    }
    if ((facts.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
        return fmt::format("{} may be used by others (mode {:o}): chmod 600 {}", path,
                           facts.st_mode & 07777, path);
    }
    return {};
}

}  // namespace

PrivateText::~PrivateText() { OPENSSL_cleanse(bytes_.data(), bytes_.size()); }

std::string_view PrivateText::text() const {
    std::string_view text(bytes_.data(), size_);
    if (text.ends_with('\n')) text.remove_suffix(1);
    return text;
}

Result<> read_private_file(const std::string& path, PrivateText& into, Report& report) {
    const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    if (file.get() < 0) {
        return reject_key(report, fmt::format("{} cannot be read: {}", path, std::strerror(errno)));
    }
    struct stat facts{};
    std::string trouble = ::fstat(file.get(), &facts) == 0
                              ? trouble_with(path, facts)
                              : fmt::format("{} cannot be read: {}", path, std::strerror(errno));
    if (trouble.empty() && facts.st_size > static_cast<off_t>(PrivateText::bytes_max)) {
        trouble = fmt::format("{} has {} bytes, more than {}: it is not such a file", path,
                              facts.st_size, PrivateText::bytes_max);
    }
    if (trouble.empty()) {
        const ssize_t size = ::read(file.get(), into.bytes_.data(), into.bytes_.size());
        if (size < 0) trouble = fmt::format("{} cannot be read: {}", path, std::strerror(errno));
        into.size_ = static_cast<size_t>(std::max<ssize_t>(size, 0));
    }
    if (trouble.empty()) return {};
    return reject_key(report, std::move(trouble));
}

}  // namespace ros2s::cipher
