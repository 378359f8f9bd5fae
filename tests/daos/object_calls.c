/* usage: object_calls POOL CONTAINER
 *
 * Calls on objects and key-value objects, as a program of DAOS makes them. */
#include <daos.h>
#include <pthread.h>
#include <unistd.h>

#include "checks.h"

static daos_handle_t pool, container;

static daos_key_t key_of(const char* text) {
    daos_key_t key;
    d_iov_set(&key, (void*)text, strlen(text));
    return key;
}

static daos_obj_id_t id_of(uint64_t number, enum daos_otype_t type) {
    daos_obj_id_t id = {.lo = number, .hi = 7};
    CHECK_EQUAL(daos_obj_generate_oid(container, &id, type, OC_S1, 0, 0), 0);
    CHECK_EQUAL(id.hi & 0xffffffff, 7);
    return id;
}

struct access {
    d_iov_t iov;
    d_sg_list_t list;
    daos_recx_t records;
    daos_iod_t iod;
};

static void prepare(struct access* access, const char* akey, daos_iod_type_t type, daos_size_t size,
                    uint64_t first, uint64_t count, void* buffer, size_t bytes) {
    d_iov_set(&access->iov, buffer, bytes);
    access->list = (d_sg_list_t){.sg_nr = 1, .sg_nr_out = 0, .sg_iovs = &access->iov};
    access->records = (daos_recx_t){.rx_idx = first, .rx_nr = count};
    access->iod = (daos_iod_t){.iod_name = key_of(akey),
                               .iod_type = type,
                               .iod_size = size,
                               .iod_nr = 1,
                               .iod_recxs = &access->records};
}

static int put(daos_handle_t object, uint64_t flags, const char* dkey, const char* akey,
               const char* text) {
    struct access access;
    daos_key_t key = key_of(dkey);
    prepare(&access, akey, DAOS_IOD_SINGLE, strlen(text), 0, 1, (void*)text, strlen(text));
    return daos_obj_update(object, DAOS_TX_NONE, flags, &key, 1, &access.iod, &access.list, NULL);
}

/* The value, or "" if there is none. */
static const char* get(daos_handle_t object, const char* dkey, const char* akey) {
    static char text[64];
    struct access access;
    daos_key_t key = key_of(dkey);
    prepare(&access, akey, DAOS_IOD_SINGLE, DAOS_REC_ANY, 0, 1, text, sizeof text - 1);
    CHECK_EQUAL(
        daos_obj_fetch(object, DAOS_TX_NONE, 0, &key, 1, &access.iod, &access.list, NULL, NULL), 0);
    text[access.iod.iod_size] = '\0';
    return text;
}

static daos_handle_t open_object(daos_obj_id_t id) {
    daos_handle_t object;
    CHECK_EQUAL(daos_obj_open(container, id, DAOS_OO_RW, &object, NULL), 0);
    return object;
}

static void values(void) {
    const daos_handle_t object = open_object(id_of(1, DAOS_OT_MULTI_HASHED));
    const daos_handle_t none = DAOS_TX_NONE;
    struct access access;
    char small[2];
    daos_key_t key = key_of("d");
    CHECK_EQUAL(strcmp(get(object, "d", "a"), ""), 0);
    CHECK_EQUAL(put(object, DAOS_COND_DKEY_UPDATE, "d", "a", "x"), -DER_NONEXIST);
    CHECK_EQUAL(put(object, DAOS_COND_AKEY_INSERT, "d", "a", "one"), 0);
    CHECK_EQUAL(put(object, DAOS_COND_AKEY_INSERT, "d", "a", "two"), -DER_EXIST);
    CHECK_EQUAL(put(object, DAOS_COND_DKEY_INSERT, "d", "b", "two"), -DER_EXIST);
    CHECK_EQUAL(put(object, DAOS_COND_AKEY_UPDATE, "d", "b", "two"), -DER_NONEXIST);
    CHECK_EQUAL(strcmp(get(object, "d", "a"), "one"), 0);
    CHECK_EQUAL(put(object, 0, "d", "a", "longer"), 0);
    CHECK_EQUAL(strcmp(get(object, "d", "a"), "longer"), 0);

    /* Its size; a buffer that is too small; a condition. */
    prepare(&access, "a", DAOS_IOD_SINGLE, DAOS_REC_ANY, 0, 1, small, sizeof small);
    CHECK_EQUAL(daos_obj_fetch(object, none, 0, &key, 1, &access.iod, NULL, NULL, NULL), 0);
    CHECK_EQUAL(access.iod.iod_size, 6);
    access.iod.iod_size = DAOS_REC_ANY;
    CHECK_EQUAL(daos_obj_fetch(object, none, 0, &key, 1, &access.iod, &access.list, NULL, NULL),
                -DER_REC2BIG);
    CHECK_EQUAL(access.iod.iod_size, 6);
    access.iod.iod_name = key_of("absent");
    CHECK_EQUAL(daos_obj_fetch(object, none, DAOS_COND_AKEY_FETCH, &key, 1, &access.iod,
                               &access.list, NULL, NULL),
                -DER_NONEXIST);
    key = key_of("absent");
    CHECK_EQUAL(daos_obj_fetch(object, none, DAOS_COND_DKEY_FETCH, &key, 1, &access.iod,
                               &access.list, NULL, NULL),
                -DER_NONEXIST);

    /* A value over 64 KiB, and a small one in its place; two buffers. */
    enum { large = 200000 };
    char* const bytes = malloc(large);
    char* const read = malloc(large);
    d_iov_t two[2];
    for (int i = 0; i < large; i++) bytes[i] = (char)(i * 11);
    key = key_of("large");
    prepare(&access, "a", DAOS_IOD_SINGLE, large, 0, 1, bytes, large);
    CHECK_EQUAL(daos_obj_update(object, none, 0, &key, 1, &access.iod, &access.list, NULL), 0);
    d_iov_set(&two[0], read, 1000);
    d_iov_set(&two[1], read + 1000, large - 1000);
    access.list = (d_sg_list_t){.sg_nr = 2, .sg_nr_out = 0, .sg_iovs = two};
    access.iod.iod_size = DAOS_REC_ANY;
    CHECK_EQUAL(daos_obj_fetch(object, none, 0, &key, 1, &access.iod, &access.list, NULL, NULL), 0);
    CHECK_EQUAL(access.iod.iod_size, large);
    CHECK_EQUAL(memcmp(bytes, read, large), 0);
    CHECK_EQUAL(put(object, 0, "large", "a", "small"), 0);
    CHECK_EQUAL(strcmp(get(object, "large", "a"), "small"), 0);
    free(bytes);
    free(read);

    daos_key_t akey = key_of("a");
    key = key_of("d");
    CHECK_EQUAL(daos_obj_punch_akeys(object, none, DAOS_COND_PUNCH, &key, 1, &akey, NULL), 0);
    CHECK_EQUAL(daos_obj_punch_akeys(object, none, DAOS_COND_PUNCH, &key, 1, &akey, NULL),
                -DER_NONEXIST);
    CHECK_EQUAL(strcmp(get(object, "d", "a"), ""), 0);
    CHECK_EQUAL(daos_obj_punch(object, none, 0, NULL), 0);
    CHECK_EQUAL(strcmp(get(object, "large", "a"), ""), 0);
    CHECK_EQUAL(daos_cont_close(container, NULL), -DER_BUSY);
    CHECK_EQUAL(daos_obj_close(object, NULL), 0);
    CHECK_EQUAL(daos_obj_close(object, NULL), -DER_NO_HDL);
}

static void records(void) {
    const daos_handle_t object = open_object(id_of(2, DAOS_OT_MULTI_UINT64));
    const daos_handle_t none = DAOS_TX_NONE;
    struct access access;
    uint64_t number = 5, akey_number = 1, written[4] = {10, 11, 12, 13}, read[6];
    daos_key_t key, akey;
    d_iov_set(&key, &number, sizeof number);
    d_iov_set(&akey, &akey_number, sizeof akey_number);
    prepare(&access, "", DAOS_IOD_ARRAY, sizeof *written, 100, 4, written, sizeof written);
    access.iod.iod_name = akey;
    CHECK_EQUAL(daos_obj_update(object, none, 0, &key, 1, &access.iod, &access.list, NULL), 0);
    prepare(&access, "", DAOS_IOD_ARRAY, DAOS_REC_ANY, 99, 6, read, sizeof read);
    access.iod.iod_name = akey;
    CHECK_EQUAL(daos_obj_fetch(object, none, 0, &key, 1, &access.iod, &access.list, NULL, NULL), 0);
    CHECK_EQUAL(access.iod.iod_size, sizeof *read);
    CHECK(read[0] == 0 && read[1] == 10 && read[4] == 13 && read[5] == 0);
    /* The array ends before the last record. */
    CHECK(access.list.sg_nr_out == 1 && access.iov.iov_len == 5 * sizeof *read);
    /* More records than the buffers hold. */
    access.records.rx_nr = 7;
    CHECK_EQUAL(daos_obj_fetch(object, none, 0, &key, 1, &access.iod, &access.list, NULL, NULL),
                -DER_REC2BIG);
    CHECK_EQUAL(access.iod.iod_size, sizeof *read);
    access.iov.iov_len = 6 * sizeof *read;
    CHECK_EQUAL(daos_obj_update(object, none, 0, &key, 1, &access.iod, &access.list, NULL),
                -DER_REC2BIG);
    access.records.rx_idx = UINT64_MAX / 2;
    CHECK_EQUAL(daos_obj_update(object, none, 0, &key, 1, &access.iod, &access.list, NULL),
                -DER_IO_INVAL);
    /* Missing buffers; a record that is written twice. */
    prepare(&access, "x", DAOS_IOD_ARRAY, 1, 0, 8, NULL, 8);
    CHECK_EQUAL(daos_obj_update(object, none, 0, &key, 1, &access.iod, &access.list, NULL),
                -DER_INVAL);
    CHECK_EQUAL(daos_obj_fetch(object, none, 0, &key, 1, &access.iod, &access.list, NULL, NULL),
                -DER_INVAL);
    access.list.sg_iovs = NULL;
    CHECK_EQUAL(daos_obj_update(object, none, 0, &key, 1, &access.iod, &access.list, NULL),
                -DER_INVAL);
    CHECK_EQUAL(daos_obj_fetch(object, none, 0, &key, 1, &access.iod, &access.list, NULL, NULL),
                -DER_INVAL);
    daos_recx_t thrice[] = {
        {.rx_idx = 0, .rx_nr = 3}, {.rx_idx = 4, .rx_nr = 1}, {.rx_idx = 3, .rx_nr = 2}};
    prepare(&access, "x", DAOS_IOD_ARRAY, 1, 0, 6, read, 6);
    access.iod.iod_recxs = thrice;
    access.iod.iod_nr = 3;
    CHECK_EQUAL(daos_obj_update(object, none, 0, &key, 1, &access.iod, &access.list, NULL),
                -DER_INVAL);
    thrice[2].rx_nr = 1;
    CHECK_EQUAL(daos_obj_update(object, none, 0, &key, 1, &access.iod, &access.list, NULL), 0);
    CHECK_EQUAL(daos_obj_punch_akeys(object, none, 0, &key, 1, &access.iod.iod_name, NULL), 0);

    /* Records are punched with any size, also in an absent array. */
    prepare(&access, "", DAOS_IOD_ARRAY, 0, 101, 2, NULL, 0);
    access.iod.iod_name = akey;
    CHECK_EQUAL(daos_obj_update(object, none, 0, &key, 1, &access.iod, NULL, NULL), 0);
    access.iod.iod_name = key_of("x");
    CHECK_EQUAL(daos_obj_update(object, none, 0, &key, 1, &access.iod, NULL, NULL), 0);
    CHECK_EQUAL(
        daos_obj_update(object, none, DAOS_COND_AKEY_UPDATE, &key, 1, &access.iod, NULL, NULL),
        -DER_NONEXIST);
    access.iod.iod_name = akey;
    CHECK_EQUAL(
        daos_obj_update(object, none, DAOS_COND_AKEY_UPDATE, &key, 1, &access.iod, NULL, NULL), 0);
    access.records.rx_idx = UINT64_MAX / 2;
    CHECK_EQUAL(daos_obj_update(object, none, 0, &key, 1, &access.iod, NULL, NULL), -DER_IO_INVAL);
    prepare(&access, "", DAOS_IOD_ARRAY, DAOS_REC_ANY, 99, 6, read, sizeof read);
    access.iod.iod_name = akey;
    CHECK_EQUAL(daos_obj_fetch(object, none, 0, &key, 1, &access.iod, &access.list, NULL, NULL), 0);
    CHECK_EQUAL(access.iod.iod_size, sizeof *read);
    CHECK(read[1] == 10 && read[2] == 0 && read[3] == 0 && read[4] == 13);

    /* Dkeys that are numbers are listed in numerical order. */
    for (number = 300; number > 0; number -= 100) {
        prepare(&access, "", DAOS_IOD_ARRAY, 1, 0, 3, "abc", 3);
        access.iod.iod_name = akey;
        CHECK_EQUAL(daos_obj_update(object, none, 0, &key, 1, &access.iod, &access.list, NULL), 0);
    }
    uint64_t listed[8];
    daos_key_desc_t descriptors[8];
    daos_anchor_t anchor = DAOS_ANCHOR_INIT;
    uint32_t count = 3;
    prepare(&access, "", DAOS_IOD_ARRAY, 1, 0, 0, listed, sizeof listed);
    CHECK_EQUAL(daos_obj_list_dkey(object, none, &count, descriptors, &access.list, &anchor, NULL),
                0);
    CHECK(count == 3 && listed[0] == 5 && listed[1] == 100 && listed[2] == 200);
    CHECK_EQUAL(descriptors[2].kd_key_len, 8);
    CHECK(!daos_anchor_is_eof(&anchor));
    count = 8;
    CHECK_EQUAL(daos_obj_list_dkey(object, none, &count, descriptors, &access.list, &anchor, NULL),
                0);
    CHECK(count == 1 && listed[0] == 300 && daos_anchor_is_eof(&anchor));
    number = 5;
    count = 8;
    memset(&anchor, 0, sizeof anchor);
    CHECK_EQUAL(
        daos_obj_list_akey(object, none, &key, &count, descriptors, &access.list, &anchor, NULL),
        0);
    CHECK(count == 1 && listed[0] == 1 && descriptors[0].kd_val_type == DAOS_IOD_ARRAY);
    number = 100;
    CHECK_EQUAL(daos_obj_punch_dkeys(object, none, 0, 1, &key, NULL), 0);
    CHECK_EQUAL(daos_obj_punch_dkeys(object, none, DAOS_COND_PUNCH, 1, &key, NULL), -DER_NONEXIST);
    CHECK_EQUAL(daos_obj_close(object, NULL), 0);
}

/* More buffers than a transaction has operations, none adjacent to the previous one. */
static void scattered_buffers(void) {
    enum { pieces = 3000 };
    const daos_handle_t object = open_object(id_of(77, DAOS_OT_MULTI_HASHED));
    static uint32_t numbers[pieces], back[pieces];
    static d_iov_t iovs[pieces];
    struct access access;
    daos_key_t key = key_of("d");
    prepare(&access, "a", DAOS_IOD_ARRAY, 4, 0, pieces, back, sizeof back);
    for (int i = 0; i < pieces; i++) {
        numbers[i] = (uint32_t)i * 7;
        d_iov_set(&iovs[i], &numbers[pieces - 1 - i], 4);
    }
    d_sg_list_t list = {.sg_nr = pieces, .sg_iovs = iovs};
    CHECK_EQUAL(daos_obj_update(object, DAOS_TX_NONE, 0, &key, 1, &access.iod, &list, NULL), 0);
    CHECK_EQUAL(
        daos_obj_fetch(object, DAOS_TX_NONE, 0, &key, 1, &access.iod, &access.list, NULL, NULL), 0);
    for (int i = 0; i < pieces; i++) CHECK_EQUAL(back[i], numbers[pieces - 1 - i]);
    memset(numbers, 0, sizeof numbers);
    CHECK_EQUAL(daos_obj_fetch(object, DAOS_TX_NONE, 0, &key, 1, &access.iod, &list, NULL, NULL),
                0);
    CHECK_EQUAL(list.sg_nr_out, pieces);
    for (int i = 0; i < pieces; i++) CHECK_EQUAL(numbers[i], (uint32_t)i * 7);
    CHECK_EQUAL(daos_obj_punch(object, DAOS_TX_NONE, 0, NULL), 0);
    CHECK_EQUAL(daos_obj_close(object, NULL), 0);
}

/* More keys than a transaction has operations, if each were punched in all possible forms. */
static void many_akeys(void) {
    enum { most = 1024, wide = 400 };
    static char names[most][8];
    static daos_key_t akeys[most];
    static struct access all[most];
    static daos_iod_t iods[most];
    static d_sg_list_t lists[most];
    const daos_handle_t object = open_object(id_of(79, DAOS_OT_MULTI_HASHED));
    const daos_handle_t none = DAOS_TX_NONE;
    uint64_t number = 5;
    daos_key_t key = key_of("d");
    for (int i = 0; i < most; i++) {
        snprintf(names[i], sizeof names[i], "%d", i);
        akeys[i] = key_of(names[i]);
    }
    CHECK_EQUAL(daos_obj_punch_akeys(object, none, 0, &key, most, akeys, NULL), 0);
    for (int with_records = 0; with_records < 2; with_records++) {
        const unsigned count = with_records ? wide : most / 2;
        for (unsigned i = 0; i < count; i++) {
            prepare(&all[i], names[i], with_records ? DAOS_IOD_ARRAY : DAOS_IOD_SINGLE,
                    sizeof number, 0, 1, &number, sizeof number);
            iods[i] = all[i].iod;
            lists[i] = all[i].list;
        }
        CHECK_EQUAL(daos_obj_update(object, none, 0, &key, count, iods, lists, NULL), 0);
        CHECK_EQUAL(daos_obj_punch_akeys(object, none, DAOS_COND_PUNCH, &key, count, akeys, NULL),
                    0);
        CHECK_EQUAL(
            daos_obj_punch_akeys(object, none, DAOS_COND_PUNCH, &key, 1, &akeys[count - 1], NULL),
            -DER_NONEXIST);
    }
    CHECK_EQUAL(daos_obj_close(object, NULL), 0);
}

/* Runs a writer and a reader concurrently, again and again. One starts after a varying delay, so
 * that the read sees the state before or after the write. */
struct race {
    long wait_us; /* of the writer; negative: of the reader */
    long step_us;
    bool was_after;
    int before, after; /* how often */
};

static bool is_over(const struct race* race) {
    CHECK(race->before + race->after < 1000);
    return race->before >= 15 && race->after >= 15;
}

static void wait_for(long us) {
    if (us > 0) usleep((useconds_t)us);
}

static void note(struct race* race, bool is_after) {
    race->step_us = is_after == race->was_after ? 2 * race->step_us + 10 : 10;
    race->was_after = is_after;
    race->wait_us += is_after ? race->step_us : -race->step_us;
    ++*(is_after ? &race->after : &race->before);
}

struct turn {
    long wait_us;
    uint64_t number;
};

enum { pairs = 1100 };
static daos_handle_t shared;

/* Two values and an array, all of one number. The array is read in more pieces than one request to
 * the store has. */
struct whole {
    uint64_t one, other, array[2 * pairs];
    d_iov_t iovs[3];
    d_sg_list_t lists[3];
    daos_recx_t all, each[pairs];
    daos_iod_t iods[3];
};

static void prepare_whole(struct whole* whole) {
    static const char* const akeys[] = {"a", "array", "b"};
    memset(whole, 0, sizeof *whole);
    whole->all = (daos_recx_t){.rx_idx = 0, .rx_nr = 2 * pairs};
    for (uint64_t i = 0; i < pairs; i++)
        whole->each[i] = (daos_recx_t){.rx_idx = 2 * i, .rx_nr = 1};
    d_iov_set(&whole->iovs[0], &whole->one, sizeof whole->one);
    d_iov_set(&whole->iovs[1], whole->array, sizeof whole->array);
    d_iov_set(&whole->iovs[2], &whole->other, sizeof whole->other);
    for (int i = 0; i < 3; i++) {
        whole->lists[i] = (d_sg_list_t){.sg_nr = 1, .sg_iovs = &whole->iovs[i]};
        whole->iods[i] = (daos_iod_t){.iod_name = key_of(akeys[i]),
                                      .iod_type = i == 1 ? DAOS_IOD_ARRAY : DAOS_IOD_SINGLE,
                                      .iod_size = sizeof whole->one,
                                      .iod_nr = 1,
                                      .iod_recxs = &whole->all};
    }
}

static void* write_whole(void* argument) {
    static struct whole whole;
    daos_key_t key = key_of("d");
    const struct turn* const turn = argument;
    prepare_whole(&whole);
    whole.one = whole.other = turn->number;
    for (int i = 0; i < 2 * pairs; i++) whole.array[i] = turn->number;
    wait_for(turn->wait_us);
    CHECK_EQUAL(daos_obj_update(shared, DAOS_TX_NONE, 0, &key, 3, whole.iods, whole.lists, NULL),
                0);
    return NULL;
}

/* A fetch never shows a part of an update, neither of one akey nor of several. */
static void updates_while_others_read(void) {
    static struct whole whole;
    pthread_t writer;
    daos_key_t key = key_of("d");
    struct turn turn = {0};
    struct race races[2] = {0};
    shared = open_object(id_of(78, DAOS_OT_MULTI_HASHED));
    write_whole(&turn);
    prepare_whole(&whole);
    whole.iods[1].iod_name = key_of("filler");
    CHECK_EQUAL(
        daos_obj_update(shared, DAOS_TX_NONE, 0, &key, 1, &whole.iods[1], &whole.lists[1], NULL),
        0);
    while (!is_over(&races[0]) || !is_over(&races[1])) {
        /* The array alone; or both values, with an equally long operation between them. */
        const int is_array = ++turn.number % 2 == 0;
        const int at = is_array ? 1 : 0;
        struct race* const race = &races[is_array];
        turn.wait_us = race->wait_us;
        prepare_whole(&whole);
        whole.iods[1].iod_nr = pairs;
        whole.iods[1].iod_recxs = whole.each;
        if (!is_array) whole.iods[1].iod_name = key_of("filler");
        CHECK_EQUAL(pthread_create(&writer, NULL, write_whole, &turn), 0);
        wait_for(-turn.wait_us);
        CHECK_EQUAL(daos_obj_fetch(shared, DAOS_TX_NONE, 0, &key, is_array ? 1 : 3, &whole.iods[at],
                                   &whole.lists[at], NULL, NULL),
                    0);
        CHECK_EQUAL(pthread_join(writer, NULL), 0);
        const uint64_t seen = is_array ? whole.array[0] : whole.one;
        CHECK(seen == turn.number || seen == turn.number - 1);
        for (int i = 0; is_array && i < pairs; i++) CHECK_EQUAL(whole.array[i], seen);
        if (!is_array) CHECK_EQUAL(whole.other, seen);
        note(race, seen == turn.number);
    }
    CHECK_EQUAL(daos_obj_punch(shared, DAOS_TX_NONE, 0, NULL), 0);
    CHECK_EQUAL(daos_obj_close(shared, NULL), 0);
}

struct two_arrays {
    struct access accesses[2];
    uint64_t numbers[2];
    daos_iod_t iods[2];
    d_sg_list_t lists[2];
};

static void prepare_two(struct two_arrays* two, daos_size_t size) {
    for (int i = 0; i < 2; i++) {
        prepare(&two->accesses[i], i == 0 ? "x" : "y", DAOS_IOD_ARRAY, size, 0, 1, &two->numbers[i],
                sizeof *two->numbers);
        two->iods[i] = two->accesses[i].iod;
        two->lists[i] = two->accesses[i].list;
    }
}

static void* make_two(void* argument) {
    const struct turn* const turn = argument;
    struct two_arrays two = {.numbers = {turn->number, turn->number}};
    daos_key_t key = key_of("d");
    prepare_two(&two, sizeof *two.numbers);
    wait_for(turn->wait_us);
    CHECK_EQUAL(daos_obj_update(shared, DAOS_TX_NONE, 0, &key, 2, two.iods, two.lists, NULL), 0);
    return NULL;
}

/* One update creates both. A query for the size of the records finds both or none. */
static void arrays_are_made_while_others_read(void) {
    struct turn turn = {0};
    struct race race = {0};
    shared = open_object(id_of(80, DAOS_OT_MULTI_HASHED));
    while (!is_over(&race)) {
        pthread_t writer;
        struct two_arrays two = {0};
        daos_key_t key = key_of("d");
        CHECK_EQUAL(daos_obj_punch(shared, DAOS_TX_NONE, 0, NULL), 0);
        prepare_two(&two, DAOS_REC_ANY);
        turn.number++;
        turn.wait_us = race.wait_us;
        CHECK_EQUAL(pthread_create(&writer, NULL, make_two, &turn), 0);
        wait_for(-turn.wait_us);
        CHECK_EQUAL(
            daos_obj_fetch(shared, DAOS_TX_NONE, 0, &key, 2, two.iods, two.lists, NULL, NULL), 0);
        CHECK_EQUAL(pthread_join(writer, NULL), 0);
        CHECK_EQUAL(two.iods[0].iod_size, two.iods[1].iod_size);
        CHECK_EQUAL(two.numbers[0], two.numbers[1]);
        note(&race, two.iods[0].iod_size != 0);
    }
    CHECK_EQUAL(daos_obj_punch(shared, DAOS_TX_NONE, 0, NULL), 0);
    CHECK_EQUAL(daos_obj_close(shared, NULL), 0);
}

static void key_values(void) {
    daos_handle_t kv;
    const daos_handle_t none = DAOS_TX_NONE;
    char value[16];
    daos_size_t size = sizeof value;
    CHECK_EQUAL(daos_kv_open(container, id_of(5, DAOS_OT_KV_HASHED), DAOS_OO_RW, &kv, NULL), 0);
    CHECK_EQUAL(daos_kv_get(kv, none, 0, "k", &size, value, NULL), 0);
    CHECK_EQUAL(size, 0);
    size = sizeof value;
    memset(value, 'v', sizeof value);
    CHECK_EQUAL(daos_kv_get(kv, none, DAOS_COND_KEY_GET, "k", &size, value, NULL), -DER_NONEXIST);
    CHECK(value[0] == 'v' && value[sizeof value - 1] == 'v');
    CHECK_EQUAL(daos_kv_put(kv, none, DAOS_COND_KEY_INSERT, "empty", 0, NULL, NULL), 0);
    CHECK_EQUAL(daos_kv_put(kv, none, DAOS_COND_KEY_INSERT, "empty", 0, NULL, NULL), -DER_EXIST);
    CHECK_EQUAL(daos_kv_put(kv, none, DAOS_COND_KEY_UPDATE, "k", 3, "one", NULL), -DER_NONEXIST);
    CHECK_EQUAL(daos_kv_put(kv, none, DAOS_COND_KEY_INSERT, "k", 3, "one", NULL), 0);
    CHECK_EQUAL(daos_kv_put(kv, none, DAOS_COND_KEY_INSERT, "k", 3, "two", NULL), -DER_EXIST);
    size = 0;
    CHECK_EQUAL(daos_kv_get(kv, none, 0, "k", &size, NULL, NULL), 0);
    CHECK_EQUAL(size, 3);
    size = 2;
    CHECK_EQUAL(daos_kv_get(kv, none, 0, "k", &size, value, NULL), -DER_REC2BIG);
    CHECK_EQUAL(size, 3);
    size = sizeof value;
    CHECK_EQUAL(daos_kv_get(kv, none, 0, "k", &size, value, NULL), 0);
    CHECK(size == 3 && memcmp(value, "one", 3) == 0);
    /* Tools copy it like any object: by its only akey, which has an empty name. */
    const daos_handle_t plain = open_object(id_of(5, DAOS_OT_KV_HASHED));
    daos_key_t key_of_value = key_of("k");
    daos_key_desc_t descriptor;
    daos_anchor_t position = DAOS_ANCHOR_INIT;
    uint32_t akeys = 1;
    struct access access;
    prepare(&access, "", DAOS_IOD_SINGLE, DAOS_REC_ANY, 0, 1, value, sizeof value);
    CHECK_EQUAL(daos_obj_list_akey(plain, none, &key_of_value, &akeys, &descriptor, &access.list,
                                   &position, NULL),
                0);
    CHECK(akeys == 1 && descriptor.kd_key_len == 0);
    access.iod.iod_name = (daos_key_t){.iov_buf = value};
    CHECK_EQUAL(daos_obj_fetch(plain, none, 0, &key_of_value, 1, &access.iod, NULL, NULL, NULL), 0);
    CHECK_EQUAL(access.iod.iod_size, 3);
    CHECK_EQUAL(daos_obj_close(plain, NULL), 0);
    char* const large = calloc(1, 100000);
    large[99999] = 5;
    CHECK_EQUAL(daos_kv_put(kv, none, 0, "k", 100000, large, NULL), 0);
    large[99999] = 0;
    size = 100000;
    CHECK_EQUAL(daos_kv_get(kv, none, 0, "k", &size, large, NULL), 0);
    CHECK(size == 100000 && large[99999] == 5);
    free(large);
    const daos_handle_t whole = open_object(id_of(5, DAOS_OT_KV_HASHED));
    CHECK_EQUAL(daos_obj_punch(whole, none, 0, NULL), 0);
    CHECK_EQUAL(daos_obj_close(whole, NULL), 0);
    size = sizeof value;
    CHECK_EQUAL(daos_kv_get(kv, none, DAOS_COND_KEY_GET, "k", &size, value, NULL), -DER_NONEXIST);
    CHECK_EQUAL(daos_kv_close(kv, NULL), 0);
}

static void refusals(void) {
    daos_handle_t object, none = DAOS_HDL_INVAL, event_queue;
    daos_obj_id_t id = {.lo = 1, .hi = 0x44465301}; /* the root of DFS, without a class */
    char long_key[200];
    daos_event_t event, *done;
    CHECK_EQUAL(daos_obj_open(container, id, DAOS_OO_RW, &object, NULL), -DER_INVAL);
    CHECK_EQUAL(daos_obj_generate_oid(none, &id, DAOS_OT_MULTI_HASHED, OC_S1, 0, 0), -DER_NO_HDL);
    CHECK_EQUAL(daos_obj_open(container, id_of(6, DAOS_OT_MULTI_HASHED), DAOS_OO_RO, &object, NULL),
                0);
    CHECK_EQUAL(put(object, 0, "d", "a", "x"), -DER_NO_PERM);
    CHECK_EQUAL(daos_obj_close(object, NULL), 0);
    object = open_object(id_of(6, DAOS_OT_MULTI_HASHED));
    memset(long_key, 'k', sizeof long_key - 1);
    long_key[sizeof long_key - 1] = '\0';
    CHECK_EQUAL(put(object, 0, long_key, "a", "x"), -DER_KEY2BIG);
    CHECK_EQUAL(put(object, 0, "", "a", "x"), -DER_INVAL);
    /* There are no transactions. */
    daos_key_t key = key_of("d");
    CHECK_EQUAL(daos_obj_punch_dkeys(object, object, 0, 1, &key, NULL), -DER_NO_HDL);
    CHECK_EQUAL(daos_tx_close(object, NULL), -DER_NO_HDL);
    /* With an event, the event has the result. */
    CHECK_EQUAL(daos_eq_create(&event_queue), 0);
    CHECK_EQUAL(daos_event_init(&event, event_queue, NULL), 0);
    CHECK_EQUAL(daos_obj_punch(none, DAOS_TX_NONE, 0, &event), 0);
    CHECK_EQUAL(daos_eq_poll(event_queue, 1, DAOS_EQ_WAIT, 1, &done), 1);
    CHECK_EQUAL(done->ev_error, -DER_NO_HDL);
    CHECK_EQUAL(daos_event_fini(&event), 0);
    CHECK_EQUAL(daos_eq_destroy(event_queue, 0), 0);
    CHECK_EQUAL(daos_obj_close(object, NULL), 0);
}

int main(int count, char** arguments) {
    if (count != 3) return fprintf(stderr, "usage: %s POOL CONTAINER\n", arguments[0]), 2;
    daos_handle_t object;
    CHECK_EQUAL(daos_init(), 0);
    CHECK_EQUAL(daos_pool_connect(arguments[1], NULL, DAOS_PC_RW, &pool, NULL, NULL), 0);
    CHECK_EQUAL(daos_cont_open(pool, arguments[2], DAOS_COO_RW, &container, NULL, NULL), 0);
    const int rc =
        daos_obj_open(container, id_of(1, DAOS_OT_MULTI_HASHED), DAOS_OO_RW, &object, NULL);
    if (rc == -DER_NOTSUPPORTED) {
        puts("not supported");
    } else {
        CHECK_EQUAL(rc, 0);
        CHECK_EQUAL(daos_obj_close(object, NULL), 0);
        values();
        records();
        scattered_buffers();
        many_akeys();
        updates_while_others_read();
        arrays_are_made_while_others_read();
        key_values();
        refusals();
    }
    CHECK_EQUAL(daos_cont_close(container, NULL), 0);
    CHECK_EQUAL(daos_pool_disconnect(pool, NULL), 0);
    CHECK_EQUAL(daos_fini(), 0);
    return 0;
}
