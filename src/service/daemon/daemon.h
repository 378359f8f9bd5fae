// run_daemon: the main() of every daemon: the command line, the settings file, a reactor on a
// thread of its own, the metrics server, readiness for systemd, and a drain at SIGTERM or SIGINT.
//
// The daemon reports by sd_notify(3) that it is ready, and its addresses: the message has a line
// X_ROS2STORE_ADDRESS=… for each. If the service manager requests a watchdog (WatchdogSec= of a
// unit), the daemon reports at least three times in that interval, as long as all cores run and the
// control plane accepts connections. systemd ends and restarts a process that does not report.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ros2s/base/quota.h"
#include "ros2s/config/config.h"
#include "ros2s/exporter/metrics_server.h"
#include "ros2s/runtime/environment.h"
#include "ros2s/runtime/os_reactor.h"

namespace ros2s::daemon {

// A program that runs until it is stopped. Used on the reactor's core.
class Daemon {
  public:
    virtual ~Daemon() = default;
    [[nodiscard]] virtual std::vector<exporter::Source> metrics() const = 0;
    // A trace file of sampled requests (rpc::SampledTraces).
    [[nodiscard]] virtual std::string traces() const = 0;
    // Its addresses, with the actual port in place of 0: "control 127.0.0.1:7400", "shm
    // /run/ros2store/engine.sock". The addresses do not change after the start. Any thread.
    [[nodiscard]] virtual std::vector<std::string> addresses() const = 0;
    // Increases at least once a second while its control plane accepts connections. Any thread.
    [[nodiscard]] virtual uint64_t control_rounds() const = 0;
    // In addition to that of the environment, in the order of their numbers: 1, 2, …
    [[nodiscard]] virtual std::vector<OsReactor*> more_reactors() const { return {}; }
    // Frees memory that it keeps for later requests: there are few of them now.
    virtual void drop_spare() noexcept = 0;
    // Drains and closes everything. Must be called.
    virtual Task<> stop() = 0;
};

// Settings that all daemons share.
struct CommonSettings {
    std::string metrics;
    std::string metrics_password_file;
    uint32_t trace_every = 4096;
    // Longer than in a client: 32 reads of a slow disk take 400 µs together, and these are not the
    // processors of the application.
    Duration poll = std::chrono::microseconds(500);
    Duration drain = std::chrono::seconds(10);
    uint32_t connections = 4096;
    uint32_t connections_of_tenant = 2048;
    uint32_t connections_of_user = 1024;
    // The connections that each tenant can always have are not a setting.
    [[nodiscard]] Quota::Bounds connection_bounds() const {
        return {.per_subject = connections_of_user,
                .per_tenant = connections_of_tenant,
                .in_all = connections,
                .sure = 1,
                .subjects_share = true};
    }
};
[[nodiscard]] config::Group describe_metrics(CommonSettings& settings);
[[nodiscard]] config::Group describe_service(CommonSettings& settings);

struct Program {
    std::string name;  // "ros2store-engine"
    std::string version;
    std::string description;  // for --help
    std::string more;         // for --help: examples, exit status
    // Reads a settings file into the settings. Errors: invalid, with a sentence.
    std::function<Result<>(std::string_view yaml, std::string_view where, Report& report)> read;
    // A settings file with the current values.
    std::function<std::string()> document;
    std::function<CommonSettings()> common;
    std::function<Task<Result<std::unique_ptr<Daemon>>>(Environment environment, Report& report)>
        start;
};

// Returns the exit status. 0: it was stopped, and everything is closed. 1: it could not start. 2:
// the command line is wrong.
int run_daemon(int count, char** arguments, const Program& program);

template <class Served, class Settings>
Task<Result<std::unique_ptr<Daemon>>> start_daemon(Environment environment, Settings settings,
                                                   Report& report) {
    auto served = std::make_unique<Served>(std::move(environment), std::move(settings));
    const auto begun = co_await served->begin(report);
    if (!begun) {
        co_await served->stop();
        co_return fail(begun.error());
    }
    co_return std::unique_ptr<Daemon>(std::move(served));
}

// The same for a Daemon that is made from an Environment and Settings, and that begin() starts.
// Settings is a class with parse(), document() and `common`. `program` has the daemon's texts.
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
        return start_daemon<Served>(std::move(environment), settings, report);
    };
    return run_daemon(count, arguments, program);
}

}  // namespace ros2s::daemon
