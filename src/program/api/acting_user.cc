#include "ros2s/api/acting_user.h"

#include <fmt/format.h>
#include <grp.h>
#include <pwd.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "ros2s/api/uri.h"

namespace ros2s::api {
namespace {

constexpr gid_t no_group = 65534;  // of a user without an entry in the user database

std::string directory_of(const std::string& place) {
    if (!place.starts_with("ros2s:") && !place.starts_with("ros2s+")) return place;
    Report ignored;
    const auto uri = Uri::parse_pool(place, ignored);
    return uri ? uri->dir : "";
}

Result<> take_groups(uid_t user, gid_t& group) {
    const passwd* const entry = ::getpwuid(user);
    group = entry != nullptr ? entry->pw_gid : no_group;
    const int failed =
        entry != nullptr ? ::initgroups(entry->pw_name, entry->pw_gid) : ::setgroups(0, nullptr);
    return failed == 0 ? Result<>{} : fail_errno(errno);
}

}  // namespace

std::optional<ActingUser> acting_user(const std::vector<std::string>& places) {
    struct stat facts{};
    if (::geteuid() != 0 || ::stat("/", &facts) != 0) return std::nullopt;
    const uid_t root_of_machine = facts.st_uid;  // in a user namespace
    std::optional<ActingUser> found;
    for (const std::string& place : places) {
        const std::string directory = directory_of(place);
        if (directory.empty() || ::stat(directory.c_str(), &facts) != 0) continue;
        const bool is_root = facts.st_uid == 0 || facts.st_uid == root_of_machine;
        if (is_root || (found && found->uid != facts.st_uid)) return std::nullopt;
        if (!found) found = {facts.st_uid, directory};
    }
    return found;
}

Result<> act_as(const ActingUser& user, Report& report) {
    gid_t group = 0;
    Result<> done = take_groups(user.uid, group);
    if (done &&
        (::setresgid(group, group, group) != 0 || ::setresuid(user.uid, user.uid, user.uid) != 0)) {
        done = fail_errno(errno);
    }
    // With memory that was root's: that user may not look at it, or take its descriptors.
    if (done && (::setresuid(-1, 0, -1) == 0 || ::prctl(PR_SET_DUMPABLE, 0) != 0)) {
        done = fail_errno(EPERM);
    }
    if (done) return {};
    return report.fail(done.error(),
                       "{} belongs to uid {}, and this program cannot act as that user ({}): run "
                       "it as that user",
                       user.directory, user.uid, std::strerror(done.error().os_errno));
}

std::string acting_as(const ActingUser& user) {
    return fmt::format("; this command acts as uid {}, to whom {} belongs", user.uid,
                       user.directory);
}

}  // namespace ros2s::api
