/* A libdfs.so that sets the time of modification of what it moves, as DAOS 2.6 does. The rest is
 * the library of plugins/daos. */
#include <daos.h>
#include <daos_fs.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>

/* `function`: the address of a pointer to it. */
static void find_in_ours(const char* name, void* function) {
    *(void**)function = dlsym(dlopen("libros2store-daos.so.0", RTLD_NOW | RTLD_NOLOAD), name);
}

static int touch(dfs_t* dfs, dfs_obj_t* parent, const char* name) {
    dfs_obj_t* object = NULL;
    mode_t mode = 0;
    struct stat now = {0};
    int rc = dfs_lookup_rel(dfs, parent, name, O_RDWR | O_NOFOLLOW, &object, &mode, NULL);
    if (rc != 0) return rc;
    clock_gettime(CLOCK_REALTIME, &now.st_mtim);
    if (!S_ISLNK(mode)) rc = dfs_osetattr(dfs, object, &now, DFS_SET_ATTR_MTIME);
    dfs_release(object);
    return rc;
}

int dfs_move(dfs_t* dfs, dfs_obj_t* parent, const char* name, dfs_obj_t* new_parent,
             const char* new_name, daos_obj_id_t* id) {
    int (*move)(dfs_t*, dfs_obj_t*, const char*, dfs_obj_t*, const char*, daos_obj_id_t*);
    find_in_ours("dfs_move", (void*)&move);
    const int rc = move(dfs, parent, name, new_parent, new_name, id);
    return rc != 0 ? rc : touch(dfs, new_parent, new_name);
}

int dfs_exchange(dfs_t* dfs, dfs_obj_t* one, const char* name, dfs_obj_t* other,
                 const char* other_name) {
    int (*exchange)(dfs_t*, dfs_obj_t*, const char*, dfs_obj_t*, const char*);
    find_in_ours("dfs_exchange", (void*)&exchange);
    int rc = exchange(dfs, one, name, other, other_name);
    if (rc == 0) rc = touch(dfs, one, name);
    return rc != 0 ? rc : touch(dfs, other, other_name);
}
