/* Containers of the DAOS client interface (DAOS 2.6, daos_cont.h). */
#ifndef ROS2STORE_DAOS_CONT_H
#define ROS2STORE_DAOS_CONT_H

#include "daos_event.h"
#include "daos_prop.h"
#include "daos_security.h"

/* The names of the symbols since DAOS 1.3. */
#define daos_cont_open daos_cont_open2
#define daos_cont_destroy daos_cont_destroy2
#define daos_cont_create daos_cont_create2

#ifdef __cplusplus
extern "C" {
#endif

#define DAOS_COO_RO (1U << 0)
#define DAOS_COO_RW (1U << 1)
#define DAOS_COO_EX (1U << 2)
#define DAOS_COO_FORCE (1U << 3)
#define DAOS_COO_RO_MDSTATS (1U << 4)
#define DAOS_COO_EVICT (1U << 5)
#define DAOS_COO_EVICT_ALL (1U << 6)

#define DAOS_CONT_HINT_MAX_LEN 128

int daos_cont_create(daos_handle_t poh, uuid_t* uuid, daos_prop_t* cont_prop, daos_event_t* ev);
int daos_cont_create_with_label(daos_handle_t poh, const char* label, daos_prop_t* cont_prop,
                                uuid_t* uuid, daos_event_t* ev);
int daos_cont_destroy(daos_handle_t poh, const char* cont, int force, daos_event_t* ev);
int daos_cont_open(daos_handle_t poh, const char* cont, unsigned int flags, daos_handle_t* coh,
                   daos_cont_info_t* info, daos_event_t* ev);
int daos_cont_close(daos_handle_t coh, daos_event_t* ev);
int daos_cont_query(daos_handle_t coh, daos_cont_info_t* info, daos_prop_t* cont_prop,
                    daos_event_t* ev);
/* Names have at most 255 bytes here. Values of one call are set together. */
int daos_cont_set_attr(daos_handle_t coh, int n, char const* const names[],
                       void const* const values[], size_t const sizes[], daos_event_t* ev);
int daos_cont_get_attr(daos_handle_t coh, int n, char const* const names[], void* const buffers[],
                       size_t sizes[], daos_event_t* ev);
int daos_cont_list_attr(daos_handle_t coh, char* buffer, size_t* size, daos_event_t* ev);
int daos_cont_del_attr(daos_handle_t coh, int n, char const* const names[], daos_event_t* ev);
/* Changes the label and the stored layout; others are -DER_NOTSUPPORTED. */
int daos_cont_set_prop(daos_handle_t coh, daos_prop_t* prop, daos_event_t* ev);

/* ---- rights. A container reports all rights for the owner of its root directory, and reading and
 * writing for its group. Changing a list is -DER_NOTSUPPORTED. */
int daos_cont_get_acl(daos_handle_t coh, daos_prop_t** acl_prop, daos_event_t* ev);
int daos_cont_update_acl(daos_handle_t coh, struct daos_acl* acl, daos_event_t* ev);
int daos_cont_overwrite_acl(daos_handle_t coh, struct daos_acl* acl, daos_event_t* ev);
int daos_cont_delete_acl(daos_handle_t coh, enum daos_acl_principal_type type, d_string_t name,
                         daos_event_t* ev);
/* The names of a user and a group of this machine, or null. */
int daos_cont_set_owner(daos_handle_t coh, d_string_t user, d_string_t group, daos_event_t* ev);
int daos_cont_set_owner_no_check(daos_handle_t coh, d_string_t user, d_string_t group,
                                 daos_event_t* ev);

/* ---- snapshots: the store keeps no earlier states (-DER_NOTSUPPORTED). With DAOS_SNAP_OPT_OIT the
 * result is a number for daos_oit_open(), which lists the present objects. */
enum daos_snapshot_opts { DAOS_SNAP_OPT_CR = 1 << 0, DAOS_SNAP_OPT_OIT = 1 << 1 };
int daos_cont_create_snap(daos_handle_t coh, daos_epoch_t* epoch, char* name, daos_event_t* ev);
int daos_cont_create_snap_opt(daos_handle_t coh, daos_epoch_t* epoch, char* name,
                              enum daos_snapshot_opts opts, daos_event_t* ev);
int daos_cont_destroy_snap(daos_handle_t coh, daos_epoch_range_t epr, daos_event_t* ev);
int daos_cont_list_snap(daos_handle_t coh, int* nr, daos_epoch_t* epochs, char** names,
                        daos_anchor_t* anchor, daos_event_t* ev);
int daos_cont_rollback(daos_handle_t coh, daos_epoch_t epoch, daos_event_t* ev);
int daos_cont_snap_oit_destroy(daos_handle_t coh, daos_handle_t oh, daos_event_t* ev);

int daos_cont_local2global(daos_handle_t coh, d_iov_t* glob);
int daos_cont_global2local(daos_handle_t poh, d_iov_t glob, daos_handle_t* coh);

#ifdef __cplusplus
}
#endif
#endif
