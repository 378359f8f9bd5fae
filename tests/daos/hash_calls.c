/* Hash tables and helpers of libgurt: no pool is needed. */
#include <daos_errno.h>
#include <gurt/common.h>
#include <gurt/hash.h>
#include <pthread.h>

#include "checks.h"

struct record {
    uint64_t key;
    d_list_t link;
    int references;
};

static int freed;

static struct record* record_of(d_list_t* link) { return container_of(link, struct record, link); }

static bool has_key(struct d_hash_table* table, d_list_t* link, const void* key,
                    unsigned int ksize) {
    (void)table;
    CHECK_EQUAL(ksize, sizeof(uint64_t));
    return memcmp(&record_of(link)->key, key, ksize) == 0;
}
static void add_reference(struct d_hash_table* table, d_list_t* link) {
    (void)table;
    __atomic_add_fetch(&record_of(link)->references, 1, __ATOMIC_RELAXED);
}
static bool drop_reference(struct d_hash_table* table, d_list_t* link) {
    (void)table;
    return __atomic_sub_fetch(&record_of(link)->references, 1, __ATOMIC_RELAXED) == 0;
}
static void free_record(struct d_hash_table* table, d_list_t* link) {
    (void)table;
    CHECK(d_hash_rec_unlinked(link));
    __atomic_add_fetch(&freed, 1, __ATOMIC_RELAXED);
    free(record_of(link));
}
static d_hash_table_ops_t operations = {.hop_key_cmp = has_key,
                                        .hop_rec_addref = add_reference,
                                        .hop_rec_decref = drop_reference,
                                        .hop_rec_free = free_record};

static struct record* make(uint64_t key, int references) {
    struct record* const made = calloc(1, sizeof *made);
    made->key = key;
    made->references = references;
    D_INIT_LIST_HEAD(&made->link);
    return made;
}

/* The table has a reference of its records, the program another. */
static void records_come_and_go(uint32_t features) {
    struct d_hash_table* table = NULL;
    uint64_t key;
    freed = 0;
    CHECK_EQUAL(d_hash_table_create(features, 4, NULL, &operations, &table), 0);
    CHECK(d_hash_rec_first(table) == NULL);
    for (key = 1; key <= 100; key++) {
        struct record* const made = make(key, 0);
        CHECK_EQUAL(d_hash_rec_insert(table, &key, sizeof key, &made->link, true), 0);
        CHECK_EQUAL(made->references, 1);
    }
    CHECK_EQUAL(d_hash_table_destroy(table, false), -DER_BUSY);
    key = 50;
    struct record* const twin = make(key, 0);
    CHECK_EQUAL(d_hash_rec_insert(table, &key, sizeof key, &twin->link, true), -DER_EXIST);
    d_list_t* const found = d_hash_rec_find(table, &key, sizeof key);
    CHECK(found != &twin->link && record_of(found)->key == 50);
    CHECK_EQUAL(record_of(found)->references, 2);
    d_hash_rec_decref(table, found);
    CHECK_EQUAL(freed, 0);
    key = 1000;
    CHECK(d_hash_rec_find(table, &key, sizeof key) == NULL);
    CHECK_EQUAL(d_hash_table_destroy(table, true), 0);
    CHECK_EQUAL(freed, 100);
    free(twin);
}

/* The table has no references: dropping the last one removes the record. */
static void ephemeral_records_leave(void) {
    struct d_hash_table* table = NULL;
    const uint64_t key = 5;
    freed = 0;
    CHECK_EQUAL(
        d_hash_table_create(D_HASH_FT_EPHEMERAL | D_HASH_FT_RWLOCK, 2, NULL, &operations, &table),
        0);
    struct record* const made = make(key, 1);
    CHECK_EQUAL(d_hash_rec_insert(table, &key, sizeof key, &made->link, false), 0);
    CHECK(d_hash_rec_find(table, &key, sizeof key) == &made->link);
    d_hash_rec_decref(table, &made->link);
    CHECK_EQUAL(freed, 0);
    d_hash_rec_decref(table, &made->link);
    CHECK_EQUAL(freed, 1);
    CHECK(d_hash_rec_first(table) == NULL);
    CHECK_EQUAL(d_hash_table_destroy(table, false), 0);
    CHECK_EQUAL(d_hash_table_destroy(NULL, false), -DER_UNINIT);
}

/* A found record becomes the first of its bucket. */
static void found_records_move(void) {
    struct d_hash_table* table = NULL;
    CHECK_EQUAL(d_hash_table_create(D_HASH_FT_LRU, 0, NULL, &operations, &table), 0);
    for (uint64_t key = 1; key <= 3; key++) {
        CHECK_EQUAL(d_hash_rec_insert(table, &key, sizeof key, &make(key, 0)->link, true), 0);
    }
    CHECK_EQUAL(record_of(d_hash_rec_first(table))->key, 3);
    const uint64_t first = 1;
    d_list_t* const found = d_hash_rec_find(table, &first, sizeof first);
    CHECK(d_hash_rec_first(table) == found);
    d_hash_rec_decref(table, found);
    CHECK_EQUAL(d_hash_table_destroy(table, true), 0);
}

static void* insert_and_drop(void* arg) {
    struct d_hash_table* const table = arg;
    for (int round = 0; round < 2000; round++) {
        uint64_t key = (uint64_t)round % 16;
        struct record* const made = make(key, 1);
        if (d_hash_rec_insert(table, &key, sizeof key, &made->link, true) != 0) {
            free(made);
            d_list_t* const there = d_hash_rec_find(table, &key, sizeof key);
            if (there != NULL) d_hash_rec_decref(table, there);
            continue;
        }
        d_hash_rec_decref(table, &made->link);
    }
    return NULL;
}

/* Every record is freed once. Under a sanitizer a race would show. */
static void threads_share_a_table(uint32_t features) {
    struct d_hash_table* table = NULL;
    pthread_t threads[4];
    CHECK_EQUAL(d_hash_table_create(features | D_HASH_FT_EPHEMERAL, 2, NULL, &operations, &table),
                0);
    for (int i = 0; i < 4; i++) {
        CHECK_EQUAL(pthread_create(&threads[i], NULL, insert_and_drop, table), 0);
    }
    for (int i = 0; i < 4; i++) CHECK_EQUAL(pthread_join(threads[i], NULL), 0);
    CHECK(d_hash_rec_first(table) == NULL);
    CHECK_EQUAL(d_hash_table_destroy(table, false), 0);
}

static void bad_arguments(void) {
    struct d_hash_table* table = NULL;
    d_hash_table_ops_t none = {0};
    CHECK_EQUAL(d_hash_table_create(0, 4, NULL, &none, &table), -DER_INVAL);
    CHECK(table == NULL);
    CHECK_EQUAL(d_hash_table_create(0, 32, NULL, &operations, &table), -DER_INVAL);
    CHECK_EQUAL(d_hash_table_create(0, 4, NULL, &operations, &table), 0);
    CHECK(d_hash_rec_find(table, NULL, 0) == NULL);
    struct record unused = {.key = 1};
    CHECK_EQUAL(d_hash_rec_insert(table, "", 0, &unused.link, false), -DER_INVAL);
    CHECK_EQUAL(d_hash_table_destroy(table, false), 0);
}

static void helpers(void) {
    bool flag = false;
    int bytes = 0;
    CHECK_EQUAL(d_hash_string_u32("/", 1), 0x2b5d4); /* as DAOS's library */
    setenv("ROS2STORE_TEST", "1", 1);
    CHECK_EQUAL(d_getenv_bool("ROS2STORE_TEST", &flag), 0);
    CHECK(flag);
    unsetenv("ROS2STORE_TEST");
    CHECK_EQUAL(d_getenv_bool("ROS2STORE_TEST", &flag), -DER_NONEXIST);
    char* text = d_asprintf2(&bytes, "%d", 12);
    CHECK_EQUAL(bytes, 2);
    CHECK_EQUAL(strcmp(text, "12"), 0);
    D_FREE(text);
    CHECK(text == NULL);
    /* 2021-01-01 00:00:01.5 */
    CHECK_EQUAL(d_hlc2unixnsec(24000000000), 1609459201500000000);
    CHECK_EQUAL(d_unixnsec2hlc(1609459201500000000), 24000000000);
    CHECK_EQUAL(d_unixnsec2hlc(1), 0);
}

/* DAOS's macros are inlined into programs, and read these. Errors are logged, other messages are
 * not. */
static void what_macros_for_logging_use(void) {
    CHECK(d_log_xst.tag != NULL && d_log_xst.fac_cnt == 1);
    CHECK(d_log_xst.dlog_facs[0].is_enabled);
    CHECK_EQUAL(d_log_xst.dlog_facs[0].fac_mask, 0x04000000);
    CHECK(DB_TRACE == 0 && DB_MEM == 0);
    CHECK(d_fault_inject == 0 && !d_should_fail(d_fault_attr_mem));
}

int main(void) {
    const uint32_t locks[] = {D_HASH_FT_NOLOCK, 0, D_HASH_FT_MUTEX, D_HASH_FT_RWLOCK};
    for (int lock = 0; lock < 4; lock++) {
        records_come_and_go(locks[lock]);
        records_come_and_go(locks[lock] | D_HASH_FT_LRU);
    }
    threads_share_a_table(0);
    threads_share_a_table(D_HASH_FT_LRU);
    ephemeral_records_leave();
    found_records_move();
    bad_arguments();
    helpers();
    what_macros_for_logging_use();
    return 0;
}
