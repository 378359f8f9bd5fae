/* usage: path_calls POOL CONTAINER SET_UP
 *
 * Calls of libdfs by path (dfs_sys_*) and of libduns. SET_UP "+dpu": containers can be neither
 * created nor destroyed. The container is empty. */
#include <daos.h>
#include <daos_fs.h>
#include <daos_fs_sys.h>
#include <daos_uns.h>
#include <sys/xattr.h>

#include "checks.h"

static const char *pool_label, *container_label;
static bool is_offload;
static dfs_sys_t* sys;
static dfs_t* files_of_container;

static void make_file(const char* path, mode_t mode) {
    dfs_obj_t* file;
    CHECK_EQUAL(dfs_sys_open(sys, path, mode, O_CREAT | O_EXCL | O_RDWR, 0, 0, NULL, &file), 0);
    CHECK_EQUAL(dfs_sys_close(file), 0);
}

static void names(void) {
    struct stat facts;
    char target[16];
    daos_size_t size = sizeof target;
    CHECK_EQUAL(dfs_sys_mkdir(sys, "/d", 0750, 0), 0);
    CHECK_EQUAL(dfs_sys_mkdir(sys, "/d/", 0750, 0), EEXIST);
    CHECK_EQUAL(dfs_sys_mkdir(sys, "/", 0750, 0), EEXIST);
    CHECK_EQUAL(dfs_sys_mkdir(sys, "/absent/d", 0750, 0), ENOENT);
    CHECK_EQUAL(dfs_sys_mkdir(sys, "d", 0750, 0), EINVAL);
    CHECK_EQUAL(dfs_sys_mkdir(sys, "/d//e", 0750, 0), 0);
    make_file("/d/e/f", 0640);
    CHECK_EQUAL(dfs_sys_mkdir(sys, "/d/e/f/g", 0750, 0), ENOTDIR);
    CHECK_EQUAL(dfs_sys_symlink(sys, "e/f", "/d/l"), 0);
    CHECK_EQUAL(dfs_sys_stat(sys, "/d/l", 0, &facts), 0);
    CHECK_EQUAL(facts.st_mode, S_IFREG | 0640);
    CHECK_EQUAL(dfs_sys_stat(sys, "/d/l", O_NOFOLLOW, &facts), 0);
    CHECK(S_ISLNK(facts.st_mode));
    CHECK_EQUAL(dfs_sys_stat(sys, "/", 0, &facts), 0);
    CHECK(S_ISDIR(facts.st_mode));
    CHECK_EQUAL(dfs_sys_readlink(sys, "/d/l", target, &size), 0);
    CHECK_EQUAL(size, 4);
    CHECK_EQUAL(strcmp(target, "e/f"), 0);
    CHECK_EQUAL(dfs_sys_readlink(sys, "/d/e/f", target, &size), EINVAL);
    CHECK_EQUAL(dfs_sys_symlink(sys, "e/f", "/d/l"), EEXIST);
    CHECK_EQUAL(dfs_sys_symlink(sys, "e/f", "/"), EEXIST);
    CHECK_EQUAL(dfs_sys_chmod(sys, "/d/l", S_IFDIR | 0600), EINVAL);
    CHECK_EQUAL(dfs_sys_chmod(sys, "/d/l", S_IFREG | S_ISVTX | 0600), ENOTSUP);
    CHECK_EQUAL(dfs_sys_chmod(sys, "/d/l", S_IFREG | 0604), 0);
    CHECK_EQUAL(dfs_sys_stat(sys, "/d/e/f", 0, &facts), 0);
    CHECK_EQUAL(facts.st_mode, S_IFREG | 0604);
}

static void files(void) {
    dfs_obj_t *file, *same;
    char bytes[64] = "hello, world";
    daos_size_t size = 12;
    CHECK_EQUAL(dfs_sys_open(sys, "/d/new", 0600, O_CREAT | O_RDWR | O_EXCL, 0, 0, NULL, &file), 0);
    CHECK_EQUAL(dfs_sys_write(sys, file, bytes, 3, &size, NULL), 0);
    size = sizeof bytes;
    memset(bytes, 0, sizeof bytes);
    CHECK_EQUAL(dfs_sys_read(sys, file, bytes, 3, &size, NULL), 0);
    CHECK_EQUAL(size, 12);
    CHECK_EQUAL(strcmp(bytes, "hello, world"), 0);

    /* With an event. */
    daos_handle_t queue;
    daos_event_t event, *done = NULL;
    CHECK_EQUAL(daos_eq_create(&queue), 0);
    CHECK_EQUAL(daos_event_init(&event, queue, NULL), 0);
    size = sizeof bytes;
    CHECK_EQUAL(dfs_sys_read(sys, file, bytes, 8, &size, &event), 0);
    CHECK_EQUAL(daos_eq_poll(queue, 1, DAOS_EQ_WAIT, 1, &done), 1);
    CHECK(done == &event && event.ev_error == 0);
    CHECK_EQUAL(size, 7);
    CHECK_EQUAL(daos_event_fini(&event), 0);
    CHECK_EQUAL(daos_eq_destroy(queue, 0), 0);

    CHECK_EQUAL(dfs_sys_open(sys, "/d/new", 0, O_RDONLY, 0, 0, NULL, &same), 0);
    CHECK_EQUAL(dfs_sys_close(same), 0);
    CHECK_EQUAL(dfs_sys_open(sys, "/d", 0, O_RDONLY, 0, 0, NULL, &same), EINVAL);
    CHECK_EQUAL(dfs_sys_open(sys, "/", S_IFDIR, O_RDONLY, 0, 0, NULL, &same), 0);
    CHECK_EQUAL(dfs_sys_close(same), 0);
    CHECK_EQUAL(dfs_sys_open(sys, "/", 0, O_RDONLY, 0, 0, NULL, &same), ENOTDIR);
    CHECK_EQUAL(dfs_sys_close(file), 0);
}

static void directories(void) {
    enum { many = 150 };
    char path[32];
    bool seen[many] = {false};
    DIR* directory = NULL;
    struct dirent* entry = NULL;
    int count = 0;
    CHECK_EQUAL(dfs_sys_mkdir(sys, "/many", 0755, 0), 0);
    for (int i = 0; i < many; i++) {
        snprintf(path, sizeof path, "/many/%d", i);
        make_file(path, 0600);
    }
    CHECK_EQUAL(dfs_sys_opendir(sys, "/many/0", 0, &directory), ENOTDIR);
    CHECK_EQUAL(dfs_sys_opendir(sys, "/many", 0, &directory), 0);
    for (;; count++) {
        CHECK_EQUAL(dfs_sys_readdir(sys, directory, &entry), 0);
        if (entry == NULL) break;
        const int number = atoi(entry->d_name);
        CHECK(number >= 0 && number < many && !seen[number]);
        seen[number] = true;
    }
    CHECK_EQUAL(count, many);
    CHECK_EQUAL(dfs_sys_closedir(directory), 0);
    CHECK_EQUAL(dfs_remove(files_of_container, NULL, "many", true, NULL), 0);
    CHECK_EQUAL(dfs_remove(files_of_container, NULL, "d", true, NULL), 0);
}

static void read_only_mounts_change_nothing(daos_handle_t pool, daos_handle_t container) {
    dfs_sys_t* mounted = NULL;
    struct stat facts;
    CHECK_EQUAL(dfs_sys_mount(pool, container, O_RDONLY, DFS_SYS_NO_LOCK, &mounted), 0);
    CHECK_EQUAL(dfs_sys_stat(mounted, "/", 0, &facts), 0);
    CHECK_EQUAL(dfs_sys_mkdir(mounted, "/x", 0755, 0), EPERM);
    CHECK_EQUAL(dfs_sys_chmod(mounted, "/", 0755), EPERM);
    CHECK_EQUAL(dfs_sys_umount(mounted), 0);
}

/* ---- libduns */

static int resolve(const char* path, uint32_t flags, struct duns_attr_t* attributes) {
    *attributes = (struct duns_attr_t){.da_flags = flags};
    return duns_resolve_path(path, attributes);
}

static void expect(struct duns_attr_t* attributes, const char* pool, const char* container,
                   const char* rest) {
    CHECK_EQUAL(strcmp(attributes->da_pool, pool), 0);
    CHECK_EQUAL(strcmp(attributes->da_cont, container), 0);
    CHECK_EQUAL(attributes->da_rel_path == NULL, rest == NULL);
    if (rest != NULL) CHECK_EQUAL(strcmp(attributes->da_rel_path, rest), 0);
    duns_destroy_attr(attributes);
    CHECK(attributes->da_rel_path == NULL);
}

static void direct_paths(void) {
    struct duns_attr_t found;
    char many[400] = "daos://tank/";
    CHECK_EQUAL(resolve("daos://tank/main/a/b", 0, &found), 0);
    expect(&found, "tank", "main", "/a/b");
    CHECK_EQUAL(resolve("daos://tank/main", 0, &found), 0);
    expect(&found, "tank", "main", NULL);
    CHECK_EQUAL(resolve("DAOS://tank/main/", 0, &found), 0);
    expect(&found, "tank", "main", NULL);
    CHECK_EQUAL(resolve("daos://tank", 0, &found), 0);
    expect(&found, "tank", "", NULL);
    CHECK_EQUAL(resolve("daos://ta nk/main", 0, &found), EINVAL);
    CHECK_EQUAL(resolve("daos://", 0, &found), ENOENT);
    memset(many + 12, 'x', 128);
    CHECK_EQUAL(resolve(many, 0, &found), EINVAL);
    CHECK_EQUAL(resolve("", 0, &found), EINVAL);
    CHECK_EQUAL(resolve("/tank/main/c", DUNS_NO_CHECK_PATH, &found), 0);
    expect(&found, "tank", "main", "/c");
    CHECK_EQUAL(resolve("/tank", DUNS_NO_CHECK_PATH, &found), EINVAL);
    CHECK_EQUAL(
        resolve("/01234567-89ab-cdef-0123-456789abcdef/11234567-89ab-cdef-0123-456789abcdef/x",
                DUNS_NO_PREFIX, &found),
        0);
    CHECK_EQUAL(found.da_cuuid[0], 0x11);
    expect(&found, "01234567-89ab-cdef-0123-456789abcdef", "11234567-89ab-cdef-0123-456789abcdef",
           "/x");
}

/* What a directory's attribute says is the path's container, if it has DAOS's form. */
static void attributes_are_parsed(void) {
    struct duns_attr_t found;
    static const char text[] =
        "DAOS.POSIX://01234567-89ab-cdef-0123-456789abcdef/"
        "11234567-89ab-cdef-0123-456789abcdef";
    static const char padded[] =
        "DAOS.HDF5://                                tank/"
        "                                main";
    CHECK_EQUAL(mkdir("attribute", 0755), 0);
    if (setxattr("attribute", DUNS_XATTR_NAME, text, sizeof text, 0) == 0) {
        CHECK_EQUAL(resolve("attribute", 0, &found), 0);
        CHECK_EQUAL(found.da_type, DAOS_PROP_CO_LAYOUT_POSIX);
        CHECK_EQUAL(found.da_puuid[0], 0x01);
        duns_destroy_attr(&found);
        CHECK_EQUAL(setxattr("attribute", DUNS_XATTR_NAME, padded, sizeof padded - 1, 0), 0);
        CHECK_EQUAL(resolve("attribute", 0, &found), 0);
        CHECK_EQUAL(found.da_type, DAOS_PROP_CO_LAYOUT_HDF5);
        expect(&found, "tank", "main", NULL);
        static const char* const bad[] = {"",
                                          "DAOS",
                                          "DAOS.",
                                          "DAOS.POSIX",
                                          "DAOS.POSIX://",
                                          "DAOS.POSIX://a",
                                          "DAOS.NONE://a/b",
                                          "DAOS.://a/b",
                                          "XAOS.POSIX://a/b",
                                          "DAOS.POSIX://a*/b"};
        for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
            CHECK_EQUAL(setxattr("attribute", DUNS_XATTR_NAME, bad[i], strlen(bad[i]), 0), 0);
            CHECK_EQUAL(resolve("attribute", 0, &found), EINVAL);
        }
    }
    CHECK_EQUAL(rmdir("attribute"), 0);
}

static void paths_of_containers(void) {
    daos_handle_t pool, container;
    struct duns_attr_t made = {.da_type = DAOS_PROP_CO_LAYOUT_POSIX}, found;
    CHECK_EQUAL(daos_pool_connect(pool_label, NULL, DAOS_PC_RW, &pool, NULL, NULL), 0);
    CHECK_EQUAL(duns_link_cont(pool, "absent", "link"), ENOENT);
    const int rc = duns_link_cont(pool, container_label, "link");
    if (rc == ENOTSUP) {
        fprintf(stderr, "path_calls: this file system has no extended attributes\n");
        CHECK_EQUAL(access("link", F_OK), -1);
        CHECK_EQUAL(daos_pool_disconnect(pool, NULL), 0);
        return;
    }
    CHECK_EQUAL(rc, 0);
    CHECK_EQUAL(duns_link_cont(pool, container_label, "link"), EEXIST);
    CHECK_EQUAL(resolve("link", 0, &found), 0);
    expect(&found, pool_label, container_label, NULL);
    CHECK_EQUAL(mkdir("link/a", 0755), 0);
    CHECK_EQUAL(mkdir("link/a/b", 0755), 0);
    CHECK_EQUAL(resolve("link/a/b", 0, &found), 0);
    expect(&found, pool_label, container_label, "/a/b");
    CHECK_EQUAL(resolve("link/a/b", DUNS_NO_REVERSE_LOOKUP, &found), ENODATA);
    CHECK_EQUAL(resolve(".", 0, &found), ENODATA);
    CHECK_EQUAL(resolve("nothing", 0, &found), ENOENT);
    CHECK_EQUAL(duns_destroy_path(pool, "link"), ENOTEMPTY);
    CHECK_EQUAL(rmdir("link/a/b"), 0);
    CHECK_EQUAL(rmdir("link/a"), 0);

    const int created = duns_create_path(pool, "own", &made);
    CHECK_EQUAL(created, is_offload ? ENOTSUP : 0);
    if (created == 0) {
        CHECK_EQUAL(resolve("own", 0, &found), 0);
        CHECK_EQUAL(strcmp(found.da_cont, made.da_cont), 0);
        CHECK_EQUAL(daos_cont_open(pool, found.da_cont, DAOS_COO_RW, &container, NULL, NULL), 0);
        /* In use: neither the path nor the container is removed. */
        CHECK_EQUAL(duns_destroy_path(pool, "own"), EBUSY);
        CHECK_EQUAL(resolve("own", 0, &found), 0);
        CHECK_EQUAL(daos_cont_close(container, NULL), 0);
        /* Nothing is created if the path cannot be created. */
        CHECK_EQUAL(duns_create_path(pool, "own", &made), EEXIST);
        CHECK_EQUAL(duns_destroy_path(pool, "own"), 0);
        CHECK_EQUAL(access("own", F_OK), -1);
        CHECK_EQUAL(daos_cont_open(pool, found.da_cont, DAOS_COO_RW, &container, NULL, NULL),
                    -DER_NONEXIST);
        made.da_type = DAOS_PROP_CO_LAYOUT_HDF5;
        CHECK_EQUAL(duns_create_path(pool, "file", &made), 0);
        CHECK_EQUAL(resolve("file", 0, &found), 0);
        CHECK_EQUAL(found.da_type, DAOS_PROP_CO_LAYOUT_HDF5);
        CHECK_EQUAL(duns_destroy_path(pool, "file"), 0);
        CHECK_EQUAL(duns_create_path(pool, "daos://tank/named", &made), 0);
        CHECK_EQUAL(strcmp(made.da_cont, "named"), 0);
        CHECK_EQUAL(duns_destroy_path(pool, "daos://tank/named"), 0);
        CHECK_EQUAL(duns_destroy_path(pool, "daos://tank/named"), ENOENT);
    }
    /* Another pool's handle. */
    CHECK_EQUAL(daos_pool_disconnect(pool, NULL), 0);
    CHECK_EQUAL(daos_pool_connect("other", NULL, DAOS_PC_RW, &pool, NULL, NULL), 0);
    CHECK_EQUAL(duns_destroy_path(pool, "link"), EINVAL);
    CHECK_EQUAL(daos_pool_disconnect(pool, NULL), 0);
    CHECK_EQUAL(rmdir("link"), 0);
}

int main(int count, char** arguments) {
    CHECK_EQUAL(count, 4);
    pool_label = arguments[1];
    container_label = arguments[2];
    is_offload = strcmp(arguments[3], "+dpu") == 0;
    daos_handle_t pool, container;
    CHECK_EQUAL(dfs_init(), 0);
    CHECK_EQUAL(daos_pool_connect(pool_label, NULL, DAOS_PC_RW, &pool, NULL, NULL), 0);
    CHECK_EQUAL(daos_cont_open(pool, container_label, DAOS_COO_RW, &container, NULL, NULL), 0);
    CHECK_EQUAL(dfs_mount(pool, container, O_RDWR, &files_of_container), 0);
    CHECK_EQUAL(dfs_sys_mount(pool, container, O_RDWR, 0, &sys), 0);
    names();
    files();
    directories();
    CHECK_EQUAL(dfs_sys_umount(sys), 0);
    CHECK_EQUAL(dfs_umount(files_of_container), 0);
    read_only_mounts_change_nothing(pool, container);
    CHECK_EQUAL(daos_cont_close(container, NULL), 0);
    CHECK_EQUAL(daos_pool_disconnect(pool, NULL), 0);
    direct_paths();
    attributes_are_parsed();
    paths_of_containers();
    CHECK_EQUAL(dfs_fini(), 0);
    return 0;
}
