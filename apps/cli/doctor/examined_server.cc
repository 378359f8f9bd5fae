#include "examined_server.h"

#include <fmt/format.h>

#include "output/session.h"

namespace ros2s::cli {

using Transport = api::Uri::Transport;

namespace {

ExaminedServer started_by_up(api::ServerPlace place, const std::string& directory) {
    const std::string up = "ros2store up " + shell_word(directory);
    return {.place = std::move(place), .start = up, .engine_start = up};
}

}  // namespace

Result<ExaminedServer> server_of(const api::Uri& uri, const std::string& certificates,
                                 Report& report) {
    ROS2S_TRY_ASSIGN(api::ServerPlace place, api::server_place(uri, report));
    if (!certificates.empty()) place.certificates = certificates;
    if (!uri.dir.empty()) return started_by_up(std::move(place), uri.dir);
    const bool dpu = uri.transport == Transport::dpu;
    return ExaminedServer{
        .place = std::move(place),
        .start = fmt::format("start it on its machine: systemctl start ros2store-{0}; "
                             "control.listen in /etc/ros2store/{0}.yaml says where it listens",
                             dpu ? "dpu" : "engine"),
        .engine_start =
            "start it on its machine: systemctl start ros2store-engine; the DPU's log "
            "says where that is and what fails: journalctl -u ros2store-dpu -p warning"};
}

std::vector<ExaminedServer> servers_of(const std::string& directory) {
    std::vector<ExaminedServer> servers;
    for (const Transport each : {Transport::direct, Transport::dpu}) {
        api::ServerPlace place = api::server_in(directory, each);
        if (!api::is_running(place)) continue;
        servers.push_back(started_by_up(std::move(place), directory));
    }
    return servers;
}

}  // namespace ros2s::cli
