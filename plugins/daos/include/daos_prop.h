/* Properties of pools and containers of the DAOS client interface (DAOS 2.6, daos_prop.h). A ROS2
 * container has a label, a layout, and an owner of its files. Of the others it has DAOS's defaults;
 * they have no effect. */
#ifndef ROS2STORE_DAOS_PROP_H
#define ROS2STORE_DAOS_PROP_H

#include "daos_types.h"

#ifdef __cplusplus
extern "C" {
#endif

enum daos_pool_props {
    DAOS_PROP_PO_MIN = 0,
    DAOS_PROP_PO_LABEL,
    DAOS_PROP_PO_ACL,
    DAOS_PROP_PO_SPACE_RB,
    DAOS_PROP_PO_SELF_HEAL,
    DAOS_PROP_PO_RECLAIM,
    DAOS_PROP_PO_OWNER,
    DAOS_PROP_PO_OWNER_GROUP,
    DAOS_PROP_PO_SVC_LIST,
    DAOS_PROP_PO_EC_CELL_SZ,
    DAOS_PROP_PO_DATA_THRESH,
    DAOS_PROP_PO_REDUN_FAC,
    DAOS_PROP_PO_EC_PDA,
    DAOS_PROP_PO_RP_PDA,
    DAOS_PROP_PO_GLOBAL_VERSION,
    DAOS_PROP_PO_UPGRADE_STATUS,
    DAOS_PROP_PO_SCRUB_MODE,
    DAOS_PROP_PO_SCRUB_FREQ,
    DAOS_PROP_PO_SCRUB_THRESH,
    DAOS_PROP_PO_SVC_REDUN_FAC,
    DAOS_PROP_PO_OBJ_VERSION,
    DAOS_PROP_PO_PERF_DOMAIN,
    DAOS_PROP_PO_CHECKPOINT_MODE,
    DAOS_PROP_PO_CHECKPOINT_FREQ,
    DAOS_PROP_PO_CHECKPOINT_THRESH,
    DAOS_PROP_PO_REINT_MODE,
    DAOS_PROP_PO_SVC_OPS_ENABLED,
    DAOS_PROP_PO_SVC_OPS_ENTRY_AGE,
    DAOS_PROP_PO_MAX
};

enum daos_cont_props {
    DAOS_PROP_CO_MIN = 0x1000,
    DAOS_PROP_CO_LABEL,
    DAOS_PROP_CO_LAYOUT_TYPE,
    DAOS_PROP_CO_LAYOUT_VER,
    DAOS_PROP_CO_CSUM,
    DAOS_PROP_CO_CSUM_CHUNK_SIZE,
    DAOS_PROP_CO_CSUM_SERVER_VERIFY,
    DAOS_PROP_CO_REDUN_FAC,
    DAOS_PROP_CO_REDUN_LVL,
    DAOS_PROP_CO_SNAPSHOT_MAX,
    DAOS_PROP_CO_ACL,
    DAOS_PROP_CO_COMPRESS,
    DAOS_PROP_CO_ENCRYPT,
    DAOS_PROP_CO_OWNER,
    DAOS_PROP_CO_OWNER_GROUP,
    DAOS_PROP_CO_DEDUP,
    DAOS_PROP_CO_DEDUP_THRESHOLD,
    DAOS_PROP_CO_ROOTS,
    DAOS_PROP_CO_STATUS,
    DAOS_PROP_CO_ALLOCED_OID,
    DAOS_PROP_CO_EC_CELL_SZ,
    DAOS_PROP_CO_EC_PDA,
    DAOS_PROP_CO_RP_PDA,
    DAOS_PROP_CO_GLOBAL_VERSION,
    DAOS_PROP_CO_SCRUBBER_DISABLED,
    DAOS_PROP_CO_OBJ_VERSION,
    DAOS_PROP_CO_PERF_DOMAIN,
    DAOS_PROP_CO_MAX
};

struct daos_prop_co_roots {
    daos_obj_id_t cr_oids[4];
};

typedef uint16_t daos_cont_layout_t;
enum {
    DAOS_PROP_CO_LAYOUT_UNKNOWN,
    DAOS_PROP_CO_LAYOUT_UNKOWN = DAOS_PROP_CO_LAYOUT_UNKNOWN,
    DAOS_PROP_CO_LAYOUT_POSIX,
    DAOS_PROP_CO_LAYOUT_HDF5,
    DAOS_PROP_CO_LAYOUT_PYTHON,
    DAOS_PROP_CO_LAYOUT_SPARK,
    DAOS_PROP_CO_LAYOUT_DATABASE,
    DAOS_PROP_CO_LAYOUT_ROOT,
    DAOS_PROP_CO_LAYOUT_SEISMIC,
    DAOS_PROP_CO_LAYOUT_METEO
};

enum { DAOS_PROP_ENTRY_NOT_SET = 1 << 0 };

struct daos_prop_entry {
    uint32_t dpe_type;
    uint16_t dpe_flags;
    uint16_t dpe_reserv;
    union {
        uint64_t dpe_val;
        d_string_t dpe_str;
        void* dpe_val_ptr;
    };
};

#define DAOS_PROP_ENTRIES_MAX_NR 128
#define DAOS_PROP_LABEL_MAX_LEN 127
#define DAOS_PROP_MAX_LABEL_BUF_LEN (DAOS_PROP_LABEL_MAX_LEN + 1)

typedef struct {
    uint32_t dpp_nr;
    uint32_t dpp_reserv;
    struct daos_prop_entry* dpp_entries;
} daos_prop_t;

daos_prop_t* daos_prop_alloc(uint32_t entries_nr);
void daos_prop_free(daos_prop_t* prop);
/* A new list: the entries of old_prop, replaced by those of new_prop where it has them. */
int daos_prop_merge2(daos_prop_t* old_prop, daos_prop_t* new_prop, daos_prop_t** out_prop);
int daos_prop_entry_set_str(struct daos_prop_entry* entry, const char* str, daos_size_t len);
/* Copies the value, too. The target's old value is freed. */
int daos_prop_entry_copy(struct daos_prop_entry* entry, struct daos_prop_entry* entry_dup);

#ifdef __cplusplus
}
#endif
#endif
