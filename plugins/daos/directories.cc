// Listing and changing directories.
#include <cstring>
#include <vector>

#include "file_classes.h"
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

Task<Result<std::vector<fs::DirectoryEntry>>> list(dfs_obj_t& directory, uint64_t cookie,
                                                   size_t limit) {
    auto& fs = directory.mount->fs();
    ROS2S_CO_TRY(co_await open_listing(directory));
    co_return co_await fs.file_system().readdir(fs.call, directory.listing, cookie, limit);
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
    if (const int rc = changeable_entry_of(dfs, to, new_name, target); rc != 0) return rc;
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
    if (const int rc = check(dfs, obj); rc != 0) return rc;
    if (!S_ISDIR(obj->mode)) return ENOTDIR;
    if (anchor == nullptr || nr == nullptr || (dirs == nullptr && *nr > 0)) return EINVAL;
    auto& fs = dfs->fs();
    uint32_t done = 0;
    while (done < *nr && anchor->da_type != DAOS_ANCHOR_TYPE_EOF) {
        const auto listed = fs.run([&] { return list(*obj, cookie_in(*anchor), *nr - done); });
        if (!listed) return errno_of(listed.error());
        if (listed->empty()) anchor->da_type = DAOS_ANCHOR_TYPE_EOF;
        for (const auto& entry : *listed) {
            keep_cookie(*anchor, entry.cookie);
            to_dirent(entry, dirs[done++]);
        }
    }
    *nr = done;
    return 0;
}

int dfs_mkdir(dfs_t* dfs, dfs_obj_t* parent, const char* name, mode_t mode, daos_oclass_id_t) {
    Entry where;
    if (const int rc = changeable_entry_of(dfs, parent, name, where); rc != 0) return rc;
    if (where.name.empty()) return EEXIST;
    auto& fs = dfs->fs();
    return errno_of(fs.run([&] { return make_directory(fs, where.directory, where.name, mode); }));
}

int dfs_remove(dfs_t* dfs, dfs_obj_t* parent, const char* name, bool force, daos_obj_id_t* oid) {
    Entry where;
    if (const int rc = changeable_entry_of(dfs, parent, name, where); rc != 0) return rc;
    if (where.name.empty()) return EINVAL;
    if (oid != nullptr) {
        const auto found = attributes_of(*dfs, where);
        if (!found) return errno_of(found.error());
        *oid = id_of(dfs->settings, found->mode, found->node);
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
            *oid = id_of(dfs->settings, replaced->mode, replaced->node);
        }
    }
    return rename(dfs, parent, name, new_parent, new_name, {});
}

int dfs_exchange(dfs_t* dfs, dfs_obj_t* parent1, const char* name1, dfs_obj_t* parent2,
                 const char* name2) {
    return rename(dfs, parent1, name1, parent2, name2, {.exchange = true});
}
