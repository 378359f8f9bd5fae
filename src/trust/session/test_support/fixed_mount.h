// FixedMountLocator: for tests of clients whose server does not restart.
#pragma once
#include "ros2s/session/mount_location.h"

namespace ros2s::session {

// A mount that ends with its server.
class FixedMountLocator final : public MountLocator {
  public:
    explicit FixedMountLocator(MountLocation location) : location_(location) {}
    [[nodiscard]] MountLocation location() const override { return location_; }
    Task<Result<>> moved(const Call&, MountLocation) override { co_return fail(Code::stale); }

  private:
    const MountLocation location_;
};

}  // namespace ros2s::session
