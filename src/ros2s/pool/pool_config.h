// PoolConfig: the settings in DIR/config.yaml. What a pool is made of (devices, sizes, identity)
// is in its devices; here is how it is used, and may be changed between two openings.
#pragma once
#include <cstdint>
#include <string>

#include "ros2s/base/result.h"
#include "ros2s/config/config.h"
#include "ros2s/runtime/os_reactor.h"

namespace ros2s::pool {

struct PoolConfig {
    std::string pool = "pool";

    uint64_t memory_bytes = uint64_t{512} << 20;
    uint32_t groups_in_flight = 1;

    std::string back_end = "auto";
    bool page_cache = false;
    bool accept_copies = false;
    bool discard = true;
    Duration poll{};

    // Errors: invalid; the report has a sentence for each thing that is wrong.
    [[nodiscard]] static Result<PoolConfig> parse(std::string_view yaml, std::string_view where,
                                                  Report& report);
    // The file, with every setting's documentation.
    [[nodiscard]] std::string document() const;
    void apply_to(OsReactorOptions& options) const;
};

}  // namespace ros2s::pool
