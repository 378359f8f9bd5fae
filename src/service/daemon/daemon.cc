#include "daemon.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>
#include <sys/resource.h>
#include <systemd/sd-daemon.h>
#include <time.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <iostream>
#include <optional>

#include "core_watch.h"
#include "daemon_log.h"
#include "idle_memory.h"
#include "metrics_password.h"
#include "ros2s/base/trusted_file.h"
#include "ros2s/daemon/reactor_source.h"
#include "ros2s/runtime/process_limits.h"
#include "ros2s/runtime/run_blocking.h"
#include "ros2s/runtime/thread_pool.h"

namespace ros2s::daemon {
namespace {

using namespace std::chrono_literals;

int failed(const Program& program, const Report& report, const Error& error) {
    std::fprintf(stderr, "%s: %s\n", program.name.c_str(),
                 (report.empty() ? describe(error) : report.text()).c_str());
    return 1;
}

Result<> read_settings(const Program& program, const std::string& path, Report& report) {
    constexpr size_t bytes_max = 1 << 20;  // config::parse() takes no more
    Report why;
    const auto text = read_trusted(path, bytes_max, why);
    if (!text && text.error().code == Code::not_found) {
        return report.fail(
            text.error(),
            "{}; `{} --print-config` writes a file with all settings and their defaults",
            why.text(), program.name);
    }
    if (!text) return report.fail(text.error(), "the settings: {}", why.text());
    ROS2S_TRY(program.read(*text, path, report));
    const CommonSettings common = program.common();
    if (common.metrics.empty() || !common.metrics_password_file.empty()) return {};
    return report.fail(
        Code::invalid,
        "{}: 'metrics: listen' needs 'password_file': without a password every user of this "
        "machine could read the metrics. If the file does not exist, it is created",
        path);
}

// In this thread and those that it starts, so that sigwait() receives them.
sigset_t block_stop_signals() {
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    pthread_sigmask(SIG_BLOCK, &signals, nullptr);
    return signals;
}

// Peers without a certificate hold descriptors, too, during handshakes. The usual limit of 1,024 is
// meant for programs that use select(2).
void raise_descriptor_limit() {
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
    limit.rlim_cur = limit.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &limit);
}

void say_ready(const std::vector<std::string>& addresses) {
    std::string message = fmt::format("READY=1\nSTATUS=at {}", fmt::join(addresses, ", "));
    for (const std::string& address : addresses) message += "\nX_ROS2STORE_ADDRESS=" + address;
    ::sd_notify(0, message.c_str());
}

// Reports to systemd that the daemon works, or logs why it does not.
void say_well(CoreWatch& cores, const Daemon& daemon, uint64_t& rounds, const Log& log) {
    constexpr std::string_view consequence =
        "the watchdog is not answered, so that systemd restarts this process";
    const std::optional<size_t> stuck = cores.stuck();
    const uint64_t now = daemon.control_rounds();
    const bool accepts = std::exchange(rounds, now) != now;
    if (stuck) {
        log.error("reactor {} does not run any more; {}", *stuck, consequence);
    } else if (!accepts) {
        log.error("the control plane does not accept connections any more; {}", consequence);
    } else {
        ::sd_notify(0, "WATCHDOG=1");
    }
}

int wait_for_signal(CoreWatch cores, const Daemon& daemon, const sigset_t& signals,
                    const Log& log) {
    uint64_t watchdog_us = 0;
    if (::sd_watchdog_enabled(0, &watchdog_us) <= 0) {
        int signal = 0;
        sigwait(&signals, &signal);
        return signal;
    }
    const uint64_t pause_us = watchdog_us / 3;
    const timespec pause{.tv_sec = static_cast<time_t>(pause_us / 1'000'000),
                         .tv_nsec = static_cast<long>(pause_us % 1'000'000 * 1000)};
    uint64_t rounds = UINT64_MAX;
    for (;;) {
        const int signal = ::sigtimedwait(&signals, nullptr, &pause);
        if (signal > 0) return signal;
        if (errno != EAGAIN) continue;
        say_well(cores, daemon, rounds, log);
    }
}

// Serves metrics, reports readiness, and waits for a signal.
Result<> run_until_stopped(OsReactor& reactor, BlockingPool& blocking, Daemon& daemon,
                           const CommonSettings& common, const std::string& password,
                           const sigset_t& signals, const LogWriter& lines, Report& report) {
    // Otherwise it would serve nobody, and its clients would wait for it.
    constexpr size_t descriptors_of_client = 4;
    ROS2S_TRY(check_descriptors(descriptors_of_client, "a client of this daemon", report));
    const Log log = lines.log();
    std::vector<OsReactor*> cores = daemon.more_reactors();
    cores.insert(cores.begin(), &reactor);
    std::unique_ptr<exporter::MetricsServer> metrics;
    if (!common.metrics.empty()) {
        std::vector<exporter::Source> sources = daemon.metrics();
        for (uint32_t number = 0; number < cores.size(); ++number) {
            sources.push_back(reactor_source(*cores[number], number));
        }
        sources.push_back(
            {.labels = {}, .list = [&lines](const MetricVisitor& visit) {
                 visit("ros2store_log_dropped_total",
                       "Log lines that were dropped, because what reads the log was too slow.",
                       lines.dropped());
             }});
        ROS2S_TRY_ASSIGN(metrics, run_blocking(reactor, [&] {
                             return exporter::MetricsServer::start(
                                 reactor, common.metrics, password, std::move(sources),
                                 [&daemon] { return daemon.traces(); }, report);
                         }));
    }
    std::vector<std::string> addresses = daemon.addresses();
    if (metrics) {
        addresses.push_back("metrics " + metrics->address());
        log.info(addresses.back());
    }
    log.info("ready");
    say_ready(addresses);
    IdleMemory memory(reactor, blocking, CoreWatch(cores), daemon);
    run_blocking(reactor, [&] { return memory.begin(); });
    const int signal = wait_for_signal(CoreWatch(std::move(cores)), daemon, signals, log);
    ::sd_notify(0, "STOPPING=1");
    log.info("stopping (signal {}): draining", signal);
    run_blocking(reactor, [&] { return memory.stop(); });
    if (metrics) {
        run_blocking(reactor, [&] { return metrics->stop(); });
    }
    return {};
}

int serve(const Program& program) {
    Report report;
    const CommonSettings common = program.common();
    std::string password;
    if (!common.metrics.empty()) {
        auto read = metrics_password(common.metrics_password_file, report);
        if (!read) return failed(program, report, read.error());
        password = std::move(*read);
    }
    raise_descriptor_limit();
    prepare_for_limits();
    const sigset_t signals = block_stop_signals();
    const auto reactor = OsReactor::create(
        {.poll_for = common.poll, .thread_name = program.name.substr(0, 15)}, report);
    if (!reactor) return failed(program, report, reactor.error());
    if (const auto started = (*reactor)->start(report); !started) {
        return failed(program, report, started.error());
    }
    ThreadPool blocking(4);
    if (const auto started = blocking.start(report); !started) {
        return failed(program, report, started.error());
    }
    const auto lines = LogWriter::start(daemon_log(program.name, STDERR_FILENO), report);
    if (!lines) return failed(program, report, lines.error());
    (*lines)->flush_at_abort();
    const Log log = (*lines)->log();
    const Environment environment{.reactor = **reactor, .blocking = blocking, .log = log};
    const auto daemon = run_blocking(**reactor, [&] { return program.start(environment, report); });
    if (!daemon) {
        (*lines)->flush();  // what failed() says comes last
        return failed(program, report, daemon.error());
    }
    const auto ran = run_until_stopped(**reactor, blocking, **daemon, common, password, signals,
                                       **lines, report);
    run_blocking(**reactor, [&] { return (*daemon)->stop(); });
    if (!ran) {
        (*lines)->flush();
        return failed(program, report, ran.error());
    }
    log.info("stopped; everything is closed");
    return 0;
}

}  // namespace

config::Group describe_metrics(CommonSettings& settings) {
    return {"metrics",
            "Counters for Prometheus.",
            {config::text("listen", settings.metrics,
                          "HOST:PORT of an HTTP server that answers /metrics; empty: none. The "
                          "metrics name tenants and show their activity, so they need a password."),
             config::text(
                 "password_file", settings.metrics_password_file,
                 "A file whose first line is the password of scrapers, with any user name (HTTP "
                 "basic authentication). If it does not exist, it is created. The password is sent "
                 "in clear text: listen on loopback, or behind a proxy with TLS."),
             config::count(
                 "trace_every", settings.trace_every, 0, 1'000'000'000,
                 "One of this many requests is traced; 0: none. The HTTP server answers /traces "
                 "with the latest 256 of them, step by step, as a file for Perfetto.")}};
}

config::Group describe_service(CommonSettings& settings) {
    return {
        "service",
        "How the process behaves.",
        {config::duration("poll", settings.poll, 0s, 10ms,
                          "How long a thread without work polls before it sleeps. It polls less "
                          "often if that finds none. 0: never."),
         config::duration("drain", settings.drain, 0s, 50s,
                          "How long requests of the control plane may take to end when the process "
                          "stops. After a minute, systemd and `ros2store down` end it."),
         config::count(
             "connections", settings.connections, 1, 65'536,
             "Connections of the data plane in all. One of each tenant is admitted beyond that. "
             "One over shm has 2 MiB of address space when it is idle, and one file descriptor."),
         config::count("connections_of_tenant", settings.connections_of_tenant, 1, 65'536,
                       "Connections of one tenant, and no more than are left for others. A subject "
                       "without a tenant counts as one."),
         config::count(
             "connections_of_user", settings.connections_of_user, 1, 65'536,
             "Connections of one user of this machine within a tenant, and no more than are left "
             "for the tenant's others. Over a network a subject counts as a user.")}};
}

int run_daemon(int count, char** arguments, const Program& program) {
    CLI::App app(program.description, program.name);
    std::string path;
    bool print = false;
    app.add_option("-c,--config", path, "the settings file");
    app.add_flag("--print-config", print,
                 "write the settings (those of --config, or the defaults) with their "
                 "documentation, and end");
    app.set_version_flag("--version", program.name + " " + program.version);
    app.footer(program.more);
    try {
        app.parse(count, arguments);
    } catch (const CLI::ParseError& error) {
        return app.exit(error) == 0 ? 0 : 2;
    }
    if (path.empty() && !print) {
        std::fprintf(stderr,
                     "%s: --config FILE is missing; `%s --print-config` writes such a file\n",
                     program.name.c_str(), program.name.c_str());
        return 2;
    }
    if (!path.empty()) {
        Report report;
        const auto read = read_settings(program, path, report);
        if (!read) return failed(program, report, read.error());
    }
    if (print) {
        std::cout << program.document();
        return 0;
    }
    return serve(program);
}

}  // namespace ros2s::daemon
