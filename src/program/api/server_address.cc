#include "ros2s/api/server_address.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "ros2s/api/service_paths.h"
#include "ros2s/base/trusted_file.h"
#include "ros2s/fabric/providers/providers.h"
#include "ros2s/pool/pool_directory.h"

namespace ros2s::api {
namespace {

constexpr std::string_view unix_socket = "unix:";

bool is_loopback(const std::string& host) {
    return host == "localhost" || host == "::1" || host.starts_with("127.");
}

std::string from_environment(const char* name, std::string otherwise) {
    const char* value = std::getenv(name);
    return value == nullptr || *value == '\0' ? std::move(otherwise) : value;
}

// Connecting to anything else would fail for a reason that names no cause.
Result<> check_socket(const std::string& path, const struct stat& facts, Report& report) {
    if (S_ISSOCK(facts.st_mode)) {
        if (::faccessat(AT_FDCWD, path.c_str(), W_OK, AT_EACCESS) == 0) return {};
        const int cause = errno;
        return report.fail(fail_errno(cause).error(),
                           "cannot connect to {}: {}; the socket belongs to uid {}, gid {} (mode "
                           "{:04o}): run the program as a user who may write to it",
                           path, std::strerror(cause), facts.st_uid, facts.st_gid,
                           facts.st_mode & 07777U);
    }
    return report.fail(Code::invalid, "{} is not a server's socket, but {}", path,
                       kind_of_file(facts.st_mode));
}

}  // namespace

std::string client_certificates() {
    return from_environment("ROS2STORE_CERTS", "/etc/ros2store/certs");
}

std::string key_place() { return from_environment("ROS2STORE_KEYS", ""); }

ServerAddress server_in(const std::string& directory, Uri::Transport transport) {
    const bool dpu = transport == Uri::Transport::dpu;
    std::error_code ignored;
    const ServicePaths places(
        std::filesystem::absolute(directory, ignored).lexically_normal().string());
    return {
        .control = std::string(unix_socket) + (dpu ? places.dpu_control : places.engine_control),
        .name = "localhost",
        .certificates = dpu ? places.host_certs : places.storage_certs};
}

Result<ServerAddress> running_server(const std::string& directory, Uri::Transport transport,
                                     Report& report) {
    const std::string_view daemon = transport == Uri::Transport::dpu ? "DPU daemon" : "engine";
    ServerAddress address = server_in(directory, transport);
    const std::string path = address.control.substr(unix_socket.size());
    ROS2S_TRY(check_trusted(path, report));
    struct stat facts{};
    if (::stat(path.c_str(), &facts) != 0) {
        const int cause = errno;
        if (cause == ENOENT) {
            // In a wrong place `up` would make a pool.
            Report why;
            const auto pool = pool::read_pool_settings(directory, why);
            if (!pool && pool.error().code == Code::not_found) {
                return report.fail(pool.error(), why.text());
            }
            return report.fail(Code::not_found,
                               "no {} of {} is running (there is no {}); start it: ros2store up {}",
                               daemon, directory, path, directory);
        }
        return report.fail(fail_errno(cause).error(), "cannot look for the {} of {} ({}: {}){}",
                           daemon, directory, path, std::strerror(cause),
                           cause == EACCES ? ": run the program as the user who started it" : "");
    }
    ROS2S_TRY(check_socket(path, facts, report));
    return address;
}

Result<ServerAddress> server_address(const Uri& uri, Report& report) {
    const bool dpu = uri.transport == Uri::Transport::dpu;
    const int ways = int(!uri.host.empty()) + int(!uri.socket.empty()) + int(!uri.dir.empty());
    if (ways != 1) {
        return report.fail(Code::invalid,
                           "'{}' names {}: write its host and port in front of the pool, or add "
                           "?socket=PATH of its control plane, or ?dir=DIR of `ros2store up DIR`",
                           uri.to_string(), ways == 0 ? "no server" : "more than one server");
    }
    if (!uri.dir.empty()) {
        return running_server(uri.dir, uri.transport, report);
    }
    if (!uri.socket.empty()) {
        // It may belong to another user: the server shows a certificate.
        struct stat facts{};
        if (::stat(uri.socket.c_str(), &facts) == 0) {
            ROS2S_TRY(check_socket(uri.socket, facts, report));
        }
        return ServerAddress{.control = std::string(unix_socket) + uri.socket,
                             .name = "localhost",
                             .certificates = client_certificates()};
    }
    const uint16_t port = uri.port != 0 ? uri.port : dpu ? dpu_control_port : engine_control_port;
    return ServerAddress{.control = uri.host.contains(':') ? fmt::format("[{}]:{}", uri.host, port)
                                                           : fmt::format("{}:{}", uri.host, port),
                         .name = uri.host,
                         .certificates = client_certificates(),
                         .same_machine = is_loopback(uri.host)};
}

Result<> check_named_socket(const Uri& uri, Report& report) {
    struct stat facts{};
    if (!uri.socket.empty() && ::stat(uri.socket.c_str(), &facts) != 0) {
        const int cause = errno;
        return report.fail(
            fail_errno(cause).error(), "cannot find the server's socket {}: {}: check the path{}",
            uri.socket, std::strerror(cause), cause == ENOENT ? ", and that the server runs" : "");
    }
    constexpr size_t path_bytes_max = sizeof(sockaddr_un::sun_path) - 1;
    if (uri.socket.size() <= path_bytes_max) return {};
    return report.fail(Code::invalid,
                       "the path of the socket {} has {} bytes, and at most {} can be used: name "
                       "it by a shorter one, such as a symbolic link",
                       uri.socket, uri.socket.size(), path_bytes_max);
}

void say_what_helps(const Uri& uri, const Error& error, Report& report) {
    if (error.code == Code::not_found && report.text().contains(client_certificates() + "/")) {
        report.say("or name the directory that has them in ROS2STORE_CERTS");
    }
    // A killed daemon leaves its sockets, so it seemed to run. Other causes have other remedies.
    const bool is_down =
        error.code == Code::disconnected &&
        (error.os_errno == EREMOTEIO || report.text().contains("does not run"));  // engine or DPU
    if (is_down && !uri.dir.empty()) {
        report.say("start what does not run: ros2store up {}", uri.dir);
    }
}

Result<DataWay> data_way(const ServerAddress& server, const Uri& uri, Report& report) {
    // A network is used by the providers that need not trust it, unless the URI or a device selects
    // another one.
    const bool dpu = uri.transport == Uri::Transport::dpu;
    const std::string device =
        from_environment("ROS2STORE_UCX_DEVICE", server.same_machine ? "lo" : "");
    DataWay way{.ucx_device = device};
    if (!uri.provider.empty()) {
        way.providers = {uri.provider};
    } else if (server.same_machine) {
        way.providers = {"shm"};
    } else if (dpu) {
        way.providers = {device.contains(':') ? "ofi+verbs" : "tls"};
    } else if (device.contains(':')) {
        way.providers = {"ofi+verbs", "ucx+rc"};
    } else {
        way.providers = {device.empty() ? "tls" : "ucx+tcp"};
    }
    if (device.empty() && fabric::needs_device(way.providers.front())) {
        return report.fail(Code::invalid,
                           "name the network device by which {} is reached in the environment: "
                           "ROS2STORE_UCX_DEVICE=eth0, or mlx5_0:1 for RDMA; `ip -brief address` "
                           "lists those of this machine",
                           server.control);
    }
    return way;
}

}  // namespace ros2s::api
