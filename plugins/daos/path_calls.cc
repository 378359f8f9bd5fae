// dfs_sys_*: the calls of libdfs by path instead of by directory and name. Each looks its directory
// up: nothing is cached, so that a renamed directory is never mistaken for another.
#include <climits>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "daos_fs_sys.h"
#include "transfers.h"

using namespace ros2s;
using namespace ros2s::daos;

struct dfs_sys {
    dfs_t* mount = nullptr;
};

namespace ros2s::daos {
namespace {

// How many entries of a directory are read together.
constexpr uint32_t entries_together = 64;

struct Listing {
    dfs_obj_t* directory = nullptr;
    daos_anchor_t anchor{};
    std::vector<struct dirent> entries;
    uint32_t count = 0;  // of them
    uint32_t next = 0;
};

// The last name of a path, and its directory, which is open for the lifetime of this object.
class ParentAndName {
  public:
    ParentAndName(const dfs_sys_t* sys, const char* path) { error_ = find(sys, path); }
    ParentAndName& operator=(ParentAndName&&) = delete;
    ~ParentAndName() {
        if (directory_ != nullptr) dfs_release(directory_);
    }
    // 0, or an errno. The other members are valid if it is 0.
    [[nodiscard]] int error() const { return error_; }
    [[nodiscard]] bool is_root() const { return name_.empty(); }
    [[nodiscard]] dfs_t* mount() const { return mount_; }
    [[nodiscard]] dfs_obj_t* directory() const { return directory_; }
    // Null for the root.
    [[nodiscard]] const char* name() const { return is_root() ? nullptr : name_.c_str(); }

    // Opens the object, which may be the root.
    int open(int flags, dfs_obj_t** object) const {
        return dfs_lookup_rel(mount_, directory_, name(), flags, object, nullptr, nullptr);
    }

  private:
    int find(const dfs_sys_t* sys, const char* path) {
        if (sys == nullptr || path == nullptr || path[0] != '/') return EINVAL;
        mount_ = sys->mount;
        std::string_view rest = path;
        if (rest.size() >= PATH_MAX) return ENAMETOOLONG;
        while (rest.ends_with('/')) rest.remove_suffix(1);
        const auto last = rest.rfind('/');
        if (last != std::string_view::npos) name_ = rest.substr(last + 1);
        rest = rest.substr(0, last == std::string_view::npos ? 0 : last);
        mode_t mode = 0;
        const std::string directory = rest.empty() ? "/" : std::string(rest);
        const int rc = dfs_lookup(mount_, directory.c_str(), O_RDONLY, &directory_, &mode, nullptr);
        if (rc != 0) return rc;
        return S_ISDIR(mode) ? 0 : ENOTDIR;
    }

    int error_ = 0;
    dfs_t* mount_ = nullptr;
    dfs_obj_t* directory_ = nullptr;
    std::string name_;
};

Listing& listing_of(DIR* directory) { return *reinterpret_cast<Listing*>(directory); }

}  // namespace
}  // namespace ros2s::daos

int dfs_sys_mount(daos_handle_t poh, daos_handle_t coh, int mflags, int, dfs_sys_t** dfs_sys) {
    if (dfs_sys == nullptr) return EINVAL;
    auto made = std::make_unique<dfs_sys_t>();
    if (const int rc = dfs_mount(poh, coh, mflags, &made->mount); rc != 0) return rc;
    *dfs_sys = made.release();
    return 0;
}

int dfs_sys_umount(dfs_sys_t* dfs_sys) {
    if (dfs_sys == nullptr) return EINVAL;
    if (const int rc = dfs_umount(dfs_sys->mount); rc != 0) return rc;
    delete dfs_sys;
    return 0;
}

// ---- attributes

int dfs_sys_chmod(dfs_sys_t* dfs_sys, const char* path, mode_t mode) {
    const ParentAndName at(dfs_sys, path);
    if (at.error() != 0) return at.error();
    if ((mode & S_ISVTX) != 0) return ENOTSUP;
    Entry where;
    const int rc = changeable_entry_of(at.mount(), at.directory(), at.name(), where);
    if (rc != 0) return rc;
    const auto found = attributes_of(*at.mount(), where, true);
    if (!found) return errno_of(found.error());
    const mode_t type = mode & S_IFMT;
    if (type != 0 && type != (found->mode & S_IFMT)) return EINVAL;
    return set_attributes(at.mount()->fs(), found->node, {.mode = mode & fs::permission_bits});
}

int dfs_sys_stat(dfs_sys_t* dfs_sys, const char* path, int flags, struct stat* stbuf) {
    if (stbuf == nullptr) return EINVAL;
    const ParentAndName at(dfs_sys, path);
    if (at.error() != 0) return at.error();
    const int rc = dfs_stat(at.mount(), at.directory(), at.name(), stbuf);
    if (rc != 0 || !S_ISLNK(stbuf->st_mode) || (flags & O_NOFOLLOW) != 0) return rc;
    dfs_obj_t* object = nullptr;
    const int found =
        dfs_lookup_rel(at.mount(), at.directory(), at.name(), O_RDONLY, &object, nullptr, stbuf);
    if (found == 0) dfs_release(object);
    return found;
}

// ---- names

int dfs_sys_mkdir(dfs_sys_t* dfs_sys, const char* dir, mode_t mode, daos_oclass_id_t cid) {
    const ParentAndName at(dfs_sys, dir);
    if (at.error() != 0) return at.error();
    return at.is_root() ? EEXIST : dfs_mkdir(at.mount(), at.directory(), at.name(), mode, cid);
}

int dfs_sys_symlink(dfs_sys_t* dfs_sys, const char* target, const char* path) {
    const ParentAndName at(dfs_sys, path);
    if (at.error() != 0) return at.error();
    if (at.is_root()) return EEXIST;
    dfs_obj_t* object = nullptr;
    const int rc = dfs_open(at.mount(), at.directory(), at.name(), S_IFLNK | 0777,
                            O_CREAT | O_EXCL | O_RDWR, 0, 0, target, &object);
    return rc != 0 ? rc : dfs_release(object);
}

int dfs_sys_readlink(dfs_sys_t* dfs_sys, const char* path, char* buf, daos_size_t* size) {
    const ParentAndName at(dfs_sys, path);
    if (at.error() != 0) return at.error();
    dfs_obj_t* object = nullptr;
    if (const int rc = at.open(O_RDONLY | O_NOFOLLOW, &object); rc != 0) return rc;
    const int rc = dfs_get_symlink_value(object, buf, size);
    dfs_release(object);
    return rc;
}

// ---- files

int dfs_sys_open(dfs_sys_t* dfs_sys, const char* path, mode_t mode, int flags, daos_oclass_id_t cid,
                 daos_size_t chunk_size, const char* value, dfs_obj_t** obj) {
    const ParentAndName at(dfs_sys, path);
    if (at.error() != 0) return at.error();
    if (obj == nullptr) return EINVAL;
    if ((mode & S_IFMT) == 0) mode |= S_IFREG;
    if (at.is_root()) {
        if ((flags & (O_CREAT | O_EXCL)) != 0) return EEXIST;
        return S_ISDIR(mode) ? at.open(flags, obj) : ENOTDIR;
    }
    if ((flags & (O_CREAT | O_NOFOLLOW)) != 0) {
        return dfs_open(at.mount(), at.directory(), at.name(), mode, flags, cid, chunk_size, value,
                        obj);
    }
    if (const int rc = at.open(flags, obj); rc != 0) return rc;
    if (((*obj)->mode & S_IFMT) == (mode & S_IFMT)) return 0;
    dfs_release(*obj);
    *obj = nullptr;
    return EINVAL;
}

int dfs_sys_close(dfs_obj_t* obj) { return dfs_release(obj); }

int dfs_sys_read(dfs_sys_t* dfs_sys, dfs_obj_t* obj, void* buf, daos_off_t off, daos_size_t* size,
                 daos_event_t* ev) {
    if (dfs_sys == nullptr || buf == nullptr || size == nullptr) return EINVAL;
    return read_buffer(dfs_sys->mount, obj, buf, off, size, ev);
}

int dfs_sys_write(dfs_sys_t* dfs_sys, dfs_obj_t* obj, const void* buf, daos_off_t off,
                  daos_size_t* size, daos_event_t* ev) {
    if (dfs_sys == nullptr || buf == nullptr || size == nullptr) return EINVAL;
    d_iov_t iov;
    d_iov_set(&iov, const_cast<void*>(buf), *size);
    d_sg_list_t list{.sg_nr = 1, .sg_nr_out = 0, .sg_iovs = &iov};
    return dfs_write(dfs_sys->mount, obj, &list, off, ev);
}

// ---- directories

int dfs_sys_opendir(dfs_sys_t* dfs_sys, const char* dir, int flags, DIR** dirp) {
    if (dirp == nullptr) return EINVAL;
    const ParentAndName at(dfs_sys, dir);
    if (at.error() != 0) return at.error();
    auto listing = std::make_unique<Listing>();
    if (const int rc = at.open(O_RDONLY | (flags & O_NOFOLLOW), &listing->directory); rc != 0) {
        return rc;
    }
    if (!S_ISDIR(listing->directory->mode)) {
        dfs_release(listing->directory);
        return ENOTDIR;
    }
    listing->entries.resize(entries_together);
    *dirp = reinterpret_cast<DIR*>(listing.release());
    return 0;
}

int dfs_sys_closedir(DIR* dirp) {
    if (dirp == nullptr) return EINVAL;
    const int rc = dfs_release(listing_of(dirp).directory);
    delete &listing_of(dirp);
    return rc;
}

int dfs_sys_readdir(dfs_sys_t* dfs_sys, DIR* dirp, struct dirent** dirent) {
    if (dfs_sys == nullptr || dirp == nullptr || dirent == nullptr) return EINVAL;
    auto& listing = listing_of(dirp);
    *dirent = nullptr;
    while (listing.next == listing.count) {
        if (listing.anchor.da_type == DAOS_ANCHOR_TYPE_EOF) return 0;
        listing.next = 0;
        listing.count = entries_together;
        const int rc = dfs_readdir(dfs_sys->mount, listing.directory, &listing.anchor,
                                   &listing.count, listing.entries.data());
        if (rc != 0) {
            listing.count = 0;
            return rc;
        }
    }
    *dirent = &listing.entries[listing.next++];
    return 0;
}
