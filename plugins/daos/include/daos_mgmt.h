/* Management calls of the DAOS client interface (DAOS 2.6, daos_mgmt.h) that clients make. */
#ifndef ROS2STORE_DAOS_MGMT_H
#define ROS2STORE_DAOS_MGMT_H

#include "daos_cont.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DAOS_SYS_INFO_STRING_MAX 63

struct daos_rank_uri {
    uint32_t dru_rank;
    char* dru_uri;
};
struct daos_sys_info {
    char dsi_system_name[DAOS_SYS_INFO_STRING_MAX + 1];
    char dsi_fabric_provider[DAOS_SYS_INFO_STRING_MAX + 1];
    char dsi_agent_path[PATH_MAX];
    uint32_t dsi_nr_ranks;
    struct daos_rank_uri* dsi_ranks;
    uint32_t dsi_nr_ms_ranks;
    uint32_t* dsi_ms_ranks;
};
/* A system without ranks: there is no agent. */
int daos_mgmt_get_sys_info(const char* sys, struct daos_sys_info** info);
void daos_mgmt_put_sys_info(struct daos_sys_info* info);

typedef struct {
    uuid_t mgpi_uuid;
    d_string_t mgpi_label;
    d_rank_list_t* mgpi_svc;
    d_rank_t mgpi_ldr;
} daos_mgmt_pool_info_t;
/* The pools that the file of labels lists, or the pool that the base URI names. */
int daos_mgmt_list_pools(const char* group, daos_size_t* npools, daos_mgmt_pool_info_t* pools,
                         daos_event_t* ev);
/* -DER_NOTSUPPORTED: there is no server of DAOS. */
int dc_mgmt_srv_version(uint32_t* major, uint32_t* minor, uint32_t* patch, char** tag);

#ifdef __cplusplus
}
#endif
#endif
