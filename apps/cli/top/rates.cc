#include "rates.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <limits>
#include <ranges>
#include <tuple>

#include "ros2s/base/text_parts.h"

namespace ros2s::cli {
namespace {

// Tenants without a label of their own (daemon/limits.cc).
constexpr std::string_view unlabelled = "(others)";
constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double mib = 1 << 20;

struct Field {
    std::string_view name;
    double TenantCounts::* count;
};
constexpr std::array fields{
    Field{"ros2store_tenant_requests_total", &TenantCounts::requests},
    Field{"ros2store_tenant_names_total", &TenantCounts::names},
    Field{"ros2store_tenant_bytes_total", &TenantCounts::bytes},
    Field{"ros2store_tenant_refused_total", &TenantCounts::refused},
    Field{"ros2store_tenant_queued_seconds_total", &TenantCounts::queued},
    Field{"ros2store_tenant_throttled_seconds_total", &TenantCounts::throttled},
    Field{"ros2store_tenant_request_duration_seconds_sum", &TenantCounts::busy},
};
constexpr Field sessions_now{"ros2store_tenant_sessions", &TenantCounts::sessions};
constexpr std::string_view bucket = "ros2store_tenant_request_duration_seconds_bucket";

struct Gauge {
    std::string_view name;
    double DaemonCounts::* count;
};
constexpr std::array gauges{
    Gauge{"ros2store_sessions", &DaemonCounts::sessions},
    Gauge{"ros2store_admission_inside", &DaemonCounts::inside},
    Gauge{"ros2store_admission_waiting", &DaemonCounts::waiting},
};

// Nothing that a daemon counts is larger.
bool is_count(double value) { return value >= 0 && value < 1e18; }

std::optional<double> bound_of(const Sample& sample) {
    const std::string_view text = sample.label("le");
    if (text == "+Inf") return infinity;
    double bound = 0;
    if (!parse_number(text, bound) || !is_count(bound)) return {};
    return bound;
}

// False: it is about a tenant, and malformed.
bool count_tenant(const Sample& sample, DaemonCounts& counts) {
    const auto* const found = std::ranges::find(fields, sample.name, &Field::name);
    const Field* const field = found != fields.end()              ? found
                               : sample.name == sessions_now.name ? &sessions_now
                                                                  : nullptr;
    if (field == nullptr && sample.name != bucket) return true;
    const std::string_view tenant = sample.label("tenant");
    if (tenant.empty() || !is_count(sample.value)) return false;
    TenantCounts& of_tenant = counts.tenants[std::string(tenant)];
    if (field != nullptr) {
        of_tenant.*field->count = sample.value;
        return true;
    }
    const auto bound = bound_of(sample);
    if (bound) of_tenant.buckets[*bound] = sample.value;
    return bound.has_value();
}

constexpr std::string_view session_requests = "ros2store_session_requests_total";
constexpr std::string_view session_bytes = "ros2store_session_bytes_total";
constexpr std::string_view session_busy = "ros2store_session_busy_seconds_total";
struct SessionGauge {
    std::string_view name;
    double SessionCounts::* count;
};
constexpr std::array session_gauges{
    SessionGauge{"ros2store_session_volatile_changes", &SessionCounts::volatile_changes},
    SessionGauge{"ros2store_session_volatile_bytes", &SessionCounts::volatile_bytes},
    SessionGauge{"ros2store_session_volatile_milliseconds", &SessionCounts::volatile_milliseconds},
};

double SessionCounts::* count_of(const Sample& sample) {
    if (sample.name == session_bytes) return &SessionCounts::bytes;
    if (sample.name == session_busy) return &SessionCounts::busy;
    const auto* const gauge = std::ranges::find(session_gauges, sample.name, &SessionGauge::name);
    if (gauge != session_gauges.end()) return gauge->count;
    const std::string_view kind = sample.label("kind");
    if (kind == "look") return &SessionCounts::looks;
    if (kind == "change") return &SessionCounts::changes;
    if (kind == "read") return &SessionCounts::reads;
    return kind == "write" ? &SessionCounts::writes : nullptr;
}

// False: it is about a session, and malformed.
bool count_session(const Sample& sample, DaemonCounts& counts) {
    const bool is_gauge =
        std::ranges::find(session_gauges, sample.name, &SessionGauge::name) != session_gauges.end();
    if (!is_gauge && sample.name != session_requests && sample.name != session_bytes &&
        sample.name != session_busy) {
        return true;
    }
    const std::string tenant(sample.label("tenant")), number(sample.label("session"));
    double SessionCounts::* const count = count_of(sample);
    if (tenant.empty() || number.empty() || count == nullptr || !is_count(sample.value)) {
        return false;
    }
    SessionCounts& session = counts.each_session[{tenant, number}];
    session.process = sample.label("process");
    session.container = sample.label("container");
    session.*count = sample.value;
    return true;
}

double count_at(const std::map<double, double>& buckets, double bound) {
    const auto found = buckets.find(bound);
    return found == buckets.end() ? 0 : found->second;
}

bool has_fallen(const TenantCounts& before, const TenantCounts& now) {
    return std::ranges::any_of(
               fields, [&](const Field& each) { return now.*each.count < before.*each.count; }) ||
           std::ranges::any_of(now.buckets, [&](const auto& each) {
               return each.second < count_at(before.buckets, each.first);
           });
}

// The earlier counts of the same tenant.
TenantCounts earlier_of(const DaemonCounts& before, const std::string& tenant,
                        const TenantCounts& now) {
    const auto found = before.tenants.find(tenant);
    const bool known = found != before.tenants.end();
    const bool fell = known && has_fallen(found->second, now);
    // When a tenant gets a label, its counts leave the sum of the others. The rates of both are
    // then unknown.
    if (known ? fell && tenant == unlabelled : before.tenants.contains(unlabelled)) return now;
    // The daemon, or the tenant's account, began again.
    if (!known || fell) return {};
    return found->second;
}

// Within its bucket, times are taken to be spread evenly, as Prometheus does.
std::optional<Latency> quantile(const std::map<double, double>& buckets, double part) {
    if (buckets.empty() || buckets.rbegin()->second <= 0) return std::nullopt;
    const double rank = part * buckets.rbegin()->second;
    double least = 0, below = 0;
    for (const auto& [bound, count] : buckets) {
        if (bound == infinity) break;
        if (count >= rank && count > below) {
            return Latency{.seconds = least + (bound - least) * (rank - below) / (count - below)};
        }
        least = bound;
        below = count;
    }
    return Latency{.seconds = least, .or_more = true};
}

TenantRates rates_of(const std::string& tenant, const TenantCounts& before, const TenantCounts& now,
                     double seconds) {
    const auto rate = [&](double TenantCounts::* count) {
        return (now.*count - before.*count) / seconds;
    };
    std::map<double, double> buckets;
    for (const auto& [bound, count] : now.buckets) {
        buckets[bound] = count - count_at(before.buckets, bound);
    }
    return {.tenant = tenant,
            .requests = rate(&TenantCounts::requests),
            .names = rate(&TenantCounts::names),
            .bytes = rate(&TenantCounts::bytes),
            .refused = rate(&TenantCounts::refused),
            .busy = rate(&TenantCounts::busy),
            .queued = rate(&TenantCounts::queued),
            .throttled = rate(&TenantCounts::throttled),
            .sessions = now.sessions,
            .p50 = quantile(buckets, 0.5),
            .p99 = quantile(buckets, 0.99)};
}

std::string number(double value) {
    if (value == 0) return "0";
    return fmt::format("{:.{}f}", value, value < 9.995 ? 2 : value < 99.95 ? 1 : 0);
}
std::string shown(std::string_view name, size_t most) {
    std::string text;
    for (const char c : name) {
        if (c >= ' ' && c <= '~') {
            text += c;
        } else {
            text += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
        }
    }
    return text.size() > most ? text.substr(0, most - 3) + "..." : text;
}

// A column of figures: as text in its unit, and in JSON.
template <class Rates>
struct Column {
    std::string_view heading, unit;  // without a unit: a whole number
    int width;
    double units;  // in one second, one per second, or one
    std::string_view key;
    double Rates::* rate = nullptr;  // or
    std::optional<Latency> Rates::* latency = nullptr;

    [[nodiscard]] std::optional<Latency> value(const Rates& rates) const {
        return rate != nullptr ? Latency{.seconds = rates.*rate} : rates.*latency;
    }
    [[nodiscard]] std::string text(const Rates& rates) const {
        const auto shown = value(rates);
        if (unit.empty()) return fmt::format("{:.0f}", shown->seconds);
        return shown ? (shown->or_more ? ">" : "") + number(shown->seconds * units) : "-";
    }
};
constexpr std::array<Column<TenantRates>, 10> columns{{
    {"SESS", "", 5, 1, "sessions", &TenantRates::sessions},
    {"REQ", "/s", 8, 1, "requests_per_second", &TenantRates::requests},
    {"NAMES", "/s", 8, 1, "names_per_second", &TenantRates::names},
    {"MiB", "/s", 8, 1 / mib, "bytes_per_second", &TenantRates::bytes},
    {"P50", "ms", 7, 1e3, "latency_p50_seconds", nullptr, &TenantRates::p50},
    {"P99", "ms", 7, 1e3, "latency_p99_seconds", nullptr, &TenantRates::p99},
    {"BUSY", "ms/s", 7, 1e3, "busy_seconds_per_second", &TenantRates::busy},
    {"QUEUED", "ms/s", 7, 1e3, "queued_seconds_per_second", &TenantRates::queued},
    {"THROTTLED", "ms/s", 10, 1e3, "throttled_seconds_per_second", &TenantRates::throttled},
    {"REFUSED", "/s", 8, 1, "refused_per_second", &TenantRates::refused},
}};
constexpr std::array<Column<GroupRates>, 10> group_columns{{
    {"SESS", "", 5, 1, "sessions", &GroupRates::sessions},
    {"READS", "/s", 8, 1, "reads_per_second", &GroupRates::reads},
    {"WRITES", "/s", 8, 1, "writes_per_second", &GroupRates::writes},
    {"LOOKS", "/s", 8, 1, "looks_per_second", &GroupRates::looks},
    {"CHANGES", "/s", 8, 1, "changes_per_second", &GroupRates::changes},
    {"MiB", "/s", 8, 1 / mib, "bytes_per_second", &GroupRates::bytes},
    {"BUSY", "ms/s", 7, 1e3, "busy_seconds_per_second", &GroupRates::busy},
    {"VOLATILE", "", 8, 1, "volatile_changes", &GroupRates::volatile_changes},
    {"OF", "KiB", 7, 1.0 / 1024, "volatile_bytes", &GroupRates::volatile_bytes},
    {"FOR", "ms", 6, 1e3, "volatile_seconds", &GroupRates::volatile_seconds},
}};

std::string upper(std::string_view text) {
    std::string out(text);
    for (char& c : out) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    return out;
}

// Two lines of headings, and at most `most` rows. `names`: of the rows.
template <class Rates>
std::vector<std::string> table(const std::vector<Rates>& rows, std::string_view heading,
                               std::string Rates::* name, size_t name_most, const auto& its_columns,
                               size_t most) {
    if (rows.empty()) return {fmt::format("no {}", heading)};
    std::vector<std::string> names{""};
    names.push_back(upper(heading));
    for (const Rates& each : rows | std::views::take(most)) {
        names.push_back(shown(each.*name, name_most));
    }
    const size_t width = std::ranges::max(names, {}, &std::string::size).size();
    std::vector<std::string> lines;
    for (size_t i = 0; i < names.size(); ++i) {
        std::string& line = lines.emplace_back(fmt::format("{:<{}}", names[i], width));
        for (const auto& each : its_columns) {
            line += fmt::format(" {:>{}}",
                                i == 0   ? std::string(each.heading)
                                : i == 1 ? std::string(each.unit)
                                         : each.text(rows[i - 2]),
                                each.width);
        }
    }
    if (rows.size() > most) lines.push_back(fmt::format("and {} more", rows.size() - most));
    return lines;
}

template <class Rates>
Json values(const std::vector<Rates>& rows, std::string_view key, std::string Rates::* name,
            const auto& its_columns) {
    std::vector<Json> values;
    for (const Rates& each : rows) {
        std::vector<Json::Member> members{{std::string(key), each.*name}};
        for (const auto& column : its_columns) {
            const auto value = column.value(each);
            members.emplace_back(column.key, value ? Json(value->seconds) : Json());
        }
        values.push_back(Json::object(members));
    }
    return Json::array(values);
}

// A mount: "pool/main by fio, process 7".
std::string group_of(const std::string& tenant, const SessionCounts& session, By by) {
    switch (by) {
        case By::tenant: return tenant;
        case By::container: return session.container;
        case By::process: return session.process;
        case By::mount: break;
    }
    return fmt::format("{} by {}", session.container, session.process);
}

}  // namespace

Result<DaemonCounts> counts_in(const std::vector<Sample>& samples, Report& report) {
    DaemonCounts counts;
    for (const Gauge& each : gauges) {
        const auto found = std::ranges::find(samples, each.name, &Sample::name);
        if (found == samples.end() || !is_count(found->value)) {
            return report.fail(Code::corrupt, "it has no {}", each.name);
        }
        counts.*each.count = found->value;
    }
    for (const Sample& each : samples) {
        if (!is_count(each.value)) continue;
        if (each.name == "ros2store_engine_volatile_groups") counts.volatile_groups += each.value;
        if (each.name == "ros2store_engine_volatile_milliseconds") {
            counts.volatile_milliseconds = std::max(counts.volatile_milliseconds, each.value);
        }
    }
    const auto wrong = std::ranges::find_if_not(samples, [&](const Sample& each) {
        return count_tenant(each, counts) && count_session(each, counts);
    });
    if (wrong == samples.end()) return counts;
    return report.fail(Code::corrupt, "{} has no tenant, bound or count", wrong->name);
}

std::vector<TenantRates> rates_between(const DaemonCounts& before, const DaemonCounts& now,
                                       double seconds) {
    std::vector<TenantRates> rates;
    for (const auto& [tenant, counts] : now.tenants) {
        rates.push_back(rates_of(tenant, earlier_of(before, tenant, counts), counts, seconds));
    }
    std::ranges::sort(rates, [](const TenantRates& a, const TenantRates& b) {
        return std::tie(b.busy, a.tenant) < std::tie(a.busy, b.tenant);
    });
    return rates;
}

std::string totals_of(const DaemonCounts& counts, const std::vector<TenantRates>& tenants) {
    const auto sum = [&](double TenantRates::* rate) {
        double all = 0;
        for (const TenantRates& each : tenants) all += each.*rate;
        return all;
    };
    std::string not_durable;
    if (counts.volatile_groups > 0) {
        not_durable = fmt::format(", {} groups of changes not durable, for {} ms",
                                  std::llround(counts.volatile_groups),
                                  std::llround(counts.volatile_milliseconds));
    }
    return fmt::format(
        "{} requests/s, {} names/s, {} MiB/s, {} in progress, {} waiting, {} session{}{}",
        number(sum(&TenantRates::requests)), number(sum(&TenantRates::names)),
        number(sum(&TenantRates::bytes) / mib), std::llround(counts.inside),
        std::llround(counts.waiting), std::llround(counts.sessions),
        counts.sessions == 1 ? "" : "s", not_durable);
}

std::vector<GroupRates> groups_between(const DaemonCounts& before, const DaemonCounts& now,
                                       double seconds, By by) {
    std::map<std::string, GroupRates> groups;
    for (const auto& [key, session] : now.each_session) {
        const auto known = before.each_session.find(key);
        const SessionCounts earlier =
            known == before.each_session.end() ? SessionCounts{} : known->second;
        const auto rate = [&](double SessionCounts::* count) {
            const double more = session.*count - earlier.*count;
            return (more < 0 ? session.*count : more) / seconds;  // it began again
        };
        const std::string name = group_of(key.first, session, by);
        GroupRates& group = groups[name];
        group.name = name;
        group.sessions += 1;
        group.looks += rate(&SessionCounts::looks);
        group.changes += rate(&SessionCounts::changes);
        group.reads += rate(&SessionCounts::reads);
        group.writes += rate(&SessionCounts::writes);
        group.bytes += rate(&SessionCounts::bytes);
        group.busy += rate(&SessionCounts::busy);
        group.volatile_changes += session.volatile_changes;
        group.volatile_bytes += session.volatile_bytes;
        group.volatile_seconds =
            std::max(group.volatile_seconds, session.volatile_milliseconds / 1e3);
    }
    std::vector<GroupRates> rates;
    for (auto& [name, group] : groups) rates.push_back(std::move(group));
    std::ranges::sort(rates, [](const GroupRates& a, const GroupRates& b) {
        return std::tie(b.busy, a.name) < std::tie(a.busy, b.name);
    });
    return rates;
}

std::vector<std::string> table_of(const std::vector<TenantRates>& tenants, size_t most) {
    return table(tenants, "tenant", &TenantRates::tenant, 40, columns, most);
}
std::vector<std::string> table_of(const std::vector<GroupRates>& groups, By by, size_t most) {
    return table(groups, by_names.at(static_cast<size_t>(by)), &GroupRates::name, 60, group_columns,
                 most);
}
Json value_of(const std::vector<TenantRates>& tenants) {
    return values(tenants, "tenant", &TenantRates::tenant, columns);
}
Json value_of(const std::vector<GroupRates>& groups) {
    return values(groups, "name", &GroupRates::name, group_columns);
}

}  // namespace ros2s::cli
