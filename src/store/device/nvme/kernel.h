// KernelVersion: this machine's Linux version, and the abilities of its NVMe passthrough.
//
// Distributions call their kernels 6.1.0 or 6.5.0, whatever they contain: Debian names the upstream
// release in uname's version, Ubuntu in /proc/version_signature.
#pragma once
#include <compare>
#include <string>

namespace ros2s::device {

struct KernelVersion {
    int major = 0;
    int minor = 0;
    int patch = 0;

    // This machine's.
    [[nodiscard]] static KernelVersion running();
    // From `release` and `version` of uname(2), and the content of /proc/version_signature, if any.
    // 0.0.0: none of them has a version.
    [[nodiscard]] static KernelVersion read(const std::string& release, const std::string& version,
                                            const std::string& signature);
    auto operator<=>(const KernelVersion&) const = default;
    [[nodiscard]] std::string to_string() const;

    // Returns true if the driver reports a command that it dropped, for example because the
    // controller goes away ("nvme: fix error-handling for io_uring nvme-passthrough"). Older
    // kernels report status 0: done.
    [[nodiscard]] bool reports_dropped_commands() const noexcept;
    // Older kernels, if they are to poll for passthrough, look for a killed process's commands in
    // memory that they have freed. The kernel oopses, and the namespace's pool cannot be opened
    // before a restart of the machine.
    [[nodiscard]] bool polls_by_request() const noexcept;
    // Older kernels refuse a command on a part of registered memory.
    [[nodiscard]] bool takes_parts_of_registered() const noexcept;
};

}  // namespace ros2s::device
