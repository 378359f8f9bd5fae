#include "engine_process.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

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
    make_certificates("storage", places().storage_certs);
    give_pools();
    write_settings();
}

EngineProcess::~EngineProcess() {
    if (pid() != 0) EXPECT_EQ(stop(), 0) << log();
    std::string said;
    // 2: the test has made the pool one that cannot be opened.
    const int status =
        run_program(fmt::format("'{}' pool check '{}'", PROGRAM_CLI, pool_directory()), said);
    EXPECT_TRUE(status == 0 || status == 2) << said;
}

void EngineProcess::give_pools() {
    give("CN=client",
         fmt::format("write: \"{0}\", create: \"{0}\", destroy: \"{0}\"", containers_));
}

void EngineProcess::write_settings(const std::string& extra) {
    std::string access;
    for (const auto& [subject, rights] : rights_) {
        access += fmt::format("  \"{}\": {{{}}}\n", subject, rights);
    }
    const std::string ofi =
        over_ofi_ ? fmt::format(", ofi+tcp;ofi_rxm 127.0.0.1:{}", ofi_port_) : "";
    std::ofstream(path("engine.yaml")) << fmt::format(
        "pools: {}{}\n"
        "access:\n{}"
        "control: {{listen: \"unix:{}\", certificates: {}}}\n"
        "data: {{listen: \"shm {}, ucx+tcp 127.0.0.1:{}{}, tls 127.0.0.1:{}\", trusted_network: "
        "loopback}}\n"
        "metrics: {{listen: \"127.0.0.1:{}\", password_file: {}}}\n{}",
        pool_directory(), more_pools_, access, places().engine_control, places().storage_certs,
        places().engine_data, data_port_, ofi, tls_port_, metrics_port_, path("engine.metrics"),
        extra);
}

void EngineProcess::add_pool(const std::string& name) {
    std::string said;
    EXPECT_EQ(run_program(fmt::format("'{}' up --no-daemons '{}' --pool {} --size 64MiB",
                                      PROGRAM_CLI, path(name), name),
                          said),
              0)
        << said;
    more_pools_ += ", " + path(name);
    containers_ += fmt::format(", {}/*", name);
    give_pools();
    write_settings();
}

std::string EngineProcess::metrics() const {
    return metrics_at(metrics_port_, password_in(path("engine.metrics")));
}

connection::Options EngineProcess::options(const std::string& provider) const {
    return {.server = {.control = "unix:" + places().engine_control,
                       .server_name = "localhost",
                       .identity = pki::identity_in(places().storage_certs, "client"),
                       .pool = "pool",
                       .program = "test",
                       .providers = {provider}}};
}

}  // namespace ros2s::tests
