/* Types of the DAOS client interface, laid out as in DAOS 2.6's public headers daos_types.h,
 * gurt/types.h and cart/types.h. abi_layout_test.cc checks sizes and offsets. */
#ifndef ROS2STORE_DAOS_TYPES_H
#define ROS2STORE_DAOS_TYPES_H

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#if defined(__has_include)
#if __has_include(<uuid/uuid.h>)
#include <uuid/uuid.h>
#else
typedef unsigned char uuid_t[16];
#endif
#else
#include <uuid/uuid.h>
#endif

#include "daos_errno.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef uint64_t daos_size_t;
typedef uint64_t daos_off_t;
typedef uint64_t daos_epoch_t;
typedef uint32_t d_rank_t;
typedef char* d_string_t;

typedef struct {
    void* iov_buf;
    size_t iov_buf_len;
    size_t iov_len;
} d_iov_t;

static inline void d_iov_set(d_iov_t* iov, void* buffer, size_t bytes) {
    iov->iov_buf = buffer;
    iov->iov_len = bytes;
    iov->iov_buf_len = bytes;
}

typedef struct {
    uint32_t sg_nr;
    uint32_t sg_nr_out;
    d_iov_t* sg_iovs;
} d_sg_list_t;

typedef struct {
    d_rank_t* rl_ranks;
    uint32_t rl_nr;
} d_rank_list_t;

#define DAOS_ANCHOR_BUF_MAX 104
typedef enum {
    DAOS_ANCHOR_TYPE_ZERO = 0,
    DAOS_ANCHOR_TYPE_HKEY = 1,
    DAOS_ANCHOR_TYPE_KEY = 2,
    DAOS_ANCHOR_TYPE_EOF = 3
} daos_anchor_type_t;

/* Where an enumeration continues. All zeros: at the start. */
typedef struct {
    uint16_t da_type;
    uint16_t da_shard;
    uint32_t da_flags;
    uint64_t da_sub_anchors;
    uint8_t da_buf[DAOS_ANCHOR_BUF_MAX];
} daos_anchor_t;
#define DAOS_ANCHOR_INIT {0, 0, 0, 0, {0}}

typedef struct {
    uint64_t cookie;
} daos_handle_t;
#define DAOS_HDL_INVAL ((daos_handle_t){0})
#define DAOS_TX_NONE DAOS_HDL_INVAL

static inline bool daos_handle_is_inval(daos_handle_t handle) { return handle.cookie == 0; }
static inline bool daos_handle_is_valid(daos_handle_t handle) { return handle.cookie != 0; }

#define DAOS_PC_RO (1U << 0)
#define DAOS_PC_RW (1U << 1)
#define DAOS_PC_EX (1U << 2)

typedef struct {
    daos_epoch_t epr_lo;
    daos_epoch_t epr_hi;
} daos_epoch_range_t;
#define DAOS_EPOCH_MAX (~0ULL)

typedef struct {
    uuid_t ci_uuid;
    daos_epoch_t ci_lsnapshot;
    uint32_t ci_nhandles;
    uint32_t ci_nsnapshots;
    uint64_t ci_md_otime;
    uint64_t ci_md_mtime;
} daos_cont_info_t;

typedef d_iov_t daos_key_t;

typedef struct daos_event {
    int ev_error;
    struct {
        uint64_t space[20];
    } ev_private;
    uint64_t ev_debug;
} daos_event_t;

#define DAOS_EQ_WAIT -1
#define DAOS_EQ_NOWAIT 0

typedef enum {
    DAOS_EQR_COMPLETED = 1,
    DAOS_EQR_WAITING = 1 << 1,
    DAOS_EQR_ALL = DAOS_EQR_COMPLETED | DAOS_EQR_WAITING
} daos_eq_query_t;

typedef struct {
    uint64_t lo;
    uint64_t hi;
} daos_obj_id_t;

#define DAOS_UUID_STR_SIZE 37
#define DAOS_SYS_NAME_MAX 15
#define DAOS_ATTR_NAME_MAX 511

#ifdef __cplusplus
}
#endif
#endif
