#include "providers.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "ros2s/runtime/os_reactor.h"
#include "ros2s/runtime/run_blocking.h"

namespace ros2s::fabric {
namespace {

TEST(Providers, UnavailableProviderIsExplained) {
    const auto all = look_at_providers();
    ASSERT_EQ(all.size(), 8U);
    for (const Availability& each : all) {
        EXPECT_TRUE(is_provider(each.provider)) << each.provider;
        EXPECT_NE(provider_names().find(each.provider), std::string_view::npos) << each.provider;
        EXPECT_EQ(each.here, each.why_not.empty()) << each.provider << ": " << each.why_not;
    }
    EXPECT_EQ(all[0].provider, "shm");
    EXPECT_TRUE(all[0].here);
    EXPECT_EQ(all[1].provider, "tls");
    EXPECT_TRUE(all[1].here);
    EXPECT_EQ(all[2].provider, "ucx+tcp");
    EXPECT_NE(std::ranges::find(all[2].devices, "lo"), all[2].devices.end()) << all[2].why_not;
    EXPECT_EQ(all[5].provider, "ofi+tcp;ofi_rxm");
    EXPECT_NE(std::ranges::find(all[5].devices, "lo"), all[5].devices.end()) << all[5].why_not;
}

TEST(Providers, ProviderNamesAreListed) {
    EXPECT_EQ(provider_names(),
              "shm, tls, ucx+tcp, ucx+rc, ucx+dc_x, ofi+tcp;ofi_rxm, ofi+verbs;ofi_rxm and "
              "ofi+verbs");
    EXPECT_EQ(untrusting_provider_names(), "shm, tls or ofi+verbs");
    EXPECT_FALSE(is_provider("ucx"));
    EXPECT_FALSE(is_provider(""));
}

TEST(Providers, ProviderPropertiesAreCorrect) {
    for (const Availability& each : look_at_providers()) {
        const std::string& name = each.provider;
        EXPECT_EQ(is_local(name), name == "shm") << name;
        EXPECT_EQ(needs_device(name), name != "shm" && name != "tls") << name;
        EXPECT_EQ(uses_interface(name), name == "ucx+tcp" || name == "ofi+tcp;ofi_rxm") << name;
    }
    for (const char* none : {"", "tcp", "ucx+tcp2"}) {
        EXPECT_FALSE(is_local(none) || needs_device(none) || uses_interface(none)) << none;
        EXPECT_TRUE(trusts_its_network(none)) << none;
    }
}

TEST(Providers, OnlyThreeAllowUntrustedNetworks) {
    for (const Availability& each : look_at_providers()) {
        EXPECT_EQ(trusts_its_network(each.provider),
                  each.provider != "shm" && each.provider != "tls" && each.provider != "ofi+verbs")
            << each.provider;
    }
}

TEST(Providers, MatchingDeviceIsChosen) {
    const std::vector<std::string> interfaces{"lo", "eth0"}, adapters{"mlx5_0", "mlx5_1"};
    Report report;
    for (const char* devices :
         {"eth0, mlx5_1:1", "mlx5_1:1,eth0", " mlx5_9:1 ,, eth0,lo, mlx5_1:1 "}) {
        EXPECT_EQ(choose_device("ucx+tcp", devices, interfaces, report), "eth0") << devices;
        EXPECT_EQ(choose_device("ucx+rc", devices, adapters, report), "mlx5_1:1") << devices;
    }
    EXPECT_TRUE(report.empty());
    EXPECT_FALSE(choose_device("ucx+rc", "eth0,mlx5", adapters, report));
    EXPECT_EQ(report.text(),
              "provider ucx+rc: none of the devices eth0,mlx5 suits it: set the device "
              "(`ucx_device`) to one of mlx5_0, mlx5_1");
}

class OpenDomain : public testing::Test {
  protected:
    void SetUp() override {
        Report report;
        auto made = OsReactor::create({.thread_name = "test"}, report);
        ASSERT_TRUE(made && (*made)->start(report)) << report.text();
        reactor = std::move(*made);
    }
    // Why it cannot be opened; empty: it can.
    std::string opens(const std::string& provider, const std::string& devices) {
        Report report;
        const bool opened = run_blocking(
            *reactor, [&] { return open_and_close(*reactor, provider, devices, report); });
        EXPECT_EQ(opened, report.empty()) << report.text();
        return report.text();
    }
    static Task<bool> open_and_close(Reactor& reactor, std::string provider, std::string devices,
                                     Report& report) {
        auto domain = open_domain(reactor, provider, devices, report);
        if (!domain) co_return false;
        co_await (*domain)->close();
        co_return true;
    }
    std::unique_ptr<OsReactor> reactor;
};

TEST_F(OpenDomain, MatchingDeviceIsOpened) {
    for (const char* provider : {"shm", "ucx+tcp", "ofi+tcp;ofi_rxm"}) {
        EXPECT_EQ(opens(provider, "none_0:1, lo"), "") << provider;
    }
    EXPECT_NE(
        opens("ucx+tcp", "none_0:1, none").find("none of the devices none_0:1, none suits it"),
        std::string::npos);
    EXPECT_NE(opens("tls", "").find("cannot read"), std::string::npos) << opens("tls", "");
    // No adapter of that name is on any machine.
    EXPECT_NE(opens("ucx+rc", "lo, none_0:1").find("provider ucx+rc"), std::string::npos);
    EXPECT_NE(opens("tcp", "lo").find("choose one of shm, tls, ucx+tcp"), std::string::npos);
}

TEST(Providers, NetworkLibraryPathAndVersionAreReported) {
    const auto libraries = network_libraries();
    ASSERT_EQ(libraries.size(), 2U);
    for (const NetworkLibrary& each : libraries) {
        EXPECT_EQ(each.why_not, "");
        EXPECT_TRUE(each.path.starts_with('/')) << each.path;
        EXPECT_NE(each.version.find('.'), std::string::npos) << each.version;
    }
    EXPECT_NE(libraries[0].path.find("libucp"), std::string::npos);
    EXPECT_NE(libraries[1].path.find("libfabric"), std::string::npos);
}

}  // namespace
}  // namespace ros2s::fabric
