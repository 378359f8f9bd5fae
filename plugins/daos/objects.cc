// Opening, finding and releasing objects of libdfs.
#include "objects.h"

#include <algorithm>
#include <cstring>

#include "errors.h"
#include "file_classes.h"
#include "global.h"
#include "ros2s/api/c/owner_of_new.h"
#include "ros2s/fs/path_walk.h"

using namespace ros2s;
using namespace ros2s::daos;

namespace ros2s::daos {
namespace {

using api::c::owner_of_new;

// The part of an object that is created and destroyed on the core.
Task<Result<>> open_file(dfs_obj_t& object) {
    auto& fs = object.mount->fs();
    const bool writes = (object.flags & O_ACCMODE) != O_RDONLY;
    ROS2S_CO_TRY_ASSIGN(
        const auto opened,
        co_await fs.file_system().open(
            fs.call, object.node,
            {.read = true, .write = writes, .truncate = (object.flags & O_TRUNC) != 0 && writes}));
    object.file->core.handle = opened.handle;
    co_return {};
}

Task<Result<>> read_target(dfs_obj_t& object) {
    auto& fs = object.mount->fs();
    ROS2S_CO_TRY_ASSIGN(object.target, co_await fs.file_system().readlink(fs.call, object.node));
    co_return {};
}

Task<Result<>> open_parts(dfs_obj_t& object) {
    if (S_ISREG(object.mode)) return open_file(object);
    if (S_ISLNK(object.mode)) return read_target(object);
    return []() -> Task<Result<>> { co_return {}; }();
}

void forget(ros2s_fs& fs, fs::NodeId node) {
    if (node != fs::root_node) fs.file_system().forget(node, 1);
}

Task<Result<>> give_back(ros2s_fs& fs, fs::NodeId node) {
    forget(fs, node);
    co_return {};
}

Task<Result<>> release(dfs_obj_t& object) {
    auto& fs = object.mount->fs();
    Result<> closed;
    if (object.file != nullptr) {
        fs.instance().take_submitted();
        if (object.file->core.requests > 0) co_return fail(Code::busy);
        closed = co_await fs.file_system().close(fs.call, object.file->core.handle);
    }
    if (object.listing.value != 0) {
        closed = co_await fs.file_system().close(fs.call, object.listing);
    }
    forget(fs, object.node);
    co_return closed;
}

Task<Result<fs::Attributes>> look_up(ros2s_fs& fs, fs::NodeId directory, std::string_view name) {
    return name.empty() ? fs.file_system().get_attributes(fs.call, directory)
                        : fs.file_system().lookup(fs.call, directory, name);
}

Task<Result<fs::Attributes>> look_up_and_forget(ros2s_fs& fs, fs::NodeId directory,
                                                std::string_view name) {
    const auto found = co_await look_up(fs, directory, name);
    if (found && !name.empty()) forget(fs, found->node);
    co_return found;
}

// Creates or finds the node for dfs_open(). The node counts as looked up.
Task<Result<fs::Attributes>> create(ros2s_fs& fs, fs::NodeId directory, std::string_view name,
                                    mode_t mode, std::string_view target, fs::Owner owner) {
    const mode_t permissions = mode & fs::permission_bits;
    if (S_ISDIR(mode)) {
        return fs.file_system().mkdir(fs.call, directory, name, permissions, owner);
    }
    if (S_ISLNK(mode)) {
        return fs.file_system().symlink(fs.call, directory, name, target, owner);
    }
    return fs.file_system().mknod(fs.call, directory, name, S_IFREG | permissions, 0, owner);
}

Task<Result<fs::Attributes>> find_or_create(ros2s_fs& fs, fs::NodeId directory,
                                            std::string_view name, mode_t mode, int flags,
                                            std::string_view target, fs::Owner owner) {
    if ((flags & O_CREAT) == 0) co_return co_await look_up(fs, directory, name);
    const auto created = co_await create(fs, directory, name, mode, target, owner);
    const bool is_there = !created && created.error().code == Code::exists;
    if (!is_there || (flags & O_EXCL) != 0) co_return created;
    co_return co_await look_up(fs, directory, name);
}

// The node at a path, through symbolic links. It does not count as looked up.
Task<Result<fs::Attributes>> follow(ros2s_fs& fs, std::string path) {
    const auto found = co_await fs::resolve(fs.file_system(), fs.call, path, fs::LastLink::follow);
    if (found) forget(fs, found->node);
    co_return found;
}

// An open object for a node that counts as looked up once; it takes over that reference, also on
// failure. Errors: an errno.
int open_node(dfs_t* dfs, const fs::Attributes& attributes, int flags, std::string path,
              dfs_obj_t** out) {
    auto& fs = dfs->fs();
    auto object = std::make_unique<dfs_obj_t>();
    object->mount = dfs;
    object->node = attributes.node;
    object->mode = attributes.mode;
    object->flags = flags;
    object->path = std::move(path);
    const bool writes = (flags & O_ACCMODE) != O_RDONLY;
    if (S_ISREG(object->mode)) {
        object->file = std::make_unique<ros2s_file>(ros2s_file{
            .fs = fs, .node = object->node, .flags = {.write = writes}, .path = object->path});
        object->file->core.path = object->file->path;
    }
    int rc = dfs->is_read_only() && writes ? EPERM : 0;
    if (rc == 0) rc = errno_of(fs.run([&] { return open_parts(*object); }));
    if (rc != 0) {
        (void)fs.run([&] { return give_back(fs, object->node); });
        return rc;
    }
    ++dfs->users;
    *out = object.release();
    return 0;
}

int open_found(dfs_t* dfs, const fs::Attributes& found, int flags, std::string path,
               dfs_obj_t** object, mode_t* mode, struct stat* stbuf) {
    if (const int rc = open_node(dfs, found, flags, std::move(path), object); rc != 0) return rc;
    if (mode != nullptr) *mode = found.mode;
    if (stbuf != nullptr) api::c::to_stat(found, *stbuf);
    return 0;
}

int lookup_path(dfs_t* dfs, std::string_view path, int flags, dfs_obj_t** object, mode_t* mode,
                struct stat* stbuf) {
    auto& fs = dfs->fs();
    const auto last = (flags & O_NOFOLLOW) != 0 ? fs::LastLink::keep : fs::LastLink::follow;
    const auto found = fs.run([&] { return fs::resolve(fs.file_system(), fs.call, path, last); });
    if (!found) return errno_of(found.error());
    return open_found(dfs, *found, flags, std::string(path), object, mode, stbuf);
}

}  // namespace

int check(const dfs_t* dfs, const dfs_obj_t* object) noexcept {
    if (object == nullptr || object->mount != dfs) return EINVAL;
    return check(dfs);
}

std::string Entry::whole_path() const {
    if (name.empty()) return path;
    return (path == "/" ? "" : path) + "/" + std::string(name);
}

int entry_of(const dfs_t* dfs, const dfs_obj_t* parent, const char* name, Entry& where) {
    if (const int rc = check(dfs); rc != 0) return rc;
    if (parent != nullptr) {
        if (parent->mount != dfs) return EINVAL;
        if (!S_ISDIR(parent->mode)) return ENOTDIR;
        where.directory = parent->node;
    }
    where.path = parent == nullptr ? "/" : parent->path;
    if (name == nullptr || std::strcmp(name, "/") == 0) return 0;
    where.name = name;
    if (where.name.size() > fs::name_bytes_max) return ENAMETOOLONG;
    return fs::check_name(where.name) ? 0 : EINVAL;
}

int changeable_entry_of(const dfs_t* dfs, const dfs_obj_t* parent, const char* name, Entry& where) {
    if (const int rc = entry_of(dfs, parent, name, where); rc != 0) return rc;
    return check_writable(dfs);
}

Result<fs::Attributes> attributes_of(const dfs_t& dfs, const Entry& where, bool follows) {
    auto& fs = dfs.fs();
    auto found = fs.run([&] { return look_up_and_forget(fs, where.directory, where.name); });
    if (!follows || !found || !S_ISLNK(found->mode)) return found;
    return fs.run([&] { return follow(fs, where.whole_path()); });
}

}  // namespace ros2s::daos

int dfs_lookup(dfs_t* dfs, const char* path, int flags, dfs_obj_t** obj, mode_t* mode,
               struct stat* stbuf) {
    if (const int rc = check(dfs); rc != 0) return rc;
    if (path == nullptr || path[0] != '/' || obj == nullptr) return EINVAL;
    *obj = nullptr;
    if ((flags & O_APPEND) != 0) return ENOTSUP;
    std::string_view rest = path;
    if (!dfs->prefix.empty()) {
        if (!rest.starts_with(dfs->prefix)) return EINVAL;
        rest.remove_prefix(dfs->prefix.size());
        if (rest.empty()) rest = "/";
        if (rest.front() != '/') return EINVAL;
    }
    return lookup_path(dfs, rest, flags, obj, mode, stbuf);
}

int dfs_lookup_rel(dfs_t* dfs, dfs_obj_t* parent, const char* name, int flags, dfs_obj_t** obj,
                   mode_t* mode, struct stat* stbuf) {
    Entry where;
    if (const int rc = entry_of(dfs, parent, name, where); rc != 0) return rc;
    if (obj == nullptr) return EINVAL;
    *obj = nullptr;
    if ((flags & O_APPEND) != 0) return ENOTSUP;
    auto& fs = dfs->fs();
    const auto found = fs.run([&] { return look_up(fs, where.directory, where.name); });
    if (!found) return errno_of(found.error());
    if (S_ISLNK(found->mode) && (flags & O_NOFOLLOW) == 0) {
        (void)fs.run([&] { return give_back(fs, found->node); });
        return lookup_path(dfs, where.whole_path(), flags, obj, mode, stbuf);
    }
    return open_found(dfs, *found, flags, where.whole_path(), obj, mode, stbuf);
}

int dfs_open(dfs_t* dfs, dfs_obj_t* parent, const char* name, mode_t mode, int flags,
             daos_oclass_id_t, daos_size_t, const char* value, dfs_obj_t** obj) {
    Entry where;
    if (const int rc = entry_of(dfs, parent, name, where); rc != 0) return rc;
    if (obj == nullptr || where.name.empty()) return EINVAL;
    // Programs release even the result of a failed call, so it is set to null.
    *obj = nullptr;
    if ((flags & O_APPEND) != 0) return ENOTSUP;
    if ((flags & O_CREAT) != 0) {
        if (const int rc = check_writable(dfs); rc != 0) return rc;
        if (!S_ISREG(mode) && !S_ISDIR(mode) && !S_ISLNK(mode)) return EINVAL;
        if (S_ISLNK(mode) && value == nullptr) return EINVAL;
    }
    auto& fs = dfs->fs();
    const auto found = fs.run([&] {
        return find_or_create(fs, where.directory, where.name, mode, flags,
                              value == nullptr ? "" : value, owner_of_new());
    });
    if (!found) return errno_of(found.error());
    if ((found->mode & S_IFMT) != (mode & S_IFMT)) {
        (void)fs.run([&] { return give_back(fs, found->node); });
        return S_ISDIR(mode) ? ENOTDIR : EINVAL;
    }
    // A symbolic link and a directory need no right to be written.
    if (!S_ISREG(mode)) flags = (flags & ~O_ACCMODE) | (dfs->is_read_only() ? O_RDONLY : O_RDWR);
    return open_node(dfs, *found, flags, where.whole_path(), obj);
}

int dfs_obj_local2global(dfs_t* dfs, dfs_obj_t* obj, d_iov_t* glob) {
    if (const int rc = check(dfs, obj); rc != 0) return rc;
    return errno_of_der(write_global(glob, {obj->path, std::to_string(obj->flags & O_ACCMODE)}));
}

int dfs_obj_global2local(dfs_t* dfs, int flags, d_iov_t glob, dfs_obj_t** obj) {
    if (const int rc = check(dfs); rc != 0) return rc;
    const auto parts = read_global(glob, 2);
    if (obj == nullptr || parts.empty() || !parts[0].starts_with('/')) return EINVAL;
    const int access = flags != 0 ? flags : static_cast<int>(parse_number(parts[1])) & O_ACCMODE;
    return lookup_path(dfs, parts[0], access | O_NOFOLLOW, obj, nullptr, nullptr);
}

int dfs_release(dfs_obj_t* obj) {
    if (obj == nullptr) return EINVAL;
    auto* const dfs = obj->mount;
    if (dfs->fs().mark.in_forked_child()) return EBADF;
    const auto done = dfs->fs().run([&] { return release(*obj); });
    if (!done && done.error().code == Code::busy) return EBUSY;
    delete obj;
    drop_user(dfs);
    return errno_of(done);
}

int dfs_obj2id(dfs_obj_t* obj, daos_obj_id_t* oid) {
    if (obj == nullptr || oid == nullptr) return EINVAL;
    *oid = id_of(obj->mount->settings, obj->mode, obj->node);
    return 0;
}

int dfs_get_mode(dfs_obj_t* obj, mode_t* mode) {
    if (obj == nullptr || mode == nullptr) return EINVAL;
    *mode = obj->mode;
    return 0;
}

int dfs_obj_get_info(dfs_t* dfs, dfs_obj_t* obj, dfs_obj_info_t* info) {
    if (const int rc = check(dfs, obj); rc != 0) return rc;
    if (info == nullptr) return EINVAL;
    const auto& settings = dfs->settings;
    *info = {.doi_oclass_id = class_of(settings, obj->mode),
             .doi_chunk_size = DFS_DEFAULT_CHUNK_SIZE,
             .doi_dir_oclass_id = class_of(settings, S_IFDIR),
             .doi_file_oclass_id = class_of(settings, S_IFREG),
             .doi_oid = id_of(settings, obj->mode, obj->node)};
    return 0;
}

int dfs_get_symlink_value(dfs_obj_t* obj, char* buf, daos_size_t* size) {
    if (obj == nullptr || size == nullptr || !S_ISLNK(obj->mode)) return EINVAL;
    const daos_size_t needed = obj->target.size() + 1;
    if (buf != nullptr) std::memcpy(buf, obj->target.c_str(), std::min(*size, needed));
    *size = needed;
    return 0;
}
