#include "providers.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace ros2s::fabric {
namespace {

TEST(Providers, each_is_here_or_says_why_not) {
    const auto all = look_at_providers();
    ASSERT_EQ(all.size(), 4U);
    for (const Availability& each : all) {
        EXPECT_TRUE(is_provider(each.provider)) << each.provider;
        EXPECT_NE(provider_names().find(each.provider), std::string_view::npos) << each.provider;
        EXPECT_EQ(each.here, each.why_not.empty()) << each.provider << ": " << each.why_not;
    }
    EXPECT_EQ(all[0].provider, "shm");
    EXPECT_TRUE(all[0].here);
    EXPECT_EQ(all[1].provider, "ucx+tcp");
    EXPECT_NE(std::ranges::find(all[1].devices, "lo"), all[1].devices.end()) << all[1].why_not;
}

TEST(Providers, the_library_of_ucx_has_a_place_and_a_version) {
    Report report;
    const auto library = ucx_library(report);
    ASSERT_TRUE(library) << report.text();
    EXPECT_TRUE(library->path.starts_with('/')) << library->path;
    EXPECT_NE(library->version.find('.'), std::string::npos) << library->version;
}

}  // namespace
}  // namespace ros2s::fabric
