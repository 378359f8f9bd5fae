#include "doctor_providers.h"

#include <fmt/format.h>

#include "ros2s/fabric/providers/providers.h"

namespace ros2s::cli {

std::vector<Finding> look_at_providers() {
    std::vector<Finding> findings;
    Report report;
    const auto ucx = fabric::ucx_library(report);
    findings.push_back(
        ucx ? Finding{.what = "UCX", .found = fmt::format("{} of {}", ucx->version, ucx->path)}
            : Finding{.what = "UCX",
                      .grade = Grade::absent,
                      .found = report.text(),
                      .remedy = "needed between machines; on Debian and Ubuntu: sudo apt-get "
                                "install libucx0"});
    for (const fabric::Availability& each : fabric::look_at_providers()) {
        Finding finding{.what = each.provider};
        if (!each.here) {
            finding.grade = Grade::absent;
            finding.found = "not on this machine";
            finding.remedy = each.why_not;
        } else {
            finding.found = each.devices.empty()
                                ? "between processes of this machine"
                                : fmt::format("over {}", fmt::join(each.devices, ", "));
        }
        findings.push_back(std::move(finding));
    }
    return findings;
}

}  // namespace ros2s::cli
