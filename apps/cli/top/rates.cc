#include "rates.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
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
std::string shown(std::string_view name) {
    constexpr size_t most = 40;
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

// A column of a tenant's figures: as text in its unit, and in JSON.
struct Column {
    std::string_view heading, unit;  // without a unit: a whole number
    int width;
    double units;  // in one second, one per second, or one
    std::string_view key;
    double TenantRates::* rate = nullptr;  // or
    std::optional<Latency> TenantRates::* latency = nullptr;

    [[nodiscard]] std::optional<Latency> value(const TenantRates& rates) const {
        return rate != nullptr ? Latency{.seconds = rates.*rate} : rates.*latency;
    }
    [[nodiscard]] std::string text(const TenantRates& rates) const {
        const auto shown = value(rates);
        if (unit.empty()) return fmt::format("{:.0f}", shown->seconds);
        return shown ? (shown->or_more ? ">" : "") + number(shown->seconds * units) : "-";
    }
};
constexpr std::array columns{
    Column{"SESS", "", 5, 1, "sessions", &TenantRates::sessions},
    Column{"REQ", "/s", 8, 1, "requests_per_second", &TenantRates::requests},
    Column{"NAMES", "/s", 8, 1, "names_per_second", &TenantRates::names},
    Column{"MiB", "/s", 8, 1 / mib, "bytes_per_second", &TenantRates::bytes},
    Column{"P50", "ms", 7, 1e3, "latency_p50_seconds", nullptr, &TenantRates::p50},
    Column{"P99", "ms", 7, 1e3, "latency_p99_seconds", nullptr, &TenantRates::p99},
    Column{"BUSY", "ms/s", 7, 1e3, "busy_seconds_per_second", &TenantRates::busy},
    Column{"QUEUED", "ms/s", 7, 1e3, "queued_seconds_per_second", &TenantRates::queued},
    Column{"THROTTLED", "ms/s", 10, 1e3, "throttled_seconds_per_second", &TenantRates::throttled},
    Column{"REFUSED", "/s", 8, 1, "refused_per_second", &TenantRates::refused},
};

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
    const auto wrong = std::ranges::find_if_not(
        samples, [&](const Sample& each) { return count_tenant(each, counts); });
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
    return fmt::format(
        "{} requests/s, {} names/s, {} MiB/s, {} in progress, {} waiting, {} session{}",
        number(sum(&TenantRates::requests)), number(sum(&TenantRates::names)),
        number(sum(&TenantRates::bytes) / mib), std::llround(counts.inside),
        std::llround(counts.waiting), std::llround(counts.sessions),
        counts.sessions == 1 ? "" : "s");
}

std::vector<std::string> table_of(const std::vector<TenantRates>& tenants, size_t most) {
    if (tenants.empty()) return {"no tenant"};
    std::vector<std::string> names{""};
    names.emplace_back("TENANT");
    for (const TenantRates& each : tenants | std::views::take(most)) {
        names.push_back(shown(each.tenant));
    }
    const size_t width = std::ranges::max(names, {}, &std::string::size).size();
    std::vector<std::string> lines;
    for (size_t i = 0; i < names.size(); ++i) {
        std::string& line = lines.emplace_back(fmt::format("{:<{}}", names[i], width));
        for (const Column& each : columns) {
            line += fmt::format(" {:>{}}",
                                i == 0   ? std::string(each.heading)
                                : i == 1 ? std::string(each.unit)
                                         : each.text(tenants[i - 2]),
                                each.width);
        }
    }
    if (tenants.size() > most) {
        lines.push_back(fmt::format("and {} more", tenants.size() - most));
    }
    return lines;
}

Json value_of(const std::vector<TenantRates>& tenants) {
    std::vector<Json> values;
    for (const TenantRates& each : tenants) {
        std::vector<Json::Member> members{{"tenant", each.tenant}};
        for (const Column& column : columns) {
            const auto value = column.value(each);
            members.emplace_back(column.key, value ? Json(value->seconds) : Json());
        }
        values.push_back(Json::object(members));
    }
    return Json::array(values);
}

}  // namespace ros2s::cli
