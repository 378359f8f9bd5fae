/* DFS by path names, as system calls have them (DAOS 2.6, daos_fs_sys.h). Functions return 0 or a
 * positive errno. Paths begin with '/'. O_NOFOLLOW: not through a last symbolic link. */
#ifndef ROS2STORE_DAOS_FS_SYS_H
#define ROS2STORE_DAOS_FS_SYS_H

#include <dirent.h>

#include "daos.h"
#include "daos_fs.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Flags of a mount (sflags). Directories are not cached, and locks are cheap: they have no effect.
 */
#define DFS_SYS_NO_LOCK 2

typedef struct dfs_sys dfs_sys_t;

int dfs_sys_mount(daos_handle_t poh, daos_handle_t coh, int mflags, int sflags,
                  dfs_sys_t** dfs_sys);
int dfs_sys_umount(dfs_sys_t* dfs_sys);

int dfs_sys_chmod(dfs_sys_t* dfs_sys, const char* path, mode_t mode);
int dfs_sys_stat(dfs_sys_t* dfs_sys, const char* path, int flags, struct stat* stbuf);

int dfs_sys_mkdir(dfs_sys_t* dfs_sys, const char* dir, mode_t mode, daos_oclass_id_t cid);
int dfs_sys_symlink(dfs_sys_t* dfs_sys, const char* target, const char* path);
int dfs_sys_readlink(dfs_sys_t* dfs_sys, const char* path, char* buf, daos_size_t* size);

int dfs_sys_open(dfs_sys_t* dfs_sys, const char* path, mode_t mode, int flags, daos_oclass_id_t cid,
                 daos_size_t chunk_size, const char* value, dfs_obj_t** obj);
int dfs_sys_close(dfs_obj_t* obj);
int dfs_sys_read(dfs_sys_t* dfs_sys, dfs_obj_t* obj, void* buf, daos_off_t off, daos_size_t* size,
                 daos_event_t* ev);
int dfs_sys_write(dfs_sys_t* dfs_sys, dfs_obj_t* obj, const void* buf, daos_off_t off,
                  daos_size_t* size, daos_event_t* ev);

/* The DIR is for these functions only, not for those of libc. */
int dfs_sys_opendir(dfs_sys_t* dfs_sys, const char* dir, int flags, DIR** dirp);
int dfs_sys_closedir(DIR* dirp);
int dfs_sys_readdir(dfs_sys_t* dfs_sys, DIR* dirp, struct dirent** dirent);

#ifdef __cplusplus
}
#endif
#endif
