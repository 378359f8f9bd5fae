/* usage: tool_calls POOL CONTAINER WAY
 *
 * The calls of DAOS's own program `daos`: properties, lists of rights, tables of objects,
 * settings of containers, and what libdfs has for them. WAY: +dpu has files only. */
#include <daos.h>
#include <daos/common.h>
#include <daos_fs.h>
#include <daos_mgmt.h>
#include <daos_security.h>
#include <gurt/common.h>

#include "checks.h"

static daos_handle_t pool, container;
static const daos_handle_t none = {0};
static bool has_objects;
static const char *pool_label, *container_label;

static struct daos_prop_entry* entry_of(daos_prop_t* list, uint32_t type) {
    for (uint32_t i = 0; i < list->dpp_nr; i++) {
        if (list->dpp_entries[i].dpe_type == type) return &list->dpp_entries[i];
    }
    return NULL;
}

/* Of the owner and the group of the files. */
static void lists_of_rights(void) {
    const char* text = "A::OWNER@:rw";
    daos_prop_t* shown;
    struct daos_acl* made;
    char** written;
    size_t count;
    CHECK_EQUAL(daos_cont_get_acl(container, &shown, NULL), 0);
    struct daos_acl* const list = entry_of(shown, DAOS_PROP_CO_ACL)->dpe_val_ptr;
    CHECK_EQUAL(daos_acl_to_strs(list, &written, &count), 0);
    CHECK_EQUAL(count, 2);
    CHECK_EQUAL(strcmp(written[0], "A::OWNER@:rwdtTaAo"), 0);
    CHECK_EQUAL(strcmp(written[1], "A:G:GROUP@:rwtT"), 0);
    for (size_t i = 0; i < count; i++) free(written[i]);
    free((void*)written);
    /* Lengths that lead out of the list; rights that differ. */
    struct daos_ace* const entry = (struct daos_ace*)list->dal_ace;
    entry->dae_principal_len = 0xfff8;
    CHECK_EQUAL(daos_acl_to_strs(list, &written, &count), -DER_INVAL);
    entry->dae_principal_len = 0;
    list->dal_len -= 8;
    CHECK_EQUAL(daos_acl_to_strs(list, &written, &count), -DER_INVAL);
    list->dal_len += 8;
    entry->dae_access_types |= DAOS_ACL_ACCESS_AUDIT;
    CHECK_EQUAL(daos_acl_to_strs(list, &written, &count), -DER_INVAL);
    daos_prop_free(shown);
    /* No list that a program makes would be obeyed. */
    CHECK_EQUAL(daos_acl_from_strs(&text, 1, &made), -DER_NOTSUPPORTED);

    enum daos_acl_principal_type type;
    char* name;
    CHECK_EQUAL(daos_acl_principal_from_str("u:ann@", &type, &name), 0);
    CHECK(type == DAOS_ACL_USER && strcmp(name, "ann@") == 0);
    free(name);
    CHECK_EQUAL(daos_acl_principal_from_str("EVERYONE@", &type, &name), 0);
    CHECK(type == DAOS_ACL_EVERYONE && name == NULL);
    CHECK_EQUAL(daos_acl_principal_from_str("ann@", &type, &name), -DER_INVAL);
    CHECK(daos_acl_principal_is_valid("ann@") && !daos_acl_principal_is_valid("ann"));
}

static void lists_of_properties(void) {
    daos_prop_t *first = daos_prop_alloc(2), *second = daos_prop_alloc(2), *both;
    first->dpp_entries[0].dpe_type = DAOS_PROP_CO_LABEL;
    first->dpp_entries[1].dpe_type = DAOS_PROP_CO_REDUN_FAC;
    CHECK_EQUAL(daos_prop_entry_set_str(&first->dpp_entries[0], "one", 3), 0);
    CHECK_EQUAL(daos_prop_entry_set_str(&first->dpp_entries[1], "one", 3), -DER_INVAL);
    second->dpp_entries[0].dpe_type = DAOS_PROP_CO_LABEL;
    second->dpp_entries[0].dpe_str = strdup("two");
    second->dpp_entries[1].dpe_type = DAOS_PROP_CO_ROOTS;
    const struct daos_prop_co_roots roots = {.cr_oids = {{.lo = 7, .hi = 8}}};
    second->dpp_entries[1].dpe_val_ptr = malloc(sizeof roots);
    memcpy(second->dpp_entries[1].dpe_val_ptr, &roots, sizeof roots);
    CHECK_EQUAL(daos_prop_merge2(first, second, &both), 0);
    CHECK_EQUAL(both->dpp_nr, 3);
    CHECK_EQUAL(strcmp(entry_of(both, DAOS_PROP_CO_LABEL)->dpe_str, "two"), 0);
    const struct daos_prop_co_roots* const copied = entry_of(both, DAOS_PROP_CO_ROOTS)->dpe_val_ptr;
    CHECK_EQUAL(memcmp(copied, &roots, sizeof roots), 0);
    CHECK_EQUAL(strcmp(first->dpp_entries[0].dpe_str, "one"), 0);
    CHECK_EQUAL(daos_prop_merge2(first, NULL, &both), -DER_INVAL);
    daos_prop_free(both);
    daos_prop_free(first);
    daos_prop_free(second);
}

static void names_of_properties(void) {
    CHECK_EQUAL(daos_str2csumcontprop("crc32"), 2);
    CHECK_EQUAL(daos_str2csumcontprop("off"), 0);
    CHECK_EQUAL(daos_str2encryptcontprop("aes-gcm256"), 7);
    CHECK_EQUAL(daos_str2compresscontprop("crc32"), -DER_INVAL);
}

static void what_pools_and_containers_show(void) {
    daos_prop_t* const all = daos_prop_alloc(0);
    daos_pool_info_t info = {.pi_bits = DPI_ALL};
    d_rank_list_t* ranks;
    size_t size = 5;
    const char* const names[] = {"a"};
    const void* const values[] = {"b"};
    const size_t sizes[] = {1};
    const daos_epoch_range_t range = {.epr_lo = 0, .epr_hi = DAOS_EPOCH_MAX};
    daos_epoch_t epoch;
    daos_anchor_t anchor = {0};
    int count = 3;
    CHECK_EQUAL(daos_cont_query(container, NULL, all, NULL), 0);
    CHECK_EQUAL(all->dpp_nr, DAOS_PROP_CO_MAX - DAOS_PROP_CO_MIN - 1);
    CHECK_EQUAL(entry_of(all, DAOS_PROP_CO_LAYOUT_TYPE)->dpe_val, DAOS_PROP_CO_LAYOUT_POSIX);
    CHECK_EQUAL(strcmp(entry_of(all, DAOS_PROP_CO_LABEL)->dpe_str, container_label), 0);
    CHECK(daos_acl_principal_is_valid(entry_of(all, DAOS_PROP_CO_OWNER)->dpe_str));
    CHECK_EQUAL(
        daos_cont_set_owner(container, entry_of(all, DAOS_PROP_CO_OWNER)->dpe_str, NULL, NULL), 0);
    static char nobody[] = "nobody-has-this@", no_name[] = "ann";
    CHECK_EQUAL(daos_cont_set_owner(container, nobody, NULL, NULL), -DER_NONEXIST);
    CHECK_EQUAL(daos_cont_set_owner(container, no_name, NULL, NULL), -DER_INVAL);
    CHECK_EQUAL(daos_cont_set_prop(container, all, NULL), -DER_NOTSUPPORTED);
    struct daos_acl* const rights = entry_of(all, DAOS_PROP_CO_ACL)->dpe_val_ptr;
    CHECK_EQUAL(daos_cont_overwrite_acl(container, rights, NULL), -DER_NOTSUPPORTED);
    CHECK_EQUAL(daos_cont_update_acl(none, rights, NULL), -DER_NO_HDL);
    daos_prop_free(all);

    daos_prop_t* const of_pool = daos_prop_alloc(0);
    const int rc = daos_pool_query(pool, &ranks, &info, of_pool, NULL);
    CHECK_EQUAL(rc, 0);
    CHECK_EQUAL(ranks->rl_nr, 1);
    CHECK_EQUAL(strcmp(entry_of(of_pool, DAOS_PROP_PO_LABEL)->dpe_str, pool_label), 0);
    d_rank_list_free(ranks);
    daos_prop_free(of_pool);
    daos_target_info_t target;
    CHECK_EQUAL(daos_pool_query_target(pool, 0, 0, &target, NULL), 0);
    CHECK_EQUAL(target.ta_space.s_total[DAOS_MEDIA_NVME],
                info.pi_space.ps_space.s_total[DAOS_MEDIA_NVME]);
    CHECK_EQUAL(daos_pool_query_target(pool, 1, 0, &target, NULL), -DER_NONEXIST);

    CHECK_EQUAL(daos_pool_list_attr(pool, NULL, &size, NULL), 0);
    CHECK_EQUAL(size, 0);
    CHECK_EQUAL(daos_pool_set_attr(pool, 1, names, values, sizes, NULL), -DER_NOTSUPPORTED);
    CHECK_EQUAL(daos_pool_get_attr(pool, 1, names, NULL, &size, NULL), -DER_NONEXIST);
    CHECK_EQUAL(daos_pool_list_attr(none, NULL, &size, NULL), -DER_NO_HDL);

    CHECK_EQUAL(daos_cont_create_snap(container, &epoch, NULL, NULL), -DER_NOTSUPPORTED);
    CHECK_EQUAL(daos_cont_rollback(container, 1, NULL), -DER_NOTSUPPORTED);
    CHECK_EQUAL(daos_cont_list_snap(container, &count, NULL, NULL, &anchor, NULL), 0);
    CHECK(count == 0 && daos_anchor_is_eof(&anchor));
    CHECK_EQUAL(daos_cont_destroy_snap(container, range, NULL), 0);

    struct daos_sys_info* system;
    daos_mgmt_pool_info_t pools[2];
    daos_size_t listed = 2;
    CHECK_EQUAL(daos_mgmt_get_sys_info(NULL, &system), 0);
    CHECK_EQUAL(system->dsi_nr_ranks, 0);
    daos_mgmt_put_sys_info(system);
    /* A base URI that names its pool. */
    CHECK_EQUAL(daos_mgmt_list_pools(NULL, &listed, pools, NULL), 0);
    CHECK_EQUAL(listed, 1);
    CHECK_EQUAL(strcmp(pools[0].mgpi_label, "pool"), 0);
    free(pools[0].mgpi_label);
    d_rank_list_free(pools[0].mgpi_svc);
    listed = 0;
    CHECK_EQUAL(daos_mgmt_list_pools(NULL, &listed, pools, NULL), -DER_TRUNC);
}

static daos_handle_t open_new(uint64_t number, daos_obj_id_t* id) {
    daos_handle_t object;
    *id = (daos_obj_id_t){.lo = number, .hi = 0};
    CHECK_EQUAL(daos_obj_generate_oid(container, id, DAOS_OT_MULTI_HASHED, OC_SX, 0, 0), 0);
    CHECK_EQUAL(daos_obj_open(container, *id, DAOS_OO_RW, &object, NULL), 0);
    return object;
}

static uint64_t list_all(daos_handle_t table, uint32_t at_once) {
    daos_anchor_t anchor = {0};
    daos_obj_id_t ids[64];
    uint64_t sum = 0;
    while (!daos_anchor_is_eof(&anchor)) {
        uint32_t count = at_once;
        CHECK_EQUAL(daos_oit_list(table, ids, &count, &anchor, NULL), 0);
        for (uint32_t i = 0; i < count; i++) sum += ids[i].lo;
    }
    return sum;
}

static void objects_are_listed(void) {
    enum { first = 10, end = 40 };
    daos_handle_t table;
    const daos_handle_t with_files = container;
    daos_obj_id_t id, ids[64];
    daos_epoch_t epoch;
    daos_anchor_t anchor = {0};
    uint64_t sum = 0;
    char bytes[8] = "1234567", key_text[] = "k";
    daos_key_t key;
    d_iov_t iov;
    d_iov_set(&key, key_text, 1);
    d_iov_set(&iov, bytes, 8);
    /* Files would be missing. */
    CHECK_EQUAL(daos_oit_open(container, 1, &table, NULL), -DER_NOTSUPPORTED);
    CHECK_EQUAL(daos_cont_create_snap_opt(container, &epoch, NULL, DAOS_SNAP_OPT_OIT, NULL),
                -DER_NOTSUPPORTED);
    CHECK_EQUAL(daos_cont_create_with_label(pool, "objects", NULL, NULL, NULL), 0);
    CHECK_EQUAL(daos_cont_open(pool, "objects", DAOS_COO_RW, &container, NULL, NULL), 0);
    for (uint64_t i = first; i < end; i++) {
        const daos_handle_t object = open_new(i, &id);
        daos_recx_t records = {.rx_idx = i, .rx_nr = 2};
        daos_iod_t iod = {.iod_name = key,
                          .iod_type = DAOS_IOD_ARRAY,
                          .iod_size = 4,
                          .iod_nr = 1,
                          .iod_recxs = &records};
        d_sg_list_t list = {.sg_nr = 1, .sg_iovs = &iov};
        CHECK_EQUAL(daos_obj_update(object, none, 0, &key, 1, &iod, &list, NULL), 0);
        sum += i;

        daos_size_t size = 0;
        daos_recx_t found[2];
        daos_epoch_range_t epochs[2];
        uint32_t count = 2;
        memset(&anchor, 0, sizeof anchor);
        CHECK_EQUAL(daos_obj_list_recx(object, none, &key, &key, &size, &count, found, epochs,
                                       &anchor, true, NULL),
                    0);
        CHECK(count == 1 && size == 4 && found[0].rx_idx == 0 && found[0].rx_nr == i + 2);
        CHECK(daos_anchor_is_eof(&anchor) && epochs[0].epr_lo > 0);
        count = 2;
        CHECK_EQUAL(daos_obj_list_recx(object, none, &key, &key, &size, &count, found, epochs,
                                       &anchor, true, NULL),
                    0);
        CHECK_EQUAL(count, 0);
        CHECK_EQUAL(daos_obj_close(object, NULL), 0);
    }
    CHECK_EQUAL(daos_cont_create_snap_opt(container, &epoch, NULL,
                                          DAOS_SNAP_OPT_CR | DAOS_SNAP_OPT_OIT, NULL),
                0);
    CHECK_EQUAL(daos_oit_open(container, epoch, &table, NULL), 0);
    CHECK_EQUAL(daos_cont_close(container, NULL), -DER_BUSY);
    /* Files of the container are not among them. */
    CHECK_EQUAL(list_all(table, 7), sum);
    CHECK_EQUAL(list_all(table, 64), sum);
    /* An anchor with arbitrary bytes of the program. */
    memset(&anchor, 0xff, sizeof anchor);
    anchor.da_type = DAOS_ANCHOR_TYPE_KEY;
    uint32_t count = 64;
    CHECK_EQUAL(daos_oit_list(table, ids, &count, &anchor, NULL), 0);
    CHECK_EQUAL(count, 0);
    CHECK_EQUAL(daos_cont_snap_oit_destroy(container, table, NULL), 0);
    CHECK_EQUAL(daos_oit_close(table, NULL), 0);
    CHECK_EQUAL(daos_oit_list(table, ids, &count, &anchor, NULL), -DER_NO_HDL);

    struct daos_obj_layout* layout;
    CHECK_EQUAL(daos_obj_verify(container, id, epoch), 0);
    CHECK_EQUAL(daos_obj_layout_get(container, id, &layout), 0);
    CHECK_EQUAL(daos_obj_layout_free(layout), 0);
    CHECK_EQUAL(daos_cont_close(container, NULL), 0);
    CHECK_EQUAL(daos_cont_destroy(pool, "objects", 0, NULL), 0);
    container = with_files;
}

static void containers_keep_settings(void) {
    daos_prop_t* const layout = daos_prop_alloc(1);
    dfs_attr_t attributes = {.da_mode = DFS_BALANCED, .da_chunk_size = 4 << 20}, read;
    daos_handle_t made;
    daos_cont_info_t info;
    dfs_t* mounted;
    dfs_obj_t* object;
    daos_obj_id_t id;
    uuid_t uuid;
    char text[40];
    layout->dpp_entries[0].dpe_type = DAOS_PROP_CO_LAYOUT_TYPE;
    layout->dpp_entries[0].dpe_val = DAOS_PROP_CO_LAYOUT_PYTHON;
    CHECK_EQUAL(daos_cont_create_with_label(pool, "python", layout, &uuid, NULL), 0);
    /* By the UUID that was reported. */
    for (int i = 0, at = 0; i < 16; i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10) text[at++] = '-';
        at += snprintf(text + at, sizeof text - (size_t)at, "%02x", uuid[i]);
    }
    CHECK_EQUAL(daos_cont_open(pool, text, DAOS_COO_RW, &made, &info, NULL), 0);
    CHECK_EQUAL(memcmp(info.ci_uuid, uuid, sizeof uuid), 0);
    CHECK_EQUAL(dfs_mount(pool, made, O_RDWR, &mounted), EINVAL);
    layout->dpp_entries[0].dpe_val = 0;
    CHECK_EQUAL(daos_cont_query(made, NULL, layout, NULL), 0);
    CHECK_EQUAL(layout->dpp_entries[0].dpe_val, DAOS_PROP_CO_LAYOUT_PYTHON);
    layout->dpp_entries[0].dpe_val = DAOS_PROP_CO_LAYOUT_POSIX;
    CHECK_EQUAL(daos_cont_set_prop(made, layout, NULL), 0);
    CHECK_EQUAL(dfs_mount(pool, made, O_RDWR, &mounted), 0);
    CHECK_EQUAL(dfs_umount(mounted), 0);
    CHECK_EQUAL(daos_cont_destroy(pool, text, 1, NULL), -DER_BUSY);
    CHECK_EQUAL(daos_cont_close(made, NULL), 0);
    /* No label can be mistaken for that UUID. */
    CHECK_EQUAL(daos_cont_create_with_label(pool, text, NULL, NULL, NULL), -DER_INVAL);
    CHECK_EQUAL(daos_cont_destroy(pool, text, 1, NULL), 0);
    CHECK_EQUAL(daos_cont_open(pool, text, DAOS_COO_RW, &made, NULL, NULL), -DER_NONEXIST);
    daos_prop_free(layout);

    strcpy(attributes.da_hints, "file:single,Dir:max");
    CHECK_EQUAL(dfs_cont_create_with_label(pool, "tuned", &attributes, &uuid, &made, &mounted), 0);
    CHECK_EQUAL(dfs_query(mounted, &read), 0);
    CHECK(read.da_mode == DFS_BALANCED && read.da_chunk_size == 4 << 20);
    CHECK_EQUAL(strcmp(read.da_hints, attributes.da_hints), 0);
    CHECK_EQUAL(dfs_open(mounted, NULL, "f", S_IFREG | 0600, O_RDWR | O_CREAT, 0, 0, NULL, &object),
                0);
    CHECK_EQUAL(dfs_obj2id(object, &id), 0);
    CHECK_EQUAL(id.hi >> OID_FMT_TYPE_SHIFT, DAOS_OT_ARRAY_BYTE);
    CHECK_EQUAL(id.hi >> OID_FMT_META_SHIFT & 0xffff, 1);
    CHECK_EQUAL(dfs_release(object), 0);
    CHECK_EQUAL(dfs_open(mounted, NULL, "d", S_IFDIR | 0700, O_RDWR | O_CREAT, 0, 0, NULL, &object),
                0);
    CHECK_EQUAL(dfs_obj2id(object, &id), 0);
    CHECK_EQUAL(id.hi >> OID_FMT_META_SHIFT & 0xffff, 0xffff);
    CHECK_EQUAL(dfs_release(object), 0);
    CHECK_EQUAL(dfs_umount(mounted), 0);
    CHECK_EQUAL(dfs_mount(pool, made, O_RDWR, &mounted), EPERM);
    CHECK_EQUAL(dfs_mount(pool, made, O_RDWR | DFS_BALANCED, &mounted), 0);
    CHECK_EQUAL(dfs_umount(mounted), 0);
    CHECK_EQUAL(daos_cont_close(made, NULL), 0);
    CHECK_EQUAL(daos_cont_destroy(pool, "tuned", 1, NULL), 0);
    static const char* const bad[] = {"file:max,dir:none", "file", "file:max;dir:max", "x:max",
                                      "file:max,"};
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        strcpy(attributes.da_hints, bad[i]);
        CHECK_EQUAL(dfs_cont_create_with_label(pool, "bad", &attributes, &uuid, NULL, NULL),
                    EINVAL);
    }
    CHECK_EQUAL(daos_cont_open(pool, "bad", DAOS_COO_RW, &made, NULL, NULL), -DER_NONEXIST);
}

static void more_of_libdfs(void) {
    dfs_t* dfs;
    dfs_obj_t *directory, *object;
    struct stat facts;
    daos_obj_id_t id, moved;
    mode_t mode;
    CHECK_EQUAL(dfs_mount(pool, container, O_RDWR, &dfs), 0);
    CHECK_EQUAL(
        dfs_open(dfs, NULL, "dir", S_IFDIR | 0700, O_RDWR | O_CREAT, 0, 0, NULL, &directory), 0);
    CHECK_EQUAL(
        dfs_open(dfs, directory, "f", S_IFREG | 0600, O_RDWR | O_CREAT, 0, 0, NULL, &object), 0);
    /* Names of attributes without a namespace, as libdfs accepts them. */
    int two = 2;
    CHECK_EQUAL(dfs_setxattr(dfs, object, "one", &two, sizeof two, 0), 0);
    char list[32];
    daos_size_t list_size = sizeof list;
    CHECK_EQUAL(dfs_listxattr(dfs, object, list, &list_size), 0);
    CHECK(list_size == 4 && strcmp(list, "one") == 0);
    CHECK_EQUAL(dfs_setxattr(dfs, object, "system.x", &two, sizeof two, 0), ENOTSUP);
    CHECK_EQUAL(dfs_removexattr(dfs, object, "one"), 0);
    CHECK_EQUAL(dfs_release(object), 0);
    CHECK_EQUAL(dfs_open(dfs, NULL, "absent", S_IFREG, O_RDONLY, 0, 0, NULL, &object), ENOENT);
    CHECK_EQUAL(dfs_release(object), EINVAL);
    CHECK_EQUAL(dfs_lookup_rel(dfs, directory, "f", O_RDWR, &object, &mode, &facts), 0);
    CHECK_EQUAL(dfs_get_mode(object, &mode), 0);
    CHECK_EQUAL(mode, S_IFREG | 0600);

    /* Ranges without a buffer; too many of them. */
    char bytes[8] = "abcdefg";
    d_iov_t iov;
    d_sg_list_t buffers = {.sg_nr = 1, .sg_iovs = &iov};
    daos_range_t range = {.rg_idx = 0, .rg_len = 10};
    dfs_iod_t ranges = {.iod_nr = 1, .iod_rgs = &range};
    daos_size_t got;
    d_iov_set(&iov, bytes, 8);
    CHECK_EQUAL(dfs_writex(dfs, object, &ranges, &buffers, NULL), EINVAL);
    CHECK_EQUAL(dfs_readx(dfs, object, &ranges, &buffers, &got, NULL), EINVAL);
    ranges.iod_nr = 16385;
    CHECK_EQUAL(dfs_writex(dfs, object, &ranges, &buffers, NULL), ENOTSUP);
    ranges.iod_nr = 1;
    range.rg_len = 8;
    CHECK_EQUAL(dfs_writex(dfs, object, &ranges, &buffers, NULL), 0);
    range.rg_len = 10;
    daos_handle_t queue;
    daos_event_t event, *done;
    CHECK_EQUAL(daos_eq_create(&queue), 0);
    CHECK_EQUAL(daos_event_init(&event, queue, NULL), 0);
    CHECK_EQUAL(dfs_writex(dfs, object, &ranges, &buffers, &event), 0);
    CHECK_EQUAL(daos_eq_poll(queue, 0, DAOS_EQ_WAIT, 1, &done), 1);
    CHECK_EQUAL(event.ev_error, EINVAL);
    CHECK_EQUAL(daos_event_fini(&event), 0);
    CHECK_EQUAL(daos_eq_destroy(queue, 0), 0);

    dfs_obj_info_t info;
    CHECK_EQUAL(dfs_obj_get_info(dfs, object, &info), 0);
    CHECK_EQUAL(info.doi_oclass_id, OC_SX);
    CHECK_EQUAL(dfs_obj_set_oclass(dfs, object, 0, OC_SX), ENOTSUP);
    CHECK_EQUAL(dfs_obj_set_oclass(dfs, directory, 0, OC_SX), 0);
    CHECK_EQUAL(dfs_obj_set_oclass(dfs, directory, 0, 12345), EINVAL);
    CHECK_EQUAL(dfs_file_update_chunk_size(dfs, object, 4096), 0);
    CHECK_EQUAL(dfs_file_update_chunk_size(dfs, directory, 4096), EINVAL);
    CHECK_EQUAL(dfs_cont_check(pool, container_label, 0, NULL), ENOTSUP);
    CHECK_EQUAL(dfs_obj_fix_type(dfs, directory, "f"), ENOTSUP);
    CHECK_EQUAL(dfs_relink_root(container), ENOTSUP);

    /* Removed while it is open. */
    CHECK_EQUAL(dfs_obj2id(object, &id), 0);
    CHECK_EQUAL(dfs_remove(dfs, directory, "f", false, &moved), 0);
    CHECK(moved.lo == id.lo && moved.hi == id.hi);
    CHECK_EQUAL(dfs_ostat(dfs, object, &facts), ENOENT);
    CHECK_EQUAL(dfs_release(object), 0);
    CHECK_EQUAL(dfs_release(directory), 0);
    CHECK_EQUAL(dfs_remove(dfs, NULL, "dir", true, NULL), 0);
    CHECK_EQUAL(dfs_umount(dfs), 0);
}

int main(int count, char** arguments) {
    if (count != 4) return fprintf(stderr, "usage: %s POOL CONTAINER WAY\n", arguments[0]), 2;
    pool_label = arguments[1];
    container_label = arguments[2];
    has_objects = strcmp(arguments[3], "+dpu") != 0;
    CHECK_EQUAL(daos_init(), 0);
    CHECK_EQUAL(daos_pool_connect(pool_label, NULL, DAOS_PC_RW, &pool, NULL, NULL), 0);
    CHECK_EQUAL(daos_cont_open(pool, container_label, DAOS_COO_RW, &container, NULL, NULL), 0);
    lists_of_rights();
    lists_of_properties();
    names_of_properties();
    what_pools_and_containers_show();
    more_of_libdfs();
    if (has_objects) {
        containers_keep_settings();
        objects_are_listed();
    } else {
        daos_handle_t table;
        CHECK_EQUAL(daos_oit_open(container, 1, &table, NULL), -DER_NOTSUPPORTED);
    }
    return 0;
}
