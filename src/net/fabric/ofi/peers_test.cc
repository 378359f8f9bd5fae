// Which peers are kept, and how many there may be. On an endpoint of this machine, without
// connections.
#include <gtest/gtest.h>
#include <netinet/in.h>

#include "context.h"
#include "ofi_peers.h"

namespace ros2s::fabric::ofi {
namespace {

class OfiPeers : public testing::Test {
  protected:
    void SetUp() override {
        Report report;
        auto opened = Context::open({.provider = "ofi+tcp;ofi_rxm", .device = "lo"},
                                    {.provider = "tcp;ofi_rxm", .domain = "lo"}, report);
        ASSERT_TRUE(opened) << report.text();
        context = std::make_unique<Context>(std::move(*opened));
    }
    [[nodiscard]] std::vector<std::byte> at_port(uint16_t port) const {
        std::vector<std::byte> address = context->address();
        sockaddr_in plain{};
        std::memcpy(&plain, address.data(), sizeof plain);
        plain.sin_port = htons(port);
        std::memcpy(address.data(), &plain, sizeof plain);
        return address;
    }
    std::unique_ptr<Context> context;
};

TEST_F(OfiPeers, PeerBeyondLimitIsRefusedUntilOneLeaves) {
    Peers peers(context->peers(), context->address(), 2);
    const auto first = peers.acquire(at_port(1));
    const auto again = peers.acquire(at_port(1));
    const auto second = peers.acquire(at_port(2));
    ASSERT_TRUE(first && again && second);
    EXPECT_EQ(*first, *again);
    EXPECT_EQ(peers.acquire(at_port(3)).error().code, Code::no_memory);
    peers.release(**first, false);
    EXPECT_EQ(peers.acquire(at_port(3)).error().code, Code::no_memory);
    peers.release(**again, false);
    const auto third = peers.acquire(at_port(3));
    ASSERT_TRUE(third);
    peers.release(**second, true);
    peers.release(**third, true);
}

TEST_F(OfiPeers, AddressOfAnotherKindIsRefused) {
    Peers peers(context->peers(), context->address(), 2);
    std::vector<std::byte> address = at_port(1);
    address.push_back(std::byte{0});
    EXPECT_EQ(peers.acquire(address).error().code, Code::unsupported);
    address = at_port(1);
    address[0] ^= std::byte{0x40};
    EXPECT_EQ(peers.acquire(address).error().code, Code::unsupported);
    EXPECT_EQ(peers.acquire({}).error().code, Code::unsupported);
}

}  // namespace
}  // namespace ros2s::fabric::ofi
