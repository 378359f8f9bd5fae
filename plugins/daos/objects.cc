// Opening, finding and releasing objects of libdfs.
#include "objects.h"

#include <algorithm>
#include <cstring>

#include "errors.h"
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

std::string path_in(const Entry& where) {
    if (where.name.empty()) return where.path;
    return (where.path == "/" ? "" : where.path) + "/" + std::string(where.name);
}

}  // namespace

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

int open_node(dfs_t* dfs, const fs::Attributes& attributes, int flags, std::string path,
              std::unique_ptr<dfs_obj_t>& object) {
    auto& fs = dfs->fs();
    object = std::make_unique<dfs_obj_t>();
    object->mount = dfs;
    object->node = attributes.node;
    object->mode = attributes.mode;
    object->flags = flags;
    object->path = std::move(path);
    int rc = 0;
    if (dfs->is_read_only() && (flags & O_ACCMODE) != O_RDONLY) rc = EPERM;
    if (S_ISREG(object->mode)) {
        object->file =
            std::make_unique<ros2s_file>(ros2s_file{.fs = fs,
                                                    .node = object->node,
                                                    .writable = (flags & O_ACCMODE) != O_RDONLY,
                                                    .path = object->path});
        object->file->core.path = object->file->path;
    }
    if (rc == 0) rc = errno_of(fs.run([&] { return open_parts(*object); }));
    if (rc == 0) {
        ++dfs->users;
        return 0;
    }
    (void)fs.run([&] { return give_back(fs, object->node); });
    object.reset();
    return rc;
}

Result<fs::Attributes> attributes_of(const dfs_t& dfs, const Entry& where) {
    auto& fs = dfs.fs();
    return fs.run([&] { return look_up_and_forget(fs, where.directory, where.name); });
}

int lookup_path(dfs_t* dfs, std::string_view path, int flags, dfs_obj_t** out, mode_t* mode,
                struct stat* stbuf) {
    auto& fs = dfs->fs();
    const auto last = (flags & O_NOFOLLOW) != 0 ? fs::LastLink::keep : fs::LastLink::follow;
    const auto found = fs.run([&] { return fs::resolve(fs.file_system(), fs.call, path, last); });
    if (!found) return errno_of(found.error());
    std::unique_ptr<dfs_obj_t> object;
    if (const int rc = open_node(dfs, *found, flags, std::string(path), object); rc != 0) return rc;
    if (mode != nullptr) *mode = found->mode;
    if (stbuf != nullptr) api::c::to_stat(*found, *stbuf);
    *out = object.release();
    return 0;
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
        return lookup_path(dfs, path_in(where), flags, obj, mode, stbuf);
    }
    std::unique_ptr<dfs_obj_t> object;
    if (const int rc = open_node(dfs, *found, flags, path_in(where), object); rc != 0) return rc;
    if (mode != nullptr) *mode = found->mode;
    if (stbuf != nullptr) api::c::to_stat(*found, *stbuf);
    *obj = object.release();
    return 0;
}

namespace ros2s::daos {
namespace {

int open_as(dfs_t* dfs, dfs_obj_t* parent, const char* name, mode_t mode, int flags,
            const char* value, fs::Owner owner, dfs_obj_t** obj) {
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
                              value == nullptr ? "" : value, owner);
    });
    if (!found) return errno_of(found.error());
    if ((found->mode & S_IFMT) != (mode & S_IFMT)) {
        (void)fs.run([&] { return give_back(fs, found->node); });
        return S_ISDIR(mode) ? ENOTDIR : EINVAL;
    }
    // A symbolic link and a directory need no right to be written.
    if (!S_ISREG(mode)) flags = (flags & ~O_ACCMODE) | (dfs->is_read_only() ? O_RDONLY : O_RDWR);
    std::unique_ptr<dfs_obj_t> object;
    if (const int rc = open_node(dfs, *found, flags, path_in(where), object); rc != 0) return rc;
    *obj = object.release();
    return 0;
}

}  // namespace
}  // namespace ros2s::daos

int dfs_open(dfs_t* dfs, dfs_obj_t* parent, const char* name, mode_t mode, int flags,
             daos_oclass_id_t, daos_size_t, const char* value, dfs_obj_t** obj) {
    return open_as(dfs, parent, name, mode, flags, value, owner_of_new(), obj);
}

// Missing attributes and those that do not fit have the size 0.
int dfs_lookupx(dfs_t* dfs, dfs_obj_t* parent, const char* name, int flags, dfs_obj_t** obj,
                mode_t* mode, struct stat* stbuf, int xnr, char* xnames[], void* xvals[],
                daos_size_t* xsizes) {
    if (xnr < 0 || (xnr > 0 && (xnames == nullptr || xvals == nullptr || xsizes == nullptr))) {
        return EINVAL;
    }
    if (const int rc = dfs_lookup_rel(dfs, parent, name, flags, obj, mode, stbuf); rc != 0) {
        return rc;
    }
    for (int i = 0; i < xnr; ++i) {
        const bool has_room = xvals[i] != nullptr && xsizes[i] > 0;
        if (!has_room || dfs_getxattr(dfs, *obj, xnames[i], xvals[i], &xsizes[i]) != 0) {
            xsizes[i] = 0;
        }
    }
    return 0;
}

// For a new file, `stbuf` also has the owner.
int dfs_open_stat(dfs_t* dfs, dfs_obj_t* parent, const char* name, mode_t mode, int flags,
                  daos_oclass_id_t, daos_size_t, const char* value, dfs_obj_t** obj,
                  struct stat* stbuf) {
    auto owner = owner_of_new();
    if (stbuf != nullptr && (flags & O_CREAT) != 0) {
        owner.uid = stbuf->st_uid;
        owner.gid = stbuf->st_gid;
    }
    int rc = open_as(dfs, parent, name, mode, flags, value, owner, obj);
    if (rc != 0 || stbuf == nullptr) return rc;
    rc = dfs_ostat(dfs, *obj, stbuf);
    if (rc != 0) {
        dfs_release(*obj);
        *obj = nullptr;
    }
    return rc;
}

int dfs_dup(dfs_t* dfs, dfs_obj_t* obj, int flags, dfs_obj_t** new_obj) {
    if (const int rc = check(dfs, obj); rc != 0) return rc;
    if (new_obj == nullptr) return EINVAL;
    return lookup_path(dfs, obj->path, (flags != 0 ? flags : obj->flags & O_ACCMODE) | O_NOFOLLOW,
                       new_obj, nullptr, nullptr);
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
    release_mount(dfs);
    return errno_of(done);
}

int dfs_obj2id(dfs_obj_t* obj, daos_obj_id_t* oid) {
    if (obj == nullptr || oid == nullptr) return EINVAL;
    *oid = id_of(*obj->mount, obj->mode, obj->node);
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
    *info = {.doi_oclass_id = class_of(*dfs, obj->mode),
             .doi_chunk_size = DFS_DEFAULT_CHUNK_SIZE,
             .doi_dir_oclass_id = class_of(*dfs, S_IFDIR),
             .doi_file_oclass_id = class_of(*dfs, S_IFREG),
             .doi_oid = id_of(*obj->mount, obj->mode, obj->node)};
    return 0;
}

int dfs_get_chunk_size(dfs_obj_t* obj, daos_size_t* chunk_size) {
    if (obj == nullptr || chunk_size == nullptr || !S_ISREG(obj->mode)) return EINVAL;
    *chunk_size = DFS_DEFAULT_CHUNK_SIZE;
    return 0;
}

int dfs_get_symlink_value(dfs_obj_t* obj, char* buf, daos_size_t* size) {
    if (obj == nullptr || size == nullptr || !S_ISLNK(obj->mode)) return EINVAL;
    const daos_size_t needed = obj->target.size() + 1;
    if (buf != nullptr) std::memcpy(buf, obj->target.c_str(), std::min(*size, needed));
    *size = needed;
    return 0;
}

int dfs_update_parent(dfs_obj_t* obj, dfs_obj_t* src_obj, const char* name) {
    if (obj == nullptr || src_obj == nullptr || obj->mount != src_obj->mount) return EINVAL;
    const auto of = [](const std::string& path) { return path.substr(0, path.rfind('/')); };
    const std::string own = obj->path.substr(obj->path.rfind('/') + 1);
    obj->path = of(src_obj->path) + "/" + (name == nullptr ? own : name);
    return 0;
}

int dfs_update_parentfd(dfs_obj_t* obj, dfs_obj_t* new_parent, const char* name) {
    if (obj == nullptr || new_parent == nullptr || name == nullptr) return EINVAL;
    if (obj->mount != new_parent->mount) return EINVAL;
    obj->path = (new_parent->path == "/" ? "" : new_parent->path) + "/" + name;
    return 0;
}
