#include "engine_process.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "ros2s/pki/certificate.h"

namespace ros2s::tests {

EngineProcess::EngineProcess() {
    std::string said;
    EXPECT_EQ(run_program(
                  fmt::format("'{}' up --no-daemons '{}' --size 256MiB", PROGRAM_CLI, path("pool")),
                  said),
              0)
        << said;
    std::filesystem::create_directory(pool_directory() + "/certs");
    std::filesystem::create_directory(places().run);
    EXPECT_EQ(
        run_program(fmt::format("'{}' certs init '{}'", PROGRAM_CLI, places().storage_certs), said),
        0)
        << said;
    write_settings();
}

void EngineProcess::write_settings(const std::string& extra) {
    std::ofstream(path("engine.yaml")) << fmt::format(
        "pools: {}\n"
        "control: {{listen: \"unix:{}\", certificates: {}}}\n"
        "data: {{listen: \"shm {}, ucx+tcp 127.0.0.1:{}\"}}\n"
        "metrics: {{listen: \"127.0.0.1:{}\"}}\n{}",
        pool_directory(), places().engine_control, places().storage_certs, places().engine_data,
        data_port_, metrics_port_, extra);
}

std::string EngineProcess::metrics() const {
    const int descriptor = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(metrics_port_);
    EXPECT_EQ(::connect(descriptor, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    const std::string_view request = "GET /metrics HTTP/1.0\r\n\r\n";
    EXPECT_EQ(::send(descriptor, request.data(), request.size(), 0),
              static_cast<ssize_t>(request.size()));
    std::string answer;
    char part[4096];
    for (ssize_t bytes = 0; (bytes = ::recv(descriptor, part, sizeof part, 0)) > 0;) {
        answer.append(part, static_cast<size_t>(bytes));
    }
    ::close(descriptor);
    return answer;
}

direct::DirectOptions EngineProcess::options(const std::string& provider) const {
    return {.control = "unix:" + places().engine_control,
            .server_name = "localhost",
            .identity = pki::identity_in(places().storage_certs, "client"),
            .pool = "pool",
            .program = "test",
            .providers = {provider}};
}

}  // namespace ros2s::tests
