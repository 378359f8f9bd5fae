// plan: the machines that GPUs need for their reads, from measured costs. It opens no pool.
#include "ros2s/planning/plan.h"

#include <fmt/format.h>

#include <filesystem>

#include "commands.h"
#include "daemons/process.h"
#include "ros2s/base/durable_file.h"

namespace ros2s::cli {
namespace {

using planning::Backend;
using planning::Costs;
using planning::Hardware;
using planning::Plan;
using planning::Resource;

constexpr size_t file_bytes_max = 2 << 20;

Result<std::string> text_of(const std::string& file, std::string_view what, Report& report) {
    auto text = read_file(file, file_bytes_max);
    if (text) return text;
    return report.fail(
        text.error(),
        "{}: {}; name {} of your own, or leave the option out for the one of this build", file,
        describe(text.error()), what);
}

Result<Hardware> hardware_of(const std::string& file, Report& report) {
    if (file.empty()) return Hardware{};
    ROS2S_TRY_ASSIGN(const std::string text, text_of(file, "a file of hardware", report));
    return planning::parse_hardware(text, file, report);
}

// 12,345
std::string grouped(double number) {
    std::string text = fmt::format("{:.0f}", number);
    for (size_t at = text.size(); at > 3; at -= 3) text.insert(at - 3, ",");
    return text;
}
// In units of 1000, as vendors of links and devices count.
std::string decimal(double number, std::string_view unit) {
    constexpr std::string_view prefixes[] = {"", "k", "M", "G", "T", "P", "E"};
    size_t at = 0;
    for (; number >= 999.5 && at + 1 < std::size(prefixes); ++at) number /= 1000;
    return fmt::format("{:.3g} {}{}", number, prefixes[at], unit);
}
// 12.3 or 12,345
std::string plain(double number) {
    return number < 999.5 ? fmt::format("{:.3g}", number) : grouped(number);
}
std::string quantity(double number, std::string_view unit) {
    return unit == "cores" ? plain(number) + " cores" : decimal(number, unit);
}

// The source of the plan's costs.
std::string sources(const Costs& costs, Backend backend, std::string_view provider) {
    const std::string &small = costs.requests.at(Costs::key(backend, provider, "read-4096")).source,
                      &large =
                          costs.requests.at(Costs::key(backend, provider, "read-1048576")).source;
    if (small == "measured" && large == small) return small;
    return (small == large ? small : small + "; " + large) + " (not measured by ./dev bench costs)";
}

struct PlanResult {
    planning::Demand demand;
    Hardware hardware;
    Backend backend;
    std::string provider;
    Costs costs;
    std::string costs_file;
    Plan plan;
};

void say_machines(const Console& out, const PlanResult& made) {
    const Plan& plan = made.plan;
    const auto row = [&](std::string_view name, uint64_t count, const std::string& what) {
        out.say("  {:<8} {:>7}  {}", name, grouped(static_cast<double>(count)), what);
    };
    out.say("needs");
    row("hosts", plan.hosts, fmt::format("with {} GPUs", made.hardware.host_gpus));
    row("DPUs", plan.dpus(),
        fmt::format("{} in each host; DPU daemons with one core each: {} on a DPU",
                    plan.dpus_per_host, plan.dpu_daemons_per_dpu));
    const std::string devices =
        fmt::format("with {} devices, {} in all", made.hardware.server_devices,
                    decimal(static_cast<double>(plan.devices) *
                                static_cast<double>(made.hardware.device_capacity),
                            "B"));
    if (made.backend != Backend::rados) {
        row("servers", plan.servers, devices);
    } else {
        row("servers", plan.servers,
            fmt::format("{}, {} of data with its copies: {}", devices,
                        decimal(plan.usable_bytes, "B"), made.hardware.rados_copies));
        row("OSDs", plan.devices,
            fmt::format("one on each device; each uses {} cores",
                        plain(plan.server_cores / static_cast<double>(plan.devices))));
    }
    if (made.backend == Backend::engine)
        row("engines", plan.engines, "with one core each, so at least as many targets");
}

void say_memory(const Console& out, const PlanResult& made) {
    if (made.backend == Backend::rados) {
        out.say("memory of a server: {} for its OSDs",
                decimal(static_cast<double>(made.hardware.server_devices) *
                            static_cast<double>(made.hardware.rados_osd_memory),
                        "B"));
    }
    if (made.backend != Backend::engine) return;
    const auto of = [&](std::string_view name) {
        const auto found = made.costs.memory.find(name);
        return found == made.costs.memory.end() ? std::nullopt : std::optional(found->second);
    };
    const double gib = static_cast<double>(made.hardware.server_devices) *
                       static_cast<double>(made.hardware.device_capacity) / (1 << 30);
    const auto in_order = of("index_bytes_per_gib_in_order");
    const auto scattered = of("index_bytes_per_gib_scattered");
    if (in_order && scattered) {
        out.say(
            "index of a full server: {} if written in order, {} if overwritten at random, on its "
            "disk",
            decimal(*in_order * gib, "B"), decimal(*scattered * gib, "B"));
    }
    const auto engine = of("engine_resident_bytes"), dpu = of("dpu_resident_bytes");
    if (engine && dpu) {
        out.say("memory after load: {} for an engine, {} for a DPU daemon", decimal(*engine, "B"),
                decimal(*dpu, "B"));
    }
}

void say_plan(const Console& out, const PlanResult& made) {
    const Plan& plan = made.plan;
    out.say("B = G·r·s = {} GPUs × {} samples/s × {} = {}",
            grouped(static_cast<double>(made.demand.gpus)), fmt::format("{:.6g}", made.demand.rate),
            decimal(static_cast<double>(made.demand.sample_bytes), "B"),
            decimal(plan.bytes_per_s, "B/s"));
    out.say("{} requests/s of {}, {} per sample; behind the DPUs: {} over {}",
            grouped(plan.requests_per_s), decimal(plan.request.bytes, "B"),
            grouped(plan.requests_per_sample), planning::name(made.backend), made.provider);
    say_machines(out, made);
    out.say("share of each resource in use (planned up to {:.2f})",
            made.hardware.utilisation_percent / 100.0);
    for (const Resource& each : plan.resources) {
        out.say("  {:<26} {:>6.3f}  {} of {}", fmt::format("{}: {}", each.of, each.name),
                each.share(), quantity(each.asked, each.unit), quantity(each.available, each.unit));
    }
    const Resource& first = plan.resources.front();
    out.say("full first: {} of the {}s, at {}", first.name, first.of,
            decimal(plan.bytes_per_s / first.share(), "B/s"));
    if (plan.look_ups) {
        out.say(
            "if each sample is a file of its own: {} more cores of DPUs, {} of servers, to find "
            "them",
            plain(plan.look_ups->dpu_cores), plain(plan.look_ups->server_cores));
    }
    say_memory(out, made);
    out.say("a request costs: host {} µs, DPU {} µs, server {} µs, {} on the network",
            plain(plan.request.host_us), plain(plan.request.dpu_us), plain(plan.request.server_us),
            decimal(plan.request.network_bytes, "B"));
    out.say("source of these costs: " + sources(made.costs, made.backend, made.provider));
    out.say("costs: {} ({}; {}; revision {}; load {})", made.costs_file, made.costs.machine,
            made.costs.date, made.costs.commit, made.costs.load);
    out.say(
        "not in this plan: writes, other traffic, latency, {}. It was never checked on such a "
        "cluster.",
        made.backend == Backend::engine ? "a second copy" : "recovery");
}

Json value_of(const PlanResult& made) {
    const Plan& plan = made.plan;
    std::vector<Json> resources;
    for (const Resource& each : plan.resources) {
        resources.push_back(Json::object({{"machine", each.of},
                                          {"resource", each.name},
                                          {"share", each.share()},
                                          {"asked", each.asked},
                                          {"available", each.available},
                                          {"unit", each.unit}}));
    }
    std::vector<Json::Member> members{
        {"bytes_per_s", plan.bytes_per_s},
        {"samples_per_s", plan.samples_per_s},
        {"requests_per_s", plan.requests_per_s},
        {"request_bytes", plan.request.bytes},
        {"backend", planning::name(made.backend)},
        {"provider", made.provider},
        {"hosts", plan.hosts},
        {"dpus", plan.dpus()},
        {"dpu_daemons", plan.dpus() * plan.dpu_daemons_per_dpu},
        {"servers", plan.servers},
        {"devices", plan.devices},
        {"resources", Json::array(resources)},
        {"full_first",
         fmt::format("{}: {}", plan.resources.front().of, plan.resources.front().name)},
        {"full_at_bytes_per_s", plan.bytes_per_s / plan.resources.front().share()},
        {"source", sources(made.costs, made.backend, made.provider)},
        {"costs", made.costs_file},
        {"costs_commit", made.costs.commit},
        {"costs_load", made.costs.load},
        {"costs_under_load", made.costs.measured_under_load()}};
    if (made.backend == Backend::engine) members.emplace_back("engines", plan.engines);
    if (made.backend == Backend::rados) {
        members.emplace_back("osds", plan.devices);
        members.emplace_back("copies", made.hardware.rados_copies);
        members.emplace_back("usable_bytes", plan.usable_bytes);
    }
    if (plan.look_ups) {
        members.emplace_back("look_up_dpu_cores", plan.look_ups->dpu_cores);
        members.emplace_back("look_up_server_cores", plan.look_ups->server_cores);
    }
    return Json::object(members);
}

Result<PlanResult> make_plan(const PlanOptions& options, Report& report) {
    ROS2S_TRY_ASSIGN(const auto demand,
                     planning::parse_demand(options.gpus, options.rate, options.sample, report));
    const auto backend = planning::backend_named(options.backend);
    if (!backend) {
        return report.fail(Code::invalid, "--backend takes engine, rados or daos, not '{}'",
                           options.backend);
    }
    ROS2S_TRY_ASSIGN(const Hardware hardware, hardware_of(options.hardware, report));
    std::string file = options.costs;
    // Of the package, and of a build, whose programs are in folders beside share/.
    if (file.empty()) {
        file = std::filesystem::path(own_directory() + "/../share/ros2store/costs.json")
                   .lexically_normal();
    }
    ROS2S_TRY_ASSIGN(const std::string text, text_of(file, "a file of costs", report));
    ROS2S_TRY_ASSIGN(Costs costs, planning::parse_costs(text, file, report));
    std::string provider = options.provider;
    if (provider.empty()) provider = planning::default_provider(*backend);
    ROS2S_TRY_ASSIGN(Plan plan,
                     planning::plan(demand, hardware, *backend, provider, costs, file, report));
    return PlanResult{demand,           hardware,        *backend,       std::move(provider),
                      std::move(costs), std::move(file), std::move(plan)};
}

}  // namespace

Task<Result<>> plan(CommandContext context, PlanOptions options) {
    ROS2S_CO_TRY_ASSIGN(const PlanResult made, make_plan(options, context.report));
    if (made.costs.measured_under_load()) {
        context.console.warn(fmt::format(
            "other programs used the machine that measured {} (load {}; {}), so this plan may ask "
            "for more than is needed; measure on a quiet machine (./dev bench costs) and name that "
            "file by --costs",
            made.costs_file, made.costs.load, made.costs.machine));
    }
    say_plan(context.console, made);
    context.console.answer(value_of(made));
    co_return Result<>{};
}

}  // namespace ros2s::cli
