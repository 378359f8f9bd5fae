// Attributes of files, directories and symbolic links.
#include <sys/xattr.h>

#include <cstring>

#include "objects.h"
#include "ros2s/runtime/time.h"

using namespace ros2s;
using namespace ros2s::daos;

namespace ros2s::daos {
namespace {

// libdfs accepts any name. Names here need a namespace: a name without one gets this one, and is
// shown without it. Names in "system." have a meaning, and are the file system's.
constexpr std::string_view own_space = "user.dfs:";

std::string stored_name(const char* name) {
    const std::string_view text = name;
    for (const std::string_view space : {"user.", "trusted.", "security.", "system."}) {
        if (text.starts_with(space)) return std::string(text);
    }
    return std::string(own_space) + name;
}

std::string shown_name(const std::string& stored) {
    return stored.starts_with(own_space) ? stored.substr(own_space.size()) : stored;
}

// Whether the process's user has the rights in `mask`. As in libdfs, any applicable right of the
// owner, the group or others is enough, and root has no additional rights.
bool allows(const fs::Attributes& node, int mask) {
    mode_t granted = node.mode & S_IRWXO;
    if (node.uid == ::geteuid()) granted |= (node.mode & S_IRWXU) >> 6;
    if (node.gid == ::getegid()) granted |= (node.mode & S_IRWXG) >> 3;
    return (static_cast<mode_t>(mask) & ~granted) == 0;
}

}  // namespace
}  // namespace ros2s::daos

int dfs_stat(dfs_t* dfs, dfs_obj_t* parent, const char* name, struct stat* stbuf) {
    Entry where;
    if (const int rc = entry_of(dfs, parent, name, where); rc != 0) return rc;
    if (stbuf == nullptr) return EINVAL;
    const auto found = attributes_of(*dfs, where);
    if (!found) return errno_of(found.error());
    api::c::to_stat(*found, *stbuf);
    return 0;
}

int dfs_ostat(dfs_t* dfs, dfs_obj_t* obj, struct stat* stbuf) {
    if (const int rc = check(dfs, obj); rc != 0) return rc;
    if (stbuf == nullptr) return EINVAL;
    auto& fs = dfs->fs();
    const auto got = fs.run([&] { return fs.file_system().get_attributes(fs.call, obj->node); });
    if (!got) return errno_of(got.error());
    // As libdfs, which looks up the name: a removed file is not found, even if it is open.
    if (got->links == 0) return ENOENT;
    api::c::to_stat(*got, *stbuf);
    return 0;
}

int dfs_osetattr(dfs_t* dfs, dfs_obj_t* obj, struct stat* stbuf, int flags) {
    if (const int rc = check(dfs, obj); rc != 0) return rc;
    if (const int rc = check_writable(dfs); rc != 0) return rc;
    if (stbuf == nullptr) return EINVAL;
    fs::SetAttributes changes;
    if ((flags & DFS_SET_ATTR_MODE) != 0) changes.mode = stbuf->st_mode & fs::permission_bits;
    if ((flags & DFS_SET_ATTR_UID) != 0) changes.uid = stbuf->st_uid;
    if ((flags & DFS_SET_ATTR_GID) != 0) changes.gid = stbuf->st_gid;
    if ((flags & DFS_SET_ATTR_ATIME) != 0) changes.accessed = to_wall_time(stbuf->st_atim);
    if ((flags & DFS_SET_ATTR_MTIME) != 0) changes.modified = to_wall_time(stbuf->st_mtim);
    if ((flags & DFS_SET_ATTR_SIZE) != 0) {
        if (!S_ISREG(obj->mode)) return EIO;
        changes.size = static_cast<uint64_t>(stbuf->st_size);
    }
    if (const int rc = set_attributes(dfs->fs(), obj->node, changes); rc != 0) return rc;
    return dfs_ostat(dfs, obj, stbuf);
}

int dfs_access(dfs_t* dfs, dfs_obj_t* parent, const char* name, int mask) {
    Entry where;
    if (const int rc = entry_of(dfs, parent, name, where); rc != 0) return rc;
    if ((mask & W_OK) != 0) {
        if (const int rc = check_writable(dfs); rc != 0) return rc;
    }
    const auto found = attributes_of(*dfs, where, true);
    if (!found) return errno_of(found.error());
    return mask == F_OK || allows(*found, mask) ? 0 : EACCES;
}

// ---- extended attributes

int dfs_setxattr(dfs_t* dfs, dfs_obj_t* obj, const char* name, const void* value, daos_size_t size,
                 int flags) {
    if (const int rc = check(dfs, obj); rc != 0) return rc;
    if (const int rc = check_writable(dfs); rc != 0) return rc;
    if (name == nullptr || (value == nullptr && size > 0)) return EINVAL;
    const auto how = (flags & XATTR_CREATE) != 0    ? fs::SetXattr::create
                     : (flags & XATTR_REPLACE) != 0 ? fs::SetXattr::replace
                                                    : fs::SetXattr::any;
    auto& fs = dfs->fs();
    const ConstBytes bytes(static_cast<const std::byte*>(value), size);
    const std::string stored = stored_name(name);
    return errno_of(
        fs.run([&] { return fs.file_system().set_xattr(fs.call, obj->node, stored, bytes, how); }));
}

int dfs_getxattr(dfs_t* dfs, dfs_obj_t* obj, const char* name, void* value, daos_size_t* size) {
    if (const int rc = check(dfs, obj); rc != 0) return rc;
    if (name == nullptr || size == nullptr) return EINVAL;
    auto& fs = dfs->fs();
    const std::string stored = stored_name(name);
    const auto got = fs.run([&] { return fs.file_system().get_xattr(fs.call, obj->node, stored); });
    if (!got) return errno_of(got.error());
    const daos_size_t room = value == nullptr ? 0 : *size;
    *size = got->size();
    if (room == 0) return 0;
    if (room < got->size()) return ERANGE;
    std::memcpy(value, got->data(), got->size());
    return 0;
}

int dfs_removexattr(dfs_t* dfs, dfs_obj_t* obj, const char* name) {
    if (const int rc = check(dfs, obj); rc != 0) return rc;
    if (const int rc = check_writable(dfs); rc != 0) return rc;
    if (name == nullptr) return EINVAL;
    auto& fs = dfs->fs();
    const std::string stored = stored_name(name);
    return errno_of(
        fs.run([&] { return fs.file_system().remove_xattr(fs.call, obj->node, stored); }));
}

// As libdfs: returns the names that fit, and the total size.
int dfs_listxattr(dfs_t* dfs, dfs_obj_t* obj, char* list, daos_size_t* size) {
    if (const int rc = check(dfs, obj); rc != 0) return rc;
    if (size == nullptr) return EINVAL;
    auto& fs = dfs->fs();
    const auto names = fs.run([&] { return fs.file_system().list_xattrs(fs.call, obj->node); });
    if (!names) return errno_of(names.error());
    const daos_size_t room = list == nullptr ? 0 : *size;
    daos_size_t total = 0;
    for (const auto& each : *names) {
        const std::string name = shown_name(each);
        const daos_size_t bytes = name.size() + 1;
        if (total + bytes <= room) std::memcpy(list + total, name.c_str(), bytes);
        total += bytes;
    }
    *size = total;
    return 0;
}
