#include "mount_helper.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <tuple>

namespace ros2s::fuse {
namespace {

// For mount(8) and systemd, or what every mount does: it is nosuid and nodev, makes each operation
// durable (or the container says otherwise), and reads change no access times. `suid` and `dev` are
// what mount(8) makes of `defaults`.
constexpr std::array<std::string_view, 19> without_effect{
    "rw",    "defaults", "auto",  "noauto",  "nofail",    "_netdev", "user",
    "users", "nouser",   "owner", "group",   "nosuid",    "suid",    "nodev",
    "dev",   "async",    "exec",  "noatime", "nodiratime"};
constexpr std::array<std::string_view, 6> of_access_times{"atime",    "relatime", "strictatime",
                                                          "lazytime", "diratime", "iversion"};

Result<std::string> refuse(std::string_view option, Report& report) {
    if (std::ranges::find(of_access_times, option) != of_access_times.end()) {
        return report.fail(Code::invalid,
                           "the mount option '{}' is not supported: reads change no access times. "
                           "Use noatime, or leave it out",
                           option);
    }
    return report.fail(Code::invalid,
                       "the mount option '{}' is not supported. Supported are ro, allow_other, "
                       "no_cache, noexec, exclusive, sync, dirsync and durability=durable. "
                       "Accepted without effect are {}, user=, comment=, x-* and X-*",
                       option, fmt::join(without_effect, ", "));
}

// Empty: it has no effect here.
Result<std::string> argument_for(std::string_view option, Report& report) {
    if (option == "ro") return "--read-only";
    if (option == "allow_other") return "--allow-other";
    if (option == "no_cache") return "--no-cache";
    if (option == "noexec") return "--no-exec";
    if (option == "exclusive") return "--exclusive";
    if (option == "sync" || option == "dirsync") return "--durability=durable";
    if (option.starts_with("durability=")) return "--" + std::string(option);
    const bool is_for_others = option.empty() || option.starts_with("x-") ||
                               option.starts_with("X-") || option.starts_with("comment=") ||
                               option.starts_with("user=");
    if (is_for_others || std::ranges::find(without_effect, option) != without_effect.end()) {
        return "";
    }
    return refuse(option, report);
}

std::vector<std::string_view> split(std::string_view list) {
    std::vector<std::string_view> options;
    while (!list.empty()) {
        const size_t comma = std::min(list.find(','), list.size());
        options.push_back(list.substr(0, comma));
        list.remove_prefix(std::min(comma + 1, list.size()));
    }
    return options;
}

Result<> add_options(std::string_view list, std::vector<std::string>& arguments, Report& report) {
    for (const std::string_view option : split(list)) {
        ROS2S_TRY_ASSIGN(std::string argument, argument_for(option, report));
        if (!argument.empty()) arguments.push_back(std::move(argument));
    }
    return {};
}

}  // namespace

Result<std::vector<std::string>> translate_mount_options(std::span<const char* const> arguments,
                                                         Report& report) {
    std::vector<std::string> translated;
    for (size_t i = 0; i < arguments.size(); ++i) {
        const std::string_view given = arguments[i];
        if (given == "-o" && i + 1 < arguments.size()) {
            ROS2S_TRY(add_options(arguments[++i], translated, report));
        } else {
            translated.emplace_back(given);
        }
    }
    return translated;
}

bool is_mount_helper(std::string_view program) {
    const size_t slash = program.rfind('/');
    return program.substr(slash == program.npos ? 0 : slash + 1) == "mount.ros2store";
}

Result<std::vector<std::string>> translate_mount_helper(std::span<const char* const> arguments,
                                                        Report& report) {
    std::vector<std::string> translated{arguments.front()};
    bool tries_only = false;
    bool is_sloppy = false;
    std::vector<std::string_view> lists;
    for (size_t i = 1; i < arguments.size(); ++i) {
        const std::string_view given = arguments[i];
        if (given == "-o" || given == "-t") {
            if (++i == arguments.size()) {
                return report.fail(Code::invalid, "{} needs a value", given);
            }
            if (given == "-o") lists.emplace_back(arguments[i]);
        } else if (given.starts_with("-") && given.find_first_not_of("sfnv", 1) == given.npos) {
            tries_only = tries_only || given.contains('f');
            is_sloppy = is_sloppy || given.contains('s');
        } else {
            translated.emplace_back(given);
        }
    }
    for (const std::string_view list : lists) {
        if (!is_sloppy) {
            ROS2S_TRY(add_options(list, translated, report));
            continue;
        }
        for (const std::string_view option : split(list)) {
            Report ignored;
            std::ignore = add_options(option, translated, ignored);
        }
    }
    if (tries_only) translated.clear();
    return translated;
}

}  // namespace ros2s::fuse
