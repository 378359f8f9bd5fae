// One page of metrics of a daemon, over HTTP with its password.
#pragma once
#include <string>
#include <string_view>

#include "commands.h"

namespace ros2s::cli {

struct MetricsServer {
    std::string address;        // "127.0.0.1:9400"
    std::string password_file;  // its first line is the password
};

// Waits at most 5 s. Errors, with a sentence: not_found, denied (the password), disconnected
// (no process listens), deadline, corrupt (not an HTTP reply with a page), cancelled.
[[nodiscard]] Task<Result<std::string>> scrape(CommandContext context, MetricsServer location);

// The page in a whole reply. Errors, with a sentence: denied, corrupt.
[[nodiscard]] Result<std::string_view> page_in(std::string_view reply, Report& report);
// The header of HTTP's basic authentication.
[[nodiscard]] std::string authorization(std::string_view password);

}  // namespace ros2s::cli
