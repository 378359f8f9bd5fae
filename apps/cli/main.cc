// ros2store: the command line. Parses, composes a reactor with helper threads, and runs one command
// on it. Exit status: 0 done, 1 the command failed (or what CommandContext::failed_status says), 2
// the arguments are invalid, 130 interrupted.
#include <sys/resource.h>

#include <csignal>
#include <cstdlib>

#include "arguments.h"
#include "output/held_log.h"
#include "pool/pool_location.h"
#include "ros2s/api/acting_user.h"
#include "ros2s/runtime/bounded_end.h"
#include "ros2s/runtime/os_reactor.h"
#include "ros2s/runtime/process_limits.h"
#include "ros2s/runtime/thread_pool.h"

namespace ros2s::cli {
namespace {

// Ctrl-C, SIGTERM, or the end of the terminal (unless nohup ignores it) asks the running command to
// stop and clean up. Only after Ctrl-C that may take more than a second: else a pool is as after
// kill -9.
// A second signal ends the process at once.
class Interrupts final : public Poller {
  public:
    explicit Interrupts(OsReactor& reactor) : reactor_(reactor) {
        awake = &reactor_;
        reactor_.attach(*this);
        struct sigaction action{};
        action.sa_handler = [](int signal) {
            interrupted = 1;
            awake->wake();
            if (signal != SIGINT) begin_bounded_end();  // a person presses it again
        };
        action.sa_flags = static_cast<int>(SA_RESETHAND);
        sigaction(SIGINT, &action, nullptr);
        sigaction(SIGTERM, &action, nullptr);
        prepare_bounded_end("ros2store");
        sigaction(SIGHUP, nullptr, &hangup_);
        if (hangup_.sa_handler != SIG_IGN) sigaction(SIGHUP, &action, nullptr);
    }
    Interrupts& operator=(Interrupts&&) = delete;
    ~Interrupts() override {
        (void)std::signal(SIGINT, SIG_DFL);
        (void)std::signal(SIGTERM, SIG_DFL);
        sigaction(SIGHUP, &hangup_, nullptr);
        reactor_.detach(*this);
    }
    [[nodiscard]] StopToken token() { return stop_.token(); }

    bool poll() noexcept override {
        if (interrupted == 0 || stop_.stop_requested()) return false;
        stop_.request_stop();
        return true;
    }
    bool prepare_sleep() noexcept override { return interrupted == 0 || stop_.stop_requested(); }

  private:
    // A global, because it is set by a signal handler.
    static inline volatile std::sig_atomic_t interrupted = 0;
    static inline OsReactor* awake = nullptr;
    struct sigaction hangup_{};  // as it was before
    OsReactor& reactor_;
    StopSource stop_;
};

// Copying a large tree holds many local descriptors open.
void raise_descriptor_limit() {
    rlimit limit{};
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

// Beside a helper thread, for any command.
constexpr uint64_t own_memory_bytes = uint64_t{16} << 20;

int run(const Arguments& arguments) {
    const Console console(arguments.json);
    Report report;
    int failed_status = arguments.failed_status;
    if (!check_address_space(1, own_memory_bytes, "ros2store", report)) {
        console.complain(report.text());
        return failed_status;
    }
    const auto user = api::acting_user(arguments.used_pools);
    if (user && !api::act_as(*user, report)) {
        console.complain(report.text());
        return failed_status;
    }
    auto reactor = reactor_for(arguments.locations, report);
    if (!reactor) {
        console.complain(report.text());
        return failed_status;
    }
    ThreadPool threads(8);
    if (const auto started = threads.start(report); !started) {
        console.complain(report.text());
        return failed_status;
    }
    Interrupts interrupts(**reactor);
    const HeldLog held;
    const Call call{.stop = interrupts.token()};
    const CommandContext context{
        .console = console,
        .environment = {.reactor = **reactor, .blocking = threads, .log = held.log()},
        .call = call,
        .report = report,
        .failed_status = &failed_status};
    const Result<> done = (*reactor)->run(arguments.command(context));
    if (done) {
        held.warn(console);
        return console.finish() ? 0 : arguments.failed_status;
    }
    if (done.error().code == Code::cancelled) {
        // "FILE: cancelled" adds nothing.
        const bool more = !report.empty() && !report.text().ends_with(describe(Code::cancelled));
        held.warn(console);
        console.complain(more ? "interrupted: " + report.text() : "interrupted");
        return exit_interrupted;
    }
    console.complain(held.with_cause(report.empty() ? describe(done.error()) : report.text()) +
                     (user ? api::acting_as(*user) : ""));
    return failed_status;
}

}  // namespace
}  // namespace ros2s::cli

int main(int argc, char** argv) {
    ros2s::cli::raise_descriptor_limit();
    ros2s::prepare_for_limits();
    ros2s::end_without_memory();
    // gRPC would print its own lines about a failure that our one line describes.
    setenv("GRPC_VERBOSITY", "NONE", 0);
    int status = 0;
    const auto arguments = ros2s::cli::parse_arguments(argc, argv, status);
    if (arguments) return ros2s::cli::run(*arguments);
    return status == 0 && !ros2s::cli::Console(false).finish() ? 1 : status;
}
