#include "settings.h"

#include <gtest/gtest.h>

namespace ros2s::engined {
namespace {

void refused(std::string_view yaml, std::string_view why) {
    Report report;
    const auto settings = Settings::parse(yaml, "file", report);
    ASSERT_FALSE(settings) << yaml;
    EXPECT_EQ(settings.error().code, Code::invalid);
    EXPECT_NE(report.text().find(why), std::string::npos) << report.text();
}
TEST(EngineSettings, Nonsense) {
    refused("{}", "pools");
    refused("pools: ','", "no directory");
    refused("pools: /a\ncontrol: {listen: ''}", "no address");
    refused("pools: /a\ndata: {listen: ''}", "no provider");
    refused("pools: /a\ndata: {listen: tcp 1.2.3.4:5}", "tcp 1.2.3.4:5");
    refused("pools: /a\ndata: {listen: shm}", "no address behind 'shm'");
}

TEST(EngineSettings, TheDocumentReadsAsWhatItSays) {
    Settings settings;
    settings.pools = "/a";
    settings.ucx_device = "mlx5_0:1";
    Report report;
    const auto back = Settings::parse(settings.document(), "file", report);
    ASSERT_TRUE(back) << report.text();
    EXPECT_EQ(back->ucx_device, "mlx5_0:1");
    EXPECT_EQ(back->pools, "/a");
}

}  // namespace
}  // namespace ros2s::engined
