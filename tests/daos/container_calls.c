/* usage: container_calls POOL CONTAINER
 *
 * Attributes of containers, ids for objects, and questions about the keys of objects. */
#include <daos.h>

#include "checks.h"

static daos_handle_t pool, container;
static const daos_handle_t none = {0};

static void attributes(void) {
    enum { large = 100000 };
    char* const bytes = malloc(large);
    char* const read = malloc(large);
    char list[64], small[4] = "....", name[300];
    size_t size = sizeof list;
    for (int i = 0; i < large; i++) bytes[i] = (char)(i * 13);
    CHECK_EQUAL(daos_cont_list_attr(container, list, &size, NULL), 0);
    CHECK_EQUAL(size, 0);

    const char* const names[] = {"colour", "shape"};
    const void* const values[] = {"green", bytes};
    const size_t sizes[] = {5, large};
    CHECK_EQUAL(daos_cont_set_attr(container, 2, names, values, sizes, NULL), 0);
    size = sizeof list;
    CHECK_EQUAL(daos_cont_list_attr(container, list, &size, NULL), 0);
    CHECK_EQUAL(size, 13);
    CHECK_EQUAL(memcmp(list, "colour\0shape", 13), 0);
    size = 3;
    memset(list, '.', sizeof list);
    CHECK_EQUAL(daos_cont_list_attr(container, list, &size, NULL), 0);
    CHECK_EQUAL(size, 13);
    CHECK_EQUAL(memcmp(list, "col.", 4), 0);

    void* const buffers[] = {small, read};
    size_t got[] = {3, large};
    CHECK_EQUAL(daos_cont_get_attr(container, 2, names, buffers, got, NULL), 0);
    CHECK(got[0] == 5 && got[1] == large);
    CHECK_EQUAL(memcmp(small, "gre.", 4), 0);
    CHECK_EQUAL(memcmp(read, bytes, large), 0);
    got[1] = 0;
    CHECK_EQUAL(daos_cont_get_attr(container, 2, names, NULL, got, NULL), 0);
    CHECK_EQUAL(got[1], large);

    /* A large value, a small one that replaces it; all or nothing. */
    const void* const others[] = {bytes, "round"};
    const size_t other_sizes[] = {large, 5};
    CHECK_EQUAL(daos_cont_set_attr(container, 2, names, others, other_sizes, NULL), 0);
    CHECK_EQUAL(daos_cont_get_attr(container, 2, names, NULL, got, NULL), 0);
    CHECK(got[0] == large && got[1] == 5);
    const char* const bad[] = {"new", ""};
    CHECK_EQUAL(daos_cont_set_attr(container, 2, bad, values, sizes, NULL), -DER_INVAL);
    CHECK_EQUAL(daos_cont_get_attr(container, 1, bad, NULL, got, NULL), -DER_NONEXIST);
    memset(name, 'n', sizeof name);
    name[sizeof name - 1] = '\0';
    const char* const long_name[] = {name};
    CHECK_EQUAL(daos_cont_set_attr(container, 1, long_name, values, sizes, NULL), -DER_INVAL);
    CHECK_EQUAL(daos_cont_set_attr(container, 0, names, values, sizes, NULL), -DER_INVAL);
    CHECK_EQUAL(daos_cont_set_attr(none, 1, names, values, sizes, NULL), -DER_NO_HDL);

    daos_handle_t reader;
    CHECK_EQUAL(daos_cont_open(pool, "main", DAOS_COO_RO, &reader, NULL, NULL), 0);
    CHECK_EQUAL(daos_cont_get_attr(reader, 1, names, NULL, got, NULL), 0);
    CHECK_EQUAL(daos_cont_set_attr(reader, 1, names, values, sizes, NULL), -DER_NO_PERM);
    CHECK_EQUAL(daos_cont_del_attr(reader, 1, names, NULL), -DER_NO_PERM);
    CHECK_EQUAL(daos_cont_close(reader, NULL), 0);

    CHECK_EQUAL(daos_cont_del_attr(container, 1, names, NULL), 0);
    CHECK_EQUAL(daos_cont_del_attr(container, 1, names, NULL), 0);
    size = sizeof list;
    CHECK_EQUAL(daos_cont_list_attr(container, list, &size, NULL), 0);
    CHECK_EQUAL(size, 6);
    CHECK_EQUAL(daos_cont_del_attr(container, 1, names + 1, NULL), 0);
    free(bytes);
    free(read);
}

static void ids(void) {
    uint64_t first = 0, second = 0;
    CHECK_EQUAL(daos_cont_alloc_oids(container, 10, &first, NULL), 0);
    CHECK(first > 0);
    CHECK_EQUAL(daos_cont_alloc_oids(container, 1, &second, NULL), 0);
    CHECK_EQUAL(second, first + 10);
    CHECK_EQUAL(daos_cont_alloc_oids(container, 0, &second, NULL), -DER_INVAL);
    CHECK_EQUAL(daos_cont_alloc_oids(container, UINT64_MAX - 5, &second, NULL), -DER_NOSPACE);
    CHECK_EQUAL(daos_cont_alloc_oids(container, 1, &second, NULL), 0);
    CHECK_EQUAL(second, first + 11);
}

static daos_handle_t open_object(uint64_t number, enum daos_otype_t type) {
    daos_obj_id_t id = {.lo = number, .hi = 0};
    daos_handle_t object;
    CHECK_EQUAL(daos_obj_generate_oid(container, &id, type, OC_SX, 0, 0), 0);
    CHECK_EQUAL(daos_obj_open(container, id, DAOS_OO_RW, &object, NULL), 0);
    return object;
}

/* An array of records, or a single value if there are none. */
static void write_at(daos_handle_t object, uint64_t dkey, uint64_t akey, daos_size_t size,
                     uint64_t first, uint64_t count) {
    static char bytes[1024];
    daos_recx_t records = {.rx_idx = first, .rx_nr = count};
    daos_iod_t iod = {.iod_type = count > 0 ? DAOS_IOD_ARRAY : DAOS_IOD_SINGLE,
                      .iod_size = size,
                      .iod_nr = 1,
                      .iod_recxs = &records};
    d_iov_t iov, key;
    d_sg_list_t list = {.sg_nr = 1, .sg_nr_out = 0, .sg_iovs = &iov};
    d_iov_set(&iod.iod_name, &akey, sizeof akey);
    d_iov_set(&key, &dkey, sizeof dkey);
    d_iov_set(&iov, bytes, size * (count > 0 ? count : 1));
    CHECK_EQUAL(daos_obj_update(object, none, 0, &key, 1, &iod, &list, NULL), 0);
}

static void numbers_of_keys(void) {
    const daos_handle_t object = open_object(50, DAOS_OT_MULTI_UINT64);
    uint64_t d = 0, a = 0;
    daos_key_t dkey, akey;
    daos_recx_t end = {.rx_idx = 1, .rx_nr = 1};
    d_iov_set(&dkey, &d, sizeof d);
    d_iov_set(&akey, &a, sizeof a);
#define QUERY(flags) daos_obj_query_key(object, none, flags, &dkey, &akey, &end, NULL)
    const uint64_t all = DAOS_GET_DKEY | DAOS_GET_AKEY | DAOS_GET_RECX;
    CHECK_EQUAL(QUERY(DAOS_GET_MAX | all), -DER_NONEXIST);
    CHECK_EQUAL(QUERY(DAOS_GET_MAX | DAOS_GET_RECX), 0);
    CHECK_EQUAL(end.rx_nr, 0);

    /* Over 2^32, and the ends of the range, in any order. */
    static const uint64_t numbers[] = {7, 0, 1ULL << 40, 300, UINT64_MAX, 5};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        write_at(object, numbers[i], 3, 1, 10 * i, 5);
        write_at(object, numbers[i], 9, 8, 100 * i, 2);
        write_at(object, numbers[i], 12, 4, 0, 0);
    }
    CHECK_EQUAL(QUERY(DAOS_GET_MAX | DAOS_GET_DKEY), 0);
    CHECK(d == UINT64_MAX && dkey.iov_len == sizeof d);
    CHECK_EQUAL(QUERY(DAOS_GET_MIN | DAOS_GET_DKEY | DAOS_GET_AKEY), 0);
    CHECK(d == 0 && a == 3);
    d = 5;
    CHECK_EQUAL(QUERY(DAOS_GET_MAX | DAOS_GET_AKEY), 0);
    CHECK_EQUAL(a, 12);
    /* The greatest akey that is an array. */
    CHECK_EQUAL(QUERY(DAOS_GET_MAX | DAOS_GET_AKEY | DAOS_GET_RECX), 0);
    CHECK(a == 9 && end.rx_idx == 501 && end.rx_nr == 1);
    a = 3;
    CHECK_EQUAL(QUERY(DAOS_GET_MAX | DAOS_GET_RECX), 0);
    CHECK_EQUAL(end.rx_idx, 54);
    /* The greatest dkey that has the akey. */
    d = UINT64_MAX;
    CHECK_EQUAL(daos_obj_punch_dkeys(object, none, 0, 1, &dkey, NULL), 0);
    d = 1ULL << 40;
    CHECK_EQUAL(daos_obj_punch_akeys(object, none, 0, &dkey, 1, &akey, NULL), 0);
    CHECK_EQUAL(QUERY(DAOS_GET_MAX | DAOS_GET_DKEY), 0);
    CHECK_EQUAL(d, 1ULL << 40);
    CHECK_EQUAL(QUERY(DAOS_GET_MAX | DAOS_GET_DKEY | DAOS_GET_RECX), 0);
    CHECK(d == 300 && end.rx_idx == 34);

    CHECK_EQUAL(QUERY(DAOS_GET_MAX), -DER_INVAL);
    CHECK_EQUAL(QUERY(DAOS_GET_DKEY), -DER_INVAL);
    CHECK_EQUAL(QUERY(DAOS_GET_DKEY | DAOS_GET_MAX | DAOS_GET_MIN), -DER_INVAL);
    CHECK_EQUAL(QUERY(DAOS_GET_MIN | DAOS_GET_RECX), -DER_NOTSUPPORTED);
    CHECK_EQUAL(daos_obj_query_key(object, none, DAOS_GET_MAX | all, &dkey, &akey, NULL, NULL),
                -DER_INVAL);
    dkey.iov_buf_len = 4;
    CHECK_EQUAL(QUERY(DAOS_GET_MAX | DAOS_GET_DKEY), -DER_INVAL);
    dkey.iov_buf_len = sizeof d;
    const daos_handle_t hashed = open_object(51, DAOS_OT_MULTI_HASHED);
    CHECK_EQUAL(
        daos_obj_query_key(hashed, none, DAOS_GET_MAX | DAOS_GET_DKEY, &dkey, &akey, &end, NULL),
        -DER_INVAL);
    CHECK_EQUAL(daos_obj_close(hashed, NULL), 0);
    CHECK_EQUAL(daos_obj_punch(object, none, 0, NULL), 0);
    CHECK_EQUAL(daos_obj_close(object, NULL), 0);
}

static void arrays(void) {
    daos_obj_id_t id = {.lo = 60, .hi = 0};
    daos_handle_t array, same;
    daos_array_stbuf_t facts, later;
    daos_size_t size = 0, cell = 0, chunk = 0;
    char bytes[100] = "some bytes";
    d_iov_t iov, global = {NULL, 0, 0};
    daos_range_t range = {.rg_idx = 5, .rg_len = 25};
    daos_array_iod_t iod = {.arr_nr = 1, .arr_rgs = &range};
    d_sg_list_t list = {.sg_nr = 1, .sg_nr_out = 0, .sg_iovs = &iov};
    d_iov_set(&iov, bytes, sizeof bytes);
    CHECK_EQUAL(daos_array_generate_oid(container, &id, true, OC_SX, 0, 0), 0);
    CHECK_EQUAL(daos_array_create(container, id, none, 4, 16, &array, NULL), 0);
    CHECK_EQUAL(daos_array_stat(array, none, &facts, NULL), 0);
    CHECK(facts.st_size == 0 && facts.st_max_epoch == 0);
    CHECK_EQUAL(daos_array_write(array, none, &iod, &list, NULL), 0);
    CHECK_EQUAL(daos_array_stat(array, none, &facts, NULL), 0);
    CHECK(facts.st_size == 30 && facts.st_max_epoch > 0);
    CHECK_EQUAL(daos_array_write(array, none, &iod, &list, NULL), 0);
    CHECK_EQUAL(daos_array_stat(array, none, &later, NULL), 0);
    CHECK(later.st_size == 30 && later.st_max_epoch > facts.st_max_epoch);

    CHECK_EQUAL(daos_array_local2global(array, &global), 0);
    global.iov_buf = calloc(1, global.iov_buf_len);
    CHECK_EQUAL(daos_array_local2global(array, &global), 0);
    CHECK_EQUAL(daos_array_global2local(container, global, 0, &same), 0);
    CHECK_EQUAL(daos_array_get_attr(same, &chunk, &cell), 0);
    CHECK(cell == 4 && chunk == 16);
    CHECK_EQUAL(daos_array_get_size(same, none, &size, NULL), 0);
    CHECK_EQUAL(size, 30);
    CHECK_EQUAL(daos_array_close(same, NULL), 0);
    memset(global.iov_buf, '0', global.iov_buf_len);
    CHECK_EQUAL(daos_array_global2local(container, global, 0, &same), -DER_INVAL);
    free(global.iov_buf);
    CHECK_EQUAL(daos_array_destroy(array, none, NULL), 0);
    CHECK_EQUAL(daos_array_close(array, NULL), 0);
}

int main(int count, char** arguments) {
    CHECK_EQUAL(count, 3);
    size_t size = 0;
    CHECK_EQUAL(daos_init(), 0);
    CHECK_EQUAL(daos_pool_connect(arguments[1], NULL, DAOS_PC_RW, &pool, NULL, NULL), 0);
    CHECK_EQUAL(daos_cont_open(pool, arguments[2], DAOS_COO_RW, &container, NULL, NULL), 0);
    if (daos_cont_list_attr(container, NULL, &size, NULL) == -DER_NOTSUPPORTED) {
        puts("not supported");
    } else {
        attributes();
        ids();
        numbers_of_keys();
        arrays();
    }
    CHECK_EQUAL(daos_cont_close(container, NULL), 0);
    CHECK_EQUAL(daos_pool_disconnect(pool, NULL), 0);
    CHECK_EQUAL(daos_fini(), 0);
    return 0;
}
