// What doctor checks. A Finding is one thing that it checked, and what to do about it.
#pragma once
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "commands.h"
#include "ros2s/api/server_address.h"
#include "ros2s/pki/authority.h"
#include "ros2s/runtime/reactor.h"

namespace ros2s::cli {

enum class Grade : uint8_t {
    good,
    absent,   // not available, and only needed by some users
    slower,   // works, but less fast or less safe; or will stop working soon
    missing,  // something needed is missing
    wrong,    // it exists, and does not work
};

struct Finding {
    std::string what, found;
    Grade grade = Grade::good;
    std::string remedy{};  // a command or a sentence; empty when good
};

// Checks for what this machine lacks for pools and mounts.

// `reactor` is the one that this program runs on.
[[nodiscard]] std::vector<Finding> look_at_machine(Reactor& reactor);
// The fabric's providers here, and the library of each. Loads UCX, as opening one of its providers
// does.
[[nodiscard]] std::vector<Finding> look_at_providers();
// For pools in this directory.
[[nodiscard]] std::vector<Finding> look_at_directory(const std::string& directory);
// A sentence if the file or directory is in memory. Empty if it is not, or does not exist.
[[nodiscard]] std::optional<std::string> in_memory(const std::string& path);

// Problems of directories of certificates, as `ros2store certs init` makes them.

// A certificate that expires within this time should be renewed.
inline constexpr std::chrono::days soon{30};

// The command that issues NAME.crt of a directory again, with its names if it is a server's.
[[nodiscard]] std::string renewal(const std::string& directory, const std::string& name,
                                  const std::vector<std::string>& alternative_names);

// Checks the authority and each certificate in the directory: it can be read, is valid now, has the
// matching key, which no other user can read, and is signed by the authority.
[[nodiscard]] std::vector<Finding> look_at_certificates(const std::string& directory,
                                                        pki::Seconds now);

// Checks those of the pool directory's services and of the usual directory, if they exist; one
// finding if there are none.
[[nodiscard]] std::vector<Finding> look_for_certificates(const std::string& pool_directory,
                                                         pki::Seconds now);

// Checks whether a server can be reached from here: its control plane, step by step, then its data
// plane.
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

// Stops at the first step that fails.
Task<std::vector<Finding>> look_at_server(CommandContext context, ExaminedServer server);

}  // namespace ros2s::cli
