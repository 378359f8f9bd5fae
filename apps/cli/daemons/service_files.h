// The files that the daemons of a pool directory need: certificates of two development authorities,
// and settings (api::ServicePaths has the paths). They are made once. People may edit the
// settings, and existing files are kept.
//
// The calls here use the file system directly and run the daemons' programs for a short time: they
// block.
#pragma once
#include <string>
#include <string_view>

#include "commands.h"
#include "ros2s/api/service_paths.h"

namespace ros2s::cli {

// Checks that daemons can keep their sockets in DIR, that settings can contain its name, and that
// nobody else could change it. Changes nothing. Errors, with a sentence: invalid, denied.
[[nodiscard]] Result<> check_service_directory(const std::string& directory, Report& report);

// Checks a list of providers, separated by commas, and that those with a trusted network are
// allowed. Errors: invalid, with a sentence.
[[nodiscard]] Result<> check_providers(std::string_view providers, bool trusted_network,
                                       Report& report);

struct ServiceFilesRequest {
    std::string directory;  // absolute
    std::string pool;
    std::string providers;   // for the DPU daemon's connection to the engine; "": unchanged, or shm
    std::string loopback{};  // for listeners that only this machine reaches; "": it has none
};
// Errors, with a sentence: not_found (a daemon's program), those of files and of pki; invalid (the
// settings have no line for the providers, or do not allow them).
[[nodiscard]] Task<Result<>> make_service_files(CommandContext context,
                                                ServiceFilesRequest request);

// Removes them, with logs and sockets. No daemon may be running. Errors: those of files, with a
// sentence.
[[nodiscard]] Result<> remove_service_files(const std::string& directory, Report& report);

}  // namespace ros2s::cli
