#include "engine_process.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>

namespace ros2s::tests {

EngineProcess::EngineProcess() {
    std::string said;
    EXPECT_EQ(run_program(
                  fmt::format("'{}' up --no-daemons '{}' --size 256MiB", PROGRAM_CLI, path("pool")),
                  said),
              0)
        << said;
    EXPECT_EQ(run_program(fmt::format("'{}' certs init '{}'", PROGRAM_CLI, path("certs")), said), 0)
        << said;
    write_settings();
}

void EngineProcess::write_settings(const std::string& extra) {
    std::ofstream(path("engine.yaml")) << fmt::format(
        "pools: {}\n"
        "control: {{listen: \"unix:{}\", certificates: {}}}\n"
        "data: {{listen: \"shm {}, ucx+tcp 127.0.0.1:{}\"}}\n"
        "metrics: {{listen: \"127.0.0.1:{}\"}}\n{}",
        path("pool"), path("control.sock"), path("certs"), path("data.sock"), data_port_,
        metrics_port_, extra);
}

direct::DirectOptions EngineProcess::options(const std::string& provider) const {
    return {.control = "unix:" + path("control.sock"),
            .server_name = "localhost",
            .identity = {path("certs/ca.crt"), path("certs/client.crt"), path("certs/client.key")},
            .pool = "pool",
            .program = "test",
            .providers = {provider}};
}

}  // namespace ros2s::tests
