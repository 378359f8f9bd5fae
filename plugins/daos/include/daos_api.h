/* Transactions of the DAOS client interface (DAOS 2.6, daos_api.h). */
#ifndef ROS2STORE_DAOS_API_H
#define ROS2STORE_DAOS_API_H

#include "daos_event.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { DAOS_TF_RDONLY = 1 << 0, DAOS_TF_ZERO_COPY = 1 << 1 };

int daos_tx_open(daos_handle_t coh, daos_handle_t* th, uint64_t flags, daos_event_t* ev);
int daos_tx_commit(daos_handle_t th, daos_event_t* ev);
int daos_tx_abort(daos_handle_t th, daos_event_t* ev);
int daos_tx_close(daos_handle_t th, daos_event_t* ev);
int daos_tx_restart(daos_handle_t th, daos_event_t* ev);
/* -DER_NOTSUPPORTED: there are no snapshots. */
int daos_tx_open_snap(daos_handle_t coh, daos_epoch_t epoch, daos_handle_t* th, daos_event_t* ev);
int daos_tx_hdl2epoch(daos_handle_t th, daos_epoch_t* epoch);

static inline int daos_anchor_init(daos_anchor_t* anchor, unsigned int options) {
    (void)options;
    memset(anchor, 0, sizeof *anchor);
    return 0;
}
static inline void daos_anchor_fini(daos_anchor_t* anchor) { (void)anchor; }
static inline bool daos_anchor_is_eof(daos_anchor_t* anchor) {
    return anchor->da_type == DAOS_ANCHOR_TYPE_EOF;
}

#ifdef __cplusplus
}
#endif
#endif
