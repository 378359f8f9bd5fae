#include "server_place.h"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>

#include "doctor_certificates.h"
#include "ros2s/api/service_places.h"
#include "session.h"

namespace ros2s::cli {
namespace {

// As the daemons' settings have them.
constexpr uint16_t engine_port = 7400;
constexpr uint16_t dpu_port = 7500;

ServerPlace of_directory(const std::string& directory, bool dpu) {
    const api::ServicePlaces places(directory);
    return {.address = "unix:" + (dpu ? places.dpu_control : places.engine_control),
            .name = "localhost",
            .certificates = dpu ? places.host_certs : places.storage_certs,
            .start = "ros2store up " + shell_word(directory)};
}

bool is_running(const ServerPlace& place) {
    return access(place.address.c_str() + std::string_view("unix:").size(), F_OK) == 0;
}

}  // namespace

Result<ServerPlace> server_place(const api::Uri& uri, const std::string& certificates,
                                 Report& report) {
    const bool dpu = uri.transport == api::Uri::Transport::dpu;
    const char* const program = dpu ? "ros2store-dpu" : "ros2store-engine";
    const int ways = int(!uri.host.empty()) + int(!uri.socket.empty()) + int(!uri.dir.empty());
    if (ways != 1) {
        return report.fail(
            Code::invalid,
            fmt::format("'{}' names {}: write its host and port in front of the pool, or add "
                        "?socket=PATH of its control plane, or ?dir=DIR of `ros2store up DIR`",
                        uri.to_string(), ways == 0 ? "no server" : "more than one server"));
    }
    if (!uri.dir.empty()) {
        std::error_code ignored;
        ServerPlace place =
            of_directory(std::filesystem::absolute(uri.dir, ignored).lexically_normal(), dpu);
        if (!certificates.empty()) place.certificates = certificates;
        if (is_running(place)) return place;
        return report.fail(Code::not_found, fmt::format("no {} of {} is running; start it: {}",
                                                        program, uri.dir, place.start));
    }
    ServerPlace place{
        .certificates = certificates.empty() ? usual_certificates() : certificates,
        .start = fmt::format("start it on its machine: systemctl start {}; control.listen in "
                             "/etc/ros2store/{}.yaml says where it listens",
                             program, dpu ? "dpu" : "engine")};
    if (!uri.socket.empty()) {
        place.address = "unix:" + uri.socket;
        place.name = "localhost";
        return place;
    }
    const uint16_t port = uri.port != 0 ? uri.port : dpu ? dpu_port : engine_port;
    place.name = uri.host;
    place.address = uri.host.contains(':') ? fmt::format("[{}]:{}", uri.host, port)
                                           : fmt::format("{}:{}", uri.host, port);
    return place;
}

std::vector<ServerPlace> servers_of(const std::string& directory) {
    std::vector<ServerPlace> places;
    std::error_code ignored;
    const std::string whole = std::filesystem::absolute(directory, ignored).lexically_normal();
    for (const bool dpu : {false, true}) {
        ServerPlace place = of_directory(whole, dpu);
        if (is_running(place)) places.push_back(std::move(place));
    }
    return places;
}

}  // namespace ros2s::cli
