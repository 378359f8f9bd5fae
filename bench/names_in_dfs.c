/* names_in_dfs.c: dfs://POOL/CONTAINER/DIRECTORY, of DAOS or of a library in its place. Makes the
 * directory. Each thread keeps its own directory open, as programs of DAOS do. */
#include <daos.h>
#include <daos_fs.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "names_in.h"

static dfs_t* dfs;
static dfs_obj_t* top;
static __thread dfs_obj_t* own;

int names_open(const char* uri) {
    char pool[128], container[128], directory[128];
    if (sscanf(uri, "dfs://%127[^/]/%127[^/]/%127[^/]", pool, container, directory) != 3)
        return -EINVAL;
    int rc = dfs_init();
    if (rc == 0) rc = dfs_connect(pool, NULL, container, O_RDWR, NULL, &dfs);
    if (rc == 0) rc = dfs_mkdir(dfs, NULL, directory, 0755, 0);
    if (rc == 0) rc = dfs_lookup_rel(dfs, NULL, directory, O_RDWR, &top, NULL, NULL);
    return -rc;
}
int names_close(void) {
    int rc = dfs_release(top);
    if (rc == 0) rc = dfs_disconnect(dfs);
    return -(rc == 0 ? dfs_fini() : rc);
}
int names_mkdir(const char* path) { return -dfs_mkdir(dfs, top, path, 0755, 0); }
const char* names_why(int result) { return strerror(-result); }

static const char* in_own(const char* path) {
    const char* const name = strchr(path, '/');
    char directory[128];
    if (name == NULL) return NULL;
    if (own == NULL) {
        snprintf(directory, sizeof directory, "%.*s", (int)(name - path), path);
        if (dfs_lookup_rel(dfs, top, directory, O_RDWR, &own, NULL, NULL) != 0) return NULL;
    }
    return name + 1;
}

int names_do(enum operation operation, const char* path, const char* to) {
    struct stat st;
    dfs_obj_t* file;
    const char* const name = in_own(path);
    if (name == NULL) return -ENOENT;
    if (operation == STAT) return -dfs_stat(dfs, own, name, &st);
    if (operation == UNLINK) return -dfs_remove(dfs, own, name, 0, NULL);
    if (operation == RENAME) return -dfs_move(dfs, own, name, own, in_own(to), NULL);
    const int flags = operation == CREATE ? O_RDWR | O_CREAT | O_EXCL : O_RDONLY;
    const int rc = dfs_open(dfs, own, name, S_IFREG | 0644, flags, 0, 0, NULL, &file);
    return -(rc != 0 ? rc : dfs_release(file));
}
