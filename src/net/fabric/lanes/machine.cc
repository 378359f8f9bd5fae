#include "ros2s/fabric/lanes/machine.h"

#include <net/if.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

namespace ros2s::fabric::lanes {
namespace {

bool has(const std::vector<std::string>& names, const std::string& name) {
    return std::ranges::find(names, name) != names.end();
}

}  // namespace

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

Result<std::vector<std::string>> interfaces_for(const std::string& provider, const Machine& machine,
                                                Report& report) {
    if (!machine.interfaces.empty()) return machine.interfaces;
    return report.fail(Code::unsupported,
                       "provider {} needs a network interface and this machine shows none: `ip "
                       "link` lists them",
                       provider);
}

Result<> check_interface(const std::string& provider, const std::string& device,
                         const std::vector<std::string>& interfaces, Report& report) {
    if (device.empty()) {
        return report.fail(Code::invalid,
                           "provider {} needs the network interface that carries data: name one as "
                           "device= (here are: {})",
                           provider, list(interfaces));
    }
    if (has(interfaces, device)) return {};
    return report.fail(Code::unsupported,
                       "provider {}: this machine has no network interface {}: name one of {} as "
                       "device=",
                       provider, device, list(interfaces));
}

Result<std::string> adapter_of(const std::string& provider, const std::string& device,
                               const std::vector<std::string>& fit, std::string_view port,
                               Report& report) {
    const std::string adapter = device.substr(0, device.find(':'));
    if (adapter.empty()) {
        return report.fail(Code::invalid,
                           "provider {} needs the adapter that carries data: name one as device=, "
                           "such as {}{} (here are: {})",
                           provider, fit.front(), port, list(fit));
    }
    if (has(fit, adapter)) return adapter;
    return report.fail(Code::unsupported,
                       "provider {}: this machine has no fitting adapter {}: name one of {} as "
                       "device=, such as {}{}",
                       provider, adapter, list(fit), fit.front(), port);
}

}  // namespace ros2s::fabric::lanes
