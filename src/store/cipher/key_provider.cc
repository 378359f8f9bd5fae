#include "key_provider.h"

#include <errno.h>
#include <fmt/format.h>
#include <openssl/crypto.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "key_directory.h"
#include "pkcs11_keys.h"
#include "ros2s/base/trusted_file.h"
#include "ros2s/object/object_store.h"

namespace ros2s::cipher {

Result<std::unique_ptr<KeyProvider>> open_keys(const std::string& place, Report& report) {
    if (place.starts_with("pkcs11:")) return Pkcs11Keys::open(place, report);
    return std::make_unique<KeyDirectory>(place);
}

Result<> check_key_name(const std::string& name, Report& report) {
    if (object::is_valid_label(name)) return {};
    return report.fail(Code::invalid,
                       "'{}' is not the name of a key: 1 to 127 of A-Z a-z 0-9 . _ -", name);
}

std::unexpected<Error> reject_key(Report& report, std::string sentence) {
    return report.fail(fail_errno(EKEYREJECTED).error(), std::move(sentence));
}

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
