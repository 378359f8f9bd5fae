// The location of a pool: the arguments of the commands about pools and containers.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "commands.h"
#include "ros2s/api/uri.h"
#include "ros2s/pool/embedded_pool.h"
#include "ros2s/runtime/os_reactor.h"

namespace ros2s::cli {

[[nodiscard]] bool is_uri(std::string_view text);
// The pool directory that "DIR" or a URI names. Errors: invalid (the URI), not_found (the pool
// there has another name), unsupported (it is elsewhere).
[[nodiscard]] Result<std::string> pool_directory_of(std::string_view location, Report& report);
// The absolute path of the directory. Errors: invalid (no name, a URI), those of getcwd.
[[nodiscard]] Result<std::string> absolute_directory(const std::string& directory, Report& report);
// The pool's current owner; pid 0 if there is none. Errors: those of find_owner, reported.
[[nodiscard]] Result<pool::OwnerRecord> owner_of(const std::string& directory, Report& report);
// The URI of a container, without a path in it. Errors: invalid.
[[nodiscard]] Result<api::Uri> container_uri(std::string_view text, Report& report);
// The URI of the pool that a directory or a URI names; a URI may also name a container of it.
// Errors: invalid; of a pool in a directory also not_found and those of read_pool_directory().
[[nodiscard]] Result<api::Uri> pool_uri(const std::string& location, Report& report);

// The reactor for a command with these arguments: with the settings of the pool if the URIs and
// pool directories name exactly one, otherwise with the defaults. Errors of a location are reported
// when it is opened.
[[nodiscard]] Result<std::unique_ptr<OsReactor>> reactor_for(
    const std::vector<std::string>& locations, Report& report);

// Opens a pool that has no owner. Errors: those of EmbeddedPool::open.
[[nodiscard]] Task<Result<std::unique_ptr<pool::EmbeddedPool>>> open_pool(CommandContext context,
                                                                          std::string directory);

}  // namespace ros2s::cli
