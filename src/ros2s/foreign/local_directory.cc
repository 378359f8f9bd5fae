// Names.
#include "local_directory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/statvfs.h>

#include <array>

#include "ros2s/base/crc32c.h"
#include "ros2s/runtime/nursery.h"
#include "ros2s/runtime/timespec.h"

namespace ros2s::foreign {

using fs::check_name;

Task<Result<std::unique_ptr<fs::FileSystem>>> open_local_fs(std::string path, Reactor& reactor,
                                                            BlockingPool& pool, Report& report,
                                                            LocalFsOptions options, Call call) {
    auto root = co_await run_in_turn(options.turns, pool, reactor, call, [&]() -> Result<Found> {
        ROS2S_TRY_ASSIGN(Descriptor there,
                         opened(::open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)));
        return found_by(std::move(there));
    });
    if (!root) {
        co_return report.fail(root.error(), fmt::format("the directory {} cannot be opened: {}",
                                                        path, describe(root.error())));
    }
    // Without an end: what fails here is /proc.
    const auto proc =
        co_await run_in_turn(options.turns, pool, reactor, without_end(call), [&]() -> Result<> {
            struct stat status{};
            return checked(::stat(proc_path(root->path.get()).c_str(), &status));
        });
    if (!proc) {
        co_return report.fail(Code::unsupported,
                              "/proc is not mounted; it is needed to open files. Mount it: "
                              "mount -t proc proc /proc");
    }
    co_return std::make_unique<LocalDirectory>(std::move(path), std::move(*root), reactor, pool,
                                               options, call.tenant);
}

Attributes attributes_of(NodeId node, const struct stat& status) {
    return {.node = node,
            .mode = status.st_mode,
            .links = static_cast<uint32_t>(status.st_nlink),
            .uid = status.st_uid,
            .gid = status.st_gid,
            .size = static_cast<uint64_t>(status.st_size),
            .bytes_used = static_cast<uint64_t>(status.st_blocks) * 512,
            .device = status.st_rdev,
            .accessed = to_wall_time(status.st_atim),
            .modified = to_wall_time(status.st_mtim),
            .changed = to_wall_time(status.st_ctim)};
}

LocalDirectory::LocalDirectory(std::string path, Found root, Reactor& reactor, BlockingPool& pool,
                               LocalFsOptions options, uint64_t tenant)
    : path_(std::move(path)),
      reactor_(reactor),
      pool_(pool),
      options_(options),
      tenant_(tenant),
      nodes_(reactor.secrets().next(), options.descriptors_max) {
    nodes_.add_root(std::move(root));
}
LocalDirectory::~LocalDirectory() { ROS2S_CHECK(files_.empty()); }

Task<> LocalDirectory::close_all() {
    const Call call{.tenant = tenant_};
    while (!files_.empty()) (void)co_await close(call, FileHandle{files_.begin()->first});
}

// The kernel's handle of a file contains its generation, or something else that differs from a
// later file with its inode number. In file systems without handles the inode number alone decides.
Result<Found> found_by(Descriptor path) {
    Found found;
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

Result<Found> LocalDirectory::find(int parent, const std::string& name) const {
    ROS2S_TRY_ASSIGN(Descriptor path, open_beneath(parent, name, O_PATH | O_NOFOLLOW));
    return found_by(std::move(path));
}

Task<Result<NodeUse>> LocalDirectory::use(const Call& call, NodeId id) {
    NodeUse node(nodes_, id);
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
    size_t depth = 0;
    for (const LocalNode* above = nodes_.find(id); above != nullptr; above = above->parent) {
        if (++depth > depth_max) co_return fail(Code::name_too_long);
    }
    co_return used;
}

// Opens it by names, starting at the nearest parent that has a descriptor. Directories that were
// moved with what is below them may be deeper than depth_max.
Task<Result<>> LocalDirectory::open_again(const Call& call, LocalNode& node) {
    std::vector<std::string> names;
    LocalNode* above = &node;
    while (above != nullptr && !above->is_open()) {
        if (names.size() == depth_max) co_return fail(Code::name_too_long);
        names.push_back(above->name);
        above = above->parent;
    }
    if (above == nullptr) co_return fail(Code::stale);
    const NodeUse from(nodes_, above->id);
    auto found = co_await on_thread(call, [&]() -> Result<Found> {
        Descriptor path;
        for (size_t left = names.size(); left > 0; --left) {
            const int parent = path.get() < 0 ? from.fd() : path.get();
            ROS2S_TRY_ASSIGN(path, open_beneath(parent, names[left - 1], O_PATH | O_NOFOLLOW));
        }
        return found_by(std::move(path));
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

// Returns whether `owner` has it now.
Result<bool> LocalDirectory::give(const Found& found, uid_t uid, gid_t gid) const {
    if (found.status.st_uid == uid && found.status.st_gid == gid) return true;
    const auto given = checked(::fchownat(found.path.get(), "", uid, gid, AT_EMPTY_PATH));
    if (given) return true;
    if (!options_.keeps_what_it_may_not_give || given.error().code != Code::denied) {
        return fail(given.error());
    }
    return false;
}

// A new file has this process's ids, and a mode reduced by its umask. Here it gets the caller's.
// The mode comes last, because a change of owner clears set-id bits.
Result<Found> LocalDirectory::adopt(int parent, const std::string& name, mode_t mode,
                                    Owner owner) const {
    owner = allowed(owner);
    const auto give_owner_and_mode = [&](Found& found) -> Result<> {
        struct stat above{};
        ROS2S_TRY(checked(::fstat(parent, &above)));
        const bool inherits = (above.st_mode & S_ISGID) != 0;
        const gid_t gid = inherits ? found.status.st_gid : owner.gid;
        ROS2S_TRY_ASSIGN(const bool given, give(found, owner.uid, gid));
        if (!S_ISLNK(found.status.st_mode)) {
            mode_t bits = mode & (given ? fs::permission_bits : 01777U);
            if (S_ISDIR(found.status.st_mode)) bits |= found.status.st_mode & S_ISGID;
            ROS2S_TRY(checked(::chmod(proc_path(found.path.get()).c_str(), bits)));
        }
        return checked(::fstat(found.path.get(), &found.status));
    };
    ROS2S_TRY_ASSIGN(Found found, find(parent, name));
    if (const auto given = give_owner_and_mode(found); !given) {
        ::unlinkat(parent, name.c_str(), S_ISDIR(found.status.st_mode) ? AT_REMOVEDIR : 0);
        return fail(given.error());
    }
    return found;
}

Owner LocalDirectory::allowed(Owner owner) const {
    if (!options_.gives_no_power) return owner;
    // To chown(2), the largest number means that the file keeps this process's.
    const auto is_power = [](uint32_t id) { return id == 0 || id == UINT32_MAX; };
    return {.uid = is_power(owner.uid) ? nobody : owner.uid,
            .gid = is_power(owner.gid) ? nobody : owner.gid};
}

mode_t LocalDirectory::allowed(mode_t type, mode_t mode) const {
    if (!options_.gives_no_power) return mode;
    // On a directory the set-group-id bit only decides the group of its files.
    return mode & ~(S_ISDIR(type) ? mode_t{S_ISUID} : mode_t{S_ISUID | S_ISGID});
}

Attributes LocalDirectory::add(Found found, LocalNode& parent, const std::string& name) {
    const struct stat status = found.status;
    return attributes_of(nodes_.add(std::move(found), &parent, name).id, status);
}

void LocalDirectory::moved(const struct stat& status, LocalNode& parent, const std::string& name) {
    LocalNode* const node = nodes_.find(status.st_dev, status.st_ino);
    if (node != nullptr) nodes_.found_at(*node, &parent, name);
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
    ROS2S_CO_TRY_ASSIGN(Found found,
                        co_await on_thread(call, [&] { return find(directory.fd(), owned); }));
    co_return add(std::move(found), *directory, owned);
}

Task<> LocalDirectory::lookup_one(LocalDirectory& self, const Call& call, NodeId parent,
                                  std::string_view name, Result<Attributes>& result) {
    result = co_await self.lookup(call, parent, name);
}

Task<std::vector<Result<Attributes>>> LocalDirectory::lookup_many(
    const Call& call, NodeId parent, std::span<const std::string_view> names) {
    constexpr size_t lookups_at_once = 32;
    std::vector<Result<Attributes>> results(names.size());
    Nursery nursery(reactor_, lookups_at_once);
    for (size_t i = 0; i < names.size(); ++i) {
        co_await nursery.spawn(lookup_one(*this, call, parent, names[i], results[i]));
    }
    co_await nursery.join();
    co_return results;
}

Task<Result<Attributes>> LocalDirectory::mkdir(const Call& call, NodeId parent,
                                               std::string_view name, mode_t mode, Owner owner) {
    ROS2S_CO_TRY(check_first(call));
    ROS2S_CO_TRY(check_name(name));
    ROS2S_CO_TRY_ASSIGN(const NodeUse directory, co_await use_to_add(call, parent));
    const std::string owned(name);
    mode = allowed(S_IFDIR, mode);
    ROS2S_CO_TRY_ASSIGN(Found found, co_await on_thread(call, [&]() -> Result<Found> {
                            ROS2S_TRY(checked(::mkdirat(directory.fd(), owned.c_str(),
                                                        mode & fs::permission_bits)));
                            return adopt(directory.fd(), owned, mode, owner);
                        }));
    co_return add(std::move(found), *directory, owned);
}

Task<Result<Attributes>> LocalDirectory::mknod(const Call& call, NodeId parent,
                                               std::string_view name, mode_t mode, dev_t device,
                                               Owner owner) {
    ROS2S_CO_TRY(check_first(call));
    ROS2S_CO_TRY(check_name(name));
    const bool known =
        S_ISREG(mode) || S_ISFIFO(mode) || S_ISSOCK(mode) || S_ISCHR(mode) || S_ISBLK(mode);
    if (!known) co_return fail(Code::invalid);
    if (options_.gives_no_power && (S_ISCHR(mode) || S_ISBLK(mode))) co_return fail_errno(EPERM);
    mode = allowed(mode, mode);
    ROS2S_CO_TRY_ASSIGN(const NodeUse directory, co_await use_to_add(call, parent));
    const std::string owned(name);
    ROS2S_CO_TRY_ASSIGN(
        Found found, co_await on_thread(call, [&]() -> Result<Found> {
            ROS2S_TRY(checked(::mknodat(directory.fd(), owned.c_str(), mode, device)));
            return adopt(directory.fd(), owned, mode, owner);
        }));
    co_return add(std::move(found), *directory, owned);
}

Task<Result<Attributes>> LocalDirectory::symlink(const Call& call, NodeId parent,
                                                 std::string_view name, std::string_view target,
                                                 Owner owner) {
    ROS2S_CO_TRY(check_first(call));
    ROS2S_CO_TRY(check_name(name));
    if (target.find('\0') != target.npos) co_return fail(Code::invalid);
    ROS2S_CO_TRY_ASSIGN(const NodeUse directory, co_await use_to_add(call, parent));
    const std::string owned(name);
    const std::string owned_target(target);
    ROS2S_CO_TRY_ASSIGN(
        Found found, co_await on_thread(call, [&]() -> Result<Found> {
            ROS2S_TRY(checked(::symlinkat(owned_target.c_str(), directory.fd(), owned.c_str())));
            return adopt(directory.fd(), owned, 0, owner);
        }));
    co_return add(std::move(found), *directory, owned);
}

Task<Result<Attributes>> LocalDirectory::link(const Call& call, NodeId id, NodeId parent,
                                              std::string_view name) {
    ROS2S_CO_TRY(check_first(call));
    ROS2S_CO_TRY(check_name(name));
    ROS2S_CO_TRY_ASSIGN(const NodeUse node, co_await use(call, id));
    ROS2S_CO_TRY_ASSIGN(const NodeUse directory, co_await use_to_add(call, parent));
    const std::string owned(name);
    ROS2S_CO_TRY_ASSIGN(Found found, co_await on_thread(call, [&]() -> Result<Found> {
                            // Linking by a link's own descriptor would need CAP_DAC_READ_SEARCH;
                            // through /proc it would be followed.
                            const int linked =
                                S_ISLNK(node->type)
                                    ? ::linkat(node.fd(), "", directory.fd(), owned.c_str(),
                                               AT_EMPTY_PATH)
                                    : ::linkat(AT_FDCWD, proc_path(node.fd()).c_str(),
                                               directory.fd(), owned.c_str(), AT_SYMLINK_FOLLOW);
                            ROS2S_TRY(checked(linked));
                            return find(directory.fd(), owned);
                        }));
    co_return add(std::move(found), *directory, owned);
}

Task<Result<>> LocalDirectory::unlink(const Call& call, NodeId parent, std::string_view name) {
    ROS2S_CO_TRY(check_first(call));
    ROS2S_CO_TRY(check_name(name));
    ROS2S_CO_TRY_ASSIGN(const NodeUse directory, co_await use_above(call, parent));
    const std::string owned(name);
    co_return co_await on_thread(
        call, [&] { return checked(::unlinkat(directory.fd(), owned.c_str(), 0)); });
}

Task<Result<>> LocalDirectory::rmdir(const Call& call, NodeId parent, std::string_view name) {
    ROS2S_CO_TRY(check_first(call));
    ROS2S_CO_TRY(check_name(name));
    ROS2S_CO_TRY_ASSIGN(const NodeUse directory, co_await use_above(call, parent));
    const std::string owned(name);
    struct stat there{};
    ROS2S_CO_TRY(co_await on_thread(call, [&]() -> Result<> {
        (void)::fstatat(directory.fd(), owned.c_str(), &there, AT_SYMLINK_NOFOLLOW);
        return checked(::unlinkat(directory.fd(), owned.c_str(), AT_REMOVEDIR));
    }));
    if (LocalNode* const node = nodes_.find(there.st_dev, there.st_ino); node != nullptr) {
        nodes_.found_at(*node, nullptr, {});
    }
    co_return Result<>{};
}

Task<Result<>> LocalDirectory::rename(const Call& call, NodeId parent, std::string_view name,
                                      NodeId new_parent, std::string_view new_name,
                                      RenameFlags flags) {
    ROS2S_CO_TRY(check_first(call));
    ROS2S_CO_TRY(check_name(name));
    ROS2S_CO_TRY(check_name(new_name));
    if (flags.exchange && flags.no_replace) co_return fail(Code::invalid);
    ROS2S_CO_TRY_ASSIGN(const NodeUse from, co_await use_above(call, parent));
    ROS2S_CO_TRY_ASSIGN(const NodeUse to, co_await use_to_add(call, new_parent));
    const std::string owned(name);
    const std::string owned_new(new_name);
    const unsigned bits =
        (flags.exchange ? RENAME_EXCHANGE : 0U) | (flags.no_replace ? RENAME_NOREPLACE : 0U);
    struct stat there{}, back{};
    const auto done = co_await on_thread(call, [&]() -> Result<> {
        ROS2S_TRY(checked(::renameat2(from.fd(), owned.c_str(), to.fd(), owned_new.c_str(), bits)));
        (void)::fstatat(to.fd(), owned_new.c_str(), &there, AT_SYMLINK_NOFOLLOW);
        if (flags.exchange) (void)::fstatat(from.fd(), owned.c_str(), &back, AT_SYMLINK_NOFOLLOW);
        return {};
    });
    // Other causes of `invalid` were excluded above.
    if (!done && done.error().code == Code::invalid) co_return fail(Code::loop);
    if (done) moved(there, *to, owned_new);
    if (done && flags.exchange) moved(back, *from, owned);
    co_return done;
}

Task<Result<std::string>> LocalDirectory::readlink(const Call& call, NodeId id) {
    ROS2S_CO_TRY_ASSIGN(const NodeUse node, co_await use(call, id));
    if (!S_ISLNK(node->type)) co_return fail(Code::invalid);
    co_return co_await on_thread(call, [&]() -> Result<std::string> {
        std::string target(fs::link_target_bytes_max + 1, '\0');
        const ssize_t bytes = ::readlinkat(node.fd(), "", target.data(), target.size());
        ROS2S_TRY(checked(bytes));
        target.resize(static_cast<size_t>(bytes));
        return target;
    });
}

Task<Result<fs::FileSystemSpace>> LocalDirectory::space(const Call& call) {
    ROS2S_CO_TRY_ASSIGN(const NodeUse root, co_await use(call, fs::root_node));
    co_return co_await on_thread(call, [&]() -> Result<fs::FileSystemSpace> {
        struct statvfs status{};
        ROS2S_TRY(checked(::statvfs(proc_path(root.fd()).c_str(), &status)));
        return fs::FileSystemSpace{.total_bytes = status.f_blocks * status.f_frsize,
                                   .free_bytes = status.f_bavail * status.f_frsize,
                                   .files = status.f_files - status.f_ffree};
    });
}

}  // namespace ros2s::foreign
