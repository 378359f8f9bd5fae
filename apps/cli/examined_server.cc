#include "examined_server.h"

#include <fmt/format.h>

#include "session.h"

namespace ros2s::cli {

using Transport = api::Uri::Transport;

Result<ExaminedServer> server_of(const api::Uri& uri, const std::string& certificates,
                                 Report& report) {
    ROS2S_TRY_ASSIGN(api::ServerPlace place, api::server_place(uri, report));
    if (!certificates.empty()) place.certificates = certificates;
    const bool dpu = uri.transport == Transport::dpu;
    return ExaminedServer{
        std::move(place),
        uri.dir.empty() ? fmt::format("start it on its machine: systemctl start ros2store-{0}; "
                                      "control.listen in /etc/ros2store/{0}.yaml says where it "
                                      "listens",
                                      dpu ? "dpu" : "engine")
                        : "ros2store up " + shell_word(uri.dir)};
}

std::vector<ExaminedServer> servers_of(const std::string& directory) {
    std::vector<ExaminedServer> servers;
    for (const Transport each : {Transport::direct, Transport::dpu}) {
        api::ServerPlace place = api::server_in(directory, each);
        if (!api::is_running(place)) continue;
        servers.push_back({std::move(place), "ros2store up " + shell_word(directory)});
    }
    return servers;
}

}  // namespace ros2s::cli
