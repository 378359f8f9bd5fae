#include "ros2s/api/server_place.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "ros2s/api/service_places.h"

namespace ros2s::api {
namespace {

constexpr std::string_view unix_socket = "unix:";

bool is_loopback(const std::string& host) {
    return host == "localhost" || host == "::1" || host.starts_with("127.");
}

}  // namespace

std::string client_certificates() {
    const char* set = std::getenv("ROS2STORE_CERTS");
    return set == nullptr || *set == '\0' ? "/etc/ros2store/certs" : set;
}

ServerPlace server_in(const std::string& directory, Uri::Transport transport) {
    const bool dpu = transport == Uri::Transport::dpu;
    std::error_code ignored;
    const ServicePlaces places(
        std::filesystem::absolute(directory, ignored).lexically_normal().string());
    return {
        .control = std::string(unix_socket) + (dpu ? places.dpu_control : places.engine_control),
        .name = "localhost",
        .certificates = dpu ? places.host_certs : places.storage_certs};
}

bool is_running(const ServerPlace& place) {
    return access(place.control.c_str() + unix_socket.size(), F_OK) == 0;
}

Result<ServerPlace> server_place(const Uri& uri, Report& report) {
    const bool dpu = uri.transport == Uri::Transport::dpu;
    const int ways = int(!uri.host.empty()) + int(!uri.socket.empty()) + int(!uri.dir.empty());
    if (ways != 1) {
        return report.fail(
            Code::invalid,
            fmt::format("'{}' names {}: write its host and port in front of the pool, or add "
                        "?socket=PATH of its control plane, or ?dir=DIR of `ros2store up DIR`",
                        uri.to_string(), ways == 0 ? "no server" : "more than one server"));
    }
    if (!uri.dir.empty()) {
        ServerPlace place = server_in(uri.dir, uri.transport);
        if (is_running(place)) return place;
        return report.fail(
            Code::not_found,
            fmt::format("no {} of {} is running (there is no {}); start it: ros2store up {}",
                        dpu ? "DPU daemon" : "engine", uri.dir,
                        place.control.substr(unix_socket.size()), uri.dir));
    }
    if (!uri.socket.empty()) {
        return ServerPlace{.control = std::string(unix_socket) + uri.socket,
                           .name = "localhost",
                           .certificates = client_certificates()};
    }
    const uint16_t port = uri.port != 0 ? uri.port : dpu ? dpu_control_port : engine_control_port;
    return ServerPlace{.control = uri.host.contains(':') ? fmt::format("[{}]:{}", uri.host, port)
                                                         : fmt::format("{}:{}", uri.host, port),
                       .name = uri.host,
                       .certificates = client_certificates(),
                       .same_machine = is_loopback(uri.host)};
}

}  // namespace ros2s::api
