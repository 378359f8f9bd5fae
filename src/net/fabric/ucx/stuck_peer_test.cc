#include <gtest/gtest.h>

#include "ros2s/fabric/contract/stage.h"
#include "ucx.h"

namespace ros2s::fabric::ucx {
namespace {

TEST(UcxStuckPeer, StuckPeerEndsOnlyItsSession) {
    contract::stuck_peer_costs_its_own_session([](Reactor& reactor, Report& report) {
        return open_domain(reactor, {.provider = "ucx+tcp", .device = "lo"}, report);
    });
}

}  // namespace
}  // namespace ros2s::fabric::ucx
