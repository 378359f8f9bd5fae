#include <gtest/gtest.h>
#include <unistd.h>

#include "ros2s/fabric/contract/stage.h"
#include "test_support/test_authority.h"

namespace ros2s::fabric::tls {
namespace {

TEST(TlsStuckPeer, StuckPeerEndsOnlyItsSession) {
    const TestAuthority authority;
    // The first domain of this process is the server's. The peer is another process.
    const auto open = [&authority, process = ::getpid(), opened = 0](Reactor& reactor,
                                                                     Report& report) mutable {
        const bool server = ::getpid() == process && opened++ == 0;
        return open_domain(reactor, server ? authority.server() : authority.client(), report);
    };
    contract::stuck_peer_costs_its_own_session(open);
}

}  // namespace
}  // namespace ros2s::fabric::tls
