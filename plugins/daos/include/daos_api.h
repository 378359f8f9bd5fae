/* Transactions and anchors of the DAOS client interface (DAOS 2.6, daos_api.h). */
#ifndef ROS2STORE_DAOS_API_H
#define ROS2STORE_DAOS_API_H

#include "daos_event.h"

#ifdef __cplusplus
extern "C" {
#endif

/* No program opens one: -DER_NO_HDL. */
int daos_tx_close(daos_handle_t th, daos_event_t* ev);

static inline bool daos_anchor_is_eof(daos_anchor_t* anchor) {
    return anchor->da_type == DAOS_ANCHOR_TYPE_EOF;
}

#ifdef __cplusplus
}
#endif
#endif
