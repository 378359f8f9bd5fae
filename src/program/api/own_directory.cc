#include "ros2s/api/own_directory.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>

#include <array>
#include <filesystem>
#include <string_view>

#include "ros2s/base/check.h"

namespace ros2s::api {

std::string own_directory() {
    static constexpr char here = 0;
    Dl_info unused;
    void* entry = nullptr;
    ROS2S_CHECK(::dladdr1(&here, &unused, &entry, RTLD_DL_LINKMAP) != 0);
    const std::string_view loaded_as = static_cast<const link_map*>(entry)->l_name;
    std::error_code failed;
    // Linked into a program, for which the loader does not know the directory.
    if (loaded_as.empty()) {
        return std::filesystem::read_symlink("/proc/self/exe", failed).parent_path().string();
    }
    std::array<char, PATH_MAX> directory{};
    ROS2S_CHECK(::dlinfo(entry, RTLD_DI_ORIGIN, directory.data()) == 0);
    const auto file = std::filesystem::canonical(
        std::filesystem::path(directory.data()) / loaded_as.substr(loaded_as.rfind('/') + 1),
        failed);
    return failed ? directory.data() : file.parent_path().string();
}

}  // namespace ros2s::api
