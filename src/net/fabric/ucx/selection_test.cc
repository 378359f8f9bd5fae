// The choice of transport and device, for machines that are not available; and UCX uses that
// choice, whatever the environment says.
#include "selection.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>

#include "context.h"

namespace ros2s::fabric::ucx {
namespace {

const Machine laptop{.interfaces = {"lo", "eth0"}, .adapters = {}, .connectx = {}};
const Machine server{.interfaces = {"lo", "eth0"},
                     .adapters = {"irdma0", "mlx5_0", "mlx5_1", "rocep1s0f0"},
                     .connectx = {"mlx5_0", "mlx5_1", "rocep1s0f0"}};

std::string value_of(const Settings& settings, const std::string& name) {
    for (const auto& [each, value] : settings) {
        if (each == name) return value;
    }
    return "";
}

TEST(UcxSelection, OptionsSelectOneTransportAndDevice) {
    struct {
        Options options;
        std::string transport;
    } const cases[] = {{{"ucx+tcp", "lo"}, "tcp"},         {{"ucx+tcp", "eth0"}, "tcp"},
                       {{"ucx+rc", "mlx5_0:1"}, "rc"},     {{"ucx+rc", "irdma0:1"}, "rc"},
                       {{"ucx+dc_x", "mlx5_1:1"}, "dc_x"}, {{"ucx+dc_x", "rocep1s0f0:1"}, "dc_x"}};
    for (const auto& each : cases) {
        Report report;
        const auto settings = select(each.options, server, report);
        ASSERT_TRUE(settings) << report.text();
        EXPECT_EQ(value_of(*settings, "TLS"), each.transport);
        EXPECT_EQ(value_of(*settings, "NET_DEVICES"), each.options.device);
        EXPECT_EQ(value_of(*settings, "RNDV_THRESH"), "inf");
    }
}

TEST(UcxSelection, MissingDeviceIsReportedWithRemedy) {
    struct {
        Options options;
        Machine machine;
        Code code;
        std::vector<std::string> says;
    } const cases[] = {
        {{"ucx+rc", ""}, laptop, Code::unsupported, {"ucx+rc", "RDMA adapter", "ucx+tcp"}},
        {{"ucx+rc", "mlx5_0:1"}, laptop, Code::unsupported, {"ucx+rc", "ucx+tcp"}},
        {{"ucx+dc_x", "mlx5_0:1"}, laptop, Code::unsupported, {"ucx+dc_x", "mlx5", "ucx+tcp"}},
        {{"ucx+dc_x", "irdma0:1"}, server, Code::unsupported, {"irdma0", "mlx5_0", "mlx5_1"}},
        {{"ucx+rc", "mlx5_7:1"}, server, Code::unsupported, {"mlx5_7", "irdma0", "device="}},
        {{"ucx+rc", ""}, server, Code::invalid, {"ucx+rc", "device=", "irdma0"}},
        {{"ucx+tcp", ""}, laptop, Code::invalid, {"ucx+tcp", "device=", "lo, eth0"}},
        {{"ucx+tcp", "eth9"}, laptop, Code::unsupported, {"ucx+tcp", "eth9", "lo, eth0"}},
        {{"ucx+shm", "lo"}, server, Code::invalid, {"ucx+shm", "ucx+tcp"}},
        {{"", "lo"}, server, Code::invalid, {"ucx+tcp"}},
    };
    for (const auto& each : cases) {
        Report report;
        const auto settings = select(each.options, each.machine, report);
        ASSERT_FALSE(settings) << each.options.provider << " " << each.options.device;
        EXPECT_EQ(settings.error().code, each.code) << report.text();
        for (const std::string& part : each.says) {
            EXPECT_NE(report.text().find(part), std::string::npos) << part << ": " << report.text();
        }
    }
}

TEST(UcxSelection, FittingDevicesAreListed) {
    const Machine mixed{
        .interfaces = {"lo"}, .adapters = {"irdma0", "mlx5_0"}, .connectx = {"mlx5_0"}};
    Report report;
    using Names = std::vector<std::string>;
    EXPECT_EQ(fitting("ucx+tcp", mixed, report), Result<Names>(Names{"lo"}));
    EXPECT_EQ(fitting("ucx+rc", mixed, report), Result<Names>(Names{"irdma0", "mlx5_0"}));
    EXPECT_EQ(fitting("ucx+dc_x", mixed, report), Result<Names>(Names{"mlx5_0"}));
    EXPECT_TRUE(report.empty());
    EXPECT_EQ(fitting("ucx+rc", laptop, report), fail(Code::unsupported));
    EXPECT_NE(report.text().find("ucx+tcp"), std::string::npos) << report.text();
}

TEST(UcxSelection, LoopbackInterfaceIsFound) {
    const Machine machine = look_at_machine();
    EXPECT_NE(std::ranges::find(machine.interfaces, "lo"), machine.interfaces.end());
}

size_t header_bytes_max(const Context& context) {
    ucp_worker_attr_t attributes{};
    attributes.field_mask = UCP_WORKER_ATTR_FIELD_MAX_AM_HEADER;
    const auto query =
        reinterpret_cast<decltype(&ucp_worker_query)>(context.ucx().find("ucp_worker_query"));
    EXPECT_EQ(query(context.worker(), &attributes), UCS_OK);
    return attributes.max_am_header;
}

// Variables that would choose another transport, device, or size of segment.
TEST(UcxContext, EnvironmentIsIgnored) {
    const Options options{.provider = "ucx+tcp", .device = "lo"};
    Report report;
    const auto settings = select(options, look_at_machine(), report);
    ASSERT_TRUE(settings) << report.text();
    // Without the settings made after the environment is read, to see that it is not read at all.
    const Settings bare{{"TLS", "tcp"}};
    size_t expected = 0;
    size_t expected_bare = 0;
    {
        const auto context = Context::open(options, *settings, report);
        ASSERT_TRUE(context) << report.text();
        expected = header_bytes_max(*context);
        EXPECT_GT(expected, 60U << 10);
        const auto plain = Context::open(options, bare, report);
        ASSERT_TRUE(plain) << report.text();
        expected_bare = header_bytes_max(*plain);
    }
    const std::pair<const char*, const char*> variables[] = {{"UCX_TLS", "sm"},
                                                             {"UCX_NET_DEVICES", "nosuch0"},
                                                             {"UCX_TCP_TX_SEG_SIZE", "3k"},
                                                             {"ROS2STORE_UCX_TLS", "self"},
                                                             {"UCX_PROTO_ENABLE", "y"},
                                                             {"UCX_RNDV_THRESH", "1"}};
    for (const auto& [name, value] : variables) setenv(name, value, 1);
    {
        const auto context = Context::open(options, *settings, report);
        EXPECT_TRUE(context) << report.text();
        if (context) EXPECT_EQ(header_bytes_max(*context), expected);
        const auto plain = Context::open(options, bare, report);
        EXPECT_TRUE(plain) << report.text();
        if (plain) EXPECT_EQ(header_bytes_max(*plain), expected_bare);
    }
    for (const auto& [name, value] : variables) {
        EXPECT_STREQ(getenv(name), value);  // left as it was
        unsetenv(name);
    }
}

}  // namespace
}  // namespace ros2s::fabric::ucx
