// Where the server of a URI is, and how a client of this machine comes to it.
#pragma once
#include <string>
#include <vector>

#include "ros2s/api/uri.h"

namespace ros2s::cli {

struct ServerPlace {
    std::string address;       // of its control plane, as gRPC has it: "dpu-1:7500", "unix:/…"
    std::string name;          // that its certificate must have
    std::string certificates;  // the directory with ca.crt, client.crt and client.key
    std::string start;         // what starts it
};

// The server of a URI; `certificates`: a directory instead of the usual one. Errors: invalid (no
// server, or more than one), not_found (none of `dir` is running); the report says what to do.
[[nodiscard]] Result<ServerPlace> server_place(const api::Uri& uri, const std::string& certificates,
                                               Report& report);
// Those that `ros2store up DIR` started, as far as their sockets are there.
[[nodiscard]] std::vector<ServerPlace> servers_of(const std::string& directory);

}  // namespace ros2s::cli
