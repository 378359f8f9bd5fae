// This is the part of HTTP/1 that a scrape needs: one GET with basic authentication, one reply.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace ros2s::exporter {

enum class Verdict : uint8_t { metrics, traces, unknown_password, other_method, other_path };

// Returns the answer that a request gets. `head` is its first lines, up to the empty one.
[[nodiscard]] Verdict verdict_on(std::string_view head, std::string_view password);

// `fields`: further lines of the head, each ending in CR LF.
[[nodiscard]] std::string http_reply(std::string_view status, std::string_view type,
                                     std::string_view fields, std::string_view body);

}  // namespace ros2s::exporter
