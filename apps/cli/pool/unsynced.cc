#include "unsynced.h"

#include <fmt/format.h>
#include <sys/xattr.h>

#include <array>

#include "output/console.h"

namespace ros2s::cli {

std::optional<fs::UnsyncedAnswer> unsynced_of(const std::string& path) {
    std::array<char, 128> told{};
    const std::string name(fs::unsynced_attribute);
    const ssize_t bytes = ::getxattr(path.c_str(), name.c_str(), told.data(), told.size());
    if (bytes <= 0) return {};
    return fs::parse_unsynced({told.data(), static_cast<size_t>(bytes)});
}

std::string describe(const fs::UnsyncedAnswer& unsynced) {
    const auto& [changes, bytes] = unsynced.amount;
    if (changes == 0) return "everything is durable";
    return fmt::format("{} change{} ({}) not durable yet, the first for {} ms", changes,
                       changes == 1 ? "" : "s", human_bytes(bytes), unsynced.milliseconds);
}

Json value_of(const fs::UnsyncedAnswer& unsynced) {
    return Json::object({{"changes", unsynced.amount.changes},
                         {"bytes", unsynced.amount.bytes},
                         {"milliseconds", unsynced.milliseconds}});
}

}  // namespace ros2s::cli
