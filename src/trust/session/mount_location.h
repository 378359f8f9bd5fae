// MountLocator: finds a client's mount at its server. A server that restarted has lost its sessions
// and mounts. The locator's owner creates both again, and calls continue at the new location.
//
// Thread rule: used on the client's core.
#pragma once
#include "ros2s/session/mounts.h"

namespace ros2s::session {

// Unique: no other session or mount of any process has the same location.
struct MountLocation {
    SessionId session{};
    MountId mount{};
    friend bool operator==(const MountLocation&, const MountLocation&) = default;
};

class MountLocator {
  public:
    virtual ~MountLocator() = default;
    [[nodiscard]] virtual MountLocation location() const = 0;
    // For people: the storage of the files; empty if unknown.
    [[nodiscard]] virtual std::string storage() const { return {}; }
    // The mount lends leases as it did at first, to a client that decides by the same users.
    [[nodiscard]] virtual bool may_lease() const { return true; }
    // As fs::FileSystem, at its present location.
    [[nodiscard]] virtual bool is_deferred() const { return false; }
    // Call it after a request at `from` failed with `stale` or was lost. Waits while the client
    // reconnects to the server. Success: the mount has moved; send the request to the new location.
    // Errors are final: stale (the mount exists, but the request's node or handle does not), denied
    // (the client no longer has a right to the container), disconnected, those of Call::check().
    virtual Task<Result<>> moved(const Call& call, MountLocation from) = 0;
};

}  // namespace ros2s::session
