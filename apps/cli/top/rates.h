// Rates: what a daemon did between two of its pages of metrics, by tenant or from sessions, and the
// table of them.
//
// Plain values; any thread.
#pragma once
#include <array>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ros2s/base/json.h"
#include "samples.h"

namespace ros2s::cli {

// Since the daemon began to count them.
struct TenantCounts {
    double requests = 0, names = 0, bytes = 0, refused = 0;
    double busy = 0, queued = 0, throttled = 0;  // seconds of all requests together
    double sessions = 0;                         // now
    std::map<double, double> buckets{};          // cumulative, by upper bound in seconds
};

// Of a session, by kind of request.
struct SessionCounts {
    std::string process, container;
    double looks = 0, changes = 0, reads = 0, writes = 0;
    double bytes = 0, busy = 0;  // seconds of all requests together
    // Now: acknowledged changes that are not durable yet, and the age of the first in ms.
    double volatile_changes = 0, volatile_bytes = 0, volatile_milliseconds = 0;
};

struct DaemonCounts {
    double sessions = 0, inside = 0, waiting = 0;  // now
    // Of an engine: acknowledged groups of changes that are not durable yet, of all its pools, and
    // for how long the first of them has waited.
    double volatile_groups = 0, volatile_milliseconds = 0;
    std::map<std::string, TenantCounts, std::less<>> tenants{};
    // By tenant and number.
    std::map<std::pair<std::string, std::string>, SessionCounts> each_session{};
};

// Errors: corrupt, with a sentence (the page is not one of a daemon of this version).
[[nodiscard]] Result<DaemonCounts> counts_in(const std::vector<Sample>& samples, Report& report);

struct Latency {
    double seconds = 0;
    bool or_more = false;  // it is in the last bucket, which has no end
    friend bool operator==(const Latency&, const Latency&) = default;
};

struct TenantRates {
    std::string tenant;
    double requests = 0, names = 0, bytes = 0, refused = 0;  // per second
    double busy = 0, queued = 0, throttled = 0;              // seconds per second
    double sessions = 0;                                     // now
    std::optional<Latency> p50{}, p99{};                     // none: no request ended
};

// Those whose requests took the most time come first. Counters that fell began at 0.
[[nodiscard]] std::vector<TenantRates> rates_between(const DaemonCounts& before,
                                                     const DaemonCounts& now, double seconds);

enum class By : uint8_t { tenant, mount, container, process };
// For `--by`, in the order of By.
inline constexpr std::array<std::string_view, 4> by_names{"tenant", "mount", "container",
                                                          "process"};

struct GroupRates {
    std::string name;
    double sessions = 0;                                                    // now
    double looks = 0, changes = 0, reads = 0, writes = 0, bytes = 0;        // per second
    double busy = 0;                                                        // seconds per second
    double volatile_changes = 0, volatile_bytes = 0, volatile_seconds = 0;  // now
};
// The rates of sessions, added up. A session that is new began at 0.
[[nodiscard]] std::vector<GroupRates> groups_between(const DaemonCounts& before,
                                                     const DaemonCounts& now, double seconds,
                                                     By by);

// "812 requests/s, 120 names/s, 203 MiB/s, 3 in progress, 0 waiting, 2 sessions"
[[nodiscard]] std::string totals_of(const DaemonCounts& counts,
                                    const std::vector<TenantRates>& tenants);
// Two lines of headings, and at most `most` tenants. The text of a certificate does not reach the
// terminal except as printable ASCII.
[[nodiscard]] std::vector<std::string> table_of(const std::vector<TenantRates>& tenants,
                                                size_t most);
[[nodiscard]] Json value_of(const std::vector<TenantRates>& tenants);
[[nodiscard]] std::vector<std::string> table_of(const std::vector<GroupRates>& groups, By by,
                                                size_t most);
[[nodiscard]] Json value_of(const std::vector<GroupRates>& groups);

}  // namespace ros2s::cli
