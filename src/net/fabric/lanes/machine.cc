#include "ros2s/fabric/lanes/machine.h"

#include <net/if.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

namespace ros2s::fabric::lanes {

Machine look_at_machine() {
    Machine machine;
    if (struct if_nameindex* all = if_nameindex(); all != nullptr) {
        for (const struct if_nameindex* each = all; each->if_name != nullptr; ++each) {
            machine.interfaces.emplace_back(each->if_name);
        }
        if_freenameindex(all);
    }
    std::error_code none;
    for (const auto& entry : std::filesystem::directory_iterator("/sys/class/infiniband", none)) {
        const std::string name = entry.path().filename().string();
        machine.adapters.push_back(name);
        const auto driver = std::filesystem::read_symlink(entry.path() / "device/driver", none);
        // "mlx5_core.sf": a subfunction, as a BlueField has them.
        if (driver.filename().string().starts_with("mlx5_core")) machine.connectx.push_back(name);
    }
    std::ranges::sort(machine.adapters);
    std::ranges::sort(machine.connectx);
    return machine;
}

std::string list(const std::vector<std::string>& names) {
    std::string text;
    for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
    return text.empty() ? "none" : text;
}

bool has(const std::vector<std::string>& names, const std::string& name) {
    return std::ranges::find(names, name) != names.end();
}

}  // namespace ros2s::fabric::lanes
