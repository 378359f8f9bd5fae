#include "mount.h"

#include <cstring>
#include <memory>

#include "access_lists.h"
#include "daos.h"
#include "errors.h"
#include "file_classes.h"
#include "global.h"
#include "properties.h"
#include "ros2s/base/uuid.h"

using namespace ros2s;
using namespace ros2s::daos;

namespace ros2s::daos {
namespace {

// EINVAL: the container is not for files. EPERM: the mode is not allowed.
int check_settings(const ContainerSettings& settings, int flags) {
    if (settings.layout != DAOS_PROP_CO_LAYOUT_POSIX) return EINVAL;
    if ((settings.mode & DFS_BALANCED) != 0 && (flags & DFS_BALANCED) == 0) return EPERM;
    return 0;
}

int mount(daos_handle_t handle, int flags, dfs_t** out) {
    auto container = Handles::table().find<Container>(handle);
    if (container == nullptr) return EINVAL;
    if ((flags & O_ACCMODE) != O_RDONLY && container->is_read_only()) return EPERM;
    auto made = std::make_unique<dfs_t>();
    if (const int rc = settings_of(container, made->settings); rc != 0) return errno_of_der(rc);
    if (const int rc = check_settings(made->settings, flags); rc != 0) return rc;
    made->container = std::move(container);
    made->flags = flags;
    ++made->container->mounts;
    *out = made.release();
    return 0;
}

ContainerSettings settings_in(const dfs_attr_t* attributes) {
    if (attributes == nullptr) return {};
    auto settings = settings_of_files(*attributes);
    settings.mode = attributes->da_mode & DFS_BALANCED;
    return settings;
}

// Creates a container and, if the program asks for them, opens and mounts it.
int create_mounted(daos_handle_t pool, const char* label, const dfs_attr_t* attributes,
                   uuid_t* uuid, daos_handle_t* container, dfs_t** dfs) {
    if (dfs != nullptr && container == nullptr) return EINVAL;
    const auto settings = settings_in(attributes);
    if (const int rc = check_hints(settings.hints); rc != 0) return rc;
    uuid_t made{};
    int rc = create_container(pool, label, &made, settings);
    if (rc != 0) return errno_of_der(rc);
    if (uuid != nullptr) std::memcpy(uuid, &made, sizeof made);
    if (container == nullptr) return 0;
    Uuid name;
    std::memcpy(name.bytes.data(), &made, sizeof made);
    const std::string text = label == nullptr ? name.to_string() : label;
    rc = open_container(pool, text.c_str(), DAOS_COO_RW, *container);
    if (rc != 0 || dfs == nullptr) return errno_of_der(rc);
    const int mode = static_cast<int>(settings.mode & DFS_BALANCED);
    return mount(*container, O_RDWR | mode, dfs);
}

}  // namespace

int check(const dfs_t* dfs) noexcept {
    if (dfs == nullptr || dfs->is_unmounted) return EINVAL;
    return dfs->fs().mark.in_forked_child() ? EBADF : 0;
}

int check_writable(const dfs_t* dfs) noexcept {
    if (const int rc = check(dfs); rc != 0) return rc;
    return dfs->is_read_only() ? EPERM : 0;
}

void drop_user(dfs_t* dfs) {
    if (--dfs->users > 0) return;
    --dfs->container->mounts;
    delete dfs;
}

int set_attributes(ros2s_fs& fs, fs::NodeId node, const fs::SetAttributes& changes) {
    return errno_of(
        fs.run([&] { return fs.file_system().set_attributes(fs.call, node, changes); }));
}

}  // namespace ros2s::daos

// ---- dfs_*: mounts and containers with files.

int dfs_init(void) { return errno_of_der(daos_init()); }
int dfs_fini(void) { return errno_of_der(daos_fini()); }

int dfs_mount(daos_handle_t poh, daos_handle_t coh, int flags, dfs_t** dfs) {
    const auto container = Handles::table().find<Container>(coh);
    const auto pool = Handles::table().find<Pool>(poh);
    if (dfs == nullptr || container == nullptr || pool != container->pool) return EINVAL;
    return mount(coh, flags, dfs);
}

// As in libdfs, open objects do not prevent this.
int dfs_umount(dfs_t* dfs) {
    if (const int rc = check(dfs); rc != 0) return rc;
    if (dfs->is_unmounted.exchange(true)) return EINVAL;
    drop_user(dfs);
    return 0;
}

int dfs_cont_create(daos_handle_t poh, uuid_t* uuid, dfs_attr_t* attr, daos_handle_t* coh,
                    dfs_t** dfs) {
    if (uuid == nullptr) return EINVAL;
    return create_mounted(poh, label_in(attr == nullptr ? nullptr : attr->da_props), attr, uuid,
                          coh, dfs);
}

int dfs_cont_create_with_label(daos_handle_t poh, const char* label, dfs_attr_t* attr, uuid_t* uuid,
                               daos_handle_t* coh, dfs_t** dfs) {
    if (label == nullptr) return EINVAL;
    return create_mounted(poh, label, attr, uuid, coh, dfs);
}

int dfs_query(dfs_t* dfs, dfs_attr_t* attr) {
    if (const int rc = check(dfs); rc != 0) return rc;
    if (attr == nullptr) return EINVAL;
    *attr = {};
    const auto& settings = dfs->settings;
    attr->da_chunk_size =
        settings.chunk_bytes != 0 ? settings.chunk_bytes : uint64_t{DFS_DEFAULT_CHUNK_SIZE};
    attr->da_oclass_id = settings.object_class;
    attr->da_dir_oclass_id = class_of(settings, S_IFDIR);
    attr->da_file_oclass_id = class_of(settings, S_IFREG);
    attr->da_mode = settings.mode;
    settings.hints.copy(std::data(attr->da_hints), hint_bytes_max);
    return 0;
}

int dfs_local2global(dfs_t* dfs, d_iov_t* glob) {
    if (const int rc = check(dfs); rc != 0) return rc;
    return errno_of_der(write_global(glob, {std::to_string(dfs->flags)}));
}

int dfs_global2local(daos_handle_t poh, daos_handle_t coh, int flags, d_iov_t glob, dfs_t** dfs) {
    const auto parts = read_global(glob, 1);
    if (parts.empty()) return EINVAL;
    return dfs_mount(poh, coh, flags != 0 ? flags : static_cast<int>(parse_number(parts[0])), dfs);
}

// The owner of the root directory is the container's owner. A number of -1 is looked up.
int dfs_cont_set_owner(daos_handle_t coh, d_string_t user, uid_t uid, d_string_t group, gid_t gid) {
    constexpr auto none = static_cast<uid_t>(-1);
    const auto container = Handles::table().find<Container>(coh);
    if (container == nullptr || (user == nullptr && group == nullptr)) return EINVAL;
    if (container->is_read_only()) return EPERM;
    fs::SetAttributes changes;
    int rc = 0;
    if (user != nullptr) rc = uid == none ? to_uid(user, uid) : 0;
    if (user != nullptr) changes.uid = uid;
    if (rc == 0 && group != nullptr && gid == none) rc = to_gid(group, gid);
    if (group != nullptr) changes.gid = gid;
    if (rc != 0) return errno_of_der(rc);
    return set_attributes(*container->fs, fs::root_node, changes);
}

int dfs_set_prefix(dfs_t* dfs, const char* prefix) {
    if (const int rc = check(dfs); rc != 0) return rc;
    if (prefix != nullptr && prefix[0] != '/') return EINVAL;
    dfs->prefix = prefix == nullptr ? "" : prefix;
    if (dfs->prefix.ends_with('/')) dfs->prefix.pop_back();
    return 0;
}

// Every call is durable when it returns.
int dfs_sync(dfs_t* dfs) { return check(dfs); }
