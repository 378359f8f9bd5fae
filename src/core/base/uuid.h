// Uuid: 128 random bits, printed as RFC 4122 version 4.
#pragma once
#include <array>
#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "ros2s/base/random.h"
#include "ros2s/base/result.h"

namespace ros2s {

struct Uuid {
    std::array<uint8_t, 16> bytes{};
    friend auto operator<=>(const Uuid&, const Uuid&) = default;

    [[nodiscard]] bool is_nil() const { return *this == Uuid{}; }
    // "1b4e28ba-2fa1-4d2b-883f-0016d3cca427"
    [[nodiscard]] std::string to_string() const;
    [[nodiscard]] static Uuid make(const Secrets& secrets);
    // Errors: invalid.
    [[nodiscard]] static Result<Uuid> parse(std::string_view text);
};

}  // namespace ros2s
