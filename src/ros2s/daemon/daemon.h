// run_daemon: what main() of every daemon does: the command line, the file of settings, a reactor
// on a thread of its own, the metrics server, readiness for systemd, and a drain at SIGTERM or
// SIGINT.
//
// Whoever started it learns by sd_notify(3) when it is ready, and where it listens: the message has
// a line X_ROS2STORE_ADDRESS=… for each address. Where it asked for a watchdog (WatchdogSec= of a
// unit) it is told three times in that time that all is well: the core runs what it is given, and
// the control plane goes on accepting connections. systemd ends and restarts a process that does
// not say so.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ros2s/config/config.h"
#include "ros2s/exporter/metrics_server.h"
#include "ros2s/runtime/environment.h"

namespace ros2s::daemon {

// What runs until it is told to stop. Used on the reactor's core.
class Daemon {
  public:
    virtual ~Daemon() = default;
    [[nodiscard]] virtual std::vector<exporter::Source> metrics() const = 0;
    // Where it is reached, with the ports that were taken for 0: "control 127.0.0.1:7400",
    // "shm /run/ros2store/engine.sock". They stay; any thread.
    [[nodiscard]] virtual std::vector<std::string> addresses() const = 0;
    // Moves on at least once a second while its control plane accepts connections. Any thread.
    [[nodiscard]] virtual uint64_t control_rounds() const = 0;
    // Drains and closes everything. Must be called.
    virtual Task<> stop() = 0;
};

// The settings that every daemon has.
struct CommonSettings {
    std::string metrics;
    std::string metrics_password_file;
    Duration poll = std::chrono::microseconds(100);
    Duration drain = std::chrono::seconds(10);
};
[[nodiscard]] config::Group describe_metrics(CommonSettings& settings);
[[nodiscard]] config::Group describe_service(CommonSettings& settings);

struct Program {
    std::string name;  // "ros2store-engine"
    std::string version;
    std::string description;  // of --help
    std::string more;         // examples, exit status
    // Takes over a file's settings. Errors: invalid, with a sentence.
    std::function<Result<>(std::string_view yaml, std::string_view where, Report& report)> read;
    // The file that says what the settings are now.
    std::function<std::string()> document;
    std::function<CommonSettings()> common;
    std::function<Task<Result<std::unique_ptr<Daemon>>>(Environment environment, Report& report)>
        start;
};

// Returns the exit status: 0 it was told to stop, and everything is closed; 1 it could not start;
// 2 the command line is wrong.
int run_daemon(int count, char** arguments, const Program& program);

// The same of a daemon that starts from Settings, which have parse(), document() and `common`.
// `program` has its words.
template <class Settings, class Served>
int run_daemon(int count, char** arguments, Program program) {
    Settings settings;
    program.read = [&settings](std::string_view yaml, std::string_view where,
                               Report& report) -> Result<> {
        ROS2S_TRY_ASSIGN(settings, Settings::parse(yaml, where, report));
        return {};
    };
    program.document = [&settings] { return settings.document(); };
    program.common = [&settings] { return settings.common; };
    program.start = [&settings](Environment environment, Report& report) {
        return Served::start(std::move(environment), settings, report);
    };
    return run_daemon(count, arguments, program);
}

}  // namespace ros2s::daemon
