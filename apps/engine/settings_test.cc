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
TEST(EngineSettings, InvalidValuesAreRefused) {
    refused("{}", "pools");
    refused("pools: ','", "no directory");
    refused("pools: /a\ncontrol: {listen: ''}", "no address");
    refused("pools: /a\ndata: {listen: ''}", "no provider");
    refused("pools: /a\ndata: {listen: tcp 1.2.3.4:5}", "tcp 1.2.3.4:5");
    refused("pools: /a\ndata: {listen: shm}", "the provider 'shm' has no address");
    // With the line.
    refused("pools: /a\naccess:\n  CN=a: {read: p/c}\n  CN=b:\n    read: p/c\n    write: c",
            "file:6: access: 'CN=b': write: 'c' is not of the form");
    refused("pools: /a\naccess:\n  CN=a: {read: p/c}\n  b: {read: p/c}", "file:4: access: 'b'");
    refused("pools: /a\nlimits:\n  CN=a:\n    weight: 0", "file:4: limits: 'CN=a': weight");
    refused("pools: /a\nadministrators: CN=a; b", "file:2: administrators: 'b'");
    refused("pools: /a\ncapabilities:\n  life: 1min\n  delegates: b",
            "file:4: capabilities: delegates: 'b'");
}

// A peer that reaches the library's port can write into the process; with loopback, every user of
// this machine can.
TEST(EngineSettings, DefaultsAdmitNobodyWithoutATicket) {
    Report report;
    const auto settings = Settings::parse("pools: /a", "file", report);
    ASSERT_TRUE(settings) << report.text();
    const auto places = settings->data_addresses("file", report);
    ASSERT_TRUE(places) << report.text();
    ASSERT_EQ(places->size(), 1U);
    EXPECT_EQ(places->front().provider, "shm");
    refused("pools: /a\ndata: {listen: ucx+tcp 127.0.0.1:7401}", "trusted_network: yes");
    refused("pools: /a\ndata: {listen: ucx+tcp 127.0.0.1:7401, trusted_network: yes}",
            "trusted_network: loopback");
    refused("pools: /a\ndata: {listen: ucx+tcp 192.0.2.1:7401, trusted_network: yes}", "device lo");
    refused("pools: /a\ndata: {listen: ucx+rc 192.0.2.1:7401}", "trusted_network: yes");
    EXPECT_TRUE(Settings::parse(
        "pools: /a\ndata: {listen: ucx+tcp 192.0.2.1:7401, trusted_network: yes, ucx_device: eth0}",
        "file", report))
        << report.text();
}

TEST(EngineSettings, DocumentRoundTrips) {
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
