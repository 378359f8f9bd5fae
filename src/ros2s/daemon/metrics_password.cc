#include "metrics_password.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "ros2s/base/descriptor.h"

namespace ros2s::daemon {
namespace {

constexpr size_t bytes_max = 256;

std::unexpected<Error> cannot(std::string_view do_what, const std::string& path, Report& report) {
    const int cause = errno;
    return report.fail(fail_errno(cause).error(), "cannot {} {}, the password of the metrics: {}",
                       do_what, path, std::strerror(cause));
}

Result<std::string> make(const std::string& path, Report& report) {
    unsigned char random[16];
    if (::getrandom(random, sizeof random, 0) != sizeof random) return cannot("draw", path, report);
    const std::string password = fmt::format("{:02x}", fmt::join(random, ""));
    const Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (file.get() < 0) return cannot("make", path, report);
    const std::string line = password + '\n';
    if (::write(file.get(), line.data(), line.size()) != ssize_t(line.size())) {
        auto failed = cannot("write", path, report);
        ::unlink(path.c_str());
        return failed;
    }
    return password;
}

}  // namespace

Result<std::string> metrics_password(const std::string& path, Report& report) {
    const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (file.get() < 0 && errno == ENOENT) return make(path, report);
    if (file.get() < 0) return cannot("read", path, report);
    struct stat facts{};
    char text[bytes_max];
    const bool known = ::fstat(file.get(), &facts) == 0;
    const ssize_t size = known ? ::read(file.get(), text, sizeof text) : -1;
    if (size < 0) return cannot("read", path, report);
    if ((facts.st_mode & (S_IRWXO | S_IWGRP)) != 0) {
        return report.fail(Code::denied,
                           "{}, the password of the metrics, is open to others: chmod g-w,o= {}",
                           path, path);
    }
    std::string password(text, static_cast<size_t>(size));
    password.resize(std::min(password.find('\n'), password.size()));
    if (!password.empty()) return password;
    return report.fail(Code::invalid,
                       "{}: the first line, the password of the metrics, is empty; remove the "
                       "file, and a new one is created",
                       path);
}

}  // namespace ros2s::daemon
