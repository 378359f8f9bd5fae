#include "ros2s/api/server_address.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "ros2s/base/check.h"

namespace ros2s::api {
namespace {

Result<ServerAddress> address_of(const std::string& text, Report& report) {
    const auto uri = Uri::parse(text, report);
    EXPECT_TRUE(uri) << report.text();
    return uri ? server_address(*uri, report) : Result<ServerAddress>(fail(uri.error()));
}

TEST(ServerAddress, HostsAndSocketsAreResolved) {
    unsetenv("ROS2STORE_CERTS");
    struct {
        const char *uri, *control, *name;
        bool same_machine;
    } const cases[] = {
        {"ros2s://engine-1/pool/main", "engine-1:7400", "engine-1", false},
        {"ros2s+dpu://dpu-1/pool/main", "dpu-1:7500", "dpu-1", false},
        {"ros2s://192.0.2.7:7777/pool/main", "192.0.2.7:7777", "192.0.2.7", false},
        {"ros2s://localhost/pool/main", "localhost:7400", "localhost", true},
        {"ros2s://[::1]:7401/pool/main", "[::1]:7401", "::1", true},
        {"ros2s:///pool/main?socket=/run/x", "unix:/run/x", "localhost", true},
    };
    for (const auto& each : cases) {
        Report report;
        const auto address = address_of(each.uri, report);
        ASSERT_TRUE(address) << report.text();
        EXPECT_EQ(address->control, each.control);
        EXPECT_EQ(address->name, each.name);
        EXPECT_EQ(address->same_machine, each.same_machine) << each.uri;
        EXPECT_EQ(address->certificates, "/etc/ros2store/certs");
    }
    setenv("ROS2STORE_CERTS", "/elsewhere", 1);
    Report report;
    EXPECT_EQ(address_of("ros2s://engine-1/pool/main", report)->certificates, "/elsewhere");
    unsetenv("ROS2STORE_CERTS");
}

TEST(ServerAddress, DeviceProviderNeedsDeviceName) {
    unsetenv("ROS2STORE_UCX_DEVICE");
    const auto way_by = [](const char* provider, Report& report) {
        const auto uri = Uri::parse(fmt::format("ros2s://engine-1/pool/main{}", provider), report);
        EXPECT_TRUE(uri) << report.text();
        return data_way({.control = "engine-1:7400", .name = "engine-1", .same_machine = false},
                        *uri, report);
    };
    Report report;
    for (const char* none : {"", "?provider=tls", "?provider=shm"}) {
        EXPECT_TRUE(way_by(none, report)) << none << ": " << report.text();
    }
    const auto unnamed = way_by("?provider=ucx+rc", report);
    ASSERT_FALSE(unnamed);
    EXPECT_EQ(unnamed.error().code, Code::invalid);
    EXPECT_NE(report.text().find("ROS2STORE_UCX_DEVICE=eth0"), std::string::npos) << report.text();
    setenv("ROS2STORE_UCX_DEVICE", "mlx5_0:1", 1);
    EXPECT_TRUE(way_by("?provider=ucx+rc", report));
    unsetenv("ROS2STORE_UCX_DEVICE");
}

TEST(ServerAddress, DirectoryOfRunningDaemonsIsResolved) {
    char base[] = "/tmp/ros2store-address-XXXXXX";
    ROS2S_CHECK(mkdtemp(base) != nullptr);
    const std::string directory = base;
    const std::string uri = "/pool/main?dir=" + directory;
    Report report;
    const auto none = address_of("ros2s+dpu://" + uri, report);
    ASSERT_FALSE(none);
    EXPECT_EQ(none.error().code, Code::not_found);
    EXPECT_NE(report.text().find("ros2store up " + directory), std::string::npos) << report.text();

    std::filesystem::create_directory(directory + "/run");
    const std::string path = directory + "/run/dpu.control";
    sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    const int socket = ::socket(AF_UNIX, SOCK_STREAM, 0);
    ASSERT_EQ(::bind(socket, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    ::close(socket);
    const auto dpu = address_of("ros2s+dpu://" + uri, report);
    ASSERT_TRUE(dpu) << report.text();
    EXPECT_EQ(dpu->control, "unix:" + directory + "/run/dpu.control");
    EXPECT_EQ(dpu->certificates, directory + "/certs/hosts");
    EXPECT_FALSE(address_of("ros2s://" + uri, report)) << "the engine does not run";
    std::filesystem::remove_all(directory);
}

TEST(ServerAddress, UriWithoutUniqueServerIsRefused) {
    for (const char* each : {"ros2s:///pool/main", "ros2s://host/pool/main?socket=/run/x"}) {
        Report report;
        const auto address = address_of(each, report);
        ASSERT_FALSE(address);
        EXPECT_EQ(address.error().code, Code::invalid);
        EXPECT_NE(report.text().find("?dir=DIR"), std::string::npos) << report.text();
    }
}

}  // namespace
}  // namespace ros2s::api
