// Mounts of libdfs.
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <list>
#include <memory>
#include <mutex>

#include "daos.h"
#include "daos_security.h"
#include "errors.h"
#include "events.h"
#include "global.h"
#include "objects.h"
#include "properties.h"
#include "ros2s/base/uuid.h"

using namespace ros2s;
using namespace ros2s::daos;

namespace ros2s::daos {
namespace {

// Connections that dfs_connect() has opened. As in DAOS, they stay open until the last dfs_fini():
// programs connect again and again.
struct Connection {
    std::string pool;
    std::string container;
    bool reads = false;
    daos_handle_t pool_handle{};
    daos_handle_t container_handle{};
    uint32_t mounts = 0;  // a mount counts until its last object is released
};

struct Connections {
    std::mutex lock;  // the rest
    uint32_t initialized = 0;
    std::list<Connection> all;

    // One for the process. Never destroyed: a program may call the library from its own
    // destructors.
    static Connections& get() {
        static Connections& only = *new Connections;
        return only;
    }
};

void close(const Connection& connection) {
    daos_cont_close(connection.container_handle, nullptr);
    daos_pool_disconnect(connection.pool_handle, nullptr);
}

// EINVAL: the container is not for files, or its settings are not valid in DAOS. EPERM: the mode is
// not allowed.
int check_settings(const ContainerSettings& settings, int flags) {
    if (settings.layout != DAOS_PROP_CO_LAYOUT_POSIX) return EINVAL;
    if ((settings.mode & DFS_BALANCED) != 0 && (flags & DFS_BALANCED) == 0) return EPERM;
    return 0;
}

int mount(daos_handle_t pool, daos_handle_t handle, int flags, dfs_t** out) {
    auto container = Handles::table().find<Container>(handle);
    if (container == nullptr) return EINVAL;
    if ((flags & O_ACCMODE) != O_RDONLY && container->is_read_only()) return EPERM;
    auto made = std::make_unique<dfs_t>();
    if (const int rc = settings_of(container, made->settings); rc != 0) return errno_of_der(rc);
    if (const int rc = check_settings(made->settings, flags); rc != 0) return rc;
    made->container = std::move(container);
    made->flags = flags;
    made->pool = pool;
    made->container_handle = handle;
    ++made->container->mounts;
    *out = made.release();
    return 0;
}

// EBUSY: the program has handles of the mount. As in libdfs, open objects do not prevent this.
int begin_unmount(dfs_t* dfs) {
    if (dfs->pool_borrows > 0 || dfs->container_borrows > 0) return EBUSY;
    return dfs->is_unmounted.exchange(true) ? EINVAL : 0;
}

int give_back(std::atomic<uint32_t>& borrows) {
    uint32_t count = borrows;
    while (count > 0 && !borrows.compare_exchange_weak(count, count - 1)) {
    }
    return count > 0 ? 0 : EINVAL;
}

ContainerSettings settings_in(const dfs_attr_t* attributes) {
    if (attributes == nullptr) return {};
    return {.mode = attributes->da_mode & DFS_BALANCED,
            .chunk_bytes = attributes->da_chunk_size,
            .object_class = attributes->da_oclass_id,
            .directory_class = attributes->da_dir_oclass_id,
            .file_class = attributes->da_file_oclass_id,
            .hints = std::string(std::data(attributes->da_hints),
                                 ::strnlen(std::data(attributes->da_hints), hint_bytes_max))};
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
    return mount(pool, *container, O_RDWR | mode, dfs);
}

// Like open_container(), for a container that another process may be creating: the container exists
// before its file system does. Tries again for about a second.
int open_created(daos_handle_t pool, const char* label, unsigned flags, daos_handle_t& handle) {
    constexpr int attempts = 7;
    std::chrono::microseconds wait{1};
    std::mutex lock;
    std::condition_variable nobody;
    std::unique_lock locked(lock);
    for (int i = 1;; ++i) {
        const int rc = open_container(pool, label, flags, handle, i == attempts);
        if (rc != -DER_NONEXIST || i == attempts) return rc;
        nobody.wait_for(locked, wait);
        wait = std::min(wait * 10, std::chrono::microseconds(500'000));
    }
}

int open_or_create(daos_handle_t pool, const char* label, unsigned flags, bool creates,
                   const dfs_attr_t* attributes, daos_handle_t& handle) {
    int rc = open_container(pool, label, flags, handle, !creates);
    if (rc != -DER_NONEXIST || !creates) return errno_of_der(rc);
    rc = create_mounted(pool, label, attributes, nullptr, nullptr, nullptr);
    if (rc != 0 && rc != EEXIST) return rc;
    return errno_of_der(open_created(pool, label, flags, handle));
}

int connect_new(Connection& connection, bool creates, const dfs_attr_t* attributes) {
    const unsigned pool_flags = connection.reads ? DAOS_PC_RO : DAOS_PC_RW;
    int rc = connect(connection.pool.c_str(), pool_flags, connection.pool_handle);
    if (rc != 0) return errno_of_der(rc);
    rc = open_or_create(connection.pool_handle, connection.container.c_str(),
                        connection.reads ? DAOS_COO_RO : DAOS_COO_RW, creates, attributes,
                        connection.container_handle);
    if (rc != 0) daos_pool_disconnect(connection.pool_handle, nullptr);
    return rc;
}

bool is_usable(const Connection& connection) {
    const auto container = Handles::table().find<Container>(connection.container_handle);
    return container != nullptr && !container->fs->mark.in_forked_child();
}

// Opens everything that a mount needs, or reuses an earlier connection.
int connect_and_mount(const char* pool, const char* container, int flags,
                      const dfs_attr_t* attributes, dfs_t** dfs) {
    if (pool == nullptr || container == nullptr || dfs == nullptr) return EINVAL;
    const bool reads = (flags & O_ACCMODE) == O_RDONLY;
    auto& connections = Connections::get();
    const std::lock_guard locked(connections.lock);
    if (connections.initialized == 0) return EACCES;
    auto found = std::ranges::find_if(connections.all, [&](const Connection& each) {
        return each.pool == pool && each.container == container && each.reads == reads &&
               is_usable(each);
    });
    const bool is_new = found == connections.all.end();
    if (is_new) {
        Connection made{.pool = pool, .container = container, .reads = reads};
        if (const int rc = connect_new(made, (flags & O_CREAT) != 0, attributes); rc != 0) {
            return rc;
        }
        found = connections.all.insert(connections.all.end(), std::move(made));
    }
    const int mode =
        attributes == nullptr ? 0 : static_cast<int>(attributes->da_mode & uint32_t{DFS_BALANCED});
    const int rc = mount(found->pool_handle, found->container_handle,
                         (flags & (O_ACCMODE | DFS_BALANCED)) | mode, dfs);
    if (rc == 0) {
        ++found->mounts;
        (*dfs)->is_connected = true;
    } else if (is_new) {
        close(*found);
        connections.all.erase(found);
    }
    return rc;
}

// Closes connections without a mount: all, or those of a container. False: one has mounts.
bool close_unused(Connections& connections, const char* pool, const char* container) {
    bool is_free = true;
    for (auto each = connections.all.begin(); each != connections.all.end();) {
        const bool is_meant =
            pool == nullptr || (each->pool == pool && each->container == container);
        if (is_meant && each->mounts > 0) is_free = false;
        if (!is_meant || each->mounts > 0) {
            ++each;
            continue;
        }
        close(*each);
        each = connections.all.erase(each);
    }
    return is_free;
}

}  // namespace

int check(const dfs_t* dfs) noexcept {
    if (dfs == nullptr || dfs->is_unmounted) return EINVAL;
    return dfs->fs().mark.in_forked_child() ? EBADF : 0;
}

int check(const dfs_t* dfs, const dfs_obj_t* object) noexcept {
    if (object == nullptr || object->mount != dfs) return EINVAL;
    return check(dfs);
}

int check_writable(const dfs_t* dfs) noexcept {
    if (const int rc = check(dfs); rc != 0) return rc;
    return dfs->is_read_only() ? EPERM : 0;
}

void release_mount(dfs_t* dfs) {
    if (--dfs->users > 0) return;
    const std::unique_ptr<dfs_t> last(dfs);
    --dfs->container->mounts;
    if (!dfs->is_connected) return;
    auto& connections = Connections::get();
    const std::lock_guard locked(connections.lock);
    for (auto& each : connections.all) {
        if (each.container_handle.cookie == dfs->container_handle.cookie) --each.mounts;
    }
    // After the last dfs_fini() nothing else closes it.
    if (connections.initialized == 0) close_unused(connections, nullptr, nullptr);
}

}  // namespace ros2s::daos

int dfs_init(void) {
    auto& connections = Connections::get();
    const std::lock_guard locked(connections.lock);
    ++connections.initialized;
    return errno_of_der(daos_init());
}

int dfs_fini(void) {
    auto& connections = Connections::get();
    {
        const std::lock_guard locked(connections.lock);
        if (connections.initialized == 0) return errno_of_der(-DER_UNINIT);
        if (--connections.initialized == 0) close_unused(connections, nullptr, nullptr);
    }
    return errno_of_der(daos_fini());
}

int dfs_mount(daos_handle_t poh, daos_handle_t coh, int flags, dfs_t** dfs) {
    const auto container = Handles::table().find<Container>(coh);
    const auto pool = Handles::table().find<Pool>(poh);
    if (dfs == nullptr || container == nullptr || pool != container->pool) return EINVAL;
    return mount(poh, coh, flags, dfs);
}

int dfs_umount(dfs_t* dfs) {
    if (const int rc = check(dfs); rc != 0) return rc;
    if (dfs->is_connected) return EINVAL;
    if (const int rc = begin_unmount(dfs); rc != 0) return rc;
    release_mount(dfs);
    return 0;
}

int dfs_pool_get(dfs_t* dfs, daos_handle_t* poh) {
    if (const int rc = check(dfs); rc != 0) return rc;
    if (poh == nullptr) return EINVAL;
    ++dfs->pool_borrows;
    *poh = dfs->pool;
    return 0;
}

int dfs_cont_get(dfs_t* dfs, daos_handle_t* coh) {
    if (const int rc = check(dfs); rc != 0) return rc;
    if (coh == nullptr) return EINVAL;
    ++dfs->container_borrows;
    *coh = dfs->container_handle;
    return 0;
}

int dfs_pool_put(dfs_t* dfs, daos_handle_t poh) {
    if (const int rc = check(dfs); rc != 0) return rc;
    return poh.cookie == dfs->pool.cookie ? give_back(dfs->pool_borrows) : EINVAL;
}

int dfs_cont_put(dfs_t* dfs, daos_handle_t coh) {
    if (const int rc = check(dfs); rc != 0) return rc;
    return coh.cookie == dfs->container_handle.cookie ? give_back(dfs->container_borrows) : EINVAL;
}

int dfs_cont_create(daos_handle_t poh, uuid_t* uuid, dfs_attr_t* attr, daos_handle_t* coh,
                    dfs_t** dfs) {
    if (uuid == nullptr) return EINVAL;
    const auto* const label =
        attr == nullptr ? nullptr : daos_prop_entry_get(attr->da_props, DAOS_PROP_CO_LABEL);
    return create_mounted(poh, label == nullptr ? nullptr : label->dpe_str, attr, uuid, coh, dfs);
}

int dfs_cont_create_with_label(daos_handle_t poh, const char* label, dfs_attr_t* attr, uuid_t* uuid,
                               daos_handle_t* coh, dfs_t** dfs) {
    if (label == nullptr) return EINVAL;
    return create_mounted(poh, label, attr, uuid, coh, dfs);
}

int dfs_connect(const char* pool, const char*, const char* cont, int flags, dfs_attr_t* attr,
                dfs_t** dfs) {
    return connect_and_mount(pool, cont, flags, attr, dfs);
}

// The connection stays open.
int dfs_disconnect(dfs_t* dfs) {
    if (const int rc = check(dfs); rc != 0) return rc;
    if (!dfs->is_connected) return EINVAL;
    if (const int rc = begin_unmount(dfs); rc != 0) return rc;
    release_mount(dfs);
    return 0;
}

int dfs_query(dfs_t* dfs, dfs_attr_t* attr) {
    if (const int rc = check(dfs); rc != 0) return rc;
    if (attr == nullptr) return EINVAL;
    *attr = {};
    const auto& settings = dfs->settings;
    attr->da_chunk_size =
        settings.chunk_bytes != 0 ? settings.chunk_bytes : uint64_t{DFS_DEFAULT_CHUNK_SIZE};
    attr->da_oclass_id = settings.object_class;
    attr->da_dir_oclass_id = class_of(*dfs, S_IFDIR);
    attr->da_file_oclass_id = class_of(*dfs, S_IFREG);
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

int dfs_local2global_all(dfs_t* dfs, d_iov_t* glob) {
    if (const int rc = check(dfs); rc != 0) return rc;
    const auto& container = *dfs->container;
    return errno_of_der(write_global(
        glob, {container.pool->label, std::to_string(container.pool->flags), container.label,
               std::to_string(container.flags), std::to_string(dfs->flags)}));
}

int dfs_global2local_all(int flags, d_iov_t glob, dfs_t** dfs) {
    const auto parts = read_global(glob, 5);
    if (parts.empty() || dfs == nullptr) return EINVAL;
    // The sending process has created the container if necessary, and knows how it can be mounted.
    const int sent = static_cast<int>(parse_number(parts[4]));
    const int access = flags != 0 ? flags & O_ACCMODE : sent & O_ACCMODE;
    return connect_and_mount(parts[0].c_str(), parts[2].c_str(), access | (sent & DFS_BALANCED),
                             nullptr, dfs);
}

// Also destroys a container that an earlier dfs_connect() has left open.
int dfs_destroy(const char* pool, const char*, const char* cont, int force, daos_event_t* ev) {
    if (pool == nullptr || cont == nullptr) return EINVAL;
    auto& connections = Connections::get();
    {
        const std::lock_guard locked(connections.lock);
        if (connections.initialized == 0) return finish_dfs_call(ev, EACCES);
        if (!close_unused(connections, pool, cont)) return finish_dfs_call(ev, EBUSY);
    }
    daos_handle_t handle{};
    int rc = connect(pool, DAOS_PC_RW, handle);
    if (rc == 0) {
        rc = daos_cont_destroy(handle, cont, force, nullptr);
        daos_pool_disconnect(handle, nullptr);
    }
    return finish_dfs_call(ev, errno_of_der(rc));
}

// The owner of the root directory is the container's owner.
int dfs_cont_set_owner(daos_handle_t coh, d_string_t user, uid_t uid, d_string_t group, gid_t gid) {
    constexpr auto none = static_cast<uid_t>(-1);
    const auto container = Handles::table().find<Container>(coh);
    if (container == nullptr || (user == nullptr && group == nullptr)) return EINVAL;
    if (container->is_read_only()) return EPERM;
    int rc = 0;
    if (user == nullptr) {
        uid = none;
    } else if (uid == none) {
        rc = daos_acl_principal_to_uid(user, &uid);
    }
    if (group == nullptr) {
        gid = none;
    } else if (rc == 0 && gid == none) {
        rc = daos_acl_principal_to_gid(group, &gid);
    }
    if (rc != 0) return errno_of_der(rc);
    fs::SetAttributes changes;
    if (uid != none) changes.uid = uid;
    if (gid != none) changes.gid = gid;
    auto& fs = *container->fs;
    return errno_of(
        fs.run([&] { return fs.file_system().set_attributes(fs.call, fs::root_node, changes); }));
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
