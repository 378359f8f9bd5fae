#include "ros2s/api/mount_status.h"

#include <algorithm>

#include "ros2s/pool/embedded_pool.h"

namespace ros2s::api {

MountStatus status_of(const pool::EmbeddedPool& pool) {
    const std::string reason = pool.read_only_reason();
    MountStatus status{.targets = pool.targets(), .read_only = reason.empty() ? 0U : 1U};
    std::ranges::copy(std::string_view(reason).substr(0, status.reason.size()),
                      status.reason.begin());
    return status;
}

std::string reason_of(const MountStatus& status) {
    return {status.reason.begin(), std::ranges::find(status.reason, '\0')};
}

}  // namespace ros2s::api
