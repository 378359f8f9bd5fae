#include "pool_space.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <string>

namespace ros2s::rados {
namespace {

constexpr uint64_t uncounted_bytes = uint64_t{1} << 50;

}  // namespace

// JSON is YAML.
Result<object::PoolSpace> parse_space(std::string_view answer, std::string_view pool) {
    try {
        const YAML::Node all = YAML::Load(std::string(answer));
        if (all["stats"]["total_bytes"].as<uint64_t>() == 0) {
            return object::PoolSpace{.total_bytes = uncounted_bytes, .free_bytes = uncounted_bytes};
        }
        for (const YAML::Node& each : all["pools"]) {
            if (each["name"].as<std::string>() != pool) continue;
            const YAML::Node of = each["stats"];
            const auto stored = of["stored"].as<uint64_t>();
            const auto quota = of["quota_bytes"].as<uint64_t>();
            uint64_t free = of["max_avail"].as<uint64_t>();
            if (quota != 0) free = std::min(free, quota - std::min(quota, stored));
            return object::PoolSpace{.total_bytes = stored + free, .free_bytes = free};
        }
        return fail(Code::not_found);
    } catch (const YAML::Exception&) {
        return fail(Code::corrupt);
    }
}

}  // namespace ros2s::rados
