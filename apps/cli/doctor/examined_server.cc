#include "examined_server.h"

#include <fmt/format.h>

#include "output/console.h"

namespace ros2s::cli {

using Transport = api::Uri::Transport;

namespace {

ExaminedServer started_by_up(api::ServerAddress location, const std::string& directory) {
    const std::string up = "ros2store up " + shell_word(directory);
    return {.location = std::move(location), .start = up, .engine_start = up};
}

}  // namespace

Result<ExaminedServer> server_of(const api::Uri& uri, const std::string& certificates,
                                 Report& report) {
    ROS2S_TRY_ASSIGN(api::ServerAddress location, api::server_address(uri, report));
    if (!certificates.empty()) location.certificates = certificates;
    if (!uri.dir.empty()) return started_by_up(std::move(location), uri.dir);
    const bool dpu = uri.transport == Transport::dpu;
    return ExaminedServer{
        .location = std::move(location),
        .start = fmt::format("start it on its machine: systemctl start ros2store-{0}; 'control: "
                             "listen' in /etc/ros2store/{0}.yaml is its address",
                             dpu ? "dpu" : "engine"),
        .engine_start =
            "start it on its machine: systemctl start ros2store-engine, or see `ceph health` if "
            "the pool is in Ceph; the DPU's log has its address and the error: journalctl -u "
            "ros2store-dpu -p warning"};
}

std::vector<ExaminedServer> servers_of(const std::string& directory) {
    std::vector<ExaminedServer> servers;
    for (const Transport each : {Transport::direct, Transport::dpu}) {
        Report ignored;
        auto location = api::running_server(directory, each, ignored);
        if (location) servers.push_back(started_by_up(std::move(*location), directory));
    }
    return servers;
}

}  // namespace ros2s::cli
