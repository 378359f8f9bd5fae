// doctor: what this machine lacks for pools, mounts and networks, and a command to repair each.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <map>

#include "commands.h"
#include "doctor_certificates.h"
#include "doctor_machine.h"
#include "doctor_providers.h"
#include "doctor_server.h"
#include "output/console.h"
#include "pool/pool_location.h"
#include "ros2s/api/deployment.h"
#include "ros2s/api/service_paths.h"
#include "ros2s/pool/owner.h"

namespace ros2s::cli {
namespace {

std::string_view word(Grade grade) {
    switch (grade) {
        case Grade::good: return "ok";
        case Grade::absent: return "absent";
        case Grade::slower: return "warning";
        case Grade::missing: return "missing";
        case Grade::wrong: return "wrong";
    }
    return "";
}

void say(const CommandContext& context, const Finding& finding) {
    context.console.say("{:<8} {:<15} {}", word(finding.grade), finding.what, finding.found);
    if (!finding.remedy.empty()) context.console.say("{:25}→ {}", "", finding.remedy);
}

Json shown(const Finding& finding) {
    return Json::object({{"what", finding.what},
                         {"grade", word(finding.grade)},
                         {"found", finding.found},
                         {"remedy", finding.remedy}});
}

// Prints the findings. The command fails if there are serious ones.
Result<> conclude(const CommandContext& context, const std::vector<Finding>& findings) {
    std::map<Grade, size_t> count;
    std::vector<Json> values;
    for (const Finding& finding : findings) {
        ++count[finding.grade];
        values.push_back(shown(finding));
    }
    const size_t problems = count[Grade::missing] + count[Grade::wrong];
    const size_t slower = count[Grade::slower];
    context.console.answer(Json::object({{"findings", Json::array(values)},
                                         {"missing", count[Grade::missing]},
                                         {"wrong", count[Grade::wrong]}}));
    if (problems == 0) {
        context.console.say(slower == 0   ? "nothing is missing"
                            : slower == 1 ? "nothing is missing; see the warning above"
                                          : "nothing is missing; see the warnings above");
        return {};
    }
    return context.report.fail(Code::unsupported,
                               "{} thing{} missing or wrong; the remedies are listed above",
                               problems, problems == 1 ? " is" : "s are");
}

}  // namespace

namespace {

// The findings so far, which were printed.
class Findings {
  public:
    explicit Findings(const CommandContext& context) : context_(context) {}
    void add(std::vector<Finding> more) {
        for (const Finding& finding : more) say(context_, finding);
        std::ranges::move(more, std::back_inserter(all_));
    }
    [[nodiscard]] Result<> conclude() const { return cli::conclude(context_, all_); }

  private:
    const CommandContext& context_;
    std::vector<Finding> all_;
};

// The daemons of `ros2store up DIR` that look_at_server() does not look at: they were stopped, or
// never started, or this user cannot reach them. They explain why a client cannot connect.
std::vector<Finding> look_for_daemons(const std::string& directory) {
    std::vector<Finding> findings;
    const api::ServicePaths paths(directory);
    const auto look = [&](std::string_view program, const std::string& settings,
                          api::Uri::Transport transport) {
        if (::access(settings.c_str(), F_OK) != 0) return;
        Report why;
        const auto server = api::running_server(directory, transport, why);
        if (server) return;
        const bool is_down = server.error().code == Code::not_found;
        const size_t remedy = why.text().rfind(": ");
        findings.push_back(
            {.what = "daemon",
             .grade = is_down ? Grade::missing : Grade::wrong,
             .found = is_down ? fmt::format("{} is not running", program)
                              : fmt::format("{}: {}", program, why.text().substr(0, remedy)),
             .remedy = is_down                       ? "ros2store up " + shell_word(directory)
                       : remedy == std::string::npos ? ""
                                                     : why.text().substr(remedy + 2)});
    };
    look(pool::engine_program, paths.engine_settings, api::Uri::Transport::direct);
    look("ros2store-dpu", paths.dpu_settings, api::Uri::Transport::dpu);
    return findings;
}

Task<Result<>> look_at_network(CommandContext context, DoctorOptions options, api::Uri uri) {
    ROS2S_CO_TRY_ASSIGN(const ExaminedServer server,
                        server_of(uri, options.certificates, context.report));
    Findings findings(context);
    findings.add(look_at_providers());
    findings.add(look_at_certificates(server.location.certificates, now_by(context)));
    findings.add(co_await look_at_server(context, server));
    co_return findings.conclude();
}

// Opening the pool finds the first thing that is wrong, and changes nothing.
Task<Result<>> look_at_cluster(CommandContext context, api::Uri uri) {
    Findings findings(context);
    Report report;
    uri.container.clear();
    const auto opened =
        co_await api::Deployment::open(context.call, context.environment, uri, {}, report);
    if (opened) {
        findings.add({{.what = "Ceph cluster", .found = (*opened)->path()}});
        co_await (*opened)->close();
    } else {
        const std::string text = report.text();
        const size_t remedy = text.find(": ");
        findings.add({{.what = "Ceph cluster",
                       .grade = Grade::wrong,
                       .found = text.substr(0, remedy),
                       .remedy = remedy == text.npos ? "" : text.substr(remedy + 2)}});
    }
    co_return findings.conclude();
}

Task<Result<>> look_here(CommandContext context, DoctorOptions options, std::string directory) {
    Findings findings(context);
    findings.add(look_at_machine(context.environment.reactor));
    findings.add(look_at_directory(directory));
    findings.add(look_at_providers());
    findings.add(options.certificates.empty()
                     ? look_for_certificates(directory, now_by(context))
                     : look_at_certificates(options.certificates, now_by(context)));
    findings.add(look_for_daemons(directory));
    for (ExaminedServer& server : servers_of(directory)) {
        findings.add(co_await look_at_server(context, std::move(server)));
    }
    co_return findings.conclude();
}

}  // namespace

Task<Result<>> doctor(CommandContext context, DoctorOptions options) {
    if (!is_uri(options.location)) co_return co_await look_here(context, options, options.location);
    ROS2S_CO_TRY_ASSIGN(const api::Uri uri, api::Uri::parse(options.location, context.report));
    if (uri.transport == api::Uri::Transport::rados)
        co_return co_await look_at_cluster(context, uri);
    if (uri.transport != api::Uri::Transport::local) {
        co_return co_await look_at_network(context, options, uri);
    }
    ROS2S_CO_TRY_ASSIGN(const std::string directory,
                        pool_directory_of(options.location, context.report));
    co_return co_await look_here(context, options, directory);
}

}  // namespace ros2s::cli
