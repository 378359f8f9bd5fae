#include "access.h"

#include <fmt/format.h>

#include "ros2s/rights/settings.h"
#include "ros2s/tenancy/allowance_settings.h"

namespace ros2s::daemon {

config::Group describe_access(rights::AccessSettings& settings, RecordLines& lines, Clients clients,
                              std::string_view help) {
    std::vector<config::Records::Key> keys{
        {"read", clients == Clients::hosts
                     ? "containers, or directories of them, that it may mount for reading."
                     : "containers that it may mount for reading."},
        {"write", clients == Clients::hosts
                      ? "containers, or directories of them, that it may mount, read and change."
                      : "containers that it may mount, read and change."},
        {"create", "containers that it may create."},
        {"destroy", "containers that it may destroy, with their contents."}};
    if (clients == Clients::hosts) {
        for (const auto& key : {
                 config::Records::Key{"users",
                                      "user ids for which its machine may act: any, or "
                                      "1000-1999, 5000."},
                 {"groups", "group ids that its users may have: any, or 1000-1999."},
                 {"root_squash", "yes: its user 0 and group 0 act as user nobody."},
                 {"squash", "UID:GID: the user and group for all its requests."},
                 {"uid_map",
                  "HOST:STORED:COUNT: maps user ids of its machine to those in containers."},
                 {"gid_map", "the same for groups."},
                 {"may", "what its root may create: devices, set_ids, privileged_attributes."},
             }) {
            keys.push_back(key);
        }
    }
    return {"access",
            help,
            {},
            nullptr,
            {{.keys = std::move(keys),
              .into = &settings,
              .example =
                  R"("CN=alice": {write: pool/alice-*, create: pool/alice-*, read: pool/images})",
              .lines = &lines}}};
}

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
            "rate or a limit wait; further sessions and handles are refused. Without an entry all "
            "have the "
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

void TenantSources::add(const std::string& subject, std::vector<exporter::Source> sources) {
    const bool has_label = tenants_++ < labels_max;
    for (exporter::Source& source : sources) {
        if (has_label) {
            source.labels.emplace_back("tenant", subject);
            labelled_.push_back(std::move(source));
            continue;
        }
        source.list([this](std::string_view name, std::string_view help, uint64_t value) {
            auto& [text, sum] = others_[std::string(name)];
            text = help;
            sum += value;
        });
        if (!source.times) continue;
        source.times([this](std::string_view name, std::string_view help,
                            std::string_view /*operation*/, const HistogramReading& times) {
            const auto [place, is_first] = times_of_others_.try_emplace(std::string(name));
            auto& [text, sum] = place->second;
            if (is_first) {
                text = help;
                sum = times;
            } else {
                sum.add(times);
            }
        });
    }
}

std::vector<exporter::Source> TenantSources::take() {
    if (!others_.empty()) {
        labelled_.push_back(
            {.labels = {{"tenant", "(others)"}},
             .list =
                 [others = std::move(others_)](const MetricVisitor& visit) {
                     for (const auto& [name, value] : others) {
                         visit(name, value.first, value.second);
                     }
                 },
             .times =
                 [others = std::move(times_of_others_)](const HistogramVisitor& visit) {
                     for (const auto& [name, value] : others) {
                         visit(name, value.first, {}, value.second);
                     }
                 }});
    }
    return std::move(labelled_);
}

}  // namespace ros2s::daemon
