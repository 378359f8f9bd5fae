#include "ros2s/pki/watched_identity.h"

#include <utility>

#include "openssl.h"
#include "ros2s/pki/revocation.h"

namespace ros2s::pki {
namespace {

// Servers look before each handshake, and a check costs as much as one.
constexpr std::chrono::seconds try_interval{1};

Seconds time_now() {
    return std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
}

std::string contents(const std::string& path) {
    Report ignored;
    return read_file(path, ignored).value_or("");
}

}  // namespace

Pem read_pem(const Identity& identity) {
    return {contents(identity.authority_file),
            contents(identity.certificate_file),
            contents(identity.key_file),
            {}};
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
    if (!check_identity(identity_, time_now(), report)) return std::nullopt;
    Pem pem = read_pem(identity_);
    auto revocations = read_revocations(identity_.authority_file, report);
    if (!revocations) return std::nullopt;
    pem.revocations = std::move(*revocations);
    // It opens the files again, and descriptors may have run out meanwhile.
    if (!pem.authority.empty() && !pem.certificate.empty() && !pem.key.empty()) return pem;
    report.say("they could not be read a second time");
    return std::nullopt;
}

void WatchedIdentity::warn_of_late_lists() {
    if (time_now() <= lists_end_) return;
    log_.warning(
        "tls: a list in {} should have been replaced by {}; what it revokes stays revoked. Copy "
        "the authority's newest list",
        revocation_file(identity_.authority_file), to_string(lists_end_));
    lists_end_ = Seconds::max();
}

WatchedIdentity::Look WatchedIdentity::look(Pem& into) {
    warn_of_late_lists();
    const States seen{state_of(identity_.authority_file), state_of(identity_.certificate_file),
                      state_of(identity_.key_file),
                      state_of(revocation_file(identity_.authority_file))};
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
    lists_end_ = revocations_end(into.revocations);
    warn_of_late_lists();
    return Look::changed;
}

}  // namespace ros2s::pki
