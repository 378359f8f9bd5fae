#include "ros2s/daemon/limits.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ros2s/daemon/tenant_sources.h"
#include "ros2s/rights/settings.h"
#include "ros2s/tenancy/allowance_settings.h"

namespace ros2s::daemon {
namespace {

constexpr std::string_view everybody_else = "*";

}  // namespace

config::Group describe_limits(LimitSettings& settings, RecordLines& lines) {
    config::Records records{
        .into = &settings,
        .example = R"("CN=alice": {weight: 4, requests: 20000, bytes: 500MiB, names: 5000})",
        .lines = &lines};
    admission::Allowance allowance;
    for (const config::Field& each : tenancy::fields_of(allowance)) {
        records.keys.push_back({.name = each.name(), .help = each.help()});
    }
    return {"limits",
            "Shares, rates and limits by the subject of a client's certificate, as printed by "
            "`ros2store certs show FILE`; \"*\" is each subject that is not named. Requests over a "
            "rate or "
            "a limit wait; further sessions and handles are refused. Without an entry all have the "
            "same share, and no rates and limits. Read at start.",
            {},
            nullptr,
            {std::move(records)}};
}

Result<admission::Allowances> parse_limits(const LimitSettings& settings, const RecordLines& lines,
                                           std::string_view where, Report& report) {
    admission::Allowances allowances;
    for (const auto& [subject, entries] : settings) {
        const KeyLines own = lines_of(lines, subject);
        if (subject != everybody_else) {
            const auto checked =
                rights::check_subject(subject, SettingPlace(where, "limits", own).of(), report);
            if (!checked) {
                report.say("\"*\" is each subject that is not named");
                return fail(checked.error());
            }
        }
        ROS2S_TRY_ASSIGN(
            const admission::Allowance allowance,
            tenancy::parse_allowance(
                entries, SettingPlace(where, fmt::format("limits: '{}'", subject), own), report));
        if (subject == everybody_else) {
            allowances.others = allowance;
        } else {
            allowances.by_account.emplace(subject, allowance);
        }
    }
    return allowances;
}

std::vector<exporter::Source> sources_of(const admission::Accounts& accounts) {
    TenantSources sources;
    for (const auto& account : accounts.all()) {
        sources.add(
            account->name,
            {{.list = [account](const MetricVisitor& visit) { account->metrics.visit(visit); },
              .times =
                  [account](const HistogramVisitor& visit) {
                      account->metrics.visit_times(visit);
                  }}});
    }
    return sources.take();
}

}  // namespace ros2s::daemon
