#include "pool_files.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "ros2s/pool/pool_directory.h"

namespace ros2s::pool {
namespace {

// replace_file() uses NAME.new.
constexpr std::string_view replaced_names[] = {config_name, half_made_name, growing_name,
                                               served_name, tenants_name,   capability_keys_name};

bool is_pool_file(std::string_view name) {
    const auto may_be_new = [name](std::string_view each) {
        return name == each || name == fmt::format("{}.new", each);
    };
    return std::ranges::any_of(replaced_names, may_be_new) || name == index_name ||
           name == owner_name || name == service_name || is_device_name(name);
}

Result<std::vector<std::string>> names_in(const std::string& directory) {
    std::error_code error;
    std::vector<std::string> names;
    std::filesystem::directory_iterator it(directory, error);
    while (!error && it != std::filesystem::directory_iterator()) {
        names.push_back(it->path().filename());
        it.increment(error);
    }
    if (error) return fail_errno(error.value());
    return names;
}

std::string_view remedy_for(Code code) {
    switch (code) {
        case Code::denied:
            return "; run as a user who may, or choose a directory that you may write to";
        case Code::read_only: return "; choose a directory on a writable file system";
        case Code::no_space: return "; make room there, or choose a directory on another disk";
        // Also directories that the kernel provides, such as /proc.
        case Code::not_found:
            return "; choose a directory on a disk, below one that is there (mkdir -p makes it)";
        case Code::not_directory: return "; a part of the path is a file: choose another directory";
        default: return "";
    }
}

constexpr size_t unique_digits = 16;

// Returns true if name_elsewhere() made the name.
bool is_unique(std::string_view name) {
    if (!name.starts_with("ros2store-") || name.size() <= unique_digits) return false;
    const auto digits = name.substr(name.size() - unique_digits);
    name.remove_suffix(unique_digits);
    return name.ends_with('-') &&
           digits.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

Result<> remove_file(const std::string& path) {
    if (::unlink(path.c_str()) != 0 && errno != ENOENT) return fail_errno(errno);
    return {};
}

}  // namespace

bool is_device_name(std::string_view name) {
    if (!name.starts_with("device-")) return false;
    name.remove_prefix(7);
    if (name.ends_with(".new")) name.remove_suffix(4);
    return !name.empty() && name.find_first_not_of("0123456789") == std::string_view::npos;
}

std::string device_name(size_t number) { return fmt::format("device-{}", number); }

std::string name_elsewhere(const std::string& pool, size_t number, uint64_t unique) {
    return fmt::format("ros2store-{}-{}-{:0{}x}", pool, device_name(number), unique, unique_digits);
}

std::string in(const std::string& directory, std::string_view name) {
    return fmt::format("{}/{}", directory, name);
}

bool exists(const std::string& path) {
    struct stat status{};
    return ::lstat(path.c_str(), &status) == 0;
}

bool is_on_read_only_medium(const std::string& directory) {
    struct statvfs status{};
    if (::statvfs(directory.c_str(), &status) == 0 && (status.f_flag & ST_RDONLY) != 0) return true;
    // ext4 does not show it, after an error of its disk.
    const Descriptor owner(
        ::open(in(directory, owner_name).c_str(), O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    return owner.get() < 0 && errno == EROFS;
}

std::unexpected<Error> cannot(std::string_view do_what, const std::string& path, const Error& error,
                              Report& report) {
    return report.fail(error, "cannot {} {}: {}{}", do_what, path, describe(error),
                       remedy_for(error.code));
}

Result<std::vector<std::string>> foreign_names(const std::string& directory) {
    ROS2S_TRY_ASSIGN(auto names, names_in(directory));
    std::erase_if(names,
                  [](const auto& name) { return is_pool_file(name) || name == "lost+found"; });
    return names;
}

Result<std::vector<std::string>> data_names(const std::string& directory) {
    ROS2S_TRY_ASSIGN(auto names, names_in(directory));
    std::erase_if(names,
                  [](const auto& name) { return !is_device_name(name) && name != index_name; });
    return names;
}

Result<> remove_device(const std::string& path, Removal removal) {
    std::error_code error;
    auto target = std::filesystem::read_symlink(path, error);
    if (!error) {
        // A relative link starts at its own directory, not at this process's.
        if (target.is_relative()) target = std::filesystem::path(path).parent_path() / target;
        const bool is_own = removal == Removal::complete || is_unique(target.filename().string());
        // A namespace's character device stays, with its contents.
        if (is_own && !std::filesystem::is_character_file(target, error)) {
            ROS2S_TRY(remove_file(target));
            ROS2S_TRY(remove_file(target.string() + ".new"));
        }
    }
    ROS2S_TRY(remove_file(path + ".new"));
    return remove_file(path);
}

Result<> remove_pool_files(const std::string& directory) {
    ROS2S_TRY_ASSIGN(const auto names, names_in(directory));
    // The settings are written after the devices are made, and removed after the devices.
    const auto removal =
        exists(in(directory, config_name)) ? Removal::complete : Removal::unfinished;
    for (const auto& name : names) {
        if (is_device_name(name)) ROS2S_TRY(remove_device(in(directory, name), removal));
    }
    std::error_code error;
    std::filesystem::remove_all(in(directory, index_name), error);
    if (error) return fail_errno(error.value());
    ROS2S_TRY(remove_file(in(directory, service_name)));
    for (const auto name : replaced_names) {
        if (name != half_made_name) ROS2S_TRY(remove_file(in(directory, name)));
        ROS2S_TRY(remove_file(in(directory, fmt::format("{}.new", name))));
    }
    ROS2S_TRY(remove_file(in(directory, half_made_name)));
    return sync_directory(directory);
}

}  // namespace ros2s::pool
