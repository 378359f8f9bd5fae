// The setting `access` has the rights of each subject in this server's containers
// (rights/settings.h).
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ros2s/admission/accounts.h"
#include "ros2s/config/config.h"
#include "ros2s/exporter/metrics_server.h"
#include "ros2s/rights/settings.h"

namespace ros2s::daemon {

// Hosts have users, for which a DPU has settings. An engine's clients act for themselves.
enum class Clients : uint8_t { hosts, of_engine };
// `help`: for people who edit the settings; a literal.
[[nodiscard]] config::Group describe_access(rights::AccessSettings& settings, RecordLines& lines,
                                            Clients clients, std::string_view help);

// TenantSources: metrics of tenants, with the label `tenant`. Tenants after the first labels_max
// are added up as "(others)", so that a scrape stays small.
class TenantSources {
  public:
    static constexpr size_t labels_max = 64;
    // All sources of one more tenant.
    void add(const std::string& subject, std::vector<exporter::Source> sources);
    // Of all tenants.
    [[nodiscard]] std::vector<exporter::Source> take();

  private:
    size_t tenants_ = 0;
    std::vector<exporter::Source> labelled_;
    // By name: the help, and the sum.
    template <class Value>
    using Sums = std::map<std::string, std::pair<std::string, Value>, std::less<>>;
    Sums<uint64_t> others_;
    Sums<HistogramReading> times_of_others_;  // tenants' histograms have no operation
};

// The setting `limits` has the limits of each subject at this server (admission/accounts.h).

// By subject: "CN=alice", or "*" for all that are not named.
using LimitSettings = std::map<std::string, config::Entries>;

[[nodiscard]] config::Group describe_limits(LimitSettings& settings, RecordLines& lines);
// Errors: invalid, with a sentence that begins with `where`, the file, and has its line.
[[nodiscard]] Result<admission::Allowances> parse_limits(const LimitSettings& settings,
                                                         const RecordLines& lines,
                                                         std::string_view where, Report& report);

// Metrics of the use of each account, with the label `tenant`. The accounts outlive the sources.
[[nodiscard]] std::vector<exporter::Source> sources_of(const admission::Accounts& accounts);

}  // namespace ros2s::daemon
