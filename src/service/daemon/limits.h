// The setting `limits` has the limits of each subject at this server (admission/accounts.h).
#pragma once
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ros2s/admission/accounts.h"
#include "ros2s/config/config.h"
#include "ros2s/exporter/metrics_server.h"

namespace ros2s::daemon {

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
