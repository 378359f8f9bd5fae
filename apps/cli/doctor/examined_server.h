// A server that doctor looks at.
#pragma once
#include <string>
#include <vector>

#include "ros2s/api/server_address.h"

namespace ros2s::cli {

struct ExaminedServer {
    api::ServerAddress location;
    std::string start;         // how to start it: a command or a sentence
    std::string engine_start;  // the same for the engine behind a DPU
};

// The server of a URI; `certificates`: a directory instead of the usual one. Errors: those of
// api::server_address().
[[nodiscard]] Result<ExaminedServer> server_of(const api::Uri& uri, const std::string& certificates,
                                               Report& report);
// The daemons that `ros2store up DIR` started, if their sockets exist: a killed daemon's do.
[[nodiscard]] std::vector<ExaminedServer> servers_of(const std::string& directory);

}  // namespace ros2s::cli
