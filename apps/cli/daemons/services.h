// The daemons of a pool directory together: starting, stopping, and their state.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "daemon_process.h"

namespace ros2s::cli {

struct Service {
    DaemonPaths paths;
    Running running;
    bool changed = false;  // by this call: it was started, or stopped
    bool known = true;     // it has settings or a log
    // Its answer to a query (daemon_control.h).
    std::optional<uint64_t> sessions{};
    std::string trouble{};
};

// The lock that `up`, `down` and `destroy` hold while they work, so that they run one after the
// other. Creates DIR/run if it is missing. Errors, with a sentence: busy (after two minutes),
// cancelled, those of files.
[[nodiscard]] Task<Result<RunLock>> take_turn(CommandContext context, std::string directory);

// Starts the daemons that do not run: the engine, then the DPU daemon. If one does not start, those
// that this call started are stopped again. Errors: those of start_daemon().
[[nodiscard]] Task<Result<std::vector<Service>>> start_services(CommandContext context,
                                                                std::string directory);
// Stops the running daemons: the DPU daemon, then the engine. Errors: those of stop_daemon().
[[nodiscard]] Task<Result<std::vector<Service>>> stop_services(CommandContext context,
                                                               std::string directory, bool kill);

// Engine first. Errors, with a sentence: denied, io.
[[nodiscard]] Result<std::vector<Service>> find_services(const std::string& directory,
                                                         Report& report);

// Of the daemons that are known in the directory.
[[nodiscard]] Json value_of(const std::vector<Service>& services);

// A few lines about each daemon that runs, or that ended without `down`; none if there never was
// one.
void report_services(const Console& console, const std::vector<Service>& services,
                     const std::string& directory);

}  // namespace ros2s::cli
