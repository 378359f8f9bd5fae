// The files that daemons of a pool directory need: certificates of two development authorities, and
// settings (api::ServicePlaces says where). Made once; people may edit the settings, and what is
// there is kept.
//
// The calls here use the file system directly and run the daemons' programs for a moment: they
// block.
#pragma once
#include <string>
#include <string_view>

#include "commands.h"
#include "ros2s/api/service_places.h"

namespace ros2s::cli {

// Whether daemons can keep their sockets in DIR and name it in lists. Changes nothing. Errors:
// invalid, with a sentence.
[[nodiscard]] Result<> check_service_directory(const std::string& directory, Report& report);

// Whether it is a list of providers with commas between them, of which those that trust their
// network are allowed. Errors: invalid, with a sentence.
[[nodiscard]] Result<> check_providers(std::string_view providers, bool trusted_network,
                                       Report& report);

struct ServiceFilesWish {
    std::string directory;  // absolute
    std::string pool;
    std::string providers;  // of the DPU daemon towards the engine; "": as they are, or shm
};
// Errors, with a sentence: not_found (a daemon's program), those of files and of pki; invalid (the
// settings have no line for the providers).
[[nodiscard]] Task<Result<>> make_service_files(Workplace work, ServiceFilesWish wish);

// Removes them, with logs and sockets. No daemon runs. Errors: those of files, with a sentence.
[[nodiscard]] Result<> remove_service_files(const std::string& directory, Report& report);

}  // namespace ros2s::cli
