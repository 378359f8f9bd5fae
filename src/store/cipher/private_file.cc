#include "private_file.h"

#include <errno.h>
#include <fmt/format.h>
#include <openssl/crypto.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "key_provider.h"
#include "ros2s/base/trusted_file.h"

namespace ros2s::cipher {
PrivateText::~PrivateText() { OPENSSL_cleanse(bytes_.data(), bytes_.size()); }

std::string_view PrivateText::text() const {
    std::string_view text(bytes_.data(), size_);
    if (text.ends_with('\n')) text.remove_suffix(1);
    return text;
}

Result<> read_private_file(const std::string& path, PrivateText& into, Report& report) {
    Report why;
    const auto file = open_trusted(path, O_RDONLY | O_NOFOLLOW, why);
    if (!file) return reject_key(report, why.text());
    struct stat facts{};
    std::string trouble;
    if (::fstat(file->get(), &facts) != 0) {
        trouble = fmt::format("cannot read {}: {}", path, std::strerror(errno));
    } else if ((facts.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
        trouble = fmt::format("{} may be used by others (mode {:o}): chmod 600 {}", path,
                              facts.st_mode & 07777, path);
    } else if (facts.st_size > static_cast<off_t>(PrivateText::bytes_max)) {
        trouble = fmt::format("{} has {} bytes, more than {}: it is not such a file", path,
                              facts.st_size, PrivateText::bytes_max);
    } else {
        const ssize_t size = ::read(file->get(), into.bytes_.data(), into.bytes_.size());
        if (size < 0) trouble = fmt::format("cannot read {}: {}", path, std::strerror(errno));
        into.size_ = static_cast<size_t>(std::max<ssize_t>(size, 0));
    }
    if (trouble.empty()) return {};
    return reject_key(report, std::move(trouble));
}

}  // namespace ros2s::cipher
