#include "ros2s/pool/pool_remains.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "device_files.h"
#include "pool_files.h"
#include "ros2s/base/trusted_file.h"
#include "ros2s/pool/pool_directory.h"

namespace ros2s::pool {
namespace {

// "" if there are no settings, or none of a pool.
std::string name_in_settings(const std::string& directory) {
    const auto path = in(directory, config_name);
    Report ignored;
    const auto config = PoolConfig::parse(
        read_trusted(path, config_bytes_max, ignored).value_or(""), path, ignored);
    return config ? config->pool : "";
}

// One more than the highest number of a device file in the directory.
size_t device_numbers(const std::string& directory) {
    size_t end = 0;
    for (size_t i = 0; i < pool_devices_max; ++i) {
        if (exists(in(directory, device_name(i)))) end = i + 1;
    }
    return end;
}

void look_for_devices(PoolRemains& remains) {
    // A pool has at least one device.
    const size_t numbers = std::max<size_t>(device_numbers(remains.directory), 1);
    for (size_t i = 0; i < numbers; ++i) {
        const auto path = in(remains.directory, device_name(i));
        if (const auto bytes = device_bytes(path)) {
            remains.bytes += *bytes;
            continue;
        }
        std::error_code no_link;
        const auto target = std::filesystem::read_symlink(path, no_link).string();
        remains.missing.push_back(
            no_link ? device_name(i) : fmt::format("{} (a link to {})", device_name(i), target));
    }
}

}  // namespace

Result<PoolRemains> look_at_remains(const std::string& path, Report& report) {
    Report refusal;
    const auto whole = read_pool_directory(path, refusal);
    std::error_code error;
    auto directory = std::filesystem::absolute(path, error).lexically_normal().string();
    if (directory.size() > 1 && directory.ends_with('/')) directory.pop_back();
    PoolRemains remains{.directory = directory,
                        .pool = name_in_settings(directory),
                        .half_made = exists(in(directory, half_made_name)),
                        .trouble = whole ? "" : refusal.text()};
    const bool is_pool =
        !remains.pool.empty() || remains.half_made || device_numbers(directory) > 0;
    if (error || !is_pool) {
        return report.fail(whole ? Error{Code::not_found} : whole.error(), refusal.text());
    }
    look_for_devices(remains);
    if (!exists(in(directory, index_name))) remains.missing.emplace_back(index_name);
    if (remains.half_made) remains.missing.clear();  // a half-made pool has nothing to miss
    return remains;
}

}  // namespace ros2s::pool
