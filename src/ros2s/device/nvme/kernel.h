// KernelVersion: which Linux this is, and what its NVMe passthrough may be trusted with.
//
// Distributions call their kernels 6.1.0 or 6.5.0 whatever they hold: Debian names the upstream
// release in uname's version, Ubuntu in /proc/version_signature.
#pragma once
#include <compare>
#include <string>

namespace ros2s::device {

struct KernelVersion {
    int major = 0;
    int minor = 0;
    int patch = 0;

    // Of this machine.
    [[nodiscard]] static KernelVersion running();
    // From `release` and `version` of uname(2), and what /proc/version_signature holds, if
    // anything. 0.0.0: none of them says.
    [[nodiscard]] static KernelVersion read(const std::string& release, const std::string& version,
                                            const std::string& signature);
    auto operator<=>(const KernelVersion&) const = default;
    [[nodiscard]] std::string to_string() const;

    // Whether a command that the driver dropped, as of a controller that is going away, is reported
    // so ("nvme: fix error-handling for io_uring nvme-passthrough"); before, its status is 0: done.
    [[nodiscard]] bool reports_dropped_commands() const noexcept;
    // Before, one that is asked to poll for passthrough looks for what a killed process had under
    // way in memory that it has freed: it oopses, and nobody opens the namespace's pool before the
    // machine restarts.
    [[nodiscard]] bool polls_by_request() const noexcept;
    // Before, a command on a part of what is registered is refused.
    [[nodiscard]] bool takes_parts_of_registered() const noexcept;
};

}  // namespace ros2s::device
