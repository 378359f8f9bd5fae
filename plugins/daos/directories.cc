// Listing and changing directories.
#include <algorithm>
#include <cstring>
#include <vector>

#include "objects.h"
#include "ros2s/api/c/owner_of_new.h"

using namespace ros2s;
using namespace ros2s::daos;

namespace ros2s::daos {
namespace {

using api::c::owner_of_new;

uint64_t cookie_in(const daos_anchor_t& anchor) {
    uint64_t cookie = 0;
    if (anchor.da_type == DAOS_ANCHOR_TYPE_KEY) {
        std::memcpy(&cookie, anchor.da_buf, sizeof cookie);
    }
    return cookie;
}

void keep_cookie(daos_anchor_t& anchor, uint64_t cookie) {
    anchor.da_type = DAOS_ANCHOR_TYPE_KEY;
    std::memcpy(anchor.da_buf, &cookie, sizeof cookie);
}

Task<Result<>> open_listing(dfs_obj_t& directory) {
    if (directory.listing.value != 0) co_return {};
    auto& fs = directory.mount->fs();
    ROS2S_CO_TRY_ASSIGN(const auto opened,
                        co_await fs.file_system().open(fs.call, directory.node, {}));
    if (directory.listing.value == 0) {
        directory.listing = opened.handle;
        co_return {};
    }
    // Another thread has done it in the meantime.
    co_return co_await fs.file_system().close(fs.call, opened.handle);
}

Task<Result<std::vector<fs::ListedEntry>>> list(dfs_obj_t& directory, uint64_t cookie, size_t limit,
                                                bool with_attributes) {
    auto& fs = directory.mount->fs();
    ROS2S_CO_TRY(co_await open_listing(directory));
    if (with_attributes) {
        limit = std::min(limit, fs::names_together_max);
        auto listed = co_await fs.file_system().readdir_many(fs.call, directory.node,
                                                             directory.listing, cookie, limit);
        if (listed) {
            for (const auto& each : *listed) {
                if (each.attributes) fs.file_system().forget(each.attributes->node, 1);
            }
        }
        co_return listed;
    }
    ROS2S_CO_TRY_ASSIGN(
        auto entries, co_await fs.file_system().readdir(fs.call, directory.listing, cookie, limit));
    std::vector<fs::ListedEntry> listed;
    for (auto& entry : entries) listed.push_back({.entry = std::move(entry)});
    co_return listed;
}

// Calls take(entry) for up to `count` entries. A name that was removed meanwhile is left out.
template <class Take>
int walk(dfs_t* dfs, dfs_obj_t* directory, daos_anchor_t* anchor, uint32_t& count,
         bool with_attributes, Take&& take) {
    if (const int rc = check(dfs, directory); rc != 0) return rc;
    if (!S_ISDIR(directory->mode)) return ENOTDIR;
    if (anchor == nullptr) return EINVAL;
    auto& fs = dfs->fs();
    uint32_t done = 0;
    while (done < count && anchor->da_type != DAOS_ANCHOR_TYPE_EOF) {
        const auto listed = fs.run(
            [&] { return list(*directory, cookie_in(*anchor), count - done, with_attributes); });
        if (!listed) return errno_of(listed.error());
        if (listed->empty()) anchor->da_type = DAOS_ANCHOR_TYPE_EOF;
        for (const auto& each : *listed) {
            keep_cookie(*anchor, each.entry.cookie);
            if (with_attributes && !each.attributes) {
                if (each.attributes.error().code == Code::not_found) continue;
                return errno_of(each.attributes.error());
            }
            if (const int rc = take(done++, each); rc != 0) return rc;
        }
    }
    count = done;
    return 0;
}

void to_dirent(const fs::DirectoryEntry& entry, struct dirent& out) {
    out = {};
    out.d_ino = entry.node.value;
    out.d_type = static_cast<unsigned char>(IFTODT(entry.type));
    std::memcpy(out.d_name, entry.name.c_str(), entry.name.size() + 1);
}

Task<Result<>> remove_one(ros2s_fs& fs, fs::NodeId directory, std::string_view name,
                          const fs::Attributes& found) {
    return S_ISDIR(found.mode) ? fs.file_system().rmdir(fs.call, directory, name)
                               : fs.file_system().unlink(fs.call, directory, name);
}

// Removes the contents of a directory first. The recursion is bounded by the depth of the tree:
// each level is a frame.
Task<Result<>> remove_tree(ros2s_fs& fs, fs::NodeId directory, std::string name) {
    ROS2S_CO_TRY_ASSIGN(const auto found,
                        co_await fs.file_system().lookup(fs.call, directory, name));
    Result<> done;
    if (S_ISDIR(found.mode)) {
        const auto opened = co_await fs.file_system().open(fs.call, found.node, {});
        if (!opened) done = fail(opened.error());
        while (done) {
            // Removed entries are not listed again, so each pass starts at the beginning.
            const auto entries = co_await fs.file_system().readdir(fs.call, opened->handle, 0,
                                                                   fs::names_together_max);
            if (!entries) done = fail(entries.error());
            if (!entries || entries->empty()) break;
            for (const auto& entry : *entries) {
                if (done) done = co_await remove_tree(fs, found.node, entry.name);
            }
        }
        if (opened) (void)co_await fs.file_system().close(fs.call, opened->handle);
    }
    if (done) done = co_await remove_one(fs, directory, name, found);
    fs.file_system().forget(found.node, 1);
    co_return done;
}

Task<Result<>> remove(ros2s_fs& fs, fs::NodeId directory, std::string_view name, bool force) {
    if (force) co_return co_await remove_tree(fs, directory, std::string(name));
    ROS2S_CO_TRY_ASSIGN(const auto found,
                        co_await fs.file_system().lookup(fs.call, directory, name));
    const auto done = co_await remove_one(fs, directory, name, found);
    fs.file_system().forget(found.node, 1);
    co_return done;
}

Task<Result<>> make_directory(ros2s_fs& fs, fs::NodeId directory, std::string_view name,
                              mode_t mode) {
    ROS2S_CO_TRY_ASSIGN(const auto made,
                        co_await fs.file_system().mkdir(
                            fs.call, directory, name, mode & fs::permission_bits, owner_of_new()));
    fs.file_system().forget(made.node, 1);
    co_return {};
}

int rename(dfs_t* dfs, dfs_obj_t* from, const char* name, dfs_obj_t* to, const char* new_name,
           fs::FileSystem::RenameFlags options) {
    Entry source;
    Entry target;
    if (const int rc = entry_of(dfs, from, name, source); rc != 0) return rc;
    if (const int rc = entry_of(dfs, to, new_name, target); rc != 0) return rc;
    if (const int rc = check_writable(dfs); rc != 0) return rc;
    if (source.name.empty() || target.name.empty()) return EINVAL;
    auto& fs = dfs->fs();
    const auto done = fs.run([&] {
        return fs.file_system().rename(fs.call, source.directory, source.name, target.directory,
                                       target.name, options);
    });
    // A directory cannot be moved into itself.
    if (!done && done.error().code == Code::loop) return EINVAL;
    return errno_of(done);
}

}  // namespace
}  // namespace ros2s::daos

int dfs_readdir(dfs_t* dfs, dfs_obj_t* obj, daos_anchor_t* anchor, uint32_t* nr,
                struct dirent* dirs) {
    if (nr == nullptr || (dirs == nullptr && *nr > 0)) return EINVAL;
    return walk(dfs, obj, anchor, *nr, false, [&](uint32_t at, const fs::ListedEntry& each) {
        to_dirent(each.entry, dirs[at]);
        return 0;
    });
}

int dfs_readdirplus(dfs_t* dfs, dfs_obj_t* obj, daos_anchor_t* anchor, uint32_t* nr,
                    struct dirent* dirs, struct stat* stbufs) {
    if (nr == nullptr || ((dirs == nullptr || stbufs == nullptr) && *nr > 0)) return EINVAL;
    return walk(dfs, obj, anchor, *nr, true, [&](uint32_t at, const fs::ListedEntry& each) {
        to_dirent(each.entry, dirs[at]);
        api::c::to_stat(*each.attributes, stbufs[at]);
        return 0;
    });
}

// `size` bounds the names of one request in libdfs; here the number of entries does.
int dfs_iterate(dfs_t* dfs, dfs_obj_t* obj, daos_anchor_t* anchor, uint32_t* nr, size_t,
                dfs_filler_cb_t op, void* arg) {
    if (nr == nullptr) return EINVAL;
    return walk(dfs, obj, anchor, *nr, false, [&](uint32_t, const fs::ListedEntry& each) {
        return op == nullptr ? 0 : op(dfs, obj, each.entry.name.c_str(), arg);
    });
}

int dfs_mkdir(dfs_t* dfs, dfs_obj_t* parent, const char* name, mode_t mode, daos_oclass_id_t) {
    Entry where;
    if (const int rc = entry_of(dfs, parent, name, where); rc != 0) return rc;
    if (const int rc = check_writable(dfs); rc != 0) return rc;
    if (where.name.empty()) return EEXIST;
    auto& fs = dfs->fs();
    return errno_of(fs.run([&] { return make_directory(fs, where.directory, where.name, mode); }));
}

int dfs_remove(dfs_t* dfs, dfs_obj_t* parent, const char* name, bool force, daos_obj_id_t* oid) {
    Entry where;
    if (const int rc = entry_of(dfs, parent, name, where); rc != 0) return rc;
    if (const int rc = check_writable(dfs); rc != 0) return rc;
    if (where.name.empty()) return EINVAL;
    if (oid != nullptr) {
        const auto found = attributes_of(*dfs, where);
        if (!found) return errno_of(found.error());
        *oid = id_of(*dfs, found->mode, found->node);
    }
    auto& fs = dfs->fs();
    return errno_of(fs.run([&] { return remove(fs, where.directory, where.name, force); }));
}

int dfs_move(dfs_t* dfs, dfs_obj_t* parent, const char* name, dfs_obj_t* new_parent,
             const char* new_name, daos_obj_id_t* oid) {
    if (oid != nullptr) {
        *oid = {};
        Entry target;
        if (const int rc = entry_of(dfs, new_parent, new_name, target); rc != 0) return rc;
        if (const auto replaced = attributes_of(*dfs, target); replaced) {
            *oid = id_of(*dfs, replaced->mode, replaced->node);
        }
    }
    return rename(dfs, parent, name, new_parent, new_name, {});
}

int dfs_exchange(dfs_t* dfs, dfs_obj_t* parent1, const char* name1, dfs_obj_t* parent2,
                 const char* name2) {
    return rename(dfs, parent1, name1, parent2, name2, {.exchange = true});
}

// `flags`: RENAME_NOREPLACE only, as in libdfs. `moid`: the id of the moved object.
int dfs_move_internal(dfs_t* dfs, unsigned int flags, dfs_obj_t* parent, const char* name,
                      dfs_obj_t* new_parent, const char* new_name, daos_obj_id_t* moid,
                      daos_obj_id_t* oid) {
    if ((flags & ~RENAME_NOREPLACE) != 0) return ENOTSUP;
    if (moid != nullptr) {
        Entry source;
        if (const int rc = entry_of(dfs, parent, name, source); rc != 0) return rc;
        const auto found = attributes_of(*dfs, source);
        if (!found) return errno_of(found.error());
        *moid = id_of(*dfs, found->mode, found->node);
    }
    if (flags == 0) return dfs_move(dfs, parent, name, new_parent, new_name, oid);
    if (oid != nullptr) *oid = {};
    return rename(dfs, parent, name, new_parent, new_name, {.no_replace = true});
}
