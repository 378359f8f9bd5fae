// top: the load of each tenant, mount, container or process, from the daemons' metrics.
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "commands.h"
#include "daemons/services.h"
#include "pool/pool_location.h"
#include "rates.h"
#include "scrape.h"

namespace ros2s::cli {
namespace {

constexpr std::string_view http = "http://";

// A daemon, its newest counts, and its rates until then.
struct Watched {
    std::string program;  // of a directory; empty: of a URL
    std::string location;
    std::string process{};  // another text: it was started again; empty: unknown
    MetricsServer metrics{};
    std::string trouble{};  // why there are no numbers
    DaemonCounts counts{};
    Time at{};           // of the counts; 0: there are none
    double seconds = 0;  // between the last two counts; 0: there was one
    std::vector<TenantRates> tenants{};
    std::optional<By> by{};
    std::vector<GroupRates> groups{};  // if `by` is set

    [[nodiscard]] size_t rows() const { return by ? groups.size() : tenants.size(); }
    [[nodiscard]] std::string name() const {
        return program.empty() ? location : program + " of " + location;
    }
};

// ---- finding the daemons

// "http://127.0.0.1:9400/metrics"
Result<Watched> daemon_at(const std::string& url, const TopOptions& options, Report& report) {
    std::string address = url.substr(http.size());
    const size_t slash = std::min(address.size(), address.find('/'));
    const std::string path = address.substr(slash);
    address.resize(slash);
    if (address.empty() || (!path.empty() && path != "/" && path != "/metrics")) {
        return report.fail(
            Code::invalid,
            "'{}' is not an address of metrics; write it as in http://127.0.0.1:9400", url);
    }
    if (options.password_file.empty()) {
        return report.fail(Code::invalid,
                           "{} needs a password: name the file that 'metrics: password_file' in "
                           "the daemon's settings names, or a copy, with --password-file",
                           url);
    }
    return Watched{
        .program = "", .location = url, .metrics = {std::move(address), options.password_file}};
}

Watched daemon_of(const std::string& directory, const Service& service, const TopOptions& options) {
    const DaemonPaths& paths = service.paths;
    Watched daemon{.program = paths.program, .location = directory};
    if (service.running.pid == 0) {
        daemon.trouble =
            fmt::format("it does not run; start it with: ros2store up {}", shell_word(directory));
        return daemon;
    }
    daemon.process = fmt::format("{} {}", service.running.pid, service.running.since);
    constexpr std::string_view metrics = "metrics ";
    const auto& addresses = service.running.addresses;
    const auto found = std::ranges::find_if(
        addresses, [&](const std::string& each) { return each.starts_with(metrics); });
    if (found == addresses.end()) {
        daemon.trouble = fmt::format(
            "it has no metrics; in {}, set 'listen' in the group 'metrics' to \"127.0.0.1:0\" and "
            "'password_file' to \"{}\", and start it again with: ros2store down {} && ros2store "
            "up {}",
            paths.settings, paths.metrics_password, shell_word(directory), shell_word(directory));
        return daemon;
    }
    daemon.metrics = {found->substr(metrics.size()), options.password_file.empty()
                                                         ? paths.metrics_password
                                                         : options.password_file};
    return daemon;
}

// Errors: invalid (a location), with a sentence.
Result<std::vector<Watched>> find_daemons(const TopOptions& options, Report& report) {
    std::vector<Watched> daemons;
    for (const std::string& location : options.locations) {
        if (location.starts_with(http)) {
            ROS2S_TRY_ASSIGN(daemons.emplace_back(), daemon_at(location, options, report));
            continue;
        }
        ROS2S_TRY_ASSIGN(std::string directory, pool_directory_of(location, report));
        ROS2S_TRY_ASSIGN(directory, absolute_directory(directory, report));
        Report why;
        const auto services = find_services(directory, why);
        const size_t before = daemons.size();
        for (const Service& service : services.value_or(std::vector<Service>{})) {
            if (service.known || service.running.pid != 0) {
                daemons.push_back(daemon_of(directory, service, options));
            }
        }
        if (daemons.size() > before) continue;
        daemons.push_back(
            {.program = "",
             .location = directory,
             .trouble =
                 services
                     ? fmt::format("no daemons were started here; start them with: ros2store up {}",
                                   shell_word(directory))
                     : why.text()});
    }
    return daemons;
}

// ---- asking them

// Errors: cancelled. Others are the daemon's trouble.
Task<Result<>> ask(CommandContext context, Watched& daemon) {
    Report why;
    const CommandContext quiet{.console = context.console,
                               .environment = context.environment,
                               .call = context.call,
                               .report = why};
    const auto page = co_await scrape(quiet, daemon.metrics);
    if (!page && page.error().code == Code::cancelled) co_return fail(Code::cancelled);
    Result<DaemonCounts> counts = fail(Code::corrupt);
    if (page) {
        const auto samples = parse_samples(*page, why);
        if (samples) counts = counts_in(*samples, why);
        if (!counts) why.say("it is not a daemon of this version of ros2store");
    }
    if (!counts) {
        daemon.trouble = why.text();
        co_return Result<>{};
    }
    const Time now = context.environment.reactor.now();
    if (daemon.at != Time{}) {
        daemon.seconds = std::chrono::duration<double>(now - daemon.at).count();
        daemon.tenants = rates_between(daemon.counts, *counts, daemon.seconds);
        if (daemon.by) {
            daemon.groups = groups_between(daemon.counts, *counts, daemon.seconds, *daemon.by);
        }
    }
    daemon.counts = std::move(*counts);
    daemon.at = now;
    co_return Result<>{};
}

// Looks for the daemons again: one that was started again may have another address.
Task<Result<>> look(CommandContext context, const TopOptions& options,
                    std::vector<Watched>& daemons) {
    ROS2S_CO_TRY_ASSIGN(std::vector<Watched> found, find_daemons(options, context.report));
    const auto* const by = std::ranges::find(by_names, options.by);
    for (Watched& each : found) {
        if (by != by_names.end()) each.by = static_cast<By>(by - by_names.begin());
        const auto known = std::ranges::find_if(
            daemons, [&](const Watched& old) { return old.name() == each.name(); });
        if (known != daemons.end()) {
            // Between these a daemon that was started again began at 0.
            const bool is_same = known->process == each.process;
            each.counts = is_same || !each.trouble.empty() ? known->counts : DaemonCounts{};
            if (!each.trouble.empty()) each.process = known->process;
            each.at = known->at;
        }
        if (each.trouble.empty()) ROS2S_CO_TRY(co_await ask(context, each));
    }
    daemons = std::move(found);
    co_return Result<>{};
}

// Errors: that of the first daemon, with the sentences of all.
Result<> check_any(const std::vector<Watched>& daemons, Report& report) {
    if (std::ranges::any_of(daemons, &std::string::empty, &Watched::trouble)) return {};
    for (const Watched& each : daemons) {
        report.say("{}: {}", each.name(), each.trouble);
    }
    return fail(Code::disconnected);
}

// ---- showing what they did

std::vector<std::string> lines_of(const Watched& daemon, size_t rows_max) {
    if (!daemon.trouble.empty()) return {fmt::format("{}: {}", daemon.name(), daemon.trouble)};
    if (daemon.seconds == 0) return {fmt::format("{}: its rates follow", daemon.name())};
    std::vector<std::string> lines{
        fmt::format("{}: {}", daemon.name(), totals_of(daemon.counts, daemon.tenants))};
    std::ranges::move(daemon.by ? table_of(daemon.groups, *daemon.by, rows_max)
                                : table_of(daemon.tenants, rows_max),
                      std::back_inserter(lines));
    return lines;
}

void say_all(const Console& console, const std::vector<Watched>& daemons) {
    for (const Watched& each : daemons) {
        if (&each != daemons.data()) console.say("");
        for (const std::string& line : lines_of(each, each.rows())) console.say(line);
    }
}

struct Screen {
    size_t lines = 24, columns = 80;
};
Screen screen() {
    winsize size{};
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_row == 0 || size.ws_col == 0) {
        return {};
    }
    return {size.ws_row, size.ws_col};
}

// From the upper left corner. The old lines are overwritten one by one, without flicker. The
// terminal's modes stay as they are, so that they need no restoring, however this ends.
void draw(const std::vector<Watched>& daemons) {
    constexpr size_t besides_tenants = 5;  // lines of one daemon
    const Screen size = screen();
    const size_t share = size.lines / daemons.size();
    const size_t tenants = share > besides_tenants ? share - besides_tenants : 1;
    std::string text = "\033[H";
    size_t left = size.lines - 1;
    for (const Watched& each : daemons) {
        for (const std::string& line : lines_of(each, tenants)) {
            const size_t taken = 1 + (std::max<size_t>(line.size(), 1) - 1) / size.columns;
            if (taken > left) break;
            left -= taken;
            text += line + "\033[K\n";
        }
        if (left > 0) text += "\033[K\n";
        left -= std::min<size_t>(left, 1);
    }
    text += "\033[J";
    (void)std::fwrite(text.data(), 1, text.size(), stdout);
}

Json value_of(const std::vector<Watched>& daemons) {
    std::vector<Json> values;
    for (const Watched& each : daemons) {
        const bool known = each.trouble.empty() && each.seconds > 0;
        const auto count = [&](double DaemonCounts::* of) {
            return known ? Json(std::llround(each.counts.*of)) : Json();
        };
        values.push_back(Json::object(
            {{"program", each.program.empty() ? Json() : Json(each.program)},
             {"place", each.location},
             {"address", each.metrics.address.empty() ? Json() : Json(each.metrics.address)},
             {"trouble", each.trouble.empty() ? Json() : Json(each.trouble)},
             {"seconds", known ? Json(each.seconds) : Json()},
             {"sessions", count(&DaemonCounts::sessions)},
             {"in_progress", count(&DaemonCounts::inside)},
             {"waiting", count(&DaemonCounts::waiting)},
             {"volatile_groups", count(&DaemonCounts::volatile_groups)},
             {"volatile_milliseconds", count(&DaemonCounts::volatile_milliseconds)},
             {"tenants", known ? cli::value_of(each.tenants) : Json()},
             {"by", each.by ? Json(by_names.at(static_cast<size_t>(*each.by))) : Json()},
             {"groups", known && each.by ? cli::value_of(each.groups) : Json()}}));
    }
    return Json::object({{"daemons", Json::array(values)}});
}

}  // namespace

Task<Result<>> top(CommandContext context, TopOptions options) {
    Reactor& reactor = context.environment.reactor;
    const auto interval =
        std::chrono::duration_cast<Duration>(std::chrono::duration<double>(options.interval));
    const bool once = options.once || context.console.json() || isatty(STDOUT_FILENO) != 1;
    std::vector<Watched> daemons;
    ROS2S_CO_TRY(co_await look(context, options, daemons));
    ROS2S_CO_TRY(check_any(daemons, context.report));
    if (once) {
        if (!co_await sleep_for(reactor, interval, context.call.stop))
            co_return fail(Code::cancelled);
        ROS2S_CO_TRY(co_await look(context, options, daemons));
        ROS2S_CO_TRY(check_any(daemons, context.report));
        say_all(context.console, daemons);
        context.console.answer(value_of(daemons));
        co_return Result<>{};
    }
    // The text on the screen goes up and stays readable.
    context.console.say(std::string(screen().lines, '\n'));
    for (;;) {
        draw(daemons);
        // finish() reports a failure. Ctrl-C is how a person ends this.
        if (std::fflush(stdout) != 0) co_return Result<>{};
        if (!co_await sleep_for(reactor, interval, context.call.stop)) co_return Result<>{};
        const Result<> looked = co_await look(context, options, daemons);
        if (!looked && looked.error().code == Code::cancelled) co_return Result<>{};
        ROS2S_CO_TRY(looked);
    }
}

}  // namespace ros2s::cli
