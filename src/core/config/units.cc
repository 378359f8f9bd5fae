#include "units.h"

#include <fmt/format.h>

#include <charconv>
#include <span>

namespace ros2s::config {
namespace {

struct Unit {
    std::string_view name;
    uint64_t factor;
};
constexpr uint64_t ki = 1024, mi = ki * ki, gi = ki * mi, ti = ki * gi;
constexpr Unit size_units[] = {
    {"TiB", ti},
    {"GiB", gi},
    {"MiB", mi},
    {"KiB", ki},
    {"B", 1},
    {"T", ti},
    {"G", gi},
    {"M", mi},
    {"K", ki},
    {"k", ki},
    {"TB", 1'000'000'000'000},
    {"GB", 1'000'000'000},
    {"MB", 1'000'000},
    {"kB", 1000},
    {"KB", 1000},
};
constexpr Unit count_units[] = {
    {"K", 1000}, {"k", 1000}, {"M", 1'000'000}, {"G", 1'000'000'000}, {"T", 1'000'000'000'000}};
constexpr Unit duration_units[] = {
    {"h", 3'600'000'000'000},
    {"min", 60'000'000'000},
    {"s", 1'000'000'000},
    {"ms", 1'000'000},
    {"us", 1000},
    {"ns", 1},
    {"\u00b5s", 1000},
};

// A number and the factor of its unit; factor 0 without a unit.
struct Quantity {
    uint64_t number = 0, factor = 0;
};
Result<Quantity> parse(std::string_view text, std::span<const Unit> units) {
    Quantity quantity;
    const auto [end, error] =
        std::from_chars(text.data(), text.data() + text.size(), quantity.number);
    if (error == std::errc::result_out_of_range) return fail(Code::too_large);
    if (error != std::errc()) return fail(Code::invalid);
    text.remove_prefix(static_cast<size_t>(end - text.data()));
    if (text.empty()) return quantity;
    if (text.front() == ' ') text.remove_prefix(1);
    for (const auto& unit : units) {
        if (text != unit.name) continue;
        quantity.factor = unit.factor;
        return quantity;
    }
    return fail(Code::invalid);
}

Result<uint64_t> product(uint64_t number, uint64_t factor, uint64_t most) {
    if (number > most / factor) return fail(Code::too_large);
    return number * factor;
}

std::string format(uint64_t value, std::span<const Unit> units) {
    for (const auto& unit : units)
        if (value != 0 && value % unit.factor == 0)
            return std::to_string(value / unit.factor) + std::string(unit.name);
    return "0";
}

}  // namespace

Result<uint64_t> parse_size(std::string_view text) {
    ROS2S_TRY_ASSIGN(const auto quantity, parse(text, size_units));
    return product(quantity.number, quantity.factor == 0 ? 1 : quantity.factor, UINT64_MAX);
}

Result<uint64_t> parse_count(std::string_view text) {
    ROS2S_TRY_ASSIGN(const auto quantity, parse(text, count_units));
    return product(quantity.number, quantity.factor == 0 ? 1 : quantity.factor, UINT64_MAX);
}

std::string format_size(uint64_t bytes) { return format(bytes, std::span(size_units).first(5)); }

std::string human_size(uint64_t bytes) {
    if (bytes < ki) return std::to_string(bytes) + " B";
    static constexpr std::string_view names[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double value = static_cast<double>(bytes) / ki;
    size_t unit = 0;
    while (value >= 1023.95 && unit + 1 < std::size(names)) {
        value /= ki;
        ++unit;
    }
    // 4 GiB, not 4.0 GiB.
    const std::string number = fmt::format("{:.1f}", value);
    const bool whole = number.ends_with(".0");
    return fmt::format("{} {}", whole ? number.substr(0, number.size() - 2) : number, names[unit]);
}

Result<std::chrono::nanoseconds> parse_duration(std::string_view text) {
    ROS2S_TRY_ASSIGN(const auto quantity, parse(text, duration_units));
    if (quantity.factor == 0 && quantity.number != 0) return fail(Code::invalid);
    ROS2S_TRY_ASSIGN(const uint64_t count,
                     product(quantity.number, quantity.factor == 0 ? 1 : quantity.factor,
                             static_cast<uint64_t>(INT64_MAX)));
    return std::chrono::nanoseconds(static_cast<int64_t>(count));
}

std::string format_duration(std::chrono::nanoseconds duration) {
    return format(static_cast<uint64_t>(duration.count()), std::span(duration_units).first(6));
}

}  // namespace ros2s::config
