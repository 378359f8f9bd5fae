/* Events and event queues of the DAOS client interface (DAOS 2.6, daos_event.h). */
#ifndef ROS2STORE_DAOS_EVENT_H
#define ROS2STORE_DAOS_EVENT_H

#include "daos_types.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DAOS_EQ_DESTROY_FORCE 1

int daos_eq_create(daos_handle_t* eqh);
int daos_eq_destroy(daos_handle_t eqh, int flags);
int daos_eq_poll(daos_handle_t eqh, int wait_running, int64_t timeout, unsigned int nevents,
                 daos_event_t** events);
int daos_eq_query(daos_handle_t eqh, daos_eq_query_t query, unsigned int nevents,
                  daos_event_t** events);
/* Events have no parents: another one than NULL is -DER_NOTSUPPORTED. */
int daos_event_init(daos_event_t* ev, daos_handle_t eqh, daos_event_t* parent);
int daos_event_fini(daos_event_t* ev);
int daos_event_test(struct daos_event* ev, int64_t timeout, bool* flag);

#ifdef __cplusplus
}
#endif
#endif
