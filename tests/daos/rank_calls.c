/* usage: rank_calls POOL CONTAINER RANKS
 *
 * The calls of IOR's and mdtest's DFS back end, by several processes: the first one opens pool,
 * container and mount, and sends the others global handles. Directories that are open are in a hash
 * table. The container is empty. */
#include <daos.h>
#include <daos_fs.h>
#include <gurt/common.h>
#include <gurt/hash.h>
#include <sys/wait.h>

#include "checks.h"

enum { block = 64 * 1024, blocks = 8, files = 20, ranks_max = 16 };

static int rank, ranks;
static int to_rank[ranks_max][2], from_rank[ranks_max][2];
static daos_handle_t pool, container;
static dfs_t* dfs;
static struct d_hash_table* directories;

/* ---- what MPI does for IOR */

static void send_all(int file, const void* bytes, size_t count) {
    CHECK_EQUAL(write(file, bytes, count), count);
}

static void receive_all(int file, void* bytes, size_t count) {
    for (size_t done = 0; done < count;) {
        const ssize_t got = read(file, (char*)bytes + done, count - done);
        CHECK(got > 0);
        done += (size_t)got;
    }
}

static void broadcast(void* bytes, size_t count) {
    if (rank != 0) {
        receive_all(to_rank[rank][0], bytes, count);
        return;
    }
    for (int other = 1; other < ranks; other++) send_all(to_rank[other][1], bytes, count);
}

static void barrier(void) {
    char token = 'b';
    if (rank != 0) {
        send_all(from_rank[rank][1], &token, 1);
    } else {
        for (int other = 1; other < ranks; other++) receive_all(from_rank[other][0], &token, 1);
    }
    broadcast(&token, 1);
}

static void start_ranks(void) {
    for (int other = 1; other < ranks; other++) {
        CHECK_EQUAL(pipe(to_rank[other]), 0);
        CHECK_EQUAL(pipe(from_rank[other]), 0);
    }
    for (int other = 1; other < ranks; other++) {
        const pid_t child = fork();
        CHECK(child >= 0);
        if (child > 0) continue;
        rank = other;
        /* A failing rank must end the waits of the others. */
        for (int each = 1; each < ranks; each++) {
            close(to_rank[each][1]);
            close(from_rank[each][0]);
            if (each != rank) close(from_rank[each][1]);
        }
        return;
    }
    for (int each = 1; each < ranks; each++) {
        close(to_rank[each][0]);
        close(from_rank[each][1]);
    }
}

/* ---- global handles */

enum what { POOL, CONTAINER, MOUNT, OBJECT };

static int to_global(enum what what, dfs_obj_t* object, d_iov_t* global) {
    switch (what) {
        case POOL: return daos_pool_local2global(pool, global);
        case CONTAINER: return daos_cont_local2global(container, global);
        case MOUNT: return dfs_local2global(dfs, global);
        default: return dfs_obj_local2global(dfs, object, global);
    }
}

static int from_global(enum what what, d_iov_t global, dfs_obj_t** object) {
    switch (what) {
        case POOL: return daos_pool_global2local(global, &pool);
        case CONTAINER: return daos_cont_global2local(pool, global, &container);
        case MOUNT: return dfs_global2local(pool, container, 0, global, &dfs);
        default: return dfs_obj_global2local(dfs, 0, global, object);
    }
}

static void share(enum what what, dfs_obj_t** object) {
    d_iov_t global = {NULL, 0, 0};
    if (rank == 0) CHECK_EQUAL(to_global(what, object == NULL ? NULL : *object, &global), 0);
    broadcast(&global.iov_buf_len, sizeof global.iov_buf_len);
    global.iov_len = global.iov_buf_len;
    global.iov_buf = malloc(global.iov_buf_len);
    if (rank == 0) CHECK_EQUAL(to_global(what, object == NULL ? NULL : *object, &global), 0);
    broadcast(global.iov_buf, global.iov_buf_len);
    if (rank != 0) CHECK_EQUAL(from_global(what, global, object), 0);
    free(global.iov_buf);
}

/* ---- open directories, by path */

struct directory {
    d_list_t entry;
    dfs_obj_t* object;
    char name[64];
};

static struct directory* directory_of(d_list_t* link) {
    return container_of(link, struct directory, entry);
}
static bool has_name(struct d_hash_table* table, d_list_t* link, const void* key,
                     unsigned int ksize) {
    (void)table;
    (void)ksize;
    return strcmp(directory_of(link)->name, key) == 0;
}
static void release(struct d_hash_table* table, d_list_t* link) {
    (void)table;
    CHECK_EQUAL(dfs_release(directory_of(link)->object), 0);
    free(directory_of(link));
}
static bool is_last(struct d_hash_table* table, d_list_t* link) {
    (void)table;
    (void)link;
    return true;
}
static uint32_t hash_of(struct d_hash_table* table, d_list_t* link) {
    (void)table;
    const char* const name = directory_of(link)->name;
    return d_hash_string_u32(name, (unsigned)strlen(name));
}
static d_hash_table_ops_t operations = {.hop_key_cmp = has_name,
                                        .hop_rec_hash = hash_of,
                                        .hop_rec_decref = is_last,
                                        .hop_rec_free = release};

static dfs_obj_t* open_directory(const char* name) {
    const unsigned size = (unsigned)strlen(name);
    d_list_t* const found = d_hash_rec_find(directories, name, size);
    if (found != NULL) return directory_of(found)->object;
    struct directory* const made = calloc(1, sizeof *made);
    mode_t mode = 0;
    strcpy(made->name, name);
    CHECK_EQUAL(dfs_lookup(dfs, name, O_RDWR, &made->object, &mode, NULL), 0);
    CHECK(S_ISDIR(mode));
    CHECK_EQUAL(d_hash_rec_insert(directories, made->name, size, &made->entry, false), 0);
    return made->object;
}

/* ---- what the benchmarks do */

static void set_up(const char* pool_label, const char* container_label) {
    daos_pool_info_t info = {.pi_bits = DPI_SPACE};
    CHECK_EQUAL(daos_init(), 0);
    CHECK_EQUAL(d_hash_table_create(D_HASH_FT_EPHEMERAL | D_HASH_FT_NOLOCK | D_HASH_FT_LRU, 4, NULL,
                                    &operations, &directories),
                0);
    if (rank == 0) {
        CHECK_EQUAL(daos_pool_connect(pool_label, NULL, DAOS_PC_RW, &pool, NULL, NULL), 0);
        CHECK_EQUAL(daos_cont_open(pool, container_label, DAOS_COO_RW, &container, NULL, NULL), 0);
        CHECK_EQUAL(dfs_mount(pool, container, O_RDWR, &dfs), 0);
    }
    share(POOL, NULL);
    share(CONTAINER, NULL);
    share(MOUNT, NULL);
    CHECK_EQUAL(daos_pool_query(pool, NULL, &info, NULL, NULL), 0);
    CHECK(info.pi_space.ps_space.s_total[DAOS_MEDIA_NVME] > 0);
}

static void tear_down(void) {
    d_list_t* link;
    barrier();
    while ((link = d_hash_rec_first(directories)) != NULL) d_hash_rec_decref(directories, link);
    CHECK_EQUAL(d_hash_table_destroy(directories, false), 0);
    CHECK_EQUAL(dfs_umount(dfs), 0);
    CHECK_EQUAL(daos_cont_close(container, NULL), 0);
    CHECK_EQUAL(daos_pool_disconnect(pool, NULL), 0);
    CHECK_EQUAL(daos_fini(), 0);
}

static void fill(char* buffer, int writer, int at) {
    for (int i = 0; i < block; i++) buffer[i] = (char)(writer * 31 + at * 7 + i);
}

static void transfer(dfs_obj_t* file, char* buffer, daos_off_t offset, bool writes) {
    d_iov_t iov;
    daos_size_t count = block;
    d_iov_set(&iov, buffer, block);
    d_sg_list_t list = {.sg_nr = 1, .sg_nr_out = 0, .sg_iovs = &iov};
    if (writes) {
        CHECK_EQUAL(dfs_write(dfs, file, &list, offset, NULL), 0);
    } else {
        CHECK_EQUAL(dfs_read(dfs, file, &list, offset, &count, NULL), 0);
        CHECK_EQUAL(count, block);
    }
}

static void one_shared_file(void) {
    static char buffer[block], expected[block];
    dfs_obj_t* file = NULL;
    daos_size_t size = 0;
    if (rank == 0) {
        CHECK_EQUAL(dfs_open(dfs, open_directory("/"), "shared", S_IFREG | 0664, O_CREAT | O_RDWR,
                             0, 0, NULL, &file),
                    0);
    }
    share(OBJECT, &file);
    for (int at = 0; at < blocks; at++) {
        fill(buffer, rank, at);
        transfer(file, buffer, ((daos_off_t)at * ranks + rank) * block, true);
    }
    barrier();
    const int writer = (rank + 1) % ranks;
    for (int at = 0; at < blocks; at++) {
        fill(expected, writer, at);
        transfer(file, buffer, ((daos_off_t)at * ranks + writer) * block, false);
        CHECK_EQUAL(memcmp(buffer, expected, block), 0);
    }
    CHECK_EQUAL(dfs_get_size(dfs, file, &size), 0);
    CHECK_EQUAL(size, (daos_size_t)ranks * blocks * block);
    CHECK_EQUAL(dfs_release(file), 0);
    barrier();
    if (rank == 0) CHECK_EQUAL(dfs_remove(dfs, open_directory("/"), "shared", false, NULL), 0);
}

static void many_files(void) {
    char directory[32], name[32];
    struct stat facts;
    dfs_obj_t* file = NULL;
    snprintf(name, sizeof name, "rank%d", rank);
    snprintf(directory, sizeof directory, "/%s", name);
    CHECK_EQUAL(dfs_mkdir(dfs, open_directory("/"), name, 0755, 0), 0);
    for (int i = 0; i < files; i++) {
        snprintf(name, sizeof name, "f%d", i);
        CHECK_EQUAL(dfs_open(dfs, open_directory(directory), name, S_IFREG | 0664,
                             O_CREAT | O_RDWR | O_EXCL, 0, 0, NULL, &file),
                    0);
        CHECK_EQUAL(dfs_release(file), 0);
    }
    barrier();
    /* Of the next rank. */
    snprintf(directory, sizeof directory, "/rank%d", (rank + 1) % ranks);
    for (int i = 0; i < files; i++) {
        snprintf(name, sizeof name, "f%d", i);
        CHECK_EQUAL(dfs_access(dfs, open_directory(directory), name, F_OK), 0);
        CHECK_EQUAL(dfs_stat(dfs, open_directory(directory), name, &facts), 0);
        CHECK(S_ISREG(facts.st_mode));
    }
    barrier();
    for (int i = 0; i < files; i++) {
        snprintf(name, sizeof name, "f%d", i);
        CHECK_EQUAL(dfs_remove(dfs, open_directory(directory), name, false, NULL), 0);
    }
    barrier();
    CHECK_EQUAL(dfs_stat(dfs, open_directory(directory), "f0", &facts), ENOENT);
    CHECK_EQUAL(dfs_remove(dfs, open_directory("/"), directory + 1, false, NULL), 0);
}

int main(int count, char** arguments) {
    CHECK_EQUAL(count, 4);
    ranks = atoi(arguments[3]);
    CHECK(ranks > 0 && ranks <= ranks_max);
    start_ranks();
    set_up(arguments[1], arguments[2]);
    one_shared_file();
    many_files();
    tear_down();
    for (int other = 1; rank == 0 && other < ranks; other++) {
        int status = 0;
        CHECK(wait(&status) > 0);
        CHECK_EQUAL(status, 0);
    }
    return 0;
}
