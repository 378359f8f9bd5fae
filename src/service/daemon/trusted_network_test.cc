#include "trusted_network.h"

#include <gtest/gtest.h>

namespace ros2s::daemon {
namespace {

std::string refusal(std::string_view trusted, const Listen& place, std::string_view devices) {
    Report report;
    const auto checked = check_trust(trusted, {place}, devices, "file", report);
    EXPECT_EQ(!checked, !report.empty());
    if (!checked) EXPECT_EQ(checked.error().code, Code::invalid);
    return report.text();
}

TEST(TrustedNetwork, TicketListenersNeedNoTrust) {
    for (const std::string_view trusted : {"no", "yes", "loopback"}) {
        EXPECT_EQ(refusal(trusted, {"shm", "/run/x"}, "lo"), "");
        EXPECT_EQ(refusal(trusted, {"ofi+verbs", "127.0.0.1:1"}, "lo"), "");
    }
}

TEST(TrustedNetwork, LibraryListenersNeedTrust) {
    for (const char* provider : {"ucx+tcp", "ofi+tcp;ofi_rxm", "ucx+rc", "ofi+verbs;ofi_rxm"}) {
        const Listen place{provider, "192.0.2.1:1"};
        EXPECT_NE(refusal("no", place, "eth0").find("trusted_network: yes"), std::string::npos);
        EXPECT_EQ(refusal("yes", place, "eth0, mlx5_0:1"), "");
        EXPECT_EQ(refusal("loopback", place, "lo"), "");
        EXPECT_NE(refusal("no", {provider, ""}, "eth0").find(provider), std::string::npos);
    }
}

TEST(TrustedNetwork, LoopbackNeedsItsOwnSetting) {
    for (const char* address : {"127.0.0.1:7401", "127.8.9.10:1", "0.0.0.0:7401", "[::1]:1",
                                "[::]:7401", "[::ffff:127.0.0.1]:1"}) {
        EXPECT_TRUE(is_loopback_or_any(address)) << address;
        const std::string why = refusal("yes", {"ucx+tcp", address}, "eth0");
        EXPECT_NE(why.find("trusted_network: loopback"), std::string::npos) << address;
    }
    // UCX listens at the device's address, whatever ours is.
    EXPECT_NE(refusal("yes", {"ucx+tcp", "192.0.2.1:1"}, "lo"), "");
    EXPECT_NE(refusal("yes", {"ofi+tcp;ofi_rxm", ""}, "lo, mlx5_0:1"), "");
    EXPECT_EQ(refusal("yes", {"ucx+rc", "192.0.2.1:1"}, "lo, mlx5_0:1"), "");
    for (const char* address : {"192.0.2.1:7401", "[2001:db8::1]:1", "/run/x", ""}) {
        EXPECT_FALSE(is_loopback_or_any(address)) << address;
    }
}

TEST(TrustedNetwork, TrustingListenersAreLogged) {
    const auto lines = trust_warnings({{"shm", "/run/x"}, {"ucx+tcp", "192.0.2.1:1"}});
    ASSERT_EQ(lines.size(), 1U);
    EXPECT_TRUE(lines[0].starts_with("ucx+tcp 192.0.2.1:1 trusts its network")) << lines[0];
}

}  // namespace
}  // namespace ros2s::daemon
