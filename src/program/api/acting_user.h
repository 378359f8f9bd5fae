// Root who uses the pool directory of another user acts as that user, as with `sudo -u USER`: that
// user's files decide which files and servers the program uses, so it must not have more rights
// than that user. Programs only: a library does not change the user of its process.
//
// Call it before the first thread starts.
#pragma once
#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "ros2s/base/result.h"

namespace ros2s::api {

struct ActingUser {
    uid_t uid = 0;
    std::string directory;  // that belongs to the user
};

// The owner of the pool directories, if the process is root's and the owner is not root. Empty if
// they have several owners: then directories of others are refused (base/trusted_file.h). `places`:
// directories and URIs; only those with `dir` count.
[[nodiscard]] std::optional<ActingUser> acting_user(const std::vector<std::string>& places);
// Takes the rights of the user, his groups included, and gives up all others for good. Errors, with
// a sentence: those of the system.
[[nodiscard]] Result<> act_as(const ActingUser& user, Report& report);
// For the end of an error's sentence: "; this command acts as uid 1000, to whom /srv/p belongs".
[[nodiscard]] std::string acting_as(const ActingUser& user);

}  // namespace ros2s::api
