#include "providers.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace ros2s::fabric {
namespace {

TEST(Providers, each_is_here_or_says_why_not) {
    const auto all = look_at_providers();
    ASSERT_EQ(all.size(), 7U);
    for (const Availability& each : all) {
        EXPECT_TRUE(is_provider(each.provider)) << each.provider;
        EXPECT_NE(provider_names().find(each.provider), std::string_view::npos) << each.provider;
        EXPECT_EQ(each.here, each.why_not.empty()) << each.provider << ": " << each.why_not;
    }
    EXPECT_EQ(all[0].provider, "shm");
    EXPECT_TRUE(all[0].here);
    EXPECT_EQ(all[1].provider, "ucx+tcp");
    EXPECT_NE(std::ranges::find(all[1].devices, "lo"), all[1].devices.end()) << all[1].why_not;
    EXPECT_EQ(all[4].provider, "ofi+tcp;ofi_rxm");
    EXPECT_NE(std::ranges::find(all[4].devices, "lo"), all[4].devices.end()) << all[4].why_not;
}

TEST(Providers, each_network_library_has_a_place_and_a_version) {
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
