// Mounts of libdfs.
#include <cstring>
#include <memory>

#include "daos.h"
#include "errors.h"
#include "events.h"
#include "global.h"
#include "objects.h"
#include "ros2s/base/uuid.h"

using namespace ros2s;
using namespace ros2s::daos;

namespace ros2s::daos {
namespace {

int mount(std::shared_ptr<Container> container, int flags, dfs_t** out) {
    if ((flags & O_ACCMODE) != O_RDONLY && container->is_read_only()) return EPERM;
    auto made = std::make_unique<dfs_t>();
    made->container = std::move(container);
    made->flags = flags;
    ++made->container->mounts;
    *out = made.release();
    return 0;
}

// The program has released its objects, or cannot use them any more.
void unmount(dfs_t* dfs) {
    --dfs->container->mounts;
    delete dfs;
}

// Creates a container and, if the program asks for them, opens and mounts it.
int create_mounted(daos_handle_t pool, const char* label, uuid_t* uuid, daos_handle_t* container,
                   dfs_t** dfs) {
    int rc = create_container(pool, label, uuid);
    if (rc != 0 || container == nullptr) return errno_of_der(rc);
    rc = open_container(pool, label, DAOS_COO_RW, *container);
    if (rc != 0 || dfs == nullptr) return errno_of_der(rc);
    return mount(Handles::table().find<Container>(*container), O_RDWR, dfs);
}

// Opens all that a mount needs; dfs_disconnect() closes it.
int connect_and_mount(const char* pool, unsigned pool_flags, const char* container,
                      unsigned container_flags, int flags, dfs_t** dfs) {
    daos_handle_t pool_handle{};
    daos_handle_t container_handle{};
    int rc = connect(pool, pool_flags, pool_handle);
    if (rc != 0) return errno_of_der(rc);
    const bool creates = (flags & O_CREAT) != 0;
    rc = open_container(pool_handle, container, container_flags, container_handle, !creates);
    if (rc == -DER_NONEXIST && creates) {
        rc = create_container(pool_handle, container, nullptr);
        if (rc == 0 || rc == -DER_EXIST) {
            rc = open_container(pool_handle, container, container_flags, container_handle);
        }
    }
    if (rc != 0) {
        daos_pool_disconnect(pool_handle, nullptr);
        return errno_of_der(rc);
    }
    rc = mount(Handles::table().find<Container>(container_handle), flags, dfs);
    if (rc != 0) {
        daos_cont_close(container_handle, nullptr);
        daos_pool_disconnect(pool_handle, nullptr);
        return rc;
    }
    (*dfs)->own_pool = pool_handle;
    (*dfs)->own_container = container_handle;
    return 0;
}

}  // namespace

int check(const dfs_t* dfs) noexcept {
    if (dfs == nullptr) return EINVAL;
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

}  // namespace ros2s::daos

int dfs_init(void) { return errno_of_der(daos_init()); }

int dfs_fini(void) { return errno_of_der(daos_fini()); }

int dfs_mount(daos_handle_t poh, daos_handle_t coh, int flags, dfs_t** dfs) {
    const auto container = Handles::table().find<Container>(coh);
    const auto pool = Handles::table().find<Pool>(poh);
    if (dfs == nullptr || container == nullptr || pool != container->pool) return EINVAL;
    return mount(container, flags, dfs);
}

int dfs_umount(dfs_t* dfs) {
    if (const int rc = check(dfs); rc != 0) return rc;
    if (daos_handle_is_valid(dfs->own_pool)) return EINVAL;
    if (dfs->objects > 0) return EBUSY;
    unmount(dfs);
    return 0;
}

int dfs_cont_create(daos_handle_t poh, uuid_t* uuid, dfs_attr_t* attr, daos_handle_t* coh,
                    dfs_t** dfs) {
    const auto* const label =
        attr == nullptr ? nullptr : daos_prop_entry_get(attr->da_props, DAOS_PROP_CO_LABEL);
    if (label != nullptr) return create_mounted(poh, label->dpe_str, uuid, coh, dfs);
    uuid_t made{};
    if (const int rc = create_container(poh, nullptr, &made); rc != 0) return errno_of_der(rc);
    if (uuid != nullptr) std::memcpy(uuid, &made, sizeof made);
    if (coh == nullptr) return 0;
    Uuid name;
    std::memcpy(name.bytes.data(), &made, sizeof made);
    const int rc = open_container(poh, name.to_string().c_str(), DAOS_COO_RW, *coh);
    if (rc != 0 || dfs == nullptr) return errno_of_der(rc);
    return mount(Handles::table().find<Container>(*coh), O_RDWR, dfs);
}

int dfs_cont_create_with_label(daos_handle_t poh, const char* label, dfs_attr_t*, uuid_t* uuid,
                               daos_handle_t* coh, dfs_t** dfs) {
    if (label == nullptr) return EINVAL;
    return create_mounted(poh, label, uuid, coh, dfs);
}

int dfs_connect(const char* pool, const char*, const char* cont, int flags, dfs_attr_t*,
                dfs_t** dfs) {
    if (dfs == nullptr) return EINVAL;
    const bool reads = (flags & O_ACCMODE) == O_RDONLY;
    return connect_and_mount(pool, reads ? DAOS_PC_RO : DAOS_PC_RW, cont,
                             reads ? DAOS_COO_RO : DAOS_COO_RW, flags, dfs);
}

int dfs_disconnect(dfs_t* dfs) {
    if (const int rc = check(dfs); rc != 0) return rc;
    if (!daos_handle_is_valid(dfs->own_pool)) return EINVAL;
    if (dfs->objects > 0) return EBUSY;
    const auto pool = dfs->own_pool;
    const auto container = dfs->own_container;
    unmount(dfs);
    const int rc = daos_cont_close(container, nullptr);
    return errno_of_der(rc != 0 ? rc : daos_pool_disconnect(pool, nullptr));
}

int dfs_query(dfs_t* dfs, dfs_attr_t* attr) {
    if (const int rc = check(dfs); rc != 0) return rc;
    if (attr == nullptr) return EINVAL;
    *attr = {};
    attr->da_chunk_size = DFS_DEFAULT_CHUNK_SIZE;
    attr->da_oclass_id = OC_S1;
    attr->da_dir_oclass_id = OC_S1;
    attr->da_file_oclass_id = OC_S1;
    attr->da_mode = DFS_BALANCED;
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
    // The process that sent it has created the container.
    const int mount_flags = flags != 0 ? flags : static_cast<int>(parse_number(parts[4]));
    return connect_and_mount(parts[0].c_str(), static_cast<unsigned>(parse_number(parts[1])),
                             parts[2].c_str(), static_cast<unsigned>(parse_number(parts[3])),
                             mount_flags & ~O_CREAT, dfs);
}

int dfs_destroy(const char* pool, const char*, const char* cont, int force, daos_event_t* ev) {
    daos_handle_t handle{};
    int rc = connect(pool, DAOS_PC_RW, handle);
    if (rc == 0) {
        rc = daos_cont_destroy(handle, cont, force, nullptr);
        daos_pool_disconnect(handle, nullptr);
    }
    return finish_call(ev, errno_of_der(rc));
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
