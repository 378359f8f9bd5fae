// WatchedIdentity: the three files of an identity, and the lists of revoked certificates beside its
// authority, read again when they have changed. If they cannot be used (they do not fit together
// between the two renames of a rotation, or may not be read), the earlier contents stay in use, and
// one line is logged. The files are tried again: the reason may be gone without any change of the
// files. Lists that come, change or go are changes. An overdue list stays in use, and one line is
// logged.
//
// Used by one thread at a time. Blocks.
#pragma once
#include <sys/stat.h>

#include <array>
#include <chrono>
#include <optional>
#include <string>

#include "ros2s/base/log.h"
#include "ros2s/pki/certificate.h"

namespace ros2s::pki {

struct Pem {
    std::string authority, certificate, key;
    std::string revocations;  // empty: there is no file
};
// Without the lists, which only those who verify others need.
[[nodiscard]] Pem read_pem(const Identity& identity);

class WatchedIdentity {
  public:
    WatchedIdentity(Identity identity, Log log)
        : identity_(std::move(identity)), log_(std::move(log)) {}

    enum class Look : uint8_t { unchanged, changed, not_usable };
    // `changed`: `into` has the current contents of the files. `not_usable`: once for the same
    // files, then `unchanged`.
    [[nodiscard]] Look look(Pem& into);
    [[nodiscard]] const Identity& identity() const { return identity_; }

  private:
    // The properties of a file that change when another one replaces it, or its rights change.
    struct FileState {
        ino_t inode = 0;
        off_t size = 0;
        int64_t modified_s = 0, modified_ns = 0;
        int64_t changed_s = 0, changed_ns = 0;
        friend bool operator==(const FileState&, const FileState&) = default;
    };
    using States = std::array<FileState, 4>;
    static FileState state_of(const std::string& path);
    // Nothing: they cannot be used.
    [[nodiscard]] std::optional<Pem> read_usable(Report& report) const;
    void warn_of_late_lists();

    Identity identity_;
    Log log_;
    States seen_;                         // of the contents in use
    std::optional<States> refused_;       // of later ones that could not be used
    Seconds lists_end_ = Seconds::max();  // the end of time: nothing to log
    std::chrono::steady_clock::time_point next_try_{};
};

}  // namespace ros2s::pki
