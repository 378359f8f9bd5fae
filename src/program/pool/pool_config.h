// PoolConfig: the settings in DIR/config.yaml. The parts of a pool (devices, sizes, identity) are
// recorded in its devices. The settings control its use, and may be changed between two openings.
#pragma once
#include <cstdint>
#include <string>

#include "ros2s/base/result.h"
#include "ros2s/config/config.h"
#include "ros2s/runtime/os_reactor.h"

namespace ros2s::pool {

inline constexpr uint64_t memory_bytes_min = uint64_t{64} << 20;

struct PoolConfig {
    std::string pool = "pool";

    uint64_t memory_bytes = uint64_t{512} << 20;
    uint32_t groups_in_flight = 1;
    uint32_t cleaner_percent = 100;

    std::string back_end = "auto";
    bool page_cache = false;
    bool accept_copies = false;
    bool discard = true;
    Duration poll = OsReactorOptions::poll_for_default;

    // Errors: invalid; the report has a sentence for each problem.
    [[nodiscard]] static Result<PoolConfig> parse(std::string_view yaml, std::string_view where,
                                                  Report& report);
    // The text of the file, with the documentation of every setting.
    [[nodiscard]] std::string document() const;
    void apply_to(OsReactorOptions& options) const;
};

}  // namespace ros2s::pool
