// WatchedIdentity: the three files of an identity, read again when they have changed. If they do
// not fit together (between the two renames of a rotation, or by mistake), the earlier contents
// stay, and the log says so once.
//
// Used by one thread at a time. Blocks.
#pragma once
#include <sys/stat.h>

#include <array>
#include <optional>
#include <string>

#include "ros2s/base/log.h"
#include "ros2s/pki/certificate.h"

namespace ros2s::pki {

struct Pem {
    std::string authority, certificate, key;
};
[[nodiscard]] Pem read_pem(const Identity& identity);

class WatchedIdentity {
  public:
    WatchedIdentity(Identity identity, Log log)
        : identity_(std::move(identity)), log_(std::move(log)) {}

    enum class Look : uint8_t { unchanged, changed, not_usable };
    // `changed`: `into` has the current contents of the files. The first call always returns it.
    [[nodiscard]] Look look(Pem& into);
    [[nodiscard]] const Identity& identity() const { return identity_; }

  private:
    // The properties of a file that change when another one replaces it.
    struct FileState {
        ino_t inode = 0;
        off_t size = 0;
        int64_t seconds = 0, nanoseconds = 0;
        friend bool operator==(const FileState&, const FileState&) = default;
    };
    static FileState state_of(const std::string& path);

    Identity identity_;
    Log log_;
    std::array<FileState, 3> seen_;
};

}  // namespace ros2s::pki
