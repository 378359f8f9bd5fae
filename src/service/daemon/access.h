// The setting `access` has the rights of each subject in this server's containers
// (rights/settings.h).
#pragma once
#include <string_view>

#include "ros2s/config/config.h"
#include "ros2s/rights/settings.h"

namespace ros2s::daemon {

// Hosts have users, for which a DPU has settings. An engine's clients act for themselves.
enum class Clients : uint8_t { hosts, of_engine };
// `help`: for people who edit the settings; a literal.
[[nodiscard]] config::Group describe_access(rights::AccessSettings& settings, RecordLines& lines,
                                            Clients clients, std::string_view help);

}  // namespace ros2s::daemon
