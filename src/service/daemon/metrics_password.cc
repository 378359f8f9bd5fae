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

#include "ros2s/base/trusted_file.h"

namespace ros2s::daemon {
namespace {

constexpr size_t bytes_max = 4096;

std::unexpected<Error> cannot(std::string_view do_what, const std::string& path, Report& report) {
    const int cause = errno;
    return report.fail(fail_errno(cause).error(), "cannot {} {}, the password of the metrics: {}",
                       do_what, path, std::strerror(cause));
}

Result<std::string> make(const std::string& path, Report& report) {
    unsigned char random[16];
    if (::getrandom(random, sizeof random, 0) != sizeof random) return cannot("draw", path, report);
    const std::string password = fmt::format("{:02x}", fmt::join(random, ""));
    ROS2S_TRY_ASSIGN(const Descriptor file, open_trusted(path, O_WRONLY | O_CREAT, report));
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
    Report why;
    const auto text = read_private(path, bytes_max, 0640, why);
    if (!text && text.error().code == Code::not_found) return make(path, report);
    if (!text) return report.fail(text.error(), "the password of the metrics: {}", why.text());
    std::string password = *text;
    password.resize(std::min(password.find('\n'), password.size()));
    if (!password.empty()) return password;
    return report.fail(Code::invalid,
                       "{}: the first line, the password of the metrics, is empty; remove the "
                       "file, and a new one is created",
                       path);
}

}  // namespace ros2s::daemon
