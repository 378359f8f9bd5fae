/* usage: dfs_calls POOL CONTAINER [full]
 *
 * Calls of libdfs and libdaos, as a program of DAOS makes them. ROS2STORE_DAOS says where the pool
 * is; the container is empty. `full`: the pool is small, and gets full. */
#include <daos.h>
#include <daos_fs.h>
#include <pthread.h>
#include <sys/xattr.h>

#include "checks.h"

enum { block = 4096, blocks = 64 };

static daos_handle_t pool, container;
static dfs_t* dfs;

static d_sg_list_t list_of(d_iov_t* iov, void* buffer, size_t bytes) {
    d_iov_set(iov, buffer, bytes);
    return (d_sg_list_t){.sg_nr = 1, .sg_nr_out = 0, .sg_iovs = iov};
}

static dfs_obj_t* create(const char* name) {
    dfs_obj_t* object = NULL;
    CHECK_EQUAL(
        dfs_open(dfs, NULL, name, S_IFREG | 0640, O_CREAT | O_RDWR, OC_SX, 0, NULL, &object), 0);
    return object;
}

static void handles_are_checked(void) {
    daos_handle_t other, none = DAOS_HDL_INVAL;
    dfs_t* mounted;
    daos_pool_info_t info = {.pi_bits = DPI_SPACE};
    daos_cont_info_t facts;
    CHECK_EQUAL(daos_pool_disconnect(pool, NULL), -DER_BUSY);
    CHECK_EQUAL(daos_cont_close(container, NULL), -DER_BUSY);
    CHECK_EQUAL(daos_pool_disconnect(container, NULL), -DER_NO_HDL);
    CHECK_EQUAL(daos_cont_open(none, "main", DAOS_COO_RW, &other, NULL, NULL), -DER_NO_HDL);
    CHECK_EQUAL(daos_cont_open(pool, "absent", DAOS_COO_RW, &other, NULL, NULL), -DER_NONEXIST);
    CHECK_EQUAL(daos_pool_connect("a/b", NULL, DAOS_PC_RW, &other, NULL, NULL), -DER_NONEXIST);
    CHECK_EQUAL(dfs_mount(pool, none, O_RDWR, &mounted), EINVAL);
    CHECK_EQUAL(daos_pool_query(pool, NULL, &info, NULL, NULL), 0);
    CHECK(info.pi_space.ps_space.s_total[DAOS_MEDIA_NVME] > 0);
    CHECK(info.pi_space.ps_space.s_free[DAOS_MEDIA_NVME] > 0);
    CHECK_EQUAL(daos_cont_query(container, &facts, NULL, NULL), 0);
    CHECK_EQUAL(strcmp(d_errstr(-DER_NONEXIST), "DER_NONEXIST"), 0);
    CHECK(daos_oclass_name2id("SX") == OC_SX && daos_oclass_name2id("EC_4P2G8") == OC_EC_4P2G8);
    CHECK_EQUAL(daos_oclass_name2id("S3"), OC_UNKNOWN);
    /* A closed handle is not mistaken for a newer one. */
    CHECK_EQUAL(daos_pool_connect("tank", NULL, DAOS_PC_RO, &other, NULL, NULL), 0);
    CHECK_EQUAL(daos_pool_disconnect(other, NULL), 0);
    CHECK_EQUAL(daos_pool_connect("tank", NULL, DAOS_PC_RO, &none, NULL, NULL), 0);
    CHECK_EQUAL(daos_pool_disconnect(other, NULL), -DER_NO_HDL);
    CHECK_EQUAL(daos_pool_disconnect(none, NULL), 0);
}

static void files_have_bytes(void) {
    char written[2 * block], read[2 * block];
    d_iov_t iovs[2];
    d_iov_t iov;
    daos_size_t count = 0, size = 0;
    struct stat facts;
    dfs_obj_t* const file = create("bytes");
    for (size_t i = 0; i < sizeof written; i++) written[i] = (char)(i * 7);

    d_iov_set(&iovs[0], written, 100);
    d_iov_set(&iovs[1], written + 100, sizeof written - 100);
    d_sg_list_t list = {.sg_nr = 2, .sg_nr_out = 0, .sg_iovs = iovs};
    CHECK_EQUAL(dfs_write(dfs, file, &list, 5, NULL), 0);
    CHECK_EQUAL(dfs_get_size(dfs, file, &size), 0);
    CHECK_EQUAL(size, sizeof written + 5);

    list = list_of(&iov, read, sizeof read);
    CHECK_EQUAL(dfs_read(dfs, file, &list, 5, &count, NULL), 0);
    CHECK_EQUAL(count, sizeof read);
    CHECK_EQUAL(memcmp(read, written, sizeof read), 0);
    CHECK_EQUAL(dfs_read(dfs, file, &list, block, &count, NULL), 0);
    CHECK_EQUAL(count, block + 5);
    CHECK_EQUAL(dfs_read(dfs, file, &list, 1 << 20, &count, NULL), 0);
    CHECK_EQUAL(count, 0);

    daos_range_t ranges[2] = {{.rg_idx = 1 << 21, .rg_len = block}, {.rg_idx = 0, .rg_len = block}};
    dfs_iod_t descriptor = {.iod_nr = 2, .iod_rgs = ranges};
    list = list_of(&iov, written, sizeof written);
    CHECK_EQUAL(dfs_writex(dfs, file, &descriptor, &list, NULL), 0);
    memset(read, 0, sizeof read);
    list = list_of(&iov, read, sizeof read);
    CHECK_EQUAL(dfs_readx(dfs, file, &descriptor, &list, &count, NULL), 0);
    CHECK_EQUAL(count, sizeof read);
    CHECK_EQUAL(memcmp(read, written, sizeof read), 0);
    descriptor.iod_nr = 1;
    CHECK_EQUAL(dfs_readx(dfs, file, &descriptor, &list, &count, NULL), EINVAL);
    /* With an invalid event. */
    daos_event_t event = {0};
    CHECK_EQUAL(dfs_readx(dfs, file, &descriptor, &list, &count, &event), EINVAL);

    /* A file that is open for writing only cannot be read. */
    dfs_obj_t* written_only;
    CHECK_EQUAL(dfs_lookup(dfs, "/bytes", O_WRONLY, &written_only, NULL, NULL), 0);
    list = list_of(&iov, read, block);
    CHECK_EQUAL(dfs_read(dfs, written_only, &list, 0, &count, NULL), EPERM);
    CHECK_EQUAL(dfs_readx(dfs, written_only, &descriptor, &list, &count, NULL), EPERM);
    list = list_of(&iov, written + block, block);
    CHECK_EQUAL(dfs_write(dfs, written_only, &list, 0, NULL), 0);
    CHECK_EQUAL(dfs_release(written_only), 0);

    /* iov_len limits the bytes of a larger buffer. */
    for (int with_ranges = 0; with_ranges < 2; with_ranges++) {
        char* const large = malloc(1 << 20);
        memset(large, 'x', 1 << 20);
        iov = (d_iov_t){.iov_buf = large, .iov_buf_len = 1 << 20, .iov_len = block};
        list = (d_sg_list_t){.sg_nr = 1, .sg_nr_out = 0, .sg_iovs = &iov};
        ranges[0] = (daos_range_t){.rg_idx = 0, .rg_len = block};
        CHECK_EQUAL(with_ranges ? dfs_readx(dfs, file, &descriptor, &list, &count, NULL)
                                : dfs_read(dfs, file, &list, 0, &count, NULL),
                    0);
        CHECK_EQUAL(count, block);
        CHECK_EQUAL(memcmp(large, written + block, block), 0);
        CHECK(large[block] == 'x' && large[(1 << 20) - 1] == 'x');
        free(large);
    }

    CHECK_EQUAL(dfs_punch(dfs, file, 100, 1000), 0);
    CHECK_EQUAL(dfs_ostat(dfs, file, &facts), 0);
    CHECK_EQUAL(facts.st_size, (1 << 21) + block);
    CHECK_EQUAL(facts.st_mode, S_IFREG | 0640);
    CHECK_EQUAL(dfs_punch(dfs, file, 1 << 21, 1 << 20), 0);
    CHECK_EQUAL(dfs_get_size(dfs, file, &size), 0);
    CHECK_EQUAL(size, 1 << 21);
    CHECK_EQUAL(dfs_punch(dfs, file, 3 << 20, DFS_MAX_FSIZE), 0);
    CHECK_EQUAL(dfs_get_size(dfs, file, &size), 0);
    CHECK_EQUAL(size, 3 << 20);
    CHECK_EQUAL(dfs_release(file), 0);
    CHECK_EQUAL(dfs_remove(dfs, NULL, "bytes", false, NULL), 0);
    CHECK_EQUAL(dfs_stat(dfs, NULL, "bytes", &facts), ENOENT);
}

static void names_and_attributes(void) {
    dfs_obj_t *directory, *file, *again, *link;
    struct stat facts;
    mode_t mode = 0;
    char target[16];
    daos_size_t size = sizeof target;
    CHECK_EQUAL(dfs_mkdir(dfs, NULL, "d", 0750, 0), 0);
    CHECK_EQUAL(dfs_mkdir(dfs, NULL, "d", 0750, 0), EEXIST);
    CHECK_EQUAL(dfs_lookup(dfs, "/d", O_RDWR, &directory, &mode, &facts), 0);
    CHECK(S_ISDIR(mode) && facts.st_mode == mode);
    CHECK_EQUAL(
        dfs_open(dfs, directory, "f", S_IFREG | 0600, O_CREAT | O_EXCL | O_RDWR, 0, 0, NULL, &file),
        0);
    CHECK_EQUAL(dfs_open(dfs, directory, "f", S_IFREG | 0600, O_CREAT | O_EXCL | O_RDWR, 0, 0, NULL,
                         &again),
                EEXIST);
    CHECK_EQUAL(dfs_open(dfs, directory, "a/b", S_IFREG, O_CREAT | O_RDWR, 0, 0, NULL, &again),
                EINVAL);
    CHECK_EQUAL(dfs_open(dfs, NULL, "l", S_IFLNK, O_CREAT | O_RDWR, 0, 0, "d/f", &link), 0);
    CHECK_EQUAL(dfs_get_symlink_value(link, target, &size), 0);
    CHECK(size == 4 && strcmp(target, "d/f") == 0);
    CHECK_EQUAL(dfs_release(link), 0);
    CHECK_EQUAL(dfs_lookup(dfs, "/l", O_RDONLY, &link, &mode, NULL), 0);
    CHECK(S_ISREG(mode));
    CHECK_EQUAL(dfs_release(link), 0);
    CHECK_EQUAL(dfs_lookup(dfs, "/l", O_RDONLY | O_NOFOLLOW, &link, &mode, NULL), 0);
    CHECK(S_ISLNK(mode));
    CHECK_EQUAL(dfs_release(link), 0);
    CHECK_EQUAL(dfs_access(dfs, directory, "f", R_OK), 0);
    CHECK_EQUAL(dfs_access(dfs, directory, "absent", F_OK), ENOENT);
    facts.st_mode = S_IFREG | 0604;
    facts.st_uid = 7;
    facts.st_mtim = (struct timespec){.tv_sec = 1234, .tv_nsec = 5};
    CHECK_EQUAL(
        dfs_osetattr(dfs, file, &facts, DFS_SET_ATTR_MODE | DFS_SET_ATTR_UID | DFS_SET_ATTR_MTIME),
        0);
    CHECK_EQUAL(dfs_stat(dfs, directory, "f", &facts), 0);
    CHECK_EQUAL(facts.st_mode, S_IFREG | 0604);
    CHECK(facts.st_mtim.tv_sec == 1234 && facts.st_uid == 7);

    /* An open object stays valid when its name changes, or the name of its directory. */
    CHECK_EQUAL(dfs_move(dfs, NULL, "d", NULL, "e", NULL), 0);
    CHECK_EQUAL(dfs_open(dfs, directory, "g", S_IFREG | 0600, O_CREAT | O_RDWR, 0, 0, NULL, &again),
                0);
    CHECK_EQUAL(dfs_exchange(dfs, directory, "f", directory, "g"), 0);
    CHECK_EQUAL(dfs_ostat(dfs, file, &facts), 0);
    CHECK_EQUAL(facts.st_uid, 7);
    CHECK_EQUAL(dfs_release(again), 0);

    char value[16], names[32];
    CHECK_EQUAL(dfs_setxattr(dfs, file, "user.a", "one", 3, XATTR_CREATE), 0);
    CHECK_EQUAL(dfs_setxattr(dfs, file, "user.a", "one", 3, XATTR_CREATE), EEXIST);
    size = 0;
    CHECK_EQUAL(dfs_getxattr(dfs, file, "user.a", NULL, &size), 0);
    CHECK_EQUAL(size, 3);
    CHECK_EQUAL(dfs_getxattr(dfs, file, "user.a", value, &size), 0);
    CHECK_EQUAL(memcmp(value, "one", 3), 0);
    size = sizeof names;
    CHECK_EQUAL(dfs_listxattr(dfs, file, names, &size), 0);
    CHECK(size == 7 && strcmp(names, "user.a") == 0);
    CHECK_EQUAL(dfs_removexattr(dfs, file, "user.a"), 0);
    CHECK_EQUAL(dfs_getxattr(dfs, file, "user.a", value, &size), ENODATA);

    CHECK_EQUAL(dfs_remove(dfs, NULL, "e", false, NULL), ENOTEMPTY);
    CHECK_EQUAL(dfs_release(file), 0);
    CHECK_EQUAL(dfs_release(directory), 0);
    CHECK_EQUAL(dfs_remove(dfs, NULL, "e", true, NULL), 0);
    CHECK_EQUAL(dfs_remove(dfs, NULL, "l", false, NULL), 0);
}

static void directories_are_listed(void) {
    enum { files = 300, page = 64 };
    dfs_obj_t *directory, *file;
    int seen[files] = {0};
    char name[16];
    CHECK_EQUAL(dfs_mkdir(dfs, NULL, "many", 0755, 0), 0);
    CHECK_EQUAL(dfs_lookup_rel(dfs, NULL, "many", O_RDWR, &directory, NULL, NULL), 0);
    for (int i = 0; i < files; i++) {
        snprintf(name, sizeof name, "f%d", i);
        CHECK_EQUAL(
            dfs_open(dfs, directory, name, S_IFREG | 0600, O_CREAT | O_RDWR, 0, 0, NULL, &file), 0);
        CHECK_EQUAL(dfs_release(file), 0);
    }
    struct dirent* const entries = calloc(page, sizeof *entries);
    daos_anchor_t anchor = DAOS_ANCHOR_INIT;
    while (!daos_anchor_is_eof(&anchor)) {
        uint32_t count = page;
        CHECK_EQUAL(dfs_readdir(dfs, directory, &anchor, &count, entries), 0);
        for (uint32_t i = 0; i < count; i++) seen[atoi(entries[i].d_name + 1)]++;
    }
    for (int i = 0; i < files; i++) CHECK_EQUAL(seen[i], 1);
    free(entries);
    CHECK_EQUAL(dfs_release(directory), 0);
    CHECK_EQUAL(dfs_remove(dfs, NULL, "many", true, NULL), 0);
}

struct request {
    daos_event_t event;
    d_iov_t iov;
    d_sg_list_t list;
    daos_size_t bytes;
    char buffer[block];
};

static void start(dfs_obj_t* file, struct request* request, daos_handle_t queue, int at,
                  bool write) {
    request->list = list_of(&request->iov, request->buffer, block);
    CHECK_EQUAL(daos_event_init(&request->event, queue, NULL), 0);
    if (write) {
        memset(request->buffer, at + 1, block);
        CHECK_EQUAL(dfs_write(dfs, file, &request->list, (daos_off_t)at * block, &request->event),
                    0);
    } else {
        CHECK_EQUAL(dfs_read(dfs, file, &request->list, (daos_off_t)at * block, &request->bytes,
                             &request->event),
                    0);
    }
}

static void finish_all(struct request* requests, daos_handle_t queue, bool write) {
    daos_event_t* done[7];
    for (int left = blocks; left > 0;) {
        const int count = daos_eq_poll(queue, 1, DAOS_EQ_WAIT, 7, done);
        CHECK(count > 0 && count <= left);
        for (int i = 0; i < count; i++) {
            struct request* const request = (struct request*)done[i];
            CHECK_EQUAL(request->event.ev_error, 0);
            if (!write) {
                CHECK_EQUAL(request->bytes, block);
                CHECK_EQUAL(request->buffer[block - 1], (char)(request - requests + 1));
            }
            CHECK_EQUAL(daos_event_fini(&request->event), 0);
        }
        left -= count;
    }
}

/* One thread with its own event queue and file. */
static void* transfers(void* name) {
    dfs_obj_t* const file = create(name);
    struct request* const requests = calloc(blocks, sizeof *requests);
    daos_handle_t queue;
    daos_event_t* done[1];
    bool is_done = false;
    CHECK_EQUAL(daos_eq_create(&queue), 0);
    CHECK_EQUAL(daos_eq_poll(queue, 1, DAOS_EQ_WAIT, 1, done), 0);
    for (int write = 1; write >= 0; write--) {
        for (int i = 0; i < blocks; i++) start(file, &requests[i], queue, i, write);
        finish_all(requests, queue, write);
    }
    /* Without an event queue, and with its own. */
    start(file, &requests[0], DAOS_HDL_INVAL, 3, false);
    CHECK_EQUAL(daos_event_test(&requests[0].event, DAOS_EQ_WAIT, &is_done), 0);
    CHECK(is_done && requests[0].bytes == block && requests[0].buffer[0] == 4);
    CHECK_EQUAL(daos_event_fini(&requests[0].event), 0);
    start(file, &requests[1], queue, 4, false);
    CHECK_EQUAL(daos_event_test(&requests[1].event, DAOS_EQ_WAIT, &is_done), 0);
    CHECK(is_done && requests[1].buffer[0] == 5);
    CHECK_EQUAL(daos_eq_poll(queue, 1, DAOS_EQ_NOWAIT, 1, done), 0);
    CHECK_EQUAL(daos_event_fini(&requests[1].event), 0);

    daos_event_t child;
    CHECK_EQUAL(daos_event_init(&child, queue, &requests[0].event), -DER_NOTSUPPORTED);

    start(file, &requests[0], queue, 0, true);
    CHECK_EQUAL(daos_eq_destroy(queue, 0), -DER_BUSY);
    CHECK_EQUAL(daos_eq_destroy(queue, DAOS_EQ_DESTROY_FORCE), 0);
    CHECK_EQUAL(daos_eq_poll(queue, 1, DAOS_EQ_NOWAIT, 1, done), -DER_NONEXIST);
    free(requests);
    CHECK_EQUAL(dfs_release(file), 0);
    return NULL;
}

static void threads_have_their_own_queues(void) {
    static const char* const names[] = {"t0", "t1", "t2", "t3"};
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, transfers, (void*)names[i]);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
}

static void global_handles_open_the_same(void) {
    d_iov_t global = {0};
    daos_handle_t other_pool, other_container;
    dfs_t* other;
    dfs_obj_t *file = create("shared"), *same;
    struct stat facts, same_facts;
    char bytes[4096];
    CHECK_EQUAL(daos_pool_local2global(pool, &global), 0);
    CHECK(global.iov_buf_len > 0 && global.iov_buf_len <= sizeof bytes);
    d_iov_set(&global, bytes, 3);
    CHECK_EQUAL(daos_pool_local2global(pool, &global), -DER_TRUNC);
    d_iov_set(&global, bytes, sizeof bytes);
    CHECK_EQUAL(daos_pool_local2global(pool, &global), 0);
    CHECK_EQUAL(daos_pool_global2local(global, &other_pool), 0);
    d_iov_set(&global, bytes, sizeof bytes);
    CHECK_EQUAL(daos_cont_local2global(container, &global), 0);
    CHECK_EQUAL(daos_cont_global2local(other_pool, global, &other_container), 0);
    d_iov_set(&global, bytes, sizeof bytes);
    CHECK_EQUAL(dfs_local2global(dfs, &global), 0);
    CHECK_EQUAL(dfs_global2local(other_pool, other_container, 0, global, &other), 0);
    d_iov_set(&global, bytes, sizeof bytes);
    CHECK_EQUAL(dfs_obj_local2global(dfs, file, &global), 0);
    CHECK_EQUAL(dfs_obj_global2local(other, 0, global, &same), 0);
    CHECK_EQUAL(dfs_ostat(dfs, file, &facts), 0);
    CHECK_EQUAL(dfs_ostat(other, same, &same_facts), 0);
    CHECK_EQUAL(facts.st_ino, same_facts.st_ino);
    CHECK_EQUAL(dfs_ostat(dfs, same, &same_facts), EINVAL);
    CHECK_EQUAL(dfs_release(same), 0);
    CHECK_EQUAL(dfs_release(file), 0);
    CHECK_EQUAL(dfs_umount(other), 0);
    CHECK_EQUAL(daos_cont_close(other_container, NULL), 0);
    CHECK_EQUAL(daos_pool_disconnect(other_pool, NULL), 0);
}

static void read_only_mounts_change_nothing(const char* label) {
    daos_handle_t opened;
    dfs_t* reader;
    dfs_obj_t* object;
    CHECK_EQUAL(dfs_init(), 0);
    CHECK_EQUAL(daos_cont_open(pool, label, DAOS_COO_RO, &opened, NULL, NULL), 0);
    CHECK_EQUAL(dfs_mount(pool, opened, O_RDWR, &reader), EPERM);
    CHECK_EQUAL(dfs_mount(pool, opened, O_RDONLY, &reader), 0);
    CHECK_EQUAL(dfs_mkdir(reader, NULL, "new", 0755, 0), EPERM);
    CHECK_EQUAL(dfs_open(reader, NULL, "new", S_IFREG, O_CREAT | O_RDWR, 0, 0, NULL, &object),
                EPERM);
    CHECK_EQUAL(dfs_lookup(reader, "/t0", O_RDWR, &object, NULL, NULL), EPERM);
    CHECK_EQUAL(dfs_lookup(reader, "/t0", O_RDONLY, &object, NULL, NULL), 0);
    CHECK_EQUAL(dfs_set_prefix(reader, "/mnt/tank"), 0);
    CHECK_EQUAL(dfs_release(object), 0);
    CHECK_EQUAL(dfs_lookup(reader, "/t0", O_RDONLY, &object, NULL, NULL), EINVAL);
    CHECK_EQUAL(dfs_lookup(reader, "/mnt/tank/t0", O_RDONLY, &object, NULL, NULL), 0);
    CHECK_EQUAL(dfs_release(object), 0);
    CHECK_EQUAL(dfs_umount(reader), 0);
    CHECK_EQUAL(daos_cont_close(opened, NULL), 0);
    CHECK_EQUAL(daos_cont_destroy(pool, label, 1, NULL), -DER_BUSY);
    CHECK_EQUAL(dfs_fini(), 0);
}

static void objects_outlive_their_mount(const char* label) {
    daos_handle_t opened;
    dfs_t* mounted;
    dfs_obj_t *file, *root;
    struct stat facts;
    CHECK_EQUAL(daos_cont_open(pool, label, DAOS_COO_RW, &opened, NULL, NULL), 0);
    CHECK_EQUAL(dfs_mount(pool, opened, O_RDWR, &mounted), 0);
    CHECK_EQUAL(
        dfs_open(mounted, NULL, "outlives", S_IFREG | 0600, O_CREAT | O_RDWR, 0, 0, NULL, &file),
        0);
    CHECK_EQUAL(dfs_lookup(mounted, "/", O_RDONLY, &root, NULL, NULL), 0);
    CHECK_EQUAL(dfs_remove(mounted, NULL, "outlives", false, NULL), 0);
    CHECK_EQUAL(dfs_umount(mounted), 0);
    CHECK_EQUAL(dfs_umount(mounted), EINVAL);
    CHECK_EQUAL(dfs_ostat(mounted, file, &facts), EINVAL);
    CHECK_EQUAL(dfs_release(file), 0);
    CHECK_EQUAL(daos_cont_close(opened, NULL), -DER_BUSY);
    CHECK_EQUAL(dfs_release(root), 0);
    CHECK_EQUAL(daos_cont_close(opened, NULL), 0);
}

/* As IOR does when its container does not exist. A DPU serves single containers. */
static void containers_are_created(void) {
    daos_handle_t owner, made;
    daos_pool_info_t info = {.pi_bits = DPI_SPACE};
    dfs_attr_t attributes = {0};
    dfs_t* mounted;
    uuid_t uuid;
    CHECK_EQUAL(daos_pool_connect("tank", NULL, DAOS_PC_RW, &owner, NULL, NULL), 0);
    const int rc = daos_pool_query(owner, NULL, &info, NULL, NULL);
    if (rc == -DER_NOTSUPPORTED) {
        CHECK_EQUAL(daos_cont_create_with_label(owner, "new", NULL, NULL, NULL), rc);
    } else {
        CHECK_EQUAL(rc, 0);
        CHECK(info.pi_space.ps_space.s_free[DAOS_MEDIA_NVME] > 0);
        CHECK_EQUAL(daos_cont_open(owner, "new", DAOS_COO_RW, &made, NULL, NULL), -DER_NONEXIST);
        CHECK_EQUAL(daos_cont_create_with_label(owner, "new", NULL, &uuid, NULL), 0);
        CHECK_EQUAL(daos_cont_create_with_label(owner, "new", NULL, NULL, NULL), -DER_EXIST);
        CHECK_EQUAL(daos_cont_create_with_label(owner, "a:b", NULL, NULL, NULL), -DER_INVAL);
        CHECK_EQUAL(daos_cont_open(owner, "new", DAOS_COO_RW, &made, NULL, NULL), 0);
        CHECK_EQUAL(daos_cont_destroy(owner, "new", 1, NULL), -DER_BUSY);
        CHECK_EQUAL(daos_cont_close(made, NULL), 0);
        CHECK_EQUAL(daos_cont_destroy(owner, "new", 1, NULL), 0);
        CHECK_EQUAL(daos_cont_destroy(owner, "new", 1, NULL), -DER_NONEXIST);
        CHECK_EQUAL(dfs_cont_create(owner, NULL, &attributes, &made, &mounted), EINVAL);
        CHECK_EQUAL(dfs_cont_create(owner, &uuid, &attributes, &made, &mounted), 0);
        CHECK_EQUAL(dfs_mkdir(mounted, NULL, "d", 0755, 0), 0);
        CHECK_EQUAL(dfs_umount(mounted), 0);
        CHECK_EQUAL(daos_cont_close(made, NULL), 0);
    }
    CHECK_EQUAL(daos_pool_disconnect(owner, NULL), 0);
}

/* Writes more than the free space, in one call that the library splits into several transactions.
 */
static void writes_that_run_out_of_space(void) {
    enum { step = 1 << 20, left = 6 << 20, large = 16 << 20 };
    char* const bytes = malloc(large);
    dfs_obj_t* const filler = create("filler");
    daos_size_t full = 0, size = 0;
    daos_handle_t queue;
    daos_event_t event, *done;
    d_iov_t iov;
    int rc;
    memset(bytes, 'b', large);
    d_sg_list_t list = list_of(&iov, bytes, step);
    while ((rc = dfs_write(dfs, filler, &list, full, NULL)) == 0) full += step;
    CHECK_EQUAL(rc, ENOSPC);
    CHECK(full > 2 * left);
    CHECK_EQUAL(daos_eq_create(&queue), 0);
    for (int with_event = 0; with_event < 2; with_event++) {
        dfs_obj_t* const file = create("file");
        full -= left;
        CHECK_EQUAL(dfs_punch(dfs, filler, full, DFS_MAX_FSIZE), 0);
        list = list_of(&iov, bytes, large);
        if (with_event) {
            CHECK_EQUAL(daos_event_init(&event, queue, NULL), 0);
            CHECK_EQUAL(dfs_write(dfs, file, &list, 0, &event), 0);
            CHECK_EQUAL(daos_eq_poll(queue, 1, DAOS_EQ_WAIT, 1, &done), 1);
            CHECK_EQUAL(event.ev_error, ENOSPC);
            CHECK_EQUAL(daos_event_fini(&event), 0);
        } else {
            CHECK_EQUAL(dfs_write(dfs, file, &list, 0, NULL), ENOSPC);
        }
        /* The beginning was written. */
        CHECK_EQUAL(dfs_get_size(dfs, file, &size), 0);
        CHECK(size > 0 && size < large);
        CHECK_EQUAL(dfs_release(file), 0);
        CHECK_EQUAL(dfs_remove(dfs, NULL, "file", false, NULL), 0);
    }
    CHECK_EQUAL(daos_eq_destroy(queue, 0), 0);
    CHECK_EQUAL(dfs_release(filler), 0);
    CHECK_EQUAL(dfs_remove(dfs, NULL, "filler", false, NULL), 0);
    free(bytes);
}

int main(int count, char** arguments) {
    const bool fills = count == 4 && strcmp(arguments[3], "full") == 0;
    if (count != 3 && !fills) {
        return fprintf(stderr, "usage: %s POOL CONTAINER [full]\n", arguments[0]), 2;
    }
    CHECK_EQUAL(daos_pool_connect(arguments[1], NULL, DAOS_PC_RW, &pool, NULL, NULL), -DER_UNINIT);
    CHECK_EQUAL(daos_init(), 0);
    CHECK_EQUAL(daos_pool_connect(arguments[1], NULL, DAOS_PC_RW, &pool, NULL, NULL), 0);
    CHECK_EQUAL(daos_cont_open(pool, arguments[2], DAOS_COO_RW, &container, NULL, NULL), 0);
    CHECK_EQUAL(dfs_mount(pool, container, O_RDWR, &dfs), 0);
    if (fills) {
        writes_that_run_out_of_space();
    } else {
        handles_are_checked();
        files_have_bytes();
        names_and_attributes();
        directories_are_listed();
        threads_have_their_own_queues();
        global_handles_open_the_same();
        read_only_mounts_change_nothing(arguments[2]);
        objects_outlive_their_mount(arguments[2]);
        containers_are_created();
    }
    CHECK_EQUAL(dfs_umount(dfs), 0);
    CHECK_EQUAL(daos_cont_close(container, NULL), 0);
    CHECK_EQUAL(daos_pool_disconnect(pool, NULL), 0);
    CHECK_EQUAL(daos_fini(), 0);
    CHECK_EQUAL(daos_fini(), -DER_UNINIT);
    return 0;
}
