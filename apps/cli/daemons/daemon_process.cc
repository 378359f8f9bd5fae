#include "daemon_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <sstream>
#include <string_view>

#include "notify_socket.h"
#include "output/progress.h"
#include "process.h"
#include "ros2s/base/trusted_file.h"
#include "ros2s/runtime/reactor.h"

namespace ros2s::cli {
namespace {

using namespace std::chrono_literals;

// A pool that was not closed is recovered first.
constexpr Duration start_max = 5min;
constexpr Duration stop_max = 60s;
constexpr Duration told_after = 2s;
constexpr Duration poll_interval = 10ms;
constexpr int lock_descriptor = 3;

// The environment of this process, without the variables that are meant only for it.
std::vector<std::string> environment_with(const std::string& notify) {
    std::vector<std::string> environment{"NOTIFY_SOCKET=" + notify};
    for (char** each = environ; *each != nullptr; ++each) {
        const std::string_view variable = *each;
        if (variable.starts_with("NOTIFY_SOCKET=") || variable.starts_with("JOURNAL_STREAM=") ||
            variable.starts_with("LISTEN_")) {
            continue;
        }
        environment.emplace_back(variable);
    }
    return environment;
}

// In a session of its own, without the terminal, with `lock` and its messages in `log`.
Result<pid_t> spawn_daemon(std::vector<std::string> arguments, std::vector<std::string> environment,
                           int log, int lock) {
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    // The log first: its descriptor may have the number of a stream that is closed here.
    posix_spawn_file_actions_adddup2(&actions, log, STDERR_FILENO);
    posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, lock, lock_descriptor);
    posix_spawn_file_actions_addclosefrom_np(&actions, lock_descriptor + 1);
    // It may run for months, and must use no directory except the pool's.
    posix_spawn_file_actions_addchdir_np(&actions, "/");
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawnattr_setflags(
        &attributes,
        static_cast<short>(POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF));
    pid_t child = 0;
    const int failed =
        ::posix_spawn(&child, arguments[0].c_str(), &actions, &attributes,
                      pointers_to(arguments).data(), pointers_to(environment).data());
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    if (failed != 0) return fail_errno(failed);
    return child;
}

bool has_ended(pid_t child) {
    int status = 0;
    return ::waitpid(child, &status, WNOHANG) != 0;
}

// A child of this process: its number is not reused before it was waited for.
Task<> end_child(Reactor& reactor, pid_t child, Duration patience = 10s) {
    ::kill(child, SIGTERM);
    const Time until = reactor.now() + patience;
    while (!has_ended(child)) {
        if (reactor.now() > until) ::kill(child, SIGKILL);
        co_await sleep_for(reactor, poll_interval);
    }
}

std::unexpected<Error> did_not_start(const DaemonPaths& paths, Report& report) {
    const std::string words = last_words(paths);
    return report.fail(Error{Code::io}, "{} did not start: {} (its log: {}; its settings: {})",
                       paths.program, words.empty() ? "it exited without an error message" : words,
                       paths.log, paths.settings);
}

// Returns when the child is ready or has ended.
Task<Result<std::vector<std::string>>> wait_until_ready(CommandContext context,
                                                        const DaemonPaths& paths,
                                                        const NotifySocket& notify, pid_t child) {
    Reactor& reactor = context.environment.reactor;
    Progress waiting(fmt::format("waiting for {}", paths.program), Progress::Unit::seconds,
                     !context.console.json());
    const Time until = reactor.now() + start_max;
    for (;;) {
        if (auto addresses = notify.ready()) co_return std::move(*addresses);
        if (has_ended(child)) co_return did_not_start(paths, context.report);
        Result<> go_on = context.call.check(reactor);
        if (go_on && reactor.now() > until) go_on = fail(Code::deadline);
        if (!go_on) {
            // An interrupted command ends soon, and what it was starting serves nobody yet.
            co_await end_child(reactor, child, go_on.error().code == Code::deadline ? 10s : 500ms);
            if (go_on.error().code == Code::deadline) {
                context.report.say(
                    "{} was not ready after {} minutes, and was ended; its log is {}",
                    paths.program, std::chrono::floor<std::chrono::minutes>(start_max).count(),
                    paths.log);
            }
            co_return fail(go_on.error());
        }
        waiting.update();
        co_await sleep_for(reactor, poll_interval, context.call.stop);
    }
}

std::unexpected<Error> cannot_start(const DaemonPaths& paths, const Error& error,
                                    std::string_view what, Report& report) {
    return report.fail(error, "cannot start {}: {}: {}", paths.program, what, describe(error));
}

// Each start begins a new log and keeps the previous one.
void turn_log(const std::string& log) { ::rename(log.c_str(), (log + ".old").c_str()); }

Result<RunLock> take_lock(const DaemonPaths& paths, Report& report) {
    Report why;
    auto lock = RunLock::take(paths.pid, why);
    if (lock) return lock;
    if (lock.error().code == Code::busy) {
        return report.fail(Code::busy, "{} is already running", paths.program);
    }
    return report.fail(lock.error(), "cannot start {}: {}", paths.program, why.text());
}

Task<Result<>> wait_for_end(CommandContext context, const DaemonPaths& paths,
                            const LockHolder& holder) {
    Reactor& reactor = context.environment.reactor;
    Progress waiting(fmt::format("waiting for {} to end", paths.program), Progress::Unit::seconds,
                     !context.console.json());
    const Time begun = reactor.now(), until = begun + stop_max;
    bool is_told = false;
    while (!holder.has_ended()) {
        ROS2S_CO_TRY(context.call.check(reactor));
        if (!is_told && reactor.now() > begun + told_after) {
            is_told = true;
            context.console.warn(fmt::format(
                "{} (process {}) has not ended yet: it ends its requests and writes what it holds; "
                "its log is {}; `ros2store down --kill` does not wait for that",
                paths.program, holder.pid(), paths.log));
        }
        if (reactor.now() > until) {
            co_return context.report.fail(
                Code::busy,
                "{} (process {}) has not ended within {} seconds; its log is {}; `ros2store down "
                "--kill` ends it at once, and nothing that was acknowledged is lost",
                paths.program, holder.pid(),
                std::chrono::floor<std::chrono::seconds>(stop_max).count(), paths.log);
        }
        waiting.update();
        co_await sleep_for(reactor, poll_interval, context.call.stop);
    }
    co_return Result<>{};
}

}  // namespace

std::array<DaemonPaths, 2> daemons_of(const api::ServicePaths& paths) {
    return {
        {{std::string(pool::engine_program), paths.engine_settings, paths.engine_log,
          paths.engine_pid, paths.engine_metrics},
         {"ros2store-dpu", paths.dpu_settings, paths.dpu_log, paths.dpu_pid, paths.dpu_metrics}}};
}

Result<std::string> daemon_program(const std::string& name, Report& report) {
    const std::string directory = own_directory();
    std::string program = directory + "/" + name;
    if (::access(program.c_str(), X_OK) == 0) return program;
    return report.fail(Code::not_found,
                       "there is no program {} in {}, where this one is: build it, or install the "
                       "package; a pool without daemons is made by `ros2store up --no-daemons`",
                       name, directory);
}

Task<Result<Running>> start_daemon(CommandContext context, DaemonPaths paths) {
    ROS2S_CO_TRY_ASSIGN(const std::string program, daemon_program(paths.program, context.report));
    ROS2S_CO_TRY_ASSIGN(const RunLock lock, take_lock(paths, context.report));
    const std::string socket = paths.pid + ".ready";
    const auto notify = NotifySocket::open(socket);
    if (!notify) co_return cannot_start(paths, notify.error(), "a socket", context.report);
    turn_log(paths.log);
    ROS2S_CO_TRY_ASSIGN(
        const Descriptor log,
        open_trusted(paths.log, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW, context.report));
    const auto child = spawn_daemon({program, "--config", paths.settings}, environment_with(socket),
                                    log.get(), lock.descriptor());
    if (!child) co_return cannot_start(paths, child.error(), program, context.report);
    Running running{.pid = *child, .since = now_by(context).time_since_epoch().count()};
    const auto first = lock.write(running);
    ROS2S_CO_TRY_ASSIGN(running.addresses,
                        co_await wait_until_ready(context, paths, *notify, *child));
    const auto written = first ? lock.write(running) : first;
    if (!written) {
        co_await end_child(context.environment.reactor, *child);
        co_return cannot_start(paths, written.error(), paths.pid, context.report);
    }
    co_return running;
}

Task<Result<bool>> wait_for_ending(CommandContext context, DaemonPaths paths) {
    Report ignored;  // starting or stopping it reports it
    const auto holder = LockHolder::find(paths.pid, ignored);
    if (!holder || !holder->is_ending()) co_return false;
    ROS2S_CO_TRY(co_await wait_for_end(context, paths, *holder));
    co_return true;
}

Task<Result<bool>> stop_daemon(CommandContext context, DaemonPaths paths, bool kill) {
    Report why;
    const auto holder = LockHolder::find(paths.pid, why);
    Result<> sent = holder ? holder->signal(kill ? SIGKILL : SIGTERM) : fail(holder.error());
    // Also waits for one that ends by itself.
    if (holder && !sent && sent.error().code == Code::not_found) sent = {};
    if (!sent && sent.error().code == Code::not_found) co_return false;
    if (!sent) {
        co_return context.report.fail(
            sent.error(), "cannot stop {} ({}); find it with: fuser -v {}", paths.program,
            why.empty() ? describe(sent.error()) : why.text(), paths.pid);
    }
    ROS2S_CO_TRY(co_await wait_for_end(context, paths, *holder));
    co_return true;
}

namespace {

std::vector<std::string> end_of_log(const DaemonPaths& paths) {
    constexpr off_t tail = 16 * 1024;
    Report ignored;
    const auto log = open_trusted(paths.log, O_RDONLY, ignored);
    if (!log) return {};
    const off_t begin = std::max(off_t{0}, ::lseek(log->get(), 0, SEEK_END) - tail);
    std::string text(tail, '\0');
    text.resize(std::max(ssize_t{0}, ::pread(log->get(), text.data(), text.size(), begin)));
    std::istringstream stream(std::move(text));
    std::string line;
    if (begin > 0) std::getline(stream, line);  // the first line may be incomplete
    std::vector<std::string> lines;
    while (std::getline(stream, line)) lines.push_back(std::move(line));
    return lines;
}

bool says(const std::vector<std::string>& lines, std::string_view what) {
    return std::ranges::any_of(lines, [what](const auto& line) { return line.contains(what); });
}

}  // namespace

std::string last_words(const DaemonPaths& paths) {
    return last_words(end_of_log(paths), paths.program);
}

std::string last_words(const std::vector<std::string>& lines, const std::string& program) {
    const std::string complaint = program + ": ";
    std::string error, stray;
    for (const std::string& line : lines) {
        if (line.starts_with(complaint)) return line.substr(complaint.size());
        // After the time, if there is one.
        const size_t space = line.find(' ');
        const bool has_time = space != line.npos && line.front() >= '0' && line.front() <= '9' &&
                              line[space - 1] == 'Z';
        const std::string_view said = std::string_view(line).substr(has_time ? space + 1 : 0);
        if (said.starts_with("error: ")) {
            error = said.substr(said.find(' ') + 1);
        } else if (stray.empty() && !said.starts_with("warning: ") && !said.starts_with("info: ") &&
                   !said.starts_with("debug: ")) {
            stray = said;  // from the C library, a sanitizer, a failed check
        }
    }
    return stray.empty() ? error : stray;
}

std::string how_it_ended(const DaemonPaths& paths) {
    return how_it_ended(end_of_log(paths), paths.program);
}

std::string how_it_ended(const std::vector<std::string>& lines, const std::string& program) {
    const std::string words = last_words(lines, program);
    if (!words.empty()) return fmt::format("its last error was: {}", words);
    // The messages of daemon::run_daemon().
    if (says(lines, " info: stopped; everything is closed")) {
        return "a signal stopped it, and it closed everything";
    }
    if (says(lines, " info: stopping (signal ")) {
        return "a signal stopped it, and it was killed, or ended, before all was closed";
    }
    return "it was killed, or exited without an error message";
}

}  // namespace ros2s::cli
