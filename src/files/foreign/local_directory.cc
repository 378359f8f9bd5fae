// Names.
#include "local_directory.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>

#include "ros2s/base/trusted_file.h"

namespace ros2s::foreign {

using fs::check_name;
namespace {

// The attributes of an open inode, and its handle, are in memory. They are not guarded by a lock
// that is held during I/O. Others may ask a server or another file system.
bool keeps_attributes_in_memory(int directory) {
    struct statfs status{};
    if (::fstatfs(directory, &status) < 0) return false;
    switch (static_cast<uint32_t>(status.f_type)) {
        case EXT4_SUPER_MAGIC:
        case XFS_SUPER_MAGIC:
        case BTRFS_SUPER_MAGIC:
        case F2FS_SUPER_MAGIC:
        case TMPFS_MAGIC: return true;
        default: return false;
    }
}

}  // namespace

Task<Result<std::unique_ptr<fs::FileSystem>>> open_local_directory(
    std::string path, Reactor& reactor, BlockingPool& pool, Report& report,
    LocalDirectoryOptions options, Call call) {
    bool in_memory = false;
    Report why;
    auto root =
        co_await run_in_turn(options.turns, pool, reactor, call, [&]() -> Result<FoundNode> {
            ROS2S_TRY_ASSIGN(Descriptor there, open_data_directory(path, why));
            in_memory = keeps_attributes_in_memory(there.get());
            return found_by(std::move(there));
        });
    if (!root) {
        co_return report.fail(root.error(), "the directory cannot be opened: {}",
                              why.empty() ? describe(root.error()) : why.text());
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
    co_return std::make_unique<LocalDirectory>(std::move(path), std::move(*root), in_memory,
                                               reactor, pool, options, call.tenant);
}

LocalDirectory::LocalDirectory(std::string path, FoundNode root, bool in_memory, Reactor& reactor,
                               BlockingPool& pool, LocalDirectoryOptions options, uint64_t tenant)
    : path_(std::move(path)),
      reactor_(reactor),
      pool_(pool),
      options_(options),
      tenant_(tenant),
      in_memory_(in_memory ? std::optional(root.status.st_dev) : std::nullopt),
      closing_(reactor, 1),
      dropping_(reactor, 1),
      nodes_(
          reactor.secrets().next(), {options.descriptors_max, options.nodes_max},
          [this](Descriptor path) { close_path(std::move(path)); },
          [this] {
              if (!is_closed_) (void)dropping_.try_spawn(drop_unused_nodes());
          }) {
    nodes_.add_root(std::move(root));
}
LocalDirectory::~LocalDirectory() { ROS2S_CHECK(files_.empty()); }

Task<> LocalDirectory::close_all() {
    const Call call{.tenant = tenant_};
    while (!files_.empty()) (void)co_await close(call, FileHandle{files_.begin()->first});
    co_await dropping_.join();
    is_closed_ = true;
    co_await closing_.join();
}

// The last close of a removed file frees its blocks, which may wait for a disk. Other file systems
// cannot be asked here whether it was removed.
void LocalDirectory::close_path(Descriptor path) {
    struct stat status{};
    const bool is_removed = in_memory_ && ::fstat(path.get(), &status) == 0 && status.st_nlink == 0;
    if (!is_removed || is_closed_) return;
    removed_.push_back(std::move(path));
    (void)closing_.try_spawn(close_removed());
}

// For no tenant: hung calls of a tenant must not keep descriptors of others.
Task<> LocalDirectory::close_removed() {
    while (!removed_.empty()) {
        std::vector<Descriptor> some = std::exchange(removed_, {});
        (void)co_await on_thread({}, [&]() -> Result<> {
            some.clear();
            return {};
        });
    }
}

Task<> LocalDirectory::drop_unused_nodes() {
    do co_await yield(reactor_);
    while (nodes_.drop_some());
}

// Returns whether `owner` has it now.
Result<bool> LocalDirectory::give(const FoundNode& found, uid_t uid, gid_t gid) const {
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
Result<> LocalDirectory::give_owner_and_mode(int parent, FoundNode& found, mode_t mode,
                                             Owner owner) const {
    owner = allowed(owner);
    struct stat above{};
    ROS2S_TRY(checked(::fstat(parent, &above)));
    const bool inherits = (above.st_mode & S_ISGID) != 0;
    const gid_t gid = inherits ? found.status.st_gid : owner.gid;
    const mode_t inherited = S_ISDIR(found.status.st_mode) ? found.status.st_mode & S_ISGID : 0;
    ROS2S_TRY_ASSIGN(const bool given, give(found, owner.uid, gid));
    ROS2S_TRY(checked(::fstat(found.path.get(), &found.status)));
    if (S_ISLNK(found.status.st_mode)) return {};
    const mode_t bits = (mode & (given ? fs::permission_bits : 01777U)) | inherited;
    if ((found.status.st_mode & fs::permission_bits) == bits) return {};
    ROS2S_TRY(checked(::chmod(proc_path(found.path.get()).c_str(), bits)));
    return checked(::fstat(found.path.get(), &found.status));
}

Result<FoundNode> LocalDirectory::adopt(int parent, const std::string& name,
                                        Result<FoundNode> found, mode_t mode, Owner owner) const {
    if (!found) return found;
    if (const auto given = give_owner_and_mode(parent, *found, mode, owner); !given) {
        ::unlinkat(parent, name.c_str(), S_ISDIR(found->status.st_mode) ? AT_REMOVEDIR : 0);
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

Attributes LocalDirectory::add(FoundNode found, LocalNode& parent, const std::string& name) {
    const struct stat status = found.status;
    return attributes_of(nodes_.add(std::move(found), &parent, name).id, status);
}

Result<Attributes> LocalDirectory::add_found(FoundNode found, LocalNode& parent,
                                             const std::string& name) {
    ROS2S_TRY(nodes_.check_room(found));
    return add(std::move(found), parent, name);
}

void LocalDirectory::moved(const struct stat& status, LocalNode& parent, const std::string& name) {
    LocalNode* const node = nodes_.find(status.st_dev, status.st_ino);
    if (node != nullptr) nodes_.found_at(*node, &parent, name);
}

// The kernel has made it for this process. The name may have changed since, and the rename is done.
void LocalDirectory::give_whiteout(int parent, const std::string& name, Owner owner) const {
    auto made = find(parent, name);
    if (!made || !fs::is_whiteout(made->status.st_mode, made->status.st_rdev)) return;
    (void)give_owner_and_mode(parent, *made, fs::whiteout_mode, owner);
}

template <class F>
Task<std::vector<Result<>>> LocalDirectory::change_many(const Call& call, const Result<NodeUse>& in,
                                                        std::span<const std::string_view> names,
                                                        const F& change) {
    std::vector<Result<>> results(names.size());
    const std::vector<std::string> owned(names.begin(), names.end());
    const auto change_one = [&](const std::string& name) -> Result<> {
        ROS2S_TRY(check_first(call));
        ROS2S_TRY(check_name(name));
        if (!in) return fail(in.error());
        return change((*in)->fd(), name);
    };
    co_await on_threads(call, owned, std::span(results), change_one);
    co_return results;
}

Task<Result<Attributes>> LocalDirectory::mkdir(const Call& call, NodeId parent,
                                               std::string_view name, mode_t mode, Owner owner) {
    ROS2S_CO_TRY(check_first(call));
    ROS2S_CO_TRY(check_name(name));
    ROS2S_CO_TRY_ASSIGN(const NodeUse directory, co_await use_to_add(call, parent));
    ROS2S_CO_TRY(nodes_.check_room());
    const std::string owned(name);
    mode = allowed(S_IFDIR, mode);
    ROS2S_CO_TRY_ASSIGN(
        FoundNode found, co_await on_thread(call, [&]() -> Result<FoundNode> {
            ROS2S_TRY(
                checked(::mkdirat(directory->fd(), owned.c_str(), mode & fs::permission_bits)));
            return adopt(directory->fd(), owned, find(directory->fd(), owned), mode, owner);
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
    const bool is_device = (S_ISCHR(mode) || S_ISBLK(mode)) && !fs::is_whiteout(mode, device);
    if (options_.gives_no_power && is_device) co_return fail_errno(EPERM);
    mode = allowed(mode, mode);
    ROS2S_CO_TRY_ASSIGN(const NodeUse directory, co_await use_to_add(call, parent));
    ROS2S_CO_TRY(nodes_.check_room());
    const std::string owned(name);
    ROS2S_CO_TRY_ASSIGN(
        FoundNode found, co_await on_thread(call, [&]() -> Result<FoundNode> {
            ROS2S_TRY(checked(::mknodat(directory->fd(), owned.c_str(), mode, device)));
            return adopt(directory->fd(), owned, find(directory->fd(), owned), mode, owner);
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
    ROS2S_CO_TRY(nodes_.check_room());
    const std::string owned(name);
    const std::string owned_target(target);
    ROS2S_CO_TRY_ASSIGN(
        FoundNode found, co_await on_thread(call, [&]() -> Result<FoundNode> {
            ROS2S_TRY(checked(::symlinkat(owned_target.c_str(), directory->fd(), owned.c_str())));
            return adopt(directory->fd(), owned, find(directory->fd(), owned), 0, owner);
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
    ROS2S_CO_TRY_ASSIGN(FoundNode found, co_await on_thread(call, [&]() -> Result<FoundNode> {
                            // Linking by a link's own descriptor would need CAP_DAC_READ_SEARCH;
                            // through /proc it would be followed.
                            const int linked =
                                S_ISLNK(node->type)
                                    ? ::linkat(node->fd(), "", directory->fd(), owned.c_str(),
                                               AT_EMPTY_PATH)
                                    : ::linkat(AT_FDCWD, proc_path(node->fd()).c_str(),
                                               directory->fd(), owned.c_str(), AT_SYMLINK_FOLLOW);
                            ROS2S_TRY(checked(linked));
                            return find(directory->fd(), owned);
                        }));
    co_return add(std::move(found), *directory, owned);
}

Task<Result<>> LocalDirectory::unlink(const Call& call, NodeId parent, std::string_view name) {
    ROS2S_CO_TRY(check_first(call));
    ROS2S_CO_TRY(check_name(name));
    ROS2S_CO_TRY_ASSIGN(const NodeUse directory, co_await use_above(call, parent));
    const std::string owned(name);
    co_return co_await on_thread(
        call, [&] { return checked(::unlinkat(directory->fd(), owned.c_str(), 0)); });
}

Task<std::vector<Result<>>> LocalDirectory::create_many(const Call& call, NodeId parent,
                                                        std::span<const std::string_view> names,
                                                        mode_t mode, Owner owner) {
    mode = allowed(S_IFREG, mode);
    const auto directory = co_await use_to_add(call, parent);
    co_return co_await change_many(call, directory, names,
                                   [&](int above, const std::string& name) -> Result<> {
                                       const auto made = make_file(above, name, mode, {}, owner);
                                       return made ? Result<>() : fail(made.error());
                                   });
}

Task<std::vector<Result<>>> LocalDirectory::unlink_many(const Call& call, NodeId parent,
                                                        std::span<const std::string_view> names) {
    const auto directory = co_await use_above(call, parent);
    co_return co_await change_many(call, directory, names, [](int above, const std::string& name) {
        return checked(::unlinkat(above, name.c_str(), 0));
    });
}

Task<Result<>> LocalDirectory::rmdir(const Call& call, NodeId parent, std::string_view name) {
    ROS2S_CO_TRY(check_first(call));
    ROS2S_CO_TRY(check_name(name));
    ROS2S_CO_TRY_ASSIGN(const NodeUse directory, co_await use_above(call, parent));
    const std::string owned(name);
    struct stat there{};
    ROS2S_CO_TRY(co_await on_thread(call, [&]() -> Result<> {
        (void)::fstatat(directory->fd(), owned.c_str(), &there, AT_SYMLINK_NOFOLLOW);
        return checked(::unlinkat(directory->fd(), owned.c_str(), AT_REMOVEDIR));
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
    if (flags.exchange && (flags.no_replace || flags.whiteout)) co_return fail(Code::invalid);
    ROS2S_CO_TRY_ASSIGN(const NodeUse from, co_await use_above(call, parent));
    // An exchange adds a name there, too, and recording it looks at all directories above.
    if (flags.exchange && depth_of(*from) > options_.depth_max) co_return fail(Code::name_too_long);
    ROS2S_CO_TRY_ASSIGN(const NodeUse to, co_await use_to_add(call, new_parent));
    const std::string owned(name);
    const std::string owned_new(new_name);
    const unsigned bits = (flags.exchange ? RENAME_EXCHANGE : 0U) |
                          (flags.no_replace ? RENAME_NOREPLACE : 0U) |
                          (flags.whiteout ? RENAME_WHITEOUT : 0U);
    struct stat there{}, back{};
    const auto done = co_await on_thread(call, [&]() -> Result<> {
        ROS2S_TRY(
            checked(::renameat2(from->fd(), owned.c_str(), to->fd(), owned_new.c_str(), bits)));
        (void)::fstatat(to->fd(), owned_new.c_str(), &there, AT_SYMLINK_NOFOLLOW);
        if (flags.exchange) (void)::fstatat(from->fd(), owned.c_str(), &back, AT_SYMLINK_NOFOLLOW);
        if (flags.whiteout) give_whiteout(from->fd(), owned, flags.owner);
        return {};
    });
    // Other causes of `invalid` were excluded above, except that the file system under the
    // directory has no whiteouts. That is EINVAL to POSIX callers, too.
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
        const ssize_t bytes = ::readlinkat(node->fd(), "", target.data(), target.size());
        ROS2S_TRY(checked(bytes));
        target.resize(static_cast<size_t>(bytes));
        return target;
    });
}

Task<Result<fs::FileSystemSpace>> LocalDirectory::space(const Call& call) {
    ROS2S_CO_TRY_ASSIGN(const NodeUse root, co_await use(call, fs::root_node));
    co_return co_await on_thread(call, [&]() -> Result<fs::FileSystemSpace> {
        struct statvfs status{};
        ROS2S_TRY(checked(::statvfs(proc_path(root->fd()).c_str(), &status)));
        return fs::FileSystemSpace{.total_bytes = status.f_blocks * status.f_frsize,
                                   .free_bytes = status.f_bavail * status.f_frsize,
                                   .files = status.f_files - status.f_ffree};
    });
}

}  // namespace ros2s::foreign
