// Look-ups: nodes by name, and nodes that are opened again.
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <algorithm>
#include <array>

#include "local_directory.h"
#include "ros2s/base/crc32c.h"

namespace ros2s::foreign {

using fs::check_name;

// The kernel's handle of a file contains its generation, or something else that differs from a
// later file with its inode number. In file systems without handles the inode number alone decides.
Result<FoundNode> found_by_descriptor(int file) {
    ROS2S_TRY_ASSIGN(Descriptor path, opened(::open(proc_path(file).c_str(), O_PATH | O_CLOEXEC)));
    return found_by(std::move(path));
}

Result<FoundNode> found_by(Descriptor path) {
    FoundNode found;
    ROS2S_TRY(checked(::fstat(path.get(), &found.status)));
    alignas(file_handle) std::array<std::byte, sizeof(file_handle) + MAX_HANDLE_SZ> room{};
    auto* const handle = reinterpret_cast<file_handle*>(room.data());
    handle->handle_bytes = MAX_HANDLE_SZ;
    int mount = 0;
    if (::name_to_handle_at(path.get(), "", handle, &mount, AT_EMPTY_PATH) == 0) {
        const auto bytes = ConstBytes(room).subspan(sizeof(file_handle), handle->handle_bytes);
        found.fingerprint =
            uint64_t{static_cast<uint32_t>(handle->handle_type)} << 32 | crc32c(bytes);
    }
    found.path = std::move(path);
    return found;
}

Result<Descriptor> LocalDirectory::open_beneath(int parent, const std::string& name, uint64_t flags,
                                                uint64_t resolve) const {
    open_how how{.flags = flags | O_CLOEXEC,
                 .mode = 0,
                 .resolve = resolve | RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS |
                            (options_.enters_mounts ? 0U : RESOLVE_NO_XDEV)};
    return opened(static_cast<int>(::syscall(SYS_openat2, parent, name.c_str(), &how, sizeof how)));
}

Result<FoundNode> LocalDirectory::find(int parent, const std::string& name) const {
    ROS2S_TRY_ASSIGN(Descriptor path, open_beneath(parent, name, O_PATH | O_NOFOLLOW));
    return found_by(std::move(path));
}

// RESOLVE_CACHED: the kernel answers from its memory, or fails (EAGAIN; EINVAL before Linux 5.12).
// RESOLVE_NO_XDEV: the file system mounted there may be a slow one. All errors but one are left to
// a thread.
std::optional<Result<FoundNode>> LocalDirectory::find_in_memory(int parent, dev_t device,
                                                                const std::string& path) const {
    if (!answers_at_once(device)) return std::nullopt;
    auto there = open_beneath(parent, path, O_PATH | O_NOFOLLOW, RESOLVE_CACHED | RESOLVE_NO_XDEV);
    if (there) return found_by(std::move(*there));
    if (there.error().code != Code::not_found) return std::nullopt;
    return fail(there.error());
}

Task<Result<FoundNode>> LocalDirectory::find_name(const Call& call, const NodeUse& directory,
                                                  const std::string& name) {
    if (auto found = find_in_memory(directory->fd(), directory->inode.first, name)) {
        co_return std::move(*found);
    }
    co_return co_await on_thread(call, [&] { return find(directory->fd(), name); });
}

Task<Result<NodeUse>> LocalDirectory::use(const Call& call, NodeId id) {
    NodeUse node(nodes_, nodes_.find(id));
    if (!node) co_return fail(Code::stale);
    if (!node->is_open()) ROS2S_CO_TRY(co_await open_again(call, *node));
    co_return node;
}

Task<Result<NodeUse>> LocalDirectory::use_above(const Call& call, NodeId id) {
    auto used = co_await use(call, id);
    const LocalNode* const node = nodes_.find(id);
    const bool is_removed = !used && node != nullptr && node->parent == nullptr;
    if (is_removed) co_return fail(Code::not_found);
    co_return used;
}

Task<Result<NodeUse>> LocalDirectory::use_to_add(const Call& call, NodeId id) {
    ROS2S_CO_TRY_ASSIGN(NodeUse used, co_await use_above(call, id));
    if (depth_of(*used) > options_.depth_max) co_return fail(Code::name_too_long);
    co_return used;
}

size_t LocalDirectory::depth_of(const LocalNode& node) const {
    size_t depth = 0;
    // A moved node may be much deeper. Levels above the maximum are not counted.
    for (const LocalNode* above = &node; above != nullptr && depth <= options_.depth_max;
         above = above->parent) {
        ++depth;
    }
    return depth;
}

// Opens it by names, starting at the nearest parent that has a descriptor. Directories that were
// moved with what is below them may be deeper than depth_max.
Task<Result<>> LocalDirectory::open_again(const Call& call, LocalNode& node) {
    std::vector<std::string> names;
    LocalNode* above = &node;
    while (above != nullptr && !above->is_open()) {
        if (names.size() == options_.depth_max) co_return fail(Code::name_too_long);
        names.push_back(above->name);
        above = above->parent;
    }
    if (above == nullptr) co_return fail(Code::stale);
    const NodeUse from(nodes_, above);
    std::string path;
    for (size_t left = names.size(); left > 0; --left) path += names[left - 1] + '/';
    path.pop_back();
    auto at_once = find_in_memory(from->fd(), from->inode.first, path);
    auto found =
        at_once ? std::move(*at_once) : co_await on_thread(call, [&]() -> Result<FoundNode> {
            Descriptor there;
            for (size_t left = names.size(); left > 0; --left) {
                const int parent = there.get() < 0 ? from->fd() : there.get();
                ROS2S_TRY_ASSIGN(there, open_beneath(parent, names[left - 1], O_PATH | O_NOFOLLOW));
            }
            return found_by(std::move(there));
        });
    if (!found) {
        const Code code = found.error().code;
        const bool is_gone =
            code == Code::not_found || code == Code::not_directory || code == Code::loop;
        co_return is_gone ? fail(Code::stale) : fail(found.error());
    }
    if (!node.is(*found)) co_return fail(Code::stale);
    nodes_.opened_again(node, std::move(found->path));
    co_return Result<>{};
}

Task<Result<Attributes>> LocalDirectory::lookup(const Call& call, NodeId parent,
                                                std::string_view name) {
    if (name == "..") co_return fail(Code::stale);  // the kernel's ".." leads out of the base
    if (name == ".") {
        ROS2S_CO_TRY_ASSIGN(const NodeUse node, co_await use(call, parent));
        ROS2S_CO_TRY_ASSIGN(const Attributes found, co_await get_attributes(call, parent));
        ++node->references;
        co_return found;
    }
    ROS2S_CO_TRY(check_name(name));
    ROS2S_CO_TRY_ASSIGN(const NodeUse directory, co_await use_to_add(call, parent));
    const std::string owned(name);
    ROS2S_CO_TRY_ASSIGN(FoundNode found, co_await find_name(call, directory, owned));
    co_return add_found(std::move(found), *directory, owned);
}

// The names that the kernel has in memory are found at once, and the rest of them in one job.
Task<std::vector<Result<Attributes>>> LocalDirectory::look_up_names(
    const Call& call, NodeId parent, std::span<const std::string_view> names) {
    std::vector<Result<Attributes>> results;
    const auto directory = check_name(names.front()) ? co_await use_to_add(call, parent)
                                                     : fail(check_name(names.front()).error());
    if (!directory) {
        results.emplace_back(fail(directory.error()));
        co_return results;
    }
    const size_t most = std::min({names_of_a_path, options_.descriptors_max,
                                  options_.depth_max + 1 - depth_of(**directory)});
    std::vector<std::string> owned;
    for (const std::string_view name : names.first(std::min(names.size(), most))) {
        if (!check_name(name)) break;
        owned.emplace_back(name);
    }
    std::vector<Result<FoundNode>> found;
    const auto goes_on = [&] {
        return found.empty() || (found.size() < owned.size() && found.back() &&
                                 S_ISDIR(found.back()->status.st_mode));
    };
    const auto above = [&] {
        return found.empty() ? (*directory)->fd() : found.back()->path.get();
    };
    while (goes_on()) {
        auto next = find_in_memory(above(), (*directory)->inode.first, owned[found.size()]);
        if (!next) break;
        found.push_back(std::move(*next));
    }
    if (goes_on()) {
        const auto ran = co_await on_thread(call, [&]() -> Result<> {
            while (goes_on()) found.push_back(find(above(), owned[found.size()]));
            return {};
        });
        if (!ran) found.emplace_back(fail(ran.error()));
    }
    LocalNode* last = &**directory;
    for (size_t i = 0; i < found.size(); ++i) {
        const auto may_be_added = found[i] ? nodes_.check_room(*found[i]) : fail(found[i].error());
        if (!may_be_added) {
            results.emplace_back(fail(may_be_added.error()));
            break;
        }
        const struct stat status = found[i]->status;
        last = &nodes_.add(std::move(*found[i]), last, owned[i]);
        results.emplace_back(attributes_of(last->id, status));
    }
    co_return results;
}

Task<std::vector<Result<Attributes>>> LocalDirectory::lookup_many(
    const Call& call, NodeId parent, std::span<const std::string_view> names) {
    std::vector<Result<Attributes>> results(names.size());
    const auto directory = co_await use_to_add(call, parent);
    std::vector<std::string> rest;  // not in memory
    std::vector<size_t> places;     // of their results
    for (size_t i = 0; i < names.size(); ++i) {
        if (!check_name(names[i])) {
            results[i] = co_await lookup(call, parent, names[i]);
            continue;
        }
        if (!directory) {
            results[i] = fail(directory.error());
            continue;
        }
        if ((i + 1) % names_of_a_job == 0) co_await yield(reactor_);
        std::string name(names[i]);
        auto found = find_in_memory((*directory)->fd(), (*directory)->inode.first, name);
        if (!found) {
            rest.push_back(std::move(name));
            places.push_back(i);
        } else {
            results[i] =
                *found ? add_found(std::move(**found), **directory, name) : fail(found->error());
        }
    }
    for (size_t done = 0; done < rest.size();) {
        const auto part = std::span<const std::string>(rest).subspan(
            done, std::min(options_.descriptors_max, rest.size() - done));
        std::vector<Result<FoundNode>> found(part.size());
        co_await on_threads(call, part, std::span(found), [&](const std::string& name) {
            return find((*directory)->fd(), name);
        });
        for (size_t i = 0; i < part.size(); ++i) {
            results[places[done + i]] = found[i]
                                            ? add_found(std::move(*found[i]), **directory, part[i])
                                            : fail(found[i].error());
        }
        done += part.size();
    }
    co_return results;
}

}  // namespace ros2s::foreign
