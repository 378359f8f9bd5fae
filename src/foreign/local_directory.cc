// Names.
#include "local_directory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/statvfs.h>

namespace ros2s::foreign {

using fs::check_name;

Task<Result<std::unique_ptr<fs::FileSystem>>> open_local_fs(std::string path, Reactor& reactor,
                                                            BlockingPool& pool, Report& report,
                                                            LocalFsOptions options) {
    struct Root {
        Descriptor path;
        struct stat status{};
    };
    auto root = co_await pool.run(reactor, [&]() -> Result<Root> {
        Root result;
        ROS2S_TRY_ASSIGN(result.path,
                         opened(::open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)));
        ROS2S_TRY(checked(::fstat(result.path.get(), &result.status)));
        return result;
    });
    if (!root) {
        co_return report.fail(root.error(), fmt::format("the directory {} cannot be opened: {}",
                                                        path, describe(root.error())));
    }
    const auto proc = co_await pool.run(reactor, [&]() -> Result<> {
        struct stat status{};
        return checked(::stat(proc_path(root->path.get()).c_str(), &status));
    });
    if (!proc) {
        co_return report.fail(Code::unsupported,
                              "/proc is not mounted, and files are reached through it; mount it "
                              "(mount -t proc proc /proc)");
    }
    co_return std::make_unique<LocalDirectory>(std::move(path), std::move(root->path), root->status,
                                               reactor, pool, options);
}

Attributes attributes_of(NodeId node, const struct stat& status) {
    const auto time = [](const timespec& t) {
        return WallTime{std::chrono::seconds(t.tv_sec) + Duration(t.tv_nsec)};
    };
    return {.node = node,
            .mode = status.st_mode,
            .links = static_cast<uint32_t>(status.st_nlink),
            .uid = status.st_uid,
            .gid = status.st_gid,
            .size = static_cast<uint64_t>(status.st_size),
            .bytes_used = static_cast<uint64_t>(status.st_blocks) * 512,
            .device = status.st_rdev,
            .accessed = time(status.st_atim),
            .modified = time(status.st_mtim),
            .changed = time(status.st_ctim)};
}

LocalDirectory::LocalDirectory(std::string path, Descriptor root, const struct stat& status,
                               Reactor& reactor, BlockingPool& pool, LocalFsOptions options)
    : path_(std::move(path)),
      reactor_(reactor),
      pool_(pool),
      options_(options),
      nodes_(reactor.secrets().next()) {
    nodes_.add(std::move(root), status);
}
LocalDirectory::~LocalDirectory() { ROS2S_CHECK(files_.empty()); }

Task<> LocalDirectory::close_all() {
    const Call call;
    while (!files_.empty()) (void)co_await close(call, FileHandle{files_.begin()->first});
}

Result<LocalDirectory::Found> LocalDirectory::find(int parent, const std::string& name) const {
    Found found;
    ROS2S_TRY_ASSIGN(found.path, open_beneath(parent, name, O_PATH | O_NOFOLLOW));
    ROS2S_TRY(checked(::fstat(found.path.get(), &found.status)));
    return found;
}

// Says whether `owner` has it now.
Result<bool> LocalDirectory::give(const Found& found, uid_t uid, gid_t gid) const {
    if (found.status.st_uid == uid && found.status.st_gid == gid) return true;
    const auto given = checked(::fchownat(found.path.get(), "", uid, gid, AT_EMPTY_PATH));
    if (given) return true;
    if (!options_.keeps_what_it_may_not_give || given.error().code != Code::denied) {
        return fail(given.error());
    }
    return false;
}

// The process's umask and its own ids went into what was just made; the caller's are put there now,
// the mode last, because a change of owner takes set-id bits away.
Result<LocalDirectory::Found> LocalDirectory::adopt(int parent, const std::string& name,
                                                    mode_t mode, Owner owner) const {
    owner = allowed(owner);
    const auto settle = [&](Found& found) -> Result<> {
        struct stat above{};
        ROS2S_TRY(checked(::fstat(parent, &above)));
        const bool inherits = (above.st_mode & S_ISGID) != 0;
        const gid_t gid = inherits ? found.status.st_gid : owner.gid;
        ROS2S_TRY_ASSIGN(const bool given, give(found, owner.uid, gid));
        if (!S_ISLNK(found.status.st_mode)) {
            mode_t bits = mode & (given ? 07777U : 01777U);
            if (S_ISDIR(found.status.st_mode)) bits |= found.status.st_mode & S_ISGID;
            ROS2S_TRY(checked(::chmod(proc_path(found.path.get()).c_str(), bits)));
        }
        return checked(::fstat(found.path.get(), &found.status));
    };
    ROS2S_TRY_ASSIGN(Found found, find(parent, name));
    if (const auto settled = settle(found); !settled) {
        ::unlinkat(parent, name.c_str(), S_ISDIR(found.status.st_mode) ? AT_REMOVEDIR : 0);
        return fail(settled.error());
    }
    return found;
}

Owner LocalDirectory::allowed(Owner owner) const {
    if (!options_.gives_no_power) return owner;
    return {.uid = owner.uid == 0 ? nobody : owner.uid, .gid = owner.gid == 0 ? nobody : owner.gid};
}

mode_t LocalDirectory::allowed(mode_t type, mode_t mode) const {
    if (!options_.gives_no_power) return mode;
    // A directory's says whose group its files are.
    return mode & ~(S_ISDIR(type) ? mode_t{S_ISUID} : mode_t{S_ISUID | S_ISGID});
}

Attributes LocalDirectory::add(Found found) {
    const LocalNode& node = nodes_.add(std::move(found.path), found.status);
    return attributes_of(node.id, found.status);
}

Task<Result<Attributes>> LocalDirectory::lookup(const Call& call, NodeId parent,
                                                std::string_view name) {
    if (name == "..") co_return fail(Code::stale);  // the kernel's ".." leads out of the base
    if (name != ".") ROS2S_CO_TRY(check_name(name));
    const NodeUse directory(nodes_, parent);
    if (!directory) co_return fail(Code::stale);
    if (name == ".") {
        ROS2S_CO_TRY_ASSIGN(const Attributes found, co_await get_attributes(call, parent));
        ++directory->references;
        co_return found;
    }
    const std::string owned(name);
    ROS2S_CO_TRY_ASSIGN(Found found,
                        co_await pool_.run(reactor_, [&] { return find(directory.fd(), owned); }));
    co_return add(std::move(found));
}

Task<Result<Attributes>> LocalDirectory::mkdir(const Call& call, NodeId parent,
                                               std::string_view name, mode_t mode, Owner owner) {
    ROS2S_CO_TRY(check_first(call));
    ROS2S_CO_TRY(check_name(name));
    const NodeUse directory(nodes_, parent);
    if (!directory) co_return fail(Code::stale);
    const std::string owned(name);
    mode = allowed(S_IFDIR, mode);
    ROS2S_CO_TRY_ASSIGN(Found found, co_await pool_.run(reactor_, [&]() -> Result<Found> {
        ROS2S_TRY(checked(::mkdirat(directory.fd(), owned.c_str(), mode & 07777)));
        return adopt(directory.fd(), owned, mode, owner);
    }));
    co_return add(std::move(found));
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
    const NodeUse directory(nodes_, parent);
    if (!directory) co_return fail(Code::stale);
    const std::string owned(name);
    ROS2S_CO_TRY_ASSIGN(Found found, co_await pool_.run(reactor_, [&]() -> Result<Found> {
        ROS2S_TRY(checked(::mknodat(directory.fd(), owned.c_str(), mode, device)));
        return adopt(directory.fd(), owned, mode, owner);
    }));
    co_return add(std::move(found));
}

Task<Result<Attributes>> LocalDirectory::symlink(const Call& call, NodeId parent,
                                                 std::string_view name, std::string_view target,
                                                 Owner owner) {
    ROS2S_CO_TRY(check_first(call));
    ROS2S_CO_TRY(check_name(name));
    if (target.find('\0') != target.npos) co_return fail(Code::invalid);
    const NodeUse directory(nodes_, parent);
    if (!directory) co_return fail(Code::stale);
    const std::string owned(name);
    const std::string owned_target(target);
    ROS2S_CO_TRY_ASSIGN(Found found, co_await pool_.run(reactor_, [&]() -> Result<Found> {
        ROS2S_TRY(checked(::symlinkat(owned_target.c_str(), directory.fd(), owned.c_str())));
        return adopt(directory.fd(), owned, 0, owner);
    }));
    co_return add(std::move(found));
}

Task<Result<Attributes>> LocalDirectory::link(const Call& call, NodeId id, NodeId parent,
                                              std::string_view name) {
    ROS2S_CO_TRY(check_first(call));
    ROS2S_CO_TRY(check_name(name));
    const NodeUse node(nodes_, id);
    const NodeUse directory(nodes_, parent);
    if (!node || !directory) co_return fail(Code::stale);
    const std::string owned(name);
    ROS2S_CO_TRY_ASSIGN(Found found, co_await pool_.run(reactor_, [&]() -> Result<Found> {
        // A link's own descriptor takes CAP_DAC_READ_SEARCH to link; through /proc it would be
        // followed.
        const int linked =
            S_ISLNK(node->type)
                ? ::linkat(node.fd(), "", directory.fd(), owned.c_str(), AT_EMPTY_PATH)
                : ::linkat(AT_FDCWD, proc_path(node.fd()).c_str(), directory.fd(), owned.c_str(),
                           AT_SYMLINK_FOLLOW);
        ROS2S_TRY(checked(linked));
        return find(directory.fd(), owned);
    }));
    co_return add(std::move(found));
}

Task<Result<>> LocalDirectory::unlink(const Call& call, NodeId parent, std::string_view name) {
    ROS2S_CO_TRY(check_first(call));
    ROS2S_CO_TRY(check_name(name));
    const NodeUse directory(nodes_, parent);
    if (!directory) co_return fail(Code::stale);
    const std::string owned(name);
    co_return co_await pool_.run(
        reactor_, [&] { return checked(::unlinkat(directory.fd(), owned.c_str(), 0)); });
}

Task<Result<>> LocalDirectory::rmdir(const Call& call, NodeId parent, std::string_view name) {
    ROS2S_CO_TRY(check_first(call));
    ROS2S_CO_TRY(check_name(name));
    const NodeUse directory(nodes_, parent);
    if (!directory) co_return fail(Code::stale);
    const std::string owned(name);
    co_return co_await pool_.run(
        reactor_, [&] { return checked(::unlinkat(directory.fd(), owned.c_str(), AT_REMOVEDIR)); });
}

Task<Result<>> LocalDirectory::rename(const Call& call, NodeId parent, std::string_view name,
                                      NodeId new_parent, std::string_view new_name,
                                      RenameFlags flags) {
    ROS2S_CO_TRY(check_first(call));
    ROS2S_CO_TRY(check_name(name));
    ROS2S_CO_TRY(check_name(new_name));
    if (flags.exchange && flags.no_replace) co_return fail(Code::invalid);
    const NodeUse from(nodes_, parent);
    const NodeUse to(nodes_, new_parent);
    if (!from || !to) co_return fail(Code::stale);
    const std::string owned(name);
    const std::string owned_new(new_name);
    const unsigned bits =
        (flags.exchange ? RENAME_EXCHANGE : 0U) | (flags.no_replace ? RENAME_NOREPLACE : 0U);
    const auto done = co_await pool_.run(reactor_, [&] {
        return checked(::renameat2(from.fd(), owned.c_str(), to.fd(), owned_new.c_str(), bits));
    });
    // What else could be invalid was looked at above.
    if (!done && done.error().code == Code::invalid) co_return fail(Code::loop);
    co_return done;
}

Task<Result<std::string>> LocalDirectory::readlink(const Call&, NodeId id) {
    const NodeUse node(nodes_, id);
    if (!node) co_return fail(Code::stale);
    if (!S_ISLNK(node->type)) co_return fail(Code::invalid);
    co_return co_await pool_.run(reactor_, [&]() -> Result<std::string> {
        std::string target(fs::link_target_bytes_max + 1, '\0');
        const ssize_t bytes = ::readlinkat(node.fd(), "", target.data(), target.size());
        ROS2S_TRY(checked(bytes));
        target.resize(static_cast<size_t>(bytes));
        return target;
    });
}

Task<Result<fs::FileSystemSpace>> LocalDirectory::space(const Call&) {
    const NodeUse root(nodes_, fs::root_node);
    co_return co_await pool_.run(reactor_, [&]() -> Result<fs::FileSystemSpace> {
        struct statvfs status{};
        ROS2S_TRY(checked(::statvfs(proc_path(root.fd()).c_str(), &status)));
        return fs::FileSystemSpace{.total_bytes = status.f_blocks * status.f_frsize,
                                   .free_bytes = status.f_bavail * status.f_frsize,
                                   .files = status.f_files - status.f_ffree};
    });
}

}  // namespace ros2s::foreign
