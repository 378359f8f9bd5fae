// A daemon of a pool directory as a process: started in the background, waited for, stopped.
//
// `up` starts it in a session of its own, without the terminal, its messages in a log, and learns
// from sd_notify(3) when it is ready and where it listens. It lives on when `up` ends.
#pragma once
#include <sys/types.h>

#include <array>
#include <string>
#include <vector>

#include "commands.h"
#include "ros2s/api/service_places.h"
#include "ros2s/pool/owner.h"
#include "running.h"

namespace ros2s::cli {

struct DaemonPlaces {
    std::string program;  // "ros2store-engine"
    std::string settings, log, pid;
};
// The engine, and the DPU daemon, which needs it.
[[nodiscard]] std::array<DaemonPlaces, 2> daemons_of(const api::ServicePlaces& places);

// The program beside this one. Errors: not_found, with a sentence.
[[nodiscard]] Result<std::string> daemon_program(const std::string& name, Report& report);

// Starts it and waits until it is ready; one that fails is gone when this returns. Errors, with a
// sentence: not_found (the program), busy (it runs), io (it did not start: its own last words),
// cancelled, deadline, those of files.
[[nodiscard]] Task<Result<Running>> start_daemon(Workplace work, DaemonPlaces places);

// Waits for one that was killed, and that the kernel has yet to clear away: as long as it has its
// lock it seems to run. True: it is gone; false: it lives, or there was none. Errors, with a
// sentence: busy (it does not end), cancelled.
[[nodiscard]] Task<Result<bool>> wait_for_ending(Workplace work, DaemonPlaces places);

// Tells it to drain, or `kill`s it, and waits until it has ended. True: it ran. Errors, with a
// sentence: busy (it does not end), cancelled, denied.
[[nodiscard]] Task<Result<bool>> stop_daemon(Workplace work, DaemonPlaces places, bool kill);

// What of its log says why it ended: its complaint, or a line that is none of a log, or else the
// last error. "" where it was killed, say.
[[nodiscard]] std::string last_words(const DaemonPlaces& places);
[[nodiscard]] std::string last_words(const std::vector<std::string>& lines,
                                     const std::string& program);
// The same for people: "it was killed, or ended without a word".
[[nodiscard]] std::string how_it_ended(const DaemonPlaces& places);
[[nodiscard]] std::string how_it_ended(const std::vector<std::string>& lines,
                                       const std::string& program);

}  // namespace ros2s::cli
