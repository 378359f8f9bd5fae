#include "ros2s/pki/watched_identity.h"

#include <chrono>
#include <fstream>
#include <iterator>
#include <utility>

namespace ros2s::pki {
namespace {

// Servers look before each handshake, and a check costs as much as one.
constexpr std::chrono::seconds try_interval{1};

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
    return {.inode = facts.st_ino,
            .size = facts.st_size,
            .modified_s = facts.st_mtim.tv_sec,
            .modified_ns = facts.st_mtim.tv_nsec,
            .changed_s = facts.st_ctim.tv_sec,
            .changed_ns = facts.st_ctim.tv_nsec};
}

std::optional<Pem> WatchedIdentity::read_usable(Report& report) const {
    const auto now = std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
    if (!check_identity(identity_, now, report)) return std::nullopt;
    Pem pem = read_pem(identity_);
    // It opens the files again, and descriptors may have run out meanwhile.
    if (!pem.authority.empty() && !pem.certificate.empty() && !pem.key.empty()) return pem;
    report.say("they could not be read a second time");
    return std::nullopt;
}

WatchedIdentity::Look WatchedIdentity::look(Pem& into) {
    const States seen{state_of(identity_.authority_file), state_of(identity_.certificate_file),
                      state_of(identity_.key_file)};
    if (seen == seen_) return Look::unchanged;
    // The reason may have been rights, descriptors or the time, and these get better.
    const bool is_known = refused_ == seen;
    const auto now = std::chrono::steady_clock::now();
    if (is_known && now < next_try_) return Look::unchanged;
    Report report;
    auto pem = read_usable(report);
    if (!pem) {
        next_try_ = now + try_interval;
        if (is_known) return Look::unchanged;
        refused_ = seen;
        log_.warning(
            "tls: the certificate files changed and are not used, because {}; the previous ones "
            "stay in use, and these are tried again",
            report.text());
        return Look::not_usable;
    }
    seen_ = seen;
    refused_.reset();
    into = std::move(*pem);
    return Look::changed;
}

}  // namespace ros2s::pki
