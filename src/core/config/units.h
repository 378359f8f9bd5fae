// These functions read and write sizes and durations as people do: "512MiB", "100us".
#pragma once
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "ros2s/base/result.h"

namespace ros2s::config {

// Whole numbers with a unit: B, KiB, MiB, GiB, TiB (powers of 1024; K, M, G and T mean the same, as
// in coreutils) and kB, MB, GB, TB (powers of 1000). Without a unit: bytes. A space may separate
// number and unit. Errors: invalid (not a size), too_large (over 64 bits).
[[nodiscard]] Result<uint64_t> parse_size(std::string_view text);
// Whole numbers with K, M, G or T (powers of 1000), or none of these. Errors: as of a size.
[[nodiscard]] Result<uint64_t> parse_count(std::string_view text);
// The largest binary unit that divides it: "512MiB", "4097B".
[[nodiscard]] std::string format_size(uint64_t bytes);
// Rounded, for people: "1.5 GiB", "12 KiB", "7 B".
[[nodiscard]] std::string human_size(uint64_t bytes);

// Whole numbers with a unit: ns, us, ms, s, min, h. Only 0 may have no unit. Errors: invalid (not a
// duration), too_large (over 292 years).
[[nodiscard]] Result<std::chrono::nanoseconds> parse_duration(std::string_view text);
// The largest unit that divides it: "100us", "90s".
[[nodiscard]] std::string format_duration(std::chrono::nanoseconds duration);

// shown(): a text from a file, made fit for a sentence: printable and at most one line long.
[[nodiscard]] inline std::string shown(std::string_view text) {
    constexpr size_t most = 60;
    std::string clean;
    for (const char c : text.substr(0, most))
        clean += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
    return clean + (text.size() > most ? "…" : "");
}

}  // namespace ros2s::config
