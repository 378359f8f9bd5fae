/* Paths that stand for containers (DAOS 2.6, daos_uns.h). Functions return 0 or a positive errno.
 *
 * daos://POOL/CONTAINER/PATH names a container and a path in it. A directory or file of any file
 * system stands for a container if it has the extended attribute DUNS_XATTR_NAME. */
#ifndef ROS2STORE_DAOS_UNS_H
#define ROS2STORE_DAOS_UNS_H

#include "daos_cont.h"
#include "daos_obj_class.h"
#include "daos_prop.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    /* daos: is left out: /POOL_UUID/CONTAINER_UUID/PATH. */
    DUNS_NO_PREFIX = 1 << 0,
    /* Only the path itself has an attribute, not a directory above it. */
    DUNS_NO_REVERSE_LOOKUP = 1 << 1,
    /* The path is /POOL/CONTAINER/PATH: nothing is looked up. */
    DUNS_NO_CHECK_PATH = 1 << 2
};

struct duns_attr_t {
    daos_cont_layout_t da_type;
    daos_oclass_id_t da_oclass_id;
    daos_size_t da_chunk_size;
    daos_prop_t* da_props;
    uint32_t da_flags;
    char da_pool[DAOS_PROP_LABEL_MAX_LEN + 1];
    char da_cont[DAOS_PROP_LABEL_MAX_LEN + 1];
    char* da_sys;
    /* The rest of the path after the container, with a leading '/'. NULL: there is none. */
    char* da_rel_path;
    bool da_on_lustre;
    /* As DUNS_NO_PREFIX. */
    bool da_no_prefix;
    uuid_t da_puuid;
    uuid_t da_cuuid;
    daos_oclass_id_t da_dir_oclass_id;
    daos_oclass_id_t da_file_oclass_id;
    char da_hints[DAOS_CONT_HINT_MAX_LEN];
};

#define DUNS_XATTR_NAME "user.daos"
#define DUNS_MAX_XATTR_LEN 170
/* Layout, pool, container: ROS2 writes labels, DAOS UUIDs. */
#define DUNS_XATTR_FMT "DAOS.%s://%36s/%36s"

int duns_resolve_path(const char* path, struct duns_attr_t* attr);
/* Creates the container, and a directory (of other layouts than POSIX a file) for it. */
int duns_create_path(daos_handle_t poh, const char* path, struct duns_attr_t* attrp);
/* The same for an existing container. */
int duns_link_cont(daos_handle_t poh, const char* cont, const char* path);
/* Destroys the container and removes the path. */
int duns_destroy_path(daos_handle_t poh, const char* path);
void duns_destroy_attr(struct duns_attr_t* attrp);

#ifdef __cplusplus
}
#endif
#endif
