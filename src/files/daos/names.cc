// Names of DaosFileSystem.

#include <algorithm>
#include <chrono>

#include "file_system.h"
#include "ros2s/base/crc32c.h"
#include "ros2s/runtime/nursery.h"
#include "ros2s/runtime/time.h"

namespace ros2s::daos {

using fs::check_name;

namespace {

size_t hash_of(uint64_t number, std::string_view name) {
    return number + crc32c(std::as_bytes(std::span(name)));
}

bool is_below(const Node* node, const Node& above) {
    for (; node != nullptr; node = node->parent) {
        if (node == &above) return true;
    }
    return false;
}

}  // namespace

DaosFileSystem::DaosFileSystem(Connection& connection, std::string container, uint64_t tenant)
    : connection_(connection),
      dfs_(connection.dfs),
      container_(std::move(container)),
      tenant_(tenant),
      nodes_(connection.reactor().secrets().next()),
      moving_directories_(connection.reactor(), 1) {
    for (size_t i = 0; i < locks_; ++i) {
        names_[i] = std::make_unique<Semaphore>(connection.reactor(), 1);
        entries_[i] = std::make_unique<Semaphore>(connection.reactor(), shares);
        sizes_[i] = std::make_unique<Semaphore>(connection.reactor(), shares);
    }
}
DaosFileSystem::~DaosFileSystem() { ROS2S_CHECK(mount_ == nullptr && files_.empty()); }

Result<std::unique_ptr<DaosFileSystem>> DaosFileSystem::mount(Connection& connection,
                                                              const std::string& container,
                                                              uint64_t tenant, Report& report) {
    const auto& options = connection.options();
    std::unique_ptr<DaosFileSystem> self(new DaosFileSystem(connection, container, tenant));
    const Libdfs& dfs = connection.dfs;
    if (const int rc = dfs.daos_cont_open(connection.handle(), container.c_str(), DAOS_COO_RW,
                                          &self->handle_, nullptr, nullptr);
        rc != 0) {
        self->handle_ = {};
        return report.fail(checked_der(rc).error(),
                           "DAOS: the container '{}' of the pool '{}' cannot be opened: {}. List "
                           "the containers: daos container list {}",
                           container, options.pool, describe_der(rc), options.pool);
    }
    const auto no = [&](int rc, std::string_view what) {
        const Error error = checked(rc).error();
        (void)self->unmount();
        return report.fail(
            error, "DAOS: the container '{}' of the pool '{}' {}: {}. It must be one of type POSIX",
            container, options.pool, what, describe(error));
    };
    if (const int rc = dfs.dfs_mount(connection.handle(), self->handle_, O_RDWR, &self->mount_);
        rc != 0) {
        self->mount_ = nullptr;
        return no(rc, "cannot be used as a file system");
    }
    dfs_obj_t* root = nullptr;
    if (const int rc = dfs.dfs_lookup(self->mount_, "/", O_RDWR, &root, nullptr, nullptr);
        rc != 0) {
        return no(rc, "has no root directory");
    }
    auto found = self->found(root);
    if (found) {
        const int rc = dfs.dfs_ostat(self->mount_, found->object->get(), &found->status);
        if (rc != 0) found = fail(checked(rc).error());
    }
    if (!found) return no(to_errno(found.error()), "has no root directory");
    self->nodes_.add(std::move(*found), nullptr, {});
    return self;
}

Result<> DaosFileSystem::unmount() {
    nodes_.clear();
    if (mount_ != nullptr) (void)dfs_.dfs_umount(std::exchange(mount_, nullptr));
    if (daos_handle_is_valid(handle_)) (void)dfs_.daos_cont_close(handle_, nullptr);
    handle_ = {};
    return {};
}

Task<> DaosFileSystem::close_all() {
    const Call call{.tenant = tenant_};
    while (!files_.empty()) (void)co_await close(call, FileHandle{files_.begin()->first});
    (void)co_await connection_.run(call, [this] { return unmount(); });
}

// ---- locks

Task<DaosFileSystem::Locks> DaosFileSystem::lock_names(std::vector<Entry> places) {
    std::vector<size_t> slots;
    for (const Entry& place : places) {
        slots.push_back(hash_of(place.directory.value, place.name) % locks_);
    }
    std::ranges::sort(slots);
    slots.erase(std::ranges::unique(slots).begin(), slots.end());
    Locks locks;
    for (const size_t slot : slots) {
        co_await names_[slot]->acquire();
        locks.acquired(*names_[slot], 1);
    }
    co_return locks;
}

Task<> DaosFileSystem::lock_entries(Locks& locks, NodeId directory, bool removes) {
    Semaphore& semaphore = *entries_[hash_of(directory.value, {}) % locks_];
    const size_t amount = removes ? shares : 1;
    co_await semaphore.acquire(amount);
    locks.acquired(semaphore, amount);
}

Task<> DaosFileSystem::lock_size(Locks& locks, NodeId file, bool changes) {
    Semaphore& semaphore = *sizes_[hash_of(file.value, {}) % locks_];
    const size_t amount = changes ? shares : 1;
    co_await semaphore.acquire(amount);
    locks.acquired(semaphore, amount);
}

// ---- look-ups

Result<FoundNode> DaosFileSystem::found(dfs_obj_t* object) const {
    FoundNode found{.object = std::make_shared<Object>(dfs_, object), .id = {}};
    daos_obj_id_t id{};
    ROS2S_TRY(checked(dfs_.dfs_obj2id(object, &id)));
    found.id = {id.hi, id.lo};
    return found;
}

Result<FoundNode> DaosFileSystem::find(const Object& directory, const std::string& name) const {
    dfs_obj_t* object = nullptr;
    mode_t mode = 0;
    struct stat status{};
    ROS2S_TRY(checked(dfs_.dfs_lookup_rel(mount_, directory.get(), name.c_str(),
                                          O_RDWR | O_NOFOLLOW, &object, &mode, &status)));
    ROS2S_TRY_ASSIGN(FoundNode result, found(object));
    result.status = status;
    return result;
}

Result<NodeUse> DaosFileSystem::use_directory(NodeId id) {
    Node* const node = nodes_.find_any(id);
    if (node == nullptr) return fail(Code::stale);
    if (!S_ISDIR(node->mode)) return fail(Code::not_directory);
    if (node->is_removed) return fail(Code::not_found);
    return NodeUse(nodes_, node);
}

Attributes DaosFileSystem::add_node(FoundNode found, Node& parent, const std::string& name) {
    const struct stat status = found.status;
    return attributes_of(nodes_.add(std::move(found), &parent, name).id, status);
}

Task<Result<Attributes>> DaosFileSystem::lookup(const Call& call, NodeId parent,
                                                std::string_view name) {
    if (name == ".." || name == ".") {
        Node* node = nodes_.find(parent);
        if (node != nullptr && name == ".." && parent != fs::root_node) node = node->parent;
        if (node == nullptr) co_return fail(Code::stale);
        const NodeUse used(nodes_, node);
        ROS2S_CO_TRY_ASSIGN(const Attributes found, co_await get_attributes(call, used->id));
        ++used->references;
        co_return found;
    }
    ROS2S_CO_TRY(check_name(name));
    ROS2S_CO_TRY_ASSIGN(const NodeUse directory, use_directory(parent));
    const ObjectRef above = directory->object;
    const std::string owned(name);
    ROS2S_CO_TRY_ASSIGN(FoundNode found,
                        co_await connection_.run(call, [&] { return find(*above, owned); }));
    co_return add_node(std::move(found), *directory, owned);
}

Task<> DaosFileSystem::lookup_one(DaosFileSystem& self, const Call& call, NodeId parent,
                                  std::string_view name, Result<Attributes>& result) {
    result = co_await self.lookup(call, parent, name);
}

Task<std::vector<Result<Attributes>>> DaosFileSystem::lookup_many(
    const Call& call, NodeId parent, std::span<const std::string_view> names) {
    constexpr size_t lookups_at_once = 32;
    std::vector<Result<Attributes>> results(names.size());
    Nursery nursery(connection_.reactor(), lookups_at_once);
    for (size_t i = 0; i < names.size(); ++i) {
        co_await nursery.spawn(lookup_one(*this, call, parent, names[i], results[i]));
    }
    co_await nursery.join();
    co_return results;
}

// ---- new names

// libdfs gives a new object the ids of this process. This sets the owner's.
Result<FoundNode> DaosFileSystem::make(const Object& directory, const std::string& name,
                                       mode_t mode, const std::string& target, Owner owner) const {
    dfs_obj_t* object = nullptr;
    ROS2S_TRY(checked(dfs_.dfs_open(mount_, directory.get(), name.c_str(), mode,
                                    O_CREAT | O_EXCL | O_RDWR, 0, 0,
                                    S_ISLNK(mode) ? target.c_str() : nullptr, &object)));
    ROS2S_TRY_ASSIGN(FoundNode made, found(object));
    const auto finish = [&]() -> Result<> {
        struct stat status{};
        status.st_mode = mode;
        status.st_uid = owner.uid;
        status.st_gid = owner.gid;
        const int flags =
            DFS_SET_ATTR_UID | DFS_SET_ATTR_GID | (S_ISLNK(mode) ? 0 : DFS_SET_ATTR_MODE);
        ROS2S_TRY(checked(dfs_.dfs_osetattr(mount_, object, &status, flags)));
        return checked(dfs_.dfs_ostat(mount_, object, &made.status));
    };
    if (const auto finished = finish(); !finished) {
        (void)dfs_.dfs_remove(mount_, directory.get(), name.c_str(), false, nullptr);
        return fail(finished.error());
    }
    return made;
}

Task<Result<Attributes>> DaosFileSystem::add(const Call& call, NodeId parent, std::string_view name,
                                             mode_t mode, std::string_view target, Owner owner) {
    ROS2S_CO_TRY(check_first(call));
    ROS2S_CO_TRY(check_name(name));
    if ((mode & S_ISVTX) != 0) co_return fail(Code::unsupported);
    ROS2S_CO_TRY_ASSIGN(const NodeUse directory, use_directory(parent));
    std::string owned(name);
    ROS2S_CO_TRY_ASSIGN(const ThreadTurns::Permit thread, co_await connection_.enter(call));
    Locks locks = co_await lock_names({{.directory = parent, .name = owned}});
    co_await lock_entries(locks, parent, false);
    if (directory->is_removed) co_return fail(Code::not_found);
    // As in POSIX for directories with this bit.
    if ((directory->mode & S_ISGID) != 0) {
        owner.gid = directory->gid;
        if (S_ISDIR(mode)) mode |= S_ISGID;
    }
    const ObjectRef above = directory->object;
    const std::string owned_target(target);
    const Change change(nodes_, parent);
    ROS2S_CO_TRY_ASSIGN(FoundNode made, co_await connection_.run(thread, [&] {
        return make(*above, owned, mode, owned_target, owner);
    }));
    co_return add_node(std::move(made), *directory, owned);
}

Task<Result<Attributes>> DaosFileSystem::mkdir(const Call& call, NodeId parent,
                                               std::string_view name, mode_t mode, Owner owner) {
    return add(call, parent, name, S_IFDIR | (mode & fs::permission_bits), {}, owner);
}

Task<Result<Attributes>> DaosFileSystem::mknod(const Call& call, NodeId parent,
                                               std::string_view name, mode_t mode, dev_t,
                                               Owner owner) {
    if (S_ISFIFO(mode) || S_ISSOCK(mode) || S_ISCHR(mode) || S_ISBLK(mode)) {
        co_return fail(Code::unsupported);
    }
    if (!S_ISREG(mode)) co_return fail(Code::invalid);
    co_return co_await add(call, parent, name, mode, {}, owner);
}

Task<Result<Attributes>> DaosFileSystem::symlink(const Call& call, NodeId parent,
                                                 std::string_view name, std::string_view target,
                                                 Owner owner) {
    ROS2S_CO_TRY(check_name(name));
    if (target.empty()) co_return fail(Code::not_found);
    if (target.size() > fs::link_target_bytes_max) co_return fail(Code::name_too_long);
    if (target.find('\0') != target.npos) co_return fail(Code::invalid);
    co_return co_await add(call, parent, name, S_IFLNK | 0777, target, owner);
}

Task<Result<Attributes>> DaosFileSystem::link(const Call&, NodeId id, NodeId parent,
                                              std::string_view name) {
    ROS2S_CO_TRY(check_name(name));
    const Node* const node = nodes_.find(id);
    if (node == nullptr) co_return fail(Code::stale);
    if (S_ISDIR(node->mode)) co_return fail(Code::denied);
    ROS2S_CO_TRY(use_directory(parent));
    co_return fail(Code::unsupported);
}

Task<Result<std::string>> DaosFileSystem::readlink(const Call& call, NodeId id) {
    const Node* const node = nodes_.find(id);
    if (node == nullptr) co_return fail(Code::stale);
    if (!S_ISLNK(node->mode)) co_return fail(Code::invalid);
    co_return co_await with_object(call, id, [this](const Object& object) -> Result<std::string> {
        std::string target(fs::link_target_bytes_max + 1, '\0');
        daos_size_t bytes = target.size();
        ROS2S_TRY(checked(dfs_.dfs_get_symlink_value(object.get(), target.data(), &bytes)));
        target.resize(::strnlen(target.data(), target.size()));
        return target;
    });
}

// ---- names that go

void DaosFileSystem::removed(const FoundNode& found) {
    if (Node* const node = nodes_.find(found.id); node != nullptr) nodes_.removed(*node);
}

Task<Result<>> DaosFileSystem::remove(const Call& call, NodeId parent, std::string_view name,
                                      bool is_directory) {
    ROS2S_CO_TRY(check_first(call));
    ROS2S_CO_TRY(check_name(name));
    ROS2S_CO_TRY_ASSIGN(const NodeUse directory, use_directory(parent));
    std::string owned(name);
    ROS2S_CO_TRY_ASSIGN(const ThreadTurns::Permit thread, co_await connection_.enter(call));
    Locks locks = co_await lock_names({{.directory = parent, .name = owned}});
    const ObjectRef above = directory->object;
    const Change change(nodes_, parent);
    ROS2S_CO_TRY_ASSIGN(const FoundNode there,
                        co_await connection_.run(thread, [&] { return find(*above, owned); }));
    if (S_ISDIR(there.status.st_mode) != is_directory) {
        co_return fail(is_directory ? Code::not_directory : Code::is_directory);
    }
    if (const Node* const node = nodes_.find(there.id); is_directory && node != nullptr) {
        co_await lock_entries(locks, node->id, true);
    }
    ROS2S_CO_TRY(co_await connection_.run(thread, [&] {
        return checked(dfs_.dfs_remove(mount_, above->get(), owned.c_str(), false, nullptr));
    }));
    removed(there);
    co_return Result<>{};
}

Task<Result<>> DaosFileSystem::unlink(const Call& call, NodeId parent, std::string_view name) {
    return remove(call, parent, name, false);
}

Task<Result<>> DaosFileSystem::rmdir(const Call& call, NodeId parent, std::string_view name) {
    return remove(call, parent, name, true);
}

// ---- names that move

// libdfs would remove any object at the target, and also a name that is moved to itself.
Result<> DaosFileSystem::move(const Object& from, const std::string& name, const FoundNode& moved,
                              const Object& to, const std::string& new_name,
                              const std::optional<FoundNode>& there, RenameFlags flags) const {
    if (flags.exchange) {
        return checked(
            dfs_.dfs_exchange(mount_, from.get(), name.c_str(), to.get(), new_name.c_str()));
    }
    if (there) {
        const bool is_directory = S_ISDIR(moved.status.st_mode);
        if (is_directory && !S_ISDIR(there->status.st_mode)) return fail(Code::not_directory);
        if (!is_directory && S_ISDIR(there->status.st_mode)) return fail(Code::is_directory);
    }
    return checked(
        dfs_.dfs_move(mount_, from.get(), name.c_str(), to.get(), new_name.c_str(), nullptr));
}

// DAOS 2.6 sets the time of modification of what it moves to the present. The time from before is
// set again if the one that is found is from the time of the move, and no host of this DPU changes
// the node meanwhile. A change during the last request would be hidden, so it gets the present.
Task<Result<FoundNode>> DaosFileSystem::find_moved(const ThreadTurns::Permit& thread,
                                                   const Object& directory, const std::string& name,
                                                   const FoundNode& before, ChangeMark mark,
                                                   WallTime begun) {
    ROS2S_CO_TRY_ASSIGN(FoundNode now,
                        co_await connection_.run(thread, [&] { return find(directory, name); }));
    const auto is_same = [&] { return mark == ChangeMark::of(nodes_.find(now.id)); };
    const WallTime modified = to_wall_time(now.status.st_mtim);
    const WallTime was = to_wall_time(before.status.st_mtim);
    const bool is_of_the_move =
        modified != was && modified >= begun && modified <= std::chrono::system_clock::now();
    if (now.id != before.id || !is_of_the_move || !is_same()) co_return now;
    // The move is done, also if this fails.
    const auto set = [&](WallTime time) {
        return connection_.run(thread, [this, &now, time]() -> Result<> {
            struct stat status = now.status;
            status.st_mtim = to_timespec(time);
            ROS2S_TRY(
                checked(dfs_.dfs_osetattr(mount_, now.object->get(), &status, DFS_SET_ATTR_MTIME)));
            now.status = status;
            return {};
        });
    };
    (void)co_await set(was);
    if (!is_same()) (void)co_await set(std::chrono::system_clock::now());
    co_return now;
}

Task<Result<>> DaosFileSystem::rename(const Call& call, NodeId parent, std::string_view name,
                                      NodeId new_parent, std::string_view new_name,
                                      RenameFlags flags) {
    ROS2S_CO_TRY(check_first(call));
    ROS2S_CO_TRY(check_name(name));
    ROS2S_CO_TRY(check_name(new_name));
    if (flags.exchange && (flags.no_replace || flags.whiteout)) co_return fail(Code::invalid);
    if (flags.whiteout) co_return fail(Code::unsupported);
    ROS2S_CO_TRY_ASSIGN(const NodeUse from, use_directory(parent));
    ROS2S_CO_TRY_ASSIGN(const NodeUse to, use_directory(new_parent));
    ROS2S_CO_TRY_ASSIGN(const ThreadTurns::Permit thread, co_await connection_.enter(call));
    // The moved object may be a directory. Without this lock, two moves could form a loop.
    std::optional<SemaphoreHold> moving;
    if (parent != new_parent) {
        co_await moving_directories_.acquire();
        moving.emplace(moving_directories_);
    }
    const std::string owned(name);
    const std::string owned_new(new_name);
    Locks locks = co_await lock_names(
        {{.directory = parent, .name = owned}, {.directory = new_parent, .name = owned_new}});
    const ObjectRef above = from->object;
    const ObjectRef new_above = to->object;
    const Change of_from(nodes_, parent);
    const Change of_to(nodes_, new_parent);
    const ChangeMark mark = ChangeMark::of(nodes_.find(*from, owned));
    const ChangeMark mark_there = ChangeMark::of(nodes_.find(*to, owned_new));
    ROS2S_CO_TRY_ASSIGN(const FoundNode moved,
                        co_await connection_.run(thread, [&] { return find(*above, owned); }));
    auto found_there =
        co_await connection_.run(thread, [&] { return find(*new_above, owned_new); });
    if (!found_there && found_there.error().code != Code::not_found) {
        co_return fail(found_there.error());
    }
    std::optional<FoundNode> there;
    if (found_there) there = std::move(*found_there);
    if (flags.exchange && !there) co_return fail(Code::not_found);
    if (flags.no_replace && there) co_return fail(Code::exists);
    if (there && there->id == moved.id) co_return Result<>{};
    const Node* const moved_node = nodes_.find(moved.id);
    const Node* const there_node = there ? nodes_.find(there->id) : nullptr;
    if (moved_node != nullptr && is_below(&*to, *moved_node)) co_return fail(Code::loop);
    if (there_node != nullptr && is_below(&*from, *there_node)) {
        co_return fail(flags.exchange ? Code::loop : Code::not_empty);
    }
    // The shares of a directory that is replaced, or of the one that gets a name: all or one, in
    // the order of the table.
    const NodeId replaced = there_node != nullptr && !flags.exchange && S_ISDIR(there_node->mode)
                                ? there_node->id
                                : NodeId{};
    if (replaced != NodeId{}) {
        co_await lock_entries(locks, replaced, true);
    } else {
        co_await lock_entries(locks, new_parent, false);
    }
    if (to->is_removed) co_return fail(Code::not_found);
    const WallTime begun = std::chrono::system_clock::now();
    ROS2S_CO_TRY(co_await connection_.run(
        thread, [&] { return move(*above, owned, moved, *new_above, owned_new, there, flags); }));
    if (there && !flags.exchange) removed(*there);
    const auto moved_to = [&](const FoundNode& what, Node& directory, const std::string& place,
                              Result<FoundNode> again) {
        Node* const node = nodes_.find(what.id);
        if (node == nullptr) return;
        if (again && again->id == what.id) {
            nodes_.found_at(*node, std::move(*again), &directory, place);
        } else {
            nodes_.removed(*node);  // another client was faster
        }
    };
    moved_to(moved, *to, owned_new,
             co_await find_moved(thread, *new_above, owned_new, moved, mark, begun));
    if (flags.exchange) {
        moved_to(*there, *from, owned,
                 co_await find_moved(thread, *above, owned, *there, mark_there, begun));
    }
    co_return Result<>{};
}

Task<Result<fs::FileSystemSpace>> DaosFileSystem::space(const Call& call) {
    co_return co_await connection_.run(call, [&]() -> Result<fs::FileSystemSpace> {
        daos_pool_info_t pool{};
        pool.pi_bits = DPI_SPACE;
        ROS2S_TRY(checked_der(
            dfs_.daos_pool_query(connection_.handle(), nullptr, &pool, nullptr, nullptr)));
        fs::FileSystemSpace space;
        for (int media = 0; media < DAOS_MEDIA_MAX; ++media) {
            space.total_bytes += pool.pi_space.ps_space.s_total[media];
            space.free_bytes += pool.pi_space.ps_space.s_free[media];
        }
        return space;
    });
}

}  // namespace ros2s::daos
