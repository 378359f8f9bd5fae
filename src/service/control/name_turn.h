// NameTurn: the turn of a call on names or containers among the requests of all tenants
// (admission). The calls of a tenant share one line, which exists while it has calls. They count
// like its requests on the data plane.
//
// Used on the core. The server's state outlives it.
#pragma once
#include <utility>

#include "session_service.h"

namespace ros2s::control {

class NameTurn {
  public:
    NameTurn(ServerState& state, uint64_t tenant) : state_(&state), tenant_(tenant) {}
    NameTurn(NameTurn&& other) noexcept
        : state_(std::exchange(other.state_, nullptr)),
          tenant_(other.tenant_),
          arrived_(other.arrived_),
          more_ns_(other.more_ns_),
          place_(std::move(other.place_)) {}
    NameTurn& operator=(NameTurn&&) = delete;
    ~NameTurn() { end(); }
    // Waits for it. Errors: cancelled.
    Task<Result<>> begin(const Call& call);
    // The call costs this much more than one on a name.
    void charge(uint64_t cost_ns) { more_ns_ += cost_ns; }
    // The call goes on outside of it: what follows may take long, and is not work of this core.
    void end();

  private:
    ServerState* state_;
    uint64_t tenant_;
    Time arrived_{};  // when it began to wait
    uint64_t more_ns_ = 0;
    admission::Permit place_;
};

}  // namespace ros2s::control
