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
        machine.adapters.push_back(entry.path().filename().string());
    }
    std::ranges::sort(machine.adapters);
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
