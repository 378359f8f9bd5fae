// Attributes of DaosFileSystem, and extended attributes.
#include <sys/xattr.h>

#include "file_system.h"
#include "ros2s/fs/acl.h"
#include "ros2s/runtime/time.h"

namespace ros2s::daos {
namespace {

// As in Linux, a name belongs to one of four namespaces. Nothing here respects access lists.
Result<> check_xattr(std::string_view name) {
    if (fs::is_acl(name)) return fail(Code::unsupported);
    for (const std::string_view space : {"user.", "trusted.", "security.", "system."}) {
        if (!name.starts_with(space)) continue;
        if (name == space) return fail(Code::invalid);
        return name.size() <= DFS_MAX_XATTR_NAME ? Result<>() : fail_errno(ERANGE);
    }
    return fail(Code::unsupported);
}

}  // namespace

Result<std::string> read_xattr(const Libdfs& dfs, dfs_t* mount, dfs_obj_t* object,
                               const std::string& name) {
    std::string value(fs::attribute_value_bytes_max, '\0');
    daos_size_t bytes = value.size();
    ROS2S_TRY(checked(dfs.dfs_getxattr(mount, object, name.c_str(), value.data(), &bytes)));
    if (bytes > value.size()) return fail(Code::too_large, value.size());
    value.resize(bytes);
    return value;
}

Result<struct stat> DaosFileSystem::change(const Object& object, fs::SetAttributes changes) const {
    struct stat status{};
    ROS2S_TRY(checked(dfs_.dfs_ostat(mount_, object.get(), &status)));
    const mode_t type = status.st_mode & S_IFMT;
    if (changes.size) {
        if (S_ISDIR(type)) return fail(Code::is_directory);
        if (!S_ISREG(type)) return fail(Code::invalid);
        if (*changes.size > INT64_MAX) return fail(Code::too_large, INT64_MAX);
    }
    if (changes.mode && S_ISLNK(type)) return fail(Code::unsupported);
    // The sticky bit, which other clients cannot set either.
    if (changes.mode && (*changes.mode & S_ISVTX) != 0) return fail(Code::unsupported);
    const auto chunk = static_cast<uint64_t>(status.st_blksize);
    if (changes.size && chunk > 1 && *changes.size % chunk == 1 &&
        *changes.size < static_cast<uint64_t>(status.st_size)) {
        ROS2S_TRY(keep_first_byte(object, *changes.size));
        ROS2S_TRY(checked(dfs_.dfs_ostat(mount_, object.get(), &status)));
        changes.size.reset();
    }
    const bool drops_set_ids = (changes.uid || changes.gid || changes.clears_set_ids) &&
                               !changes.mode && S_ISREG(type) &&
                               (status.st_mode & (S_ISUID | S_ISGID)) != 0;
    int flags = 0;
    if (changes.mode || drops_set_ids) {
        flags |= DFS_SET_ATTR_MODE;
        status.st_mode = changes.mode ? type | (*changes.mode & fs::permission_bits)
                                      : status.st_mode & ~mode_t{S_ISUID | S_ISGID};
    }
    if (changes.uid) {
        flags |= DFS_SET_ATTR_UID;
        status.st_uid = *changes.uid;
    }
    if (changes.gid) {
        flags |= DFS_SET_ATTR_GID;
        status.st_gid = *changes.gid;
    }
    if (changes.modified) {
        flags |= DFS_SET_ATTR_MTIME;
        status.st_mtim = to_timespec(*changes.modified);
    }
    if (changes.size) {
        flags |= DFS_SET_ATTR_SIZE;
        status.st_size = static_cast<off_t>(*changes.size);
    }
    // DAOS does not keep the time of access.
    if (flags == 0) return status;
    ROS2S_TRY(checked(dfs_.dfs_osetattr(mount_, object.get(), &status, flags)));
    ROS2S_TRY(checked(dfs_.dfs_ostat(mount_, object.get(), &status)));
    return status;
}

// DAOS 2.6.5 does not truncate a chunk to one byte, and zeroes that byte. Here the whole chunk is
// removed, and the byte is written again.
Result<> DaosFileSystem::keep_first_byte(const Object& object, uint64_t size) const {
    char byte = 0;
    d_iov_t range{.iov_buf = &byte, .iov_buf_len = 1, .iov_len = 1};
    d_sg_list_t list{.sg_nr = 1, .sg_nr_out = 0, .sg_iovs = &range};
    daos_size_t bytes = 0;
    ROS2S_TRY(checked(dfs_.dfs_read(mount_, object.get(), &list, size - 1, &bytes, nullptr)));
    ROS2S_TRY(checked(dfs_.dfs_punch(mount_, object.get(), size - 1, DFS_MAX_FSIZE)));
    range.iov_len = 1;
    return checked(dfs_.dfs_write(mount_, object.get(), &list, size - 1, nullptr));
}

// libdfs has no error of its own for an attribute that is not there.
Result<> DaosFileSystem::checked_xattr(const Object& object, int rc) const {
    struct stat status{};
    const bool is_there = rc == ENOENT && dfs_.dfs_ostat(mount_, object.get(), &status) == 0;
    return is_there ? fail(Code::no_attribute) : checked(rc);
}

Task<Result<Attributes>> DaosFileSystem::get_attributes(const Call& call, NodeId id) {
    ROS2S_CO_TRY_ASSIGN(
        const auto status,
        co_await with_object(call, id, [this](const Object& object) -> Result<struct stat> {
            struct stat found{};
            ROS2S_TRY(checked(dfs_.dfs_ostat(mount_, object.get(), &found)));
            return found;
        }));
    co_return attributes_of(id, status);
}

Task<Result<Attributes>> DaosFileSystem::set_attributes(const Call& call, NodeId id,
                                                        const fs::SetAttributes& changes) {
    if (changes.flags) co_return fail(Code::unsupported);
    ROS2S_CO_TRY_ASSIGN(const ThreadTurns::Permit thread, co_await connection_.enter(call));
    Locks locks;
    if (changes.size) co_await lock_size(locks, id, true);
    const Change this_change(nodes_, id);
    ROS2S_CO_TRY_ASSIGN(const auto status,
                        co_await with_object(thread, id, [&](const Object& object) {
                            return change(object, changes);
                        }));
    if (Node* const node = nodes_.find(id); node != nullptr) {
        node->mode = status.st_mode;
        node->gid = status.st_gid;
    }
    co_return attributes_of(id, status);
}

Task<Result<std::string>> DaosFileSystem::get_xattr(const Call& call, NodeId id,
                                                    std::string_view name) {
    const std::string owned(name);
    return with_object(call, id, [this, owned](const Object& object) -> Result<std::string> {
        if (fs::is_acl(owned)) return fail(Code::unsupported);
        return read_xattr(dfs_, mount_, object.get(), owned);
    });
}

Task<Result<>> DaosFileSystem::set_xattr(const Call& call, NodeId id, std::string_view name,
                                         ConstBytes value, fs::SetXattr how) {
    ROS2S_CO_TRY(check_first(call));
    ROS2S_CO_TRY(check_xattr(name));
    if (value.size() > DFS_MAX_XATTR_LEN) co_return fail(Code::too_large, DFS_MAX_XATTR_LEN);
    const std::string owned(name);
    const int flags = how == fs::SetXattr::create    ? XATTR_CREATE
                      : how == fs::SetXattr::replace ? XATTR_REPLACE
                                                     : 0;
    co_return co_await with_object(call, id, [&](const Object& object) {
        // libdfs creates and replaces whatever the flags say.
        if (how != fs::SetXattr::any) {
            daos_size_t bytes = 0;
            const int found =
                dfs_.dfs_getxattr(mount_, object.get(), owned.c_str(), nullptr, &bytes);
            if (how == fs::SetXattr::create && found == 0) return Result<>(fail(Code::exists));
            if (how == fs::SetXattr::replace && found != 0) return checked_xattr(object, found);
        }
        return checked_xattr(object, dfs_.dfs_setxattr(mount_, object.get(), owned.c_str(),
                                                       value.data(), value.size(), flags));
    });
}

Task<Result<>> DaosFileSystem::remove_xattr(const Call& call, NodeId id, std::string_view name) {
    ROS2S_CO_TRY(check_first(call));
    const std::string owned(name);
    co_return co_await with_object(call, id, [&](const Object& object) {
        return checked_xattr(object, dfs_.dfs_removexattr(mount_, object.get(), owned.c_str()));
    });
}

Task<Result<std::vector<std::string>>> DaosFileSystem::list_xattrs(const Call& call, NodeId id) {
    return with_object(call, id, [this](const Object& object) -> Result<std::vector<std::string>> {
        std::string buffer(fs::xattr_list_bytes_max, '\0');
        daos_size_t bytes = buffer.size();
        ROS2S_TRY(checked(dfs_.dfs_listxattr(mount_, object.get(), buffer.data(), &bytes)));
        if (bytes > buffer.size()) return fail(Code::too_large, buffer.size());
        std::vector<std::string> names;
        for (size_t at = 0; at < bytes; at += names.back().size() + 1) {
            names.emplace_back(buffer.c_str() + at);
        }
        return names;
    });
}

}  // namespace ros2s::daos
