// Mooring: where a client's mount is at its server. A server that was restarted knows neither
// sessions nor mounts any more; whoever holds the mooring makes both again, and calls go on at
// another place.
//
// Thread rule: used on the client's core.
#pragma once
#include "ros2s/session/mounts.h"

namespace ros2s::session {

// Never used again by another session or mount, of whichever process.
struct Place {
    SessionId session{};
    MountId mount{};
    friend bool operator==(const Place&, const Place&) = default;
};

class Mooring {
  public:
    virtual ~Mooring() = default;
    [[nodiscard]] virtual Place place() const = 0;
    // For people: what keeps the files there; empty: nothing is told.
    [[nodiscard]] virtual std::string keeper() const { return {}; }
    // After something that was asked at `from` failed with `stale` or was lost. True: the mount has
    // another place now, ask there. False: it has not, so that the answer stands. Waits while a
    // server is being found again.
    virtual Task<bool> moved(const Call& call, Place from) = 0;
};

// A mount that goes with its server.
class FixedMooring final : public Mooring {
  public:
    explicit FixedMooring(Place place) : place_(place) {}
    [[nodiscard]] Place place() const override { return place_; }
    Task<bool> moved(const Call&, Place) override { co_return false; }

  private:
    const Place place_;
};

}  // namespace ros2s::session
