#include "services.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <ranges>

#include "output/describe.h"
#include "ros2s/api/uri.h"
#include "ros2s/runtime/reactor.h"

namespace ros2s::cli {
namespace {

using namespace std::chrono_literals;

constexpr Duration turn_max = 2min;

// Stops those that this call started, the last one first.
Task<> stop_again(CommandContext context, const std::vector<Service>& services) {
    // Also if the command was interrupted. The command's own error is reported.
    const Call call;
    Report ignored;
    const CommandContext clean_up{.console = context.console,
                                  .environment = context.environment,
                                  .call = call,
                                  .report = ignored};
    for (const Service& service : std::views::reverse(services)) {
        if (service.changed) (void)co_await stop_daemon(clean_up, service.paths, false);
    }
}

std::string since_text(const Running& running) {
    if (running.since == 0) return {};
    return ", since " + time_text(WallTime(std::chrono::seconds(running.since)), true);
}

std::string sessions_text(const Service& service) {
    if (!service.sessions) return {};
    return fmt::format(", {} session{}", *service.sessions, *service.sessions == 1 ? "" : "s");
}

bool is_known(const DaemonPaths& paths) {
    return ::access(paths.settings.c_str(), F_OK) == 0 || ::access(paths.log.c_str(), F_OK) == 0;
}

Result<Running> running_of(const DaemonPaths& paths, Report& report) {
    Report why;
    const auto running = find_running(paths.pid, why);
    if (running) return running;
    return report.fail(running.error(), "cannot find out whether {} runs: {}", paths.program,
                       why.text());
}

}  // namespace

Task<Result<RunLock>> take_turn(CommandContext context, std::string directory) {
    const std::string run = api::ServicePaths(directory).run;
    const auto read_only = [&] {
        return context.report.fail(
            Error{Code::denied, EROFS},
            "the daemons of {} write there, and its file system is read-only: mount it for "
            "writing, or read the pool without daemons, as in ros2store ls {}",
            directory,
            shell_word(
                api::Uri{.pool = "POOL", .container = "CONTAINER", .dir = directory}.to_string()));
    };
    if (::mkdir(run.c_str(), 0700) != 0 && errno != EEXIST) {
        if (errno == EROFS) co_return read_only();
        co_return context.report.fail(fail_errno(errno).error(), "cannot make the directory {}: {}",
                                      run, std::strerror(errno));
    }
    const std::string path = run + "/turn";
    Reactor& reactor = context.environment.reactor;
    const Time until = reactor.now() + turn_max;
    for (;;) {
        Report why;
        auto lock = RunLock::take(path, why);
        if (lock) {
            ROS2S_CO_TRY(lock->write({.pid = ::getpid()}));
            co_return std::move(*lock);
        }
        if (lock.error().os_errno == EROFS) co_return read_only();
        if (lock.error().code != Code::busy) {
            co_return context.report.fail(lock.error(), why.text());
        }
        ROS2S_CO_TRY(context.call.check(reactor));
        if (reactor.now() > until) {
            const auto other = find_running(path, why);
            co_return context.report.fail(Code::busy,
                                          "another ros2store up, down or pool destroy works in {} "
                                          "(process {}): wait until it ends",
                                          directory, other ? other->pid : -1);
        }
        co_await sleep_for(reactor, 10ms, context.call.stop);
    }
}

Task<Result<std::vector<Service>>> start_services(CommandContext context, std::string directory) {
    ROS2S_CO_TRY_ASSIGN(std::vector<Service> services, find_services(directory, context.report));
    for (Service& service : services) {
        if (service.running.pid != 0) {
            const auto gone = co_await wait_for_ending(context, service.paths);
            if (!gone) {
                co_await stop_again(context, services);
                co_return fail(gone.error());
            }
            if (!*gone) continue;
        }
        auto started = co_await start_daemon(context, service.paths);
        if (!started) {
            co_await stop_again(context, services);
            co_return fail(started.error());
        }
        service.running = std::move(*started);
        service.changed = true;
    }
    co_return services;
}

Task<Result<std::vector<Service>>> stop_services(CommandContext context, std::string directory,
                                                 bool kill) {
    ROS2S_CO_TRY_ASSIGN(std::vector<Service> services, find_services(directory, context.report));
    for (Service& service : std::views::reverse(services)) {
        ROS2S_CO_TRY_ASSIGN(service.changed, co_await stop_daemon(context, service.paths, kill));
    }
    co_return services;
}

Result<std::vector<Service>> find_services(const std::string& directory, Report& report) {
    std::vector<Service> services;
    for (const DaemonPaths& paths : daemons_of(api::ServicePaths(directory))) {
        ROS2S_TRY_ASSIGN(Running running, running_of(paths, report));
        services.push_back(
            {.paths = paths, .running = std::move(running), .known = is_known(paths)});
    }
    return services;
}

Json value_of(const std::vector<Service>& services) {
    std::vector<Json> values;
    for (const Service& service : services) {
        if (!service.known) continue;
        const Running& running = service.running;
        values.push_back(Json::object(
            {{"program", service.paths.program},
             {"pid", running.pid == 0 ? Json() : Json(running.pid)},
             {"ended_pid", running.ended == 0 ? Json() : Json(running.ended)},
             {"since", running.since == 0 ? Json() : Json(running.since)},
             {"addresses", Json::array({running.addresses.begin(), running.addresses.end()})},
             {"last_words", running.ended == 0 ? Json() : Json(last_words(service.paths))},
             {"sessions", service.sessions ? Json(*service.sessions) : Json()},
             {"trouble", service.trouble.empty() ? Json() : Json(service.trouble)},
             {"settings", service.paths.settings},
             {"log", service.paths.log},
             {"changed", service.changed}}));
    }
    return Json::array(values);
}

void report_services(const Console& console, const std::vector<Service>& services,
                     const std::string& directory) {
    const bool any_runs = std::ranges::any_of(
        services, [](const Service& service) { return service.running.pid != 0; });
    bool any_missing = false;
    for (const Service& service : services) {
        const Running& running = service.running;
        if (running.pid == 0 && running.ended == 0 && !any_runs) continue;
        const std::string& name = service.paths.program;
        if (running.pid == 0) {
            any_missing = true;
            console.say(running.ended == 0
                            ? fmt::format("daemon      {} does not run", name)
                            : fmt::format("daemon      {} has ended (process {}): {}", name,
                                          running.ended, how_it_ended(service.paths)));
        } else {
            console.say("daemon      {}: process {}{}{}", name, running.pid, since_text(running),
                        sessions_text(service));
            if (!service.trouble.empty()) {
                console.say("            trouble: {}", service.trouble);
            }
            for (const auto& address : running.addresses) {
                console.say("            at {}", address);
            }
        }
        console.say("            its log: {}", service.paths.log);
    }
    if (any_missing) {
        console.say("            start what does not run with: ros2store up {}",
                    shell_word(directory));
    }
}

}  // namespace ros2s::cli
