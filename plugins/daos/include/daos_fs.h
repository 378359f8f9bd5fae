/* DFS, the files of the DAOS client interface (DAOS 2.6, daos_fs.h). Functions return 0 or a
 * positive errno; so does ev_error of their events. */
#ifndef ROS2STORE_DAOS_FS_H
#define ROS2STORE_DAOS_FS_H

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "daos_array.h"
#include "daos_cont.h"
#include "daos_obj.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DFS_MAX_NAME NAME_MAX
#define DFS_MAX_PATH PATH_MAX
#define DFS_MAX_FSIZE (~0ULL)
#define DFS_DEFAULT_CHUNK_SIZE 1048576
#define DFS_MAX_XATTR_NAME 255
#define DFS_MAX_XATTR_LEN 65536
#define DFS_BALANCED 4
#define DFS_RELAXED 0

typedef struct dfs_obj dfs_obj_t;
typedef struct dfs dfs_t;

typedef struct {
    uint64_t da_id;
    daos_size_t da_chunk_size;
    daos_oclass_id_t da_oclass_id;
    daos_prop_t* da_props;
    uint32_t da_mode;
    daos_oclass_id_t da_dir_oclass_id;
    daos_oclass_id_t da_file_oclass_id;
    char da_hints[DAOS_CONT_HINT_MAX_LEN];
} dfs_attr_t;

typedef struct {
    daos_size_t iod_nr;
    daos_range_t* iod_rgs;
} dfs_iod_t;

typedef struct {
    daos_oclass_id_t doi_oclass_id;
    daos_size_t doi_chunk_size;
    daos_oclass_id_t doi_dir_oclass_id;
    daos_oclass_id_t doi_file_oclass_id;
    daos_obj_id_t doi_oid;
} dfs_obj_info_t;

/* ---- mounts */
int dfs_init(void);
int dfs_fini(void);
int dfs_cont_create(daos_handle_t poh, uuid_t* uuid, dfs_attr_t* attr, daos_handle_t* coh,
                    dfs_t** dfs);
int dfs_cont_create_with_label(daos_handle_t poh, const char* label, dfs_attr_t* attr, uuid_t* uuid,
                               daos_handle_t* coh, dfs_t** dfs);
int dfs_mount(daos_handle_t poh, daos_handle_t coh, int flags, dfs_t** dfs);
int dfs_umount(dfs_t* dfs);
int dfs_query(dfs_t* dfs, dfs_attr_t* attr);
int dfs_local2global(dfs_t* dfs, d_iov_t* glob);
int dfs_global2local(daos_handle_t poh, daos_handle_t coh, int flags, d_iov_t glob, dfs_t** dfs);
int dfs_set_prefix(dfs_t* dfs, const char* prefix);
/* Changes the owner of the root directory. The names must be those of the numbers, or null. */
int dfs_cont_set_owner(daos_handle_t coh, d_string_t user, uid_t uid, d_string_t group, gid_t gid);
int dfs_sync(dfs_t* dfs);

/* ---- objects: files, directories, symbolic links */
int dfs_lookup(dfs_t* dfs, const char* path, int flags, dfs_obj_t** obj, mode_t* mode,
               struct stat* stbuf);
int dfs_lookup_rel(dfs_t* dfs, dfs_obj_t* parent, const char* name, int flags, dfs_obj_t** obj,
                   mode_t* mode, struct stat* stbuf);
int dfs_open(dfs_t* dfs, dfs_obj_t* parent, const char* name, mode_t mode, int flags,
             daos_oclass_id_t cid, daos_size_t chunk_size, const char* value, dfs_obj_t** obj);
int dfs_obj_local2global(dfs_t* dfs, dfs_obj_t* obj, d_iov_t* glob);
int dfs_obj_global2local(dfs_t* dfs, int flags, d_iov_t glob, dfs_obj_t** obj);
int dfs_release(dfs_obj_t* obj);
int dfs_obj2id(dfs_obj_t* obj, daos_obj_id_t* oid);
int dfs_get_mode(dfs_obj_t* obj, mode_t* mode);
int dfs_obj_get_info(dfs_t* dfs, dfs_obj_t* obj, dfs_obj_info_t* info);
int dfs_get_symlink_value(dfs_obj_t* obj, char* buf, daos_size_t* size);
/* Classes and sizes of chunks are checked, and have no effect. */
int dfs_obj_set_oclass(dfs_t* dfs, dfs_obj_t* obj, int flags, daos_oclass_id_t cid);
int dfs_obj_set_chunk_size(dfs_t* dfs, dfs_obj_t* obj, int flags, daos_size_t csize);
int dfs_file_update_chunk_size(dfs_t* dfs, dfs_obj_t* obj, daos_size_t csize);

/* ---- bytes of files */
int dfs_read(dfs_t* dfs, dfs_obj_t* obj, d_sg_list_t* sgl, daos_off_t off, daos_size_t* read_size,
             daos_event_t* ev);
int dfs_readx(dfs_t* dfs, dfs_obj_t* obj, dfs_iod_t* iod, d_sg_list_t* sgl, daos_size_t* read_size,
              daos_event_t* ev);
int dfs_write(dfs_t* dfs, dfs_obj_t* obj, d_sg_list_t* sgl, daos_off_t off, daos_event_t* ev);
int dfs_writex(dfs_t* dfs, dfs_obj_t* obj, dfs_iod_t* iod, d_sg_list_t* sgl, daos_event_t* ev);
int dfs_get_size(dfs_t* dfs, dfs_obj_t* obj, daos_size_t* size);
int dfs_punch(dfs_t* dfs, dfs_obj_t* obj, daos_off_t offset, daos_size_t len);

/* ---- directories */
int dfs_readdir(dfs_t* dfs, dfs_obj_t* obj, daos_anchor_t* anchor, uint32_t* nr,
                struct dirent* dirs);
int dfs_mkdir(dfs_t* dfs, dfs_obj_t* parent, const char* name, mode_t mode, daos_oclass_id_t cid);
int dfs_remove(dfs_t* dfs, dfs_obj_t* parent, const char* name, bool force, daos_obj_id_t* oid);
int dfs_move(dfs_t* dfs, dfs_obj_t* parent, const char* name, dfs_obj_t* new_parent,
             const char* new_name, daos_obj_id_t* oid);
int dfs_exchange(dfs_t* dfs, dfs_obj_t* parent1, const char* name1, dfs_obj_t* parent2,
                 const char* name2);

/* ---- DAOS's own tree of objects: not supported (ENOTSUP). Use ros2store container check. */
int dfs_cont_check(daos_handle_t poh, const char* cont, uint64_t flags, const char* name);
int dfs_cont_scan(daos_handle_t poh, const char* cont, uint64_t flags, const char* name);
int dfs_recreate_sb(daos_handle_t coh, dfs_attr_t* attr);
int dfs_relink_root(daos_handle_t coh);
int dfs_obj_fix_type(dfs_t* dfs, dfs_obj_t* parent, const char* name);

/* ---- attributes */
#define DFS_SET_ATTR_MODE (1 << 0)
#define DFS_SET_ATTR_ATIME (1 << 1)
#define DFS_SET_ATTR_MTIME (1 << 2)
#define DFS_SET_ATTR_SIZE (1 << 3)
#define DFS_SET_ATTR_UID (1 << 4)
#define DFS_SET_ATTR_GID (1 << 5)
int dfs_stat(dfs_t* dfs, dfs_obj_t* parent, const char* name, struct stat* stbuf);
int dfs_ostat(dfs_t* dfs, dfs_obj_t* obj, struct stat* stbuf);
int dfs_osetattr(dfs_t* dfs, dfs_obj_t* obj, struct stat* stbuf, int flags);
int dfs_access(dfs_t* dfs, dfs_obj_t* parent, const char* name, int mask);
int dfs_setxattr(dfs_t* dfs, dfs_obj_t* obj, const char* name, const void* value, daos_size_t size,
                 int flags);
int dfs_getxattr(dfs_t* dfs, dfs_obj_t* obj, const char* name, void* value, daos_size_t* size);
int dfs_removexattr(dfs_t* dfs, dfs_obj_t* obj, const char* name);
int dfs_listxattr(dfs_t* dfs, dfs_obj_t* obj, char* list, daos_size_t* size);

#ifdef __cplusplus
}
#endif
#endif
