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
#define DAOS_SUPER_MAGIC 0xDA05AD10
#define DFS_BALANCED 4
#define DFS_RELAXED 0
#define DFS_RDONLY O_RDONLY
#define DFS_RDWR O_RDWR

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
int dfs_connect(const char* pool, const char* sys, const char* cont, int flags, dfs_attr_t* attr,
                dfs_t** dfs);
int dfs_disconnect(dfs_t* dfs);
int dfs_cont_create(daos_handle_t poh, uuid_t* uuid, dfs_attr_t* attr, daos_handle_t* coh,
                    dfs_t** dfs);
int dfs_cont_create_with_label(daos_handle_t poh, const char* label, dfs_attr_t* attr, uuid_t* uuid,
                               daos_handle_t* coh, dfs_t** dfs);
int dfs_mount(daos_handle_t poh, daos_handle_t coh, int flags, dfs_t** dfs);
int dfs_umount(dfs_t* dfs);
int dfs_query(dfs_t* dfs, dfs_attr_t* attr);
int dfs_local2global(dfs_t* dfs, d_iov_t* glob);
int dfs_global2local(daos_handle_t poh, daos_handle_t coh, int flags, d_iov_t glob, dfs_t** dfs);
/* The same, with the pool and the container. dfs_disconnect() closes all of them. */
int dfs_local2global_all(dfs_t* dfs, d_iov_t* glob);
int dfs_global2local_all(int flags, d_iov_t glob, dfs_t** dfs);
int dfs_destroy(const char* pool, const char* sys, const char* cont, int force, daos_event_t* ev);
int dfs_set_prefix(dfs_t* dfs, const char* prefix);
/* The handles of a mount. The mount still owns them: each get needs a put. */
int dfs_pool_get(dfs_t* dfs, daos_handle_t* poh);
int dfs_pool_put(dfs_t* dfs, daos_handle_t poh);
int dfs_cont_get(dfs_t* dfs, daos_handle_t* coh);
int dfs_cont_put(dfs_t* dfs, daos_handle_t coh);
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
int dfs_lookupx(dfs_t* dfs, dfs_obj_t* parent, const char* name, int flags, dfs_obj_t** obj,
                mode_t* mode, struct stat* stbuf, int xnr, char* xnames[], void* xvals[],
                daos_size_t* xsizes);
int dfs_open_stat(dfs_t* dfs, dfs_obj_t* parent, const char* name, mode_t mode, int flags,
                  daos_oclass_id_t cid, daos_size_t chunk_size, const char* value, dfs_obj_t** obj,
                  struct stat* stbuf);
int dfs_dup(dfs_t* dfs, dfs_obj_t* obj, int flags, dfs_obj_t** new_obj);
int dfs_obj_local2global(dfs_t* dfs, dfs_obj_t* obj, d_iov_t* glob);
int dfs_obj_global2local(dfs_t* dfs, int flags, d_iov_t glob, dfs_obj_t** obj);
int dfs_release(dfs_obj_t* obj);
int dfs_obj2id(dfs_obj_t* obj, daos_obj_id_t* oid);
int dfs_get_mode(dfs_obj_t* obj, mode_t* mode);
int dfs_obj_get_info(dfs_t* dfs, dfs_obj_t* obj, dfs_obj_info_t* info);
int dfs_get_chunk_size(dfs_obj_t* obj, daos_size_t* chunk_size);
int dfs_get_symlink_value(dfs_obj_t* obj, char* buf, daos_size_t* size);
int dfs_update_parent(dfs_obj_t* obj, dfs_obj_t* src_obj, const char* name);
int dfs_update_parentfd(dfs_obj_t* obj, dfs_obj_t* new_parent, const char* name);
int dfs_obj_copy_attr(dfs_obj_t* dst_obj, dfs_obj_t* src_obj);
/* Classes and sizes of chunks are checked, and have no effect. */
int dfs_obj_set_oclass(dfs_t* dfs, dfs_obj_t* obj, int flags, daos_oclass_id_t cid);
int dfs_obj_set_chunk_size(dfs_t* dfs, dfs_obj_t* obj, int flags, daos_size_t csize);
int dfs_file_update_chunk_size(dfs_t* dfs, dfs_obj_t* obj, daos_size_t csize);
int dfs_suggest_oclass(dfs_t* dfs, const char* hint, daos_oclass_id_t* cid);

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
typedef int (*dfs_filler_cb_t)(dfs_t* dfs, dfs_obj_t* obj, const char name[], void* arg);
int dfs_readdir(dfs_t* dfs, dfs_obj_t* obj, daos_anchor_t* anchor, uint32_t* nr,
                struct dirent* dirs);
int dfs_readdirplus(dfs_t* dfs, dfs_obj_t* obj, daos_anchor_t* anchor, uint32_t* nr,
                    struct dirent* dirs, struct stat* stbufs);
int dfs_iterate(dfs_t* dfs, dfs_obj_t* obj, daos_anchor_t* anchor, uint32_t* nr, size_t size,
                dfs_filler_cb_t op, void* arg);
int dfs_mkdir(dfs_t* dfs, dfs_obj_t* parent, const char* name, mode_t mode, daos_oclass_id_t cid);
int dfs_remove(dfs_t* dfs, dfs_obj_t* parent, const char* name, bool force, daos_obj_id_t* oid);
int dfs_move(dfs_t* dfs, dfs_obj_t* parent, const char* name, dfs_obj_t* new_parent,
             const char* new_name, daos_obj_id_t* oid);
int dfs_move_internal(dfs_t* dfs, unsigned int flags, dfs_obj_t* parent, const char* name,
                      dfs_obj_t* new_parent, const char* new_name, daos_obj_id_t* moid,
                      daos_obj_id_t* oid);
int dfs_exchange(dfs_t* dfs, dfs_obj_t* parent1, const char* name1, dfs_obj_t* parent2,
                 const char* name2);

/* A directory is listed in one part. */
int dfs_obj_anchor_split(dfs_obj_t* obj, uint32_t* nr, daos_anchor_t* anchors);
int dfs_obj_anchor_set(dfs_obj_t* obj, uint32_t index, daos_anchor_t* anchor);
/* The anchor for a listing that continues at this name. */
int dfs_dir_anchor_set(dfs_obj_t* obj, const char name[], daos_anchor_t* anchor);

/* Entries that match: names with '%' (any text) and '_' (any character), and changed after a time.
 * Directories match in any case, except with DFS_FILTER_INCLUDE_DIRS. */
typedef struct dfs_pipeline dfs_pipeline_t;
enum { DFS_FILTER_NAME = 1 << 1, DFS_FILTER_NEWER = 1 << 2, DFS_FILTER_INCLUDE_DIRS = 1 << 3 };
typedef struct {
    char dp_name[DFS_MAX_NAME];
    time_t dp_newer;
    size_t dp_size;
} dfs_predicate_t;
int dfs_pipeline_create(dfs_t* dfs, dfs_predicate_t pred, uint64_t flags, dfs_pipeline_t** dpipe);
int dfs_pipeline_destroy(dfs_pipeline_t* dpipe);
int dfs_readdir_with_filter(dfs_t* dfs, dfs_obj_t* obj, dfs_pipeline_t* dpipe,
                            daos_anchor_t* anchor, uint32_t* nr, struct dirent* dirs,
                            daos_obj_id_t* oids, daos_size_t* csizes, uint64_t* nr_scanned);

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
int dfs_ostatx(dfs_t* dfs, dfs_obj_t* obj, struct stat* stbuf, daos_event_t* ev);
int dfs_osetattr(dfs_t* dfs, dfs_obj_t* obj, struct stat* stbuf, int flags);
int dfs_access(dfs_t* dfs, dfs_obj_t* parent, const char* name, int mask);
int dfs_chmod(dfs_t* dfs, dfs_obj_t* parent, const char* name, mode_t mode);
int dfs_chown(dfs_t* dfs, dfs_obj_t* parent, const char* name, uid_t uid, gid_t gid, int flags);
int dfs_setxattr(dfs_t* dfs, dfs_obj_t* obj, const char* name, const void* value, daos_size_t size,
                 int flags);
int dfs_getxattr(dfs_t* dfs, dfs_obj_t* obj, const char* name, void* value, daos_size_t* size);
int dfs_removexattr(dfs_t* dfs, dfs_obj_t* obj, const char* name);
int dfs_listxattr(dfs_t* dfs, dfs_obj_t* obj, char* list, daos_size_t* size);

#ifdef __cplusplus
}
#endif
#endif
