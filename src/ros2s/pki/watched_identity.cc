#include "ros2s/pki/watched_identity.h"

#include <chrono>
#include <fstream>
#include <iterator>

namespace ros2s::pki {
namespace {

std::string contents(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

Pem read_pem(const Identity& identity) {
    return {contents(identity.authority_file), contents(identity.certificate_file),
            contents(identity.key_file)};
}

WatchedIdentity::FileState WatchedIdentity::state_of(const std::string& path) {
    struct stat facts{};
    if (::stat(path.c_str(), &facts) != 0) return {};
    return {facts.st_ino, facts.st_size, facts.st_mtim.tv_sec, facts.st_mtim.tv_nsec};
}

WatchedIdentity::Look WatchedIdentity::look(Pem& into) {
    const std::array<FileState, 3> seen{state_of(identity_.authority_file),
                                        state_of(identity_.certificate_file),
                                        state_of(identity_.key_file)};
    if (seen == seen_) return Look::unchanged;
    seen_ = seen;
    Report report;
    const auto now = std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
    if (!check_identity(identity_, now, report)) {
        log_.warning(
            "tls: the certificate files changed and are not used, because {}; the previous ones "
            "stay in use",
            report.text());
        return Look::not_usable;
    }
    into = read_pem(identity_);
    return Look::changed;
}

}  // namespace ros2s::pki
