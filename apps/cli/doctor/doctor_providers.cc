#include "doctor_providers.h"

#include <fmt/format.h>

#include "ros2s/fabric/providers/providers.h"

namespace ros2s::cli {

std::vector<Finding> look_at_providers() {
    std::vector<Finding> findings;
    for (const fabric::NetworkLibrary& each : fabric::network_libraries()) {
        Finding finding{.what = each.name};
        if (each.why_not.empty()) {
            finding.found = fmt::format("{} of {}", each.version, each.path);
        } else {
            finding.grade = Grade::absent;
            finding.found = each.why_not;
            finding.remedy = fmt::format(
                "needed for RDMA, and for fast TCP between trusted machines; on Debian and Ubuntu: "
                "sudo apt-get install {}",
                each.package);
        }
        findings.push_back(std::move(finding));
    }
    for (const fabric::Availability& each : fabric::look_at_providers()) {
        Finding finding{.what = each.provider};
        if (!each.here) {
            finding.grade = Grade::absent;
            finding.found = "not on this machine";
            finding.remedy = each.why_not;
        } else {
            finding.found = each.devices.empty()
                                ? each.reach
                                : fmt::format("over {}", fmt::join(each.devices, ", "));
        }
        findings.push_back(std::move(finding));
    }
    return findings;
}

}  // namespace ros2s::cli
