// ros2store-engine: serves pools to clients. Parses, composes, runs until a signal, and drains.
#include <fmt/format.h>
#include <signal.h>
#include <systemd/sd-daemon.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <sstream>

#include "engine.h"
#include "ros2s/runtime/run_blocking.h"
#include "ros2s/runtime/thread_pool.h"

namespace ros2s::engined {
namespace {

constexpr const char* description = R"(Serves ros2store pools to clients of the network.

The control plane (gRPC over mutual TLS) lets clients in; the data plane carries their bytes over
each provider that the settings list. SIGTERM and SIGINT drain: what was begun is answered, and the
pools are closed.)";

constexpr const char* more = R"(
EXAMPLES
  ros2store up /srv/pool
  ros2store certs init /etc/ros2store/certs --name engine-1
  ros2store-engine --print-config > /etc/ros2store/engine.yaml   # then set `pools`
  ros2store-engine --config /etc/ros2store/engine.yaml

EXIT STATUS
  0 it was told to stop, and everything is closed; 1 it could not start; 2 the command line is wrong.
)";

int failed(const Report& report, const Error& error) {
    std::fprintf(stderr, "ros2store-engine: %s\n",
                 (report.empty() ? describe(error) : report.text()).c_str());
    return 1;
}

Result<Settings> read_settings(const std::string& path, Report& report) {
    std::ifstream file(path);
    std::ostringstream text;
    text << file.rdbuf();
    if (!file) {
        return report.fail(
            Code::not_found,
            fmt::format("cannot read the settings in {}; `ros2store-engine --print-config` writes "
                        "a file with all of them and their defaults",
                        path));
    }
    return Settings::parse(text.str(), path, report);
}

// For this thread and those that it starts, so that sigwait() gets them.
sigset_t block_stop_signals() {
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    pthread_sigmask(SIG_BLOCK, &signals, nullptr);
    return signals;
}

int serve(const Settings& settings) {
    Report report;
    const sigset_t signals = block_stop_signals();
    const auto reactor =
        OsReactor::create({.poll_for = settings.poll, .thread_name = "ros2store-eng"}, report);
    if (!reactor) return failed(report, reactor.error());
    if (const auto started = (*reactor)->start(report); !started) {
        return failed(report, started.error());
    }
    ThreadPool blocking(4);
    const Log log = log_to_stderr();
    const api::Environment environment{.reactor = **reactor, .blocking = blocking, .log = log};
    const auto engine =
        run_blocking(**reactor, [&] { return Engine::start(environment, settings, report); });
    if (!engine) return failed(report, engine.error());

    int status = 0;
    {
        std::unique_ptr<exporter::MetricsServer> metrics;
        if (!settings.metrics.empty()) {
            auto made = exporter::MetricsServer::start(**reactor, settings.metrics,
                                                       (*engine)->metrics(), report);
            if (made) {
                metrics = std::move(*made);
            } else {
                status = failed(report, made.error());
            }
        }
        if (status == 0) {
            log.info("ready");
            ::sd_notify(0, "READY=1");
            int signal = 0;
            ::sigwait(&signals, &signal);
            ::sd_notify(0, "STOPPING=1");
            log.info(fmt::format("told to stop (signal {}): draining", signal));
        }
    }
    run_blocking(**reactor, [&] { return (*engine)->stop(); });
    if (status == 0) log.info("stopped; the pools are closed");
    return status;
}

int run(int count, char** arguments) {
    CLI::App app(description, "ros2store-engine");
    std::string path;
    bool print = false;
    app.add_option("-c,--config", path, "the file of settings");
    app.add_flag("--print-config", print,
                 "write the settings (those of --config, or the defaults) with their "
                 "documentation, and end");
    app.set_version_flag("--version", "ros2store-engine " ROS2STORE_VERSION);
    app.footer(more);
    try {
        app.parse(count, arguments);
    } catch (const CLI::ParseError& error) {
        return app.exit(error) == 0 ? 0 : 2;
    }
    if (path.empty() && !print) {
        std::fprintf(
            stderr,
            "ros2store-engine: --config FILE is missing; `ros2store-engine --print-config` "
            "writes such a file\n");
        return 2;
    }
    Settings settings;
    if (!path.empty()) {
        Report report;
        auto read = read_settings(path, report);
        if (!read) return failed(report, read.error());
        settings = std::move(*read);
    }
    if (print) {
        std::cout << settings.document();
        return 0;
    }
    return serve(settings);
}

}  // namespace
}  // namespace ros2s::engined

int main(int count, char** arguments) { return ros2s::engined::run(count, arguments); }
