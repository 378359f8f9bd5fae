// A server that doctor looks at.
#pragma once
#include <string>
#include <vector>

#include "ros2s/api/server_place.h"

namespace ros2s::cli {

struct ExaminedServer {
    api::ServerPlace place;
    std::string start;         // what starts it: a command or a sentence
    std::string engine_start;  // the same of the engine behind a DPU
};

// The server of a URI; `certificates`: a directory instead of the usual one. Errors: those of
// api::server_place().
[[nodiscard]] Result<ExaminedServer> server_of(const api::Uri& uri, const std::string& certificates,
                                               Report& report);
// Those that `ros2store up DIR` started, as far as their sockets are there: a killed one's are.
[[nodiscard]] std::vector<ExaminedServer> servers_of(const std::string& directory);

}  // namespace ros2s::cli
