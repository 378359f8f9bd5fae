#include "ros2s/daemon/limits.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "ros2s/daemon/tenant_sources.h"
#include "ros2s/session/access_table.h"

namespace ros2s::daemon {
namespace {

constexpr std::string_view everybody_else = "*";

std::vector<config::Field> fields_of(admission::Allowance& a) {
    using namespace std::chrono_literals;
    constexpr uint64_t most = 1'000'000'000;
    return {
        config::count("weight", a.weight, 1, 1000,
                      "of its share of this server's time while others are active, 1 to 1000."),
        config::count("requests", a.requests, 0, most,
                      "reads and writes per second; 0: no limit, as for all rates."),
        config::size("bytes", a.bytes, 0, uint64_t{1} << 40,
                     "bytes read and written per second: 500MiB."),
        config::count("names", a.names, 0, most, "requests per second on names and attributes."),
        config::duration("burst", a.burst, 1ms, 60s,
                         "for how long a rate may be exceeded after a pause: 100ms.")};
}

Result<admission::Allowance> parse_allowance(const config::Entries& entries, std::string_view where,
                                             Report& report) {
    admission::Allowance allowance;
    const std::vector<config::Field> fields = fields_of(allowance);
    for (const auto& [name, text] : entries) {
        const auto field = std::ranges::find(fields, name, &config::Field::name);
        if (field == fields.end()) {
            std::vector<std::string_view> names;
            for (const config::Field& each : fields) names.push_back(each.name());
            return report.fail(Code::invalid,
                               fmt::format("{}: there is no limit '{}'; the limits are {}", where,
                                           name, fmt::join(names, ", ")));
        }
        Report problem;
        const auto value = field->read(text, problem);
        if (!value) {
            return report.fail(value.error(),
                               fmt::format("{}: {}: {}", where, name, problem.text()));
        }
        field->store(*value);
    }
    return allowance;
}

}  // namespace

config::Group describe_limits(LimitSettings& settings) {
    config::Records records{
        .into = &settings,
        .example = R"("CN=alice": {weight: 4, requests: 20000, bytes: 500MiB, names: 5000})"};
    admission::Allowance allowance;
    for (const config::Field& each : fields_of(allowance)) {
        records.keys.push_back({.name = each.name(), .help = each.help()});
    }
    return {
        "limits",
        "Shares and rates by the subject of a client's certificate, as printed by `ros2store "
        "certs show FILE`; \"*\" is everybody who is not named. Requests over a rate wait; none "
        "is refused. Without an entry all have the same share and no rates. Read at start.",
        {},
        nullptr,
        std::move(records)};
}

Result<admission::Allowances> parse_limits(const LimitSettings& settings, std::string_view where,
                                           Report& report) {
    admission::Allowances allowances;
    for (const auto& [subject, entries] : settings) {
        if (subject != everybody_else) {
            const auto checked =
                session::check_subject(subject, fmt::format("{}: limits", where), report);
            if (!checked) {
                report.say("\"*\" is everybody who is not named");
                return fail(checked.error());
            }
        }
        ROS2S_TRY_ASSIGN(
            const admission::Allowance allowance,
            parse_allowance(entries, fmt::format("{}: limits: '{}'", where, subject), report));
        if (subject == everybody_else) {
            allowances.others = allowance;
        } else {
            allowances.by_subject.emplace(subject, allowance);
        }
    }
    return allowances;
}

std::vector<exporter::Source> sources_of(const admission::Accounts& accounts) {
    TenantSources sources;
    for (const auto& account : accounts.all()) {
        sources.add(
            account->subject,
            {{.list = [account](const MetricVisitor& visit) { account->metrics.visit(visit); }}});
    }
    return sources.take();
}

}  // namespace ros2s::daemon
