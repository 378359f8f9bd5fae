// Calls on many names, for file systems that have nothing better: one name after the other.
#include <algorithm>

#include "file_system.h"
#include "part_of_call.h"

namespace ros2s::fs {

Task<std::vector<Result<Attributes>>> Namespace::lookup_many(
    const Call& call, NodeId parent, std::span<const std::string_view> names) {
    std::vector<Result<Attributes>> results;
    for (const std::string_view name : names) {
        results.push_back(co_await lookup(call, parent, name));
    }
    co_return results;
}

Task<std::vector<Result<>>> Namespace::create_many(const Call& call, NodeId parent,
                                                   std::span<const std::string_view> names,
                                                   mode_t mode, Owner owner) {
    std::vector<Result<>> results;
    mode = S_IFREG | (mode & permission_bits);
    for (const std::string_view name : names) {
        const PartOfCall part(call, part_of_name(results.size()));
        const auto made = co_await mknod(part, parent, name, mode, 0, owner);
        if (made) forget(made->node, 1);
        results.push_back(made ? Result<>() : fail(made.error()));
    }
    co_return results;
}

Task<std::vector<Result<>>> Namespace::unlink_many(const Call& call, NodeId parent,
                                                   std::span<const std::string_view> names) {
    std::vector<Result<>> results;
    for (const std::string_view name : names) {
        const PartOfCall part(call, part_of_name(results.size()));
        results.push_back(co_await unlink(part, parent, name));
    }
    co_return results;
}

Task<Result<std::vector<ListedEntry>>> Namespace::readdir_many(const Call& call, NodeId node,
                                                               FileHandle handle, uint64_t cookie,
                                                               size_t limit) {
    limit = std::min(limit, names_together_max);
    ROS2S_CO_TRY_ASSIGN(auto entries, co_await readdir(call, handle, cookie, limit));
    std::vector<std::string_view> names;
    for (const DirectoryEntry& entry : entries) names.push_back(entry.name);
    auto found = co_await lookup_many(call, node, names);
    std::vector<ListedEntry> listed;
    for (size_t i = 0; i < entries.size(); ++i) {
        listed.push_back({.entry = std::move(entries[i]), .attributes = std::move(found[i])});
    }
    co_return listed;
}

}  // namespace ros2s::fs
