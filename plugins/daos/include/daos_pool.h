/* Pools of the DAOS client interface (DAOS 2.6, daos_pool.h). */
#ifndef ROS2STORE_DAOS_POOL_H
#define ROS2STORE_DAOS_POOL_H

#include "daos_event.h"
#include "daos_prop.h"

/* The name of the symbol since DAOS 1.3. */
#define daos_pool_connect daos_pool_connect2

#ifdef __cplusplus
extern "C" {
#endif

enum daos_media_type_t { DAOS_MEDIA_SCM = 0, DAOS_MEDIA_NVME, DAOS_MEDIA_MAX };

struct daos_space {
    uint64_t s_total[DAOS_MEDIA_MAX];
    uint64_t s_free[DAOS_MEDIA_MAX];
};

struct daos_pool_space {
    struct daos_space ps_space;
    uint64_t ps_free_min[DAOS_MEDIA_MAX];
    uint64_t ps_free_max[DAOS_MEDIA_MAX];
    uint64_t ps_free_mean[DAOS_MEDIA_MAX];
    uint32_t ps_ntargets;
    uint32_t ps_padding;
};

struct daos_rebuild_status {
    uint32_t rs_version;
    uint32_t rs_seconds;
    int32_t rs_errno;
    union {
        int32_t rs_state;
        int32_t rs_done;
    };
    int32_t rs_padding32;
    int32_t rs_fail_rank;
    uint64_t rs_toberb_obj_nr;
    uint64_t rs_obj_nr;
    uint64_t rs_rec_nr;
    uint64_t rs_size;
};

enum daos_pool_info_bit {
    DPI_SPACE = 1 << 0,
    DPI_REBUILD_STATUS = 1 << 1,
    DPI_ENGINES_ENABLED = 1 << 2,
    DPI_ENGINES_DISABLED = 1 << 3,
    DPI_ENGINES_DEAD = 1 << 4,
    DPI_ALL = -1
};

typedef struct {
    uuid_t pi_uuid;
    uint32_t pi_ntargets;
    uint32_t pi_nnodes;
    uint32_t pi_ndisabled;
    uint32_t pi_map_ver;
    uint32_t pi_leader;
    uint64_t pi_bits;
    struct daos_pool_space pi_space;
    struct daos_rebuild_status pi_rebuild_st;
} daos_pool_info_t;

int daos_pool_connect(const char* pool, const char* sys, unsigned int flags, daos_handle_t* poh,
                      daos_pool_info_t* info, daos_event_t* ev);
int daos_pool_disconnect(daos_handle_t poh, daos_event_t* ev);
int daos_pool_local2global(daos_handle_t poh, d_iov_t* glob);
int daos_pool_global2local(d_iov_t glob, daos_handle_t* poh);
int daos_pool_query(daos_handle_t poh, d_rank_list_t** ranks, daos_pool_info_t* info,
                    daos_prop_t* pool_prop, daos_event_t* ev);

struct daos_pool_cont_info {
    uuid_t pci_uuid;
    char pci_label[DAOS_PROP_MAX_LABEL_BUF_LEN];
};
/* Without a buffer: the number of containers. If the buffer is too small: the number, and
 * -DER_TRUNC. */
int daos_pool_list_cont(daos_handle_t poh, daos_size_t* ncont, struct daos_pool_cont_info* cbuf,
                        daos_event_t* ev);

typedef enum {
    DAOS_TP_UNKNOWN,
    DAOS_TP_HDD,
    DAOS_TP_SSD,
    DAOS_TP_PM,
    DAOS_TP_VM
} daos_target_type_t;
typedef enum {
    DAOS_TS_UNKNOWN,
    DAOS_TS_DOWN_OUT,
    DAOS_TS_DOWN,
    DAOS_TS_UP,
    DAOS_TS_UP_IN,
    DAOS_TS_NEW,
    DAOS_TS_DRAIN
} daos_target_state_t;
typedef struct {
    daos_target_type_t ta_type;
    daos_target_state_t ta_state;
    int ta_perf;
    struct daos_space ta_space;
} daos_target_info_t;
/* Target 0 of rank 0 is the pool. Others: -DER_NONEXIST. */
int daos_pool_query_target(daos_handle_t poh, uint32_t tgt, d_rank_t rank, daos_target_info_t* info,
                           daos_event_t* ev);

/* A pool has no attributes: lists are empty, and setting one is -DER_NOTSUPPORTED. */
int daos_pool_list_attr(daos_handle_t poh, char* buffer, size_t* size, daos_event_t* ev);
int daos_pool_get_attr(daos_handle_t poh, int n, char const* const names[], void* const buffers[],
                       size_t sizes[], daos_event_t* ev);
int daos_pool_set_attr(daos_handle_t poh, int n, char const* const names[],
                       void const* const values[], size_t const sizes[], daos_event_t* ev);
int daos_pool_del_attr(daos_handle_t poh, int n, char const* const names[], daos_event_t* ev);

#ifdef __cplusplus
}
#endif
#endif
