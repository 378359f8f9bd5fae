#include <gtest/gtest.h>

#include "ofi.h"
#include "ros2s/fabric/contract/stage.h"

namespace ros2s::fabric::ofi {
namespace {

TEST(OfiStuckPeer, StuckPeerEndsOnlyItsSession) {
    contract::stuck_peer_costs_its_own_session([](Reactor& reactor, Report& report) {
        return open_domain(reactor, {.provider = "ofi+tcp;ofi_rxm", .device = "lo"}, report);
    });
}

}  // namespace
}  // namespace ros2s::fabric::ofi
