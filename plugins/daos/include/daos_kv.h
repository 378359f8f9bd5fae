/* Key-value objects of the DAOS client interface (DAOS 2.6, daos_kv.h). */
#ifndef ROS2STORE_DAOS_KV_H
#define ROS2STORE_DAOS_KV_H

#include "daos_obj.h"

#define DAOS_COND_KEY_INSERT DAOS_COND_DKEY_INSERT
#define DAOS_COND_KEY_UPDATE DAOS_COND_DKEY_UPDATE
#define DAOS_COND_KEY_GET DAOS_COND_DKEY_FETCH

#ifdef __cplusplus
extern "C" {
#endif

int daos_kv_open(daos_handle_t coh, daos_obj_id_t oid, unsigned int mode, daos_handle_t* oh,
                 daos_event_t* ev);
int daos_kv_close(daos_handle_t oh, daos_event_t* ev);
int daos_kv_put(daos_handle_t oh, daos_handle_t th, uint64_t flags, const char* key,
                daos_size_t size, const void* buf, daos_event_t* ev);
int daos_kv_get(daos_handle_t oh, daos_handle_t th, uint64_t flags, const char* key,
                daos_size_t* size, void* buf, daos_event_t* ev);

#ifdef __cplusplus
}
#endif
#endif
