// A daemon of a pool directory as a process: starting it in the background, waiting for it, and
// stopping it.
//
// `up` starts it in a session of its own, without the terminal, with its messages in a log. By
// sd_notify(3) it reports to `up` that it is ready, and its addresses. It continues when `up` ends.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "commands.h"
#include "ros2s/api/service_paths.h"
#include "ros2s/pool/owner.h"
#include "running.h"

namespace ros2s::cli {

struct DaemonPaths {
    std::string program;  // "ros2store-engine"
    std::string settings, log, pid;
    std::string metrics_password;  // unless the settings name another file
};
// The engine, and the DPU daemon, which needs it.
[[nodiscard]] std::array<DaemonPaths, 2> daemons_of(const api::ServicePaths& paths);

// The program in the same directory as this one. Errors: not_found, with a sentence.
[[nodiscard]] Result<std::string> daemon_program(const std::string& name, Report& report);

// Starts it and waits until it is ready. If it fails, it has ended when this returns. Errors, with
// a sentence: not_found (the program), busy (it runs), io (it did not start: its last message),
// cancelled, deadline, those of files.
[[nodiscard]] Task<Result<Running>> start_daemon(CommandContext context, DaemonPaths paths);

// Waits for a killed daemon that the kernel has not removed yet: it seems to run as long as it has
// its lock. True: it has ended; false: it lives, or there was none. Errors, with a sentence: busy
// (it does not end), cancelled.
[[nodiscard]] Task<Result<bool>> wait_for_ending(CommandContext context, DaemonPaths paths);

// Requests that it drains, or kills it, and waits until it has ended. True: it was running. Errors,
// with a sentence: busy (it does not end), cancelled, denied.
[[nodiscard]] Task<Result<bool>> stop_daemon(CommandContext context, DaemonPaths paths, bool kill);

// The line of its log with the reason why it ended: its complaint, or a line without the log's
// format, or else the last error. "" if there is none, for example if it was killed.
[[nodiscard]] std::string last_words(const DaemonPaths& paths);
[[nodiscard]] std::string last_words(const std::vector<std::string>& lines,
                                     const std::string& program);
// The same for people: "it was killed, or exited without an error message".
[[nodiscard]] std::string how_it_ended(const DaemonPaths& paths);
[[nodiscard]] std::string how_it_ended(const std::vector<std::string>& lines,
                                       const std::string& program);

}  // namespace ros2s::cli
