// The choice of provider and device, for machines that are not available; and libfabric uses that
// choice, whatever the environment says.
#include "selection.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "context.h"

namespace ros2s::fabric::ofi {
namespace {

const Machine laptop{.interfaces = {"lo", "eth0"}, .adapters = {}};
const Machine server{.interfaces = {"lo", "eth0"}, .adapters = {"irdma0", "mlx5_0"}};

TEST(OfiSelection, OptionsSelectOneProviderAndDevice) {
    struct {
        Options options;
        std::string provider;
        std::string domain;
    } const cases[] = {{{"ofi+tcp;ofi_rxm", "lo"}, "tcp;ofi_rxm", "lo"},
                       {{"ofi+tcp;ofi_rxm", "eth0"}, "tcp;ofi_rxm", "eth0"},
                       {{"ofi+verbs;ofi_rxm", "mlx5_0"}, "verbs;ofi_rxm", "mlx5_0"},
                       {{"ofi+verbs", "mlx5_0:1"}, "verbs", "mlx5_0"},
                       {{"ofi+verbs;ofi_rxm", "irdma0:1"}, "verbs;ofi_rxm", "irdma0"}};
    for (const auto& each : cases) {
        Report report;
        const auto choice = select(each.options, server, report);
        ASSERT_TRUE(choice) << report.text();
        EXPECT_EQ(choice->provider, each.provider);
        EXPECT_EQ(choice->domain, each.domain);
        EXPECT_EQ(choice->connections, each.provider == "verbs");
        // libfabric would cut a message longer than a buffer.
        if (each.provider == "verbs;ofi_rxm") EXPECT_EQ(choice->message_bytes_max, buffer_bytes);
    }
}

TEST(OfiSelection, MissingDeviceIsReportedWithRemedy) {
    const std::string tcp = "ofi+tcp;ofi_rxm";
    const std::string verbs = "ofi+verbs;ofi_rxm";
    struct {
        Options options;
        Machine machine;
        Code code;
        std::vector<std::string> says;
    } const cases[] = {
        {{verbs, ""}, laptop, Code::unsupported, {verbs, "RDMA adapter", tcp}},
        {{verbs, "mlx5_0"}, laptop, Code::unsupported, {verbs, tcp}},
        {{verbs, "mlx5_7"}, server, Code::unsupported, {"mlx5_7", "irdma0, mlx5_0", "device="}},
        {{verbs, "mlx5_0:2"}, server, Code::unsupported, {verbs, "port 1", "device="}},
        {{verbs, ""}, server, Code::invalid, {verbs, "device=", "irdma0"}},
        {{tcp, ""}, laptop, Code::invalid, {tcp, "device=", "lo, eth0"}},
        {{tcp, "eth9"}, laptop, Code::unsupported, {tcp, "eth9", "lo, eth0"}},
        {{"ofi+verbs", "mlx5_0"}, laptop, Code::unsupported, {"ofi+verbs", "RDMA adapter", tcp}},
        {{"ofi+rdma", "mlx5_0"}, server, Code::invalid, {"'ofi+rdma'", tcp, verbs, "ofi+verbs"}},
        {{"", "lo"}, server, Code::invalid, {tcp}},
    };
    for (const auto& each : cases) {
        Report report;
        const auto choice = select(each.options, each.machine, report);
        ASSERT_FALSE(choice) << each.options.provider << " " << each.options.device;
        EXPECT_EQ(choice.error().code, each.code) << report.text();
        for (const std::string& part : each.says) {
            EXPECT_NE(report.text().find(part), std::string::npos) << part << ": " << report.text();
        }
    }
}

// An interface of this machine for which libfabric has no address.
TEST(OfiContext, DeviceWithoutAddressIsReportedWithRemedy) {
    Report report;
    const auto context = Context::open({.provider = "ofi+tcp;ofi_rxm", .device = "nosuch0"},
                                       {.provider = "tcp;ofi_rxm", .domain = "nosuch0"}, report);
    ASSERT_FALSE(context);
    EXPECT_EQ(context.error().code, Code::unsupported) << report.text();
    for (const char* part : {"ofi+tcp;ofi_rxm", "nosuch0", "IP address", "device="}) {
        EXPECT_NE(report.text().find(part), std::string::npos) << report.text();
    }
}

// Variables that would choose another provider or interface, or that are invalid.
TEST(OfiContext, EnvironmentIsIgnored) {
    const std::pair<const char*, const char*> variables[] = {
        {"FI_PROVIDER", "sockets"},
        {"FI_TCP_IFACE", "nosuch0"},
        {"FI_TCP_PORT_LOW_RANGE", "7"},
        {"FI_OFI_RXM_EAGER_LIMIT", "1"},
        {"FI_OFI_RXM_DATA_AUTO_PROGRESS", "1"}};
    for (const auto& [name, value] : variables) setenv(name, value, 1);
    {
        Report report;
        const auto context = Context::open({.provider = "ofi+tcp;ofi_rxm", .device = "lo"},
                                           {.provider = "tcp;ofi_rxm", .domain = "lo"}, report);
        EXPECT_TRUE(context) << report.text();
        if (context) {
            sockaddr address{};
            ASSERT_GE(context->address().size(), sizeof address);
            std::memcpy(&address, context->address().data(), sizeof address);
            EXPECT_EQ(address.sa_family, AF_INET);
        }
    }
    for (const auto& [name, value] : variables) {
        EXPECT_STREQ(getenv(name), value);  // left as it was
        unsetenv(name);
    }
}

}  // namespace
}  // namespace ros2s::fabric::ofi
