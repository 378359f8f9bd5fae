/* Properties of pools and containers of the DAOS client interface (DAOS 2.6, daos_prop.h). Of the
 * properties that DAOS has, a ROS2 container has a label. */
#ifndef ROS2STORE_DAOS_PROP_H
#define ROS2STORE_DAOS_PROP_H

#include "daos_types.h"

#ifdef __cplusplus
extern "C" {
#endif

enum daos_cont_props {
    DAOS_PROP_CO_MIN = 0x1000,
    DAOS_PROP_CO_LABEL,
    DAOS_PROP_CO_LAYOUT_TYPE,
    DAOS_PROP_CO_LAYOUT_VER,
    DAOS_PROP_CO_CSUM,
    DAOS_PROP_CO_CSUM_CHUNK_SIZE,
    DAOS_PROP_CO_CSUM_SERVER_VERIFY,
    DAOS_PROP_CO_REDUN_FAC,
    DAOS_PROP_CO_REDUN_LVL
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
struct daos_prop_entry* daos_prop_entry_get(daos_prop_t* prop, uint32_t type);

#ifdef __cplusplus
}
#endif
#endif
