// The daemons of a pool directory together: up, down, and what there is of them.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "daemon_process.h"

namespace ros2s::cli {

struct Service {
    DaemonPlaces places;
    Running running;
    bool changed = false;  // by this call: started, or stopped
    bool known = true;     // there are settings or a log of it
    // What it answers when it is asked (daemon_control.h).
    std::optional<uint64_t> sessions{};
    std::string trouble{};
};

// What `up`, `down` and `destroy` hold while they work, so that they take turns. DIR/run is made
// where it is missing. Errors, with a sentence: busy (after two minutes), cancelled, those of
// files.
[[nodiscard]] Task<Result<RunLock>> take_turn(Workplace work, std::string directory);

// Starts what does not run: the engine, then the DPU daemon. Where one does not start, those that
// this call started are stopped again. Errors: those of start_daemon().
[[nodiscard]] Task<Result<std::vector<Service>>> start_services(Workplace work,
                                                                std::string directory);
// Stops what runs: the DPU daemon, then the engine. Errors: those of stop_daemon().
[[nodiscard]] Task<Result<std::vector<Service>>> stop_services(Workplace work,
                                                               std::string directory, bool kill);

// Engine first. Errors, with a sentence: denied, io.
[[nodiscard]] Result<std::vector<Service>> find_services(const std::string& directory,
                                                         Report& report);

// Of those that the directory knows.
[[nodiscard]] Json value_of(const std::vector<Service>& services);

// A few lines about each that runs, or ran until it ended without `down`; none where there never
// was one.
void report_services(const Session& session, const std::vector<Service>& services,
                     const std::string& directory);

}  // namespace ros2s::cli
