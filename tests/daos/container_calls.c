/* usage: container_calls POOL CONTAINER
 *
 * Attributes of containers. */
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
    }
    CHECK_EQUAL(daos_cont_close(container, NULL), 0);
    CHECK_EQUAL(daos_pool_disconnect(pool, NULL), 0);
    CHECK_EQUAL(daos_fini(), 0);
    return 0;
}
