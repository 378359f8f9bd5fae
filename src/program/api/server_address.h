// ServerAddress: the address of the server that a URI names, and the certificates for clients of
// this machine.
//
// A plain value; any thread.
#pragma once
#include <string>
#include <vector>

#include "ros2s/api/uri.h"
#include "ros2s/base/result.h"

namespace ros2s::api {

inline constexpr uint16_t engine_control_port = 7400;
inline constexpr uint16_t dpu_control_port = 7500;

struct ServerAddress {
    std::string control;       // its control plane: "dpu-1:7500", "unix:/srv/p/run/dpu.control"
    std::string name;          // that its certificate must have
    std::string certificates;  // a directory with ca.crt, client.crt and client.key
    bool same_machine = true;
};

// Errors, with a sentence: invalid (no server, or more than one), those of running_server().
[[nodiscard]] Result<ServerAddress> server_address(const Uri& uri, Report& report);

// If the URI names a socket: checks that it exists and can be used. Errors, with a sentence:
// invalid (its path is too long), not_found, denied, those of stat(2).
[[nodiscard]] Result<> check_named_socket(const Uri& uri, Report& report);

// After an error of using the URI's server: the report also has the remedy, if that is known, such
// as starting the daemons of `dir`.
void say_what_helps(const Uri& uri, const Error& error, Report& report);

// The transport of the data to the server.
struct DataWay {
    std::vector<std::string> providers;  // best first: "ofi+verbs", "ucx+rc"
    std::string ucx_device;              // of ucx and ofi: $ROS2STORE_UCX_DEVICE
};
// Errors: invalid (no network device is named, and one is needed).
[[nodiscard]] Result<DataWay> data_way(const ServerAddress& server, const Uri& uri, Report& report);

// The engine or DPU daemon that `ros2store up DIR` starts, whether it runs or not.
[[nodiscard]] ServerAddress server_in(const std::string& directory, Uri::Transport transport);
// The same, if its socket exists and can be used. Errors, with a sentence: not_found (there is no
// pool, or it does not run), denied (this user may not use it; or others could change the
// directory, as of check_trusted()), invalid (there is something else).
[[nodiscard]] Result<ServerAddress> running_server(const std::string& directory,
                                                   Uri::Transport transport, Report& report);

// The directory of the clients' certificates: $ROS2STORE_CERTS, or /etc/ros2store/certs if it is
// not set.
[[nodiscard]] std::string client_certificates();
// The location of the keys of encrypted containers: $ROS2STORE_KEYS; empty if it is not set.
[[nodiscard]] std::string key_place();

}  // namespace ros2s::api
