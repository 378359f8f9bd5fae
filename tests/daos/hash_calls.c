/* Hash tables and hashes of libgurt: no pool is needed. */
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
    CHECK_EQUAL(ksize, sizeof(uint64_t));
    CHECK(table->ht_priv == &freed);
    return memcmp(&record_of(link)->key, key, ksize) == 0;
}
static void make_key(struct d_hash_table* table, d_list_t* link, void* arg) {
    (void)table;
    record_of(link)->key = *(uint64_t*)arg;
}
static uint32_t hash_of_key(struct d_hash_table* table, const void* key, unsigned int ksize) {
    (void)table;
    return (uint32_t)d_hash_murmur64(key, ksize, 7);
}
static uint32_t hash_of_record(struct d_hash_table* table, d_list_t* link) {
    return hash_of_key(table, &record_of(link)->key, sizeof(uint64_t));
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
                                        .hop_key_init = make_key,
                                        .hop_key_hash = hash_of_key,
                                        .hop_rec_hash = hash_of_record,
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

static int count_one(d_list_t* link, void* arg) {
    (void)link;
    ++*(int*)arg;
    return 0;
}
static int size_of(struct d_hash_table* table) {
    int count = 0;
    CHECK_EQUAL(d_hash_table_traverse(table, count_one, &count), 0);
    return count;
}

/* The table has a reference of its records, the program another. */
static void records_come_and_go(uint32_t features) {
    struct d_hash_table* table = NULL;
    uint64_t key;
    freed = 0;
    CHECK_EQUAL(d_hash_table_create(features, 4, &freed, &operations, &table), 0);
    CHECK(d_hash_rec_first(table) == NULL);
    for (key = 1; key <= 100; key++) {
        struct record* const made = make(key, 0);
        CHECK_EQUAL(d_hash_rec_insert(table, &key, sizeof key, &made->link, true), 0);
        CHECK_EQUAL(made->references, 1);
    }
    CHECK_EQUAL(size_of(table), 100);
    CHECK_EQUAL(d_hash_table_destroy(table, false), -DER_BUSY);
    key = 50;
    struct record* const twin = make(key, 0);
    CHECK_EQUAL(d_hash_rec_insert(table, &key, sizeof key, &twin->link, true), -DER_EXIST);
    d_list_t* const found = d_hash_rec_find_insert(table, &key, sizeof key, &twin->link);
    CHECK(found != &twin->link && record_of(found)->key == 50);
    CHECK_EQUAL(record_of(found)->references, 2);
    /* It stays alive outside of the table as long as there is a reference. */
    CHECK(d_hash_rec_delete(table, &key, sizeof key));
    CHECK(!d_hash_rec_delete(table, &key, sizeof key));
    CHECK(!d_hash_rec_delete_at(table, found));
    CHECK(d_hash_rec_find(table, &key, sizeof key) == NULL);
    CHECK_EQUAL(freed, 0);
    d_hash_rec_addref(table, found);
    CHECK_EQUAL(d_hash_rec_ndecref(table, 2, found), 0);
    CHECK_EQUAL(freed, 1);
    CHECK(d_hash_rec_find_insert(table, &key, sizeof key, &twin->link) == &twin->link);
    key = 1000;
    struct record* const anonymous = make(0, 0);
    CHECK_EQUAL(d_hash_rec_insert_anonym(table, &anonymous->link, &key), 0);
    CHECK(d_hash_rec_find(table, &key, sizeof key) == &anonymous->link);
    CHECK(d_hash_rec_delete_at(table, &anonymous->link));
    d_hash_rec_decref(table, &anonymous->link);
    CHECK_EQUAL(freed, 2);
    key = 99;
    CHECK_EQUAL(d_hash_rec_evict(table, &key, sizeof key), (features & D_HASH_FT_LRU) != 0);
    CHECK_EQUAL(d_hash_table_destroy(table, true), 0);
    CHECK_EQUAL(freed, 102);
}

/* The table has no references: dropping the last one removes the record. */
static void ephemeral_records_leave(void) {
    struct d_hash_table table;
    const uint64_t key = 5;
    freed = 0;
    CHECK_EQUAL(d_hash_table_create_inplace(D_HASH_FT_EPHEMERAL | D_HASH_FT_RWLOCK, 2, &freed,
                                            &operations, &table),
                0);
    struct record* const made = make(key, 1);
    CHECK_EQUAL(d_hash_rec_insert(&table, &key, sizeof key, &made->link, false), 0);
    CHECK(d_hash_rec_find(&table, &key, sizeof key) == &made->link);
    d_hash_rec_decref(&table, &made->link);
    CHECK_EQUAL(freed, 0);
    d_hash_rec_decref(&table, &made->link);
    CHECK_EQUAL(freed, 1);
    CHECK(d_hash_rec_first(&table) == NULL);
    CHECK_EQUAL(d_hash_table_destroy_inplace(&table, false), 0);
    CHECK_EQUAL(d_hash_table_destroy_inplace(&table, false), -DER_UNINIT);
}

/* A found record becomes the first of its bucket. */
static void found_records_move(void) {
    struct d_hash_table* table = NULL;
    CHECK_EQUAL(d_hash_table_create(D_HASH_FT_LRU, 0, &freed, &operations, &table), 0);
    for (uint64_t key = 1; key <= 3; key++) {
        CHECK_EQUAL(d_hash_rec_insert(table, &key, sizeof key, &make(key, 0)->link, true), 0);
    }
    CHECK_EQUAL(record_of(d_hash_rec_first(table))->key, 3);
    const uint64_t first = 1;
    d_list_t* const found = d_hash_rec_find(table, &first, sizeof first);
    CHECK(d_hash_rec_first(table) == found);
    CHECK(d_hash_rec_evict_at(table, found));
    CHECK(!d_hash_rec_evict_at(table, found));
    CHECK_EQUAL(record_of(d_hash_rec_first(table))->key, 3);
    d_hash_rec_decref(table, found);
    CHECK_EQUAL(d_hash_table_destroy(table, true), 0);
}

static void* insert_and_delete(void* arg) {
    struct d_hash_table* const table = arg;
    for (int round = 0; round < 2000; round++) {
        uint64_t key = (uint64_t)round % 16;
        struct record* const made = make(key, 1);
        d_list_t* const there = d_hash_rec_find_insert(table, &key, sizeof key, &made->link);
        if (there != &made->link) free(made);
        d_hash_rec_delete(table, &key, sizeof key);
        d_hash_rec_decref(table, there);
    }
    return NULL;
}

/* Every record is freed once. Under a sanitizer a race would show. */
static void threads_share_a_table(uint32_t features) {
    struct d_hash_table* table = NULL;
    pthread_t threads[4];
    CHECK_EQUAL(d_hash_table_create(features, 2, &freed, &operations, &table), 0);
    for (int i = 0; i < 4; i++) {
        CHECK_EQUAL(pthread_create(&threads[i], NULL, insert_and_delete, table), 0);
    }
    for (int i = 0; i < 4; i++) CHECK_EQUAL(pthread_join(threads[i], NULL), 0);
    CHECK(d_hash_rec_first(table) == NULL);
    CHECK_EQUAL(d_hash_table_destroy(table, false), 0);
}

/* Values that DAOS's library has. */
static void hashes_are_those_of_daos(void) {
    CHECK_EQUAL(d_hash_murmur64((const unsigned char*)"container", 9, 5731),
                (long long)0xff023d23a2480f93ULL);
    CHECK_EQUAL(d_hash_string_u32("/", 1), 0x2b5d4);
    CHECK_EQUAL(d_hash_mix64(1), 0x5bca7c69b794f8ceLL);
    CHECK_EQUAL(d_hash_mix96(1, 2, 3), 0xb7b48902);
    CHECK_EQUAL(d_hash_jump(12345, 100), 29);
    /* Every length of the rest. */
    unsigned char bytes[40];
    uint64_t sum = 0;
    for (int i = 0; i < 40; i++) bytes[i] = (unsigned char)(i * 37 + 11);
    for (unsigned n = 1; n < 40; n++) sum = sum * 31 + d_hash_murmur64(bytes, n, 5731);
    CHECK_EQUAL(sum, (long long)0xddacb07bc4285a33ULL);
}

static void bad_arguments(void) {
    struct d_hash_table* table = NULL;
    d_hash_table_ops_t none = {0};
    CHECK_EQUAL(d_hash_table_create(0, 4, NULL, &none, &table), -DER_INVAL);
    CHECK(table == NULL);
    CHECK_EQUAL(d_hash_table_create(0, 32, NULL, &operations, &table), -DER_INVAL);
    CHECK_EQUAL(d_hash_table_create(0, 4, &freed, &operations, &table), 0);
    CHECK(d_hash_rec_find(table, NULL, 0) == NULL);
    struct record unused = {.key = 1};
    CHECK_EQUAL(d_hash_rec_insert(table, "", 0, &unused.link, false), -DER_INVAL);
    CHECK_EQUAL(d_hash_table_traverse(table, NULL, NULL), -DER_INVAL);
    CHECK_EQUAL(d_hash_table_destroy(table, false), 0);
}

static void the_environment(void) {
    bool flag = false;
    unsigned number = 7;
    setenv("ROS2STORE_TEST", "1", 1);
    CHECK_EQUAL(d_getenv_bool("ROS2STORE_TEST", &flag), 0);
    CHECK(flag);
    setenv("ROS2STORE_TEST", "-1", 1);
    CHECK_EQUAL(d_getenv_uint("ROS2STORE_TEST", &number), -DER_INVAL);
    CHECK_EQUAL(number, 7);
    unsetenv("ROS2STORE_TEST");
    CHECK_EQUAL(d_getenv_bool("ROS2STORE_TEST", &flag), -DER_NONEXIST);
    char* text = NULL;
    CHECK_EQUAL(d_asprintf(&text, "%d", 12), 2);
    CHECK_EQUAL(strcmp(text, "12"), 0);
    D_FREE(text);
    CHECK(text == NULL);
}

/* DAOS's macros are inlined into programs, and read these. Errors are logged, other messages are
 * not. */
static void what_macros_for_logging_use(void) {
    CHECK(d_log_xst.tag != NULL && d_log_xst.fac_cnt == 1);
    CHECK(d_log_xst.dlog_facs[0].is_enabled);
    CHECK_EQUAL(d_log_xst.dlog_facs[d_misc_logfac].fac_mask, 0x04000000);
    for (size_t i = 0; i < ARRAY_SIZE(d_misc_logfac_cache); i++) {
        CHECK_EQUAL(d_misc_logfac_cache[i], INT_MIN);
    }
    CHECK(DB_ALL == 0 && DB_TRACE == 0 && DB_MEM == 0);
    CHECK(d_fault_inject == 0 && !d_should_fail(d_fault_attr_mem));
}

int main(void) {
    const uint32_t locks[] = {D_HASH_FT_NOLOCK, 0, D_HASH_FT_MUTEX, D_HASH_FT_RWLOCK};
    const uint32_t others[] = {0, D_HASH_FT_LRU, D_HASH_FT_GLOCK, D_HASH_FT_NO_KEYINIT_LOCK};
    for (int lock = 0; lock < 4; lock++) {
        for (int other = 0; other < 4; other++) records_come_and_go(locks[lock] | others[other]);
    }
    threads_share_a_table(0);
    threads_share_a_table(D_HASH_FT_MUTEX | D_HASH_FT_GLOCK);
    threads_share_a_table(D_HASH_FT_RWLOCK);
    ephemeral_records_leave();
    found_records_move();
    hashes_are_those_of_daos();
    bad_arguments();
    the_environment();
    what_macros_for_logging_use();
    return 0;
}
