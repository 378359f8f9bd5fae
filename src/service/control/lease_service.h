// The holders of leases over gRPC: those of an engine's pools, or the mounts of a DPU's hosts.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "ros2s/control/leases.pb.h"
#include "session_service.h"

namespace ros2s::control {

class LeaseService final : public OfferedService {
  public:
    explicit LeaseService(ServerState& state) : OfferedService(state.gate), state_(state) {}

  private:
    ROS2S_SERVE(ListLeasesRequest, ListLeasesReply, list)
    ROS2S_SERVE(EvictHolderRequest, EvictHolderReply, evict)

    // A holder, as the caller sees it.
    struct Seen {
        v1::LeaseHolder shown;
        std::function<bool()> evict;  // false: it has no leases any more
    };
    // Those that the caller may see. `container`: a label; empty: all. Errors: denied, not_found.
    Task<Result<std::vector<Seen>>> find(Served& served, std::string pool, std::string container);
    // An engine's.
    Task<Result<std::vector<Seen>>> of_pool(Served& served, std::string pool);
    [[nodiscard]] std::vector<Seen> of_hosts(const Served& served, std::string_view pool);
    [[nodiscard]] bool is_seen(const Served& served, const std::string& pool, uint64_t tenant);

    ServerState& state_;
};

}  // namespace ros2s::control
