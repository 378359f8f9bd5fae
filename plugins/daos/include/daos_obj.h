/* Objects of the DAOS client interface (DAOS 2.6, daos_obj.h). */
#ifndef ROS2STORE_DAOS_OBJ_H
#define ROS2STORE_DAOS_OBJ_H

#include "daos_obj_class.h"
#include "daos_prop.h"

/* The name of the symbol since DAOS 1.3. */
#define daos_obj_generate_oid daos_obj_generate_oid2

#ifdef __cplusplus
extern "C" {
#endif

/* The upper half of daos_obj_id_t::hi: type, redundancy of the class, its number of groups. */
#define OID_FMT_INTR_BITS 32
#define OID_FMT_TYPE_BITS 8
#define OID_FMT_CLASS_BITS 8
#define OID_FMT_META_BITS 16
#define OID_FMT_TYPE_SHIFT (64 - OID_FMT_TYPE_BITS)
#define OID_FMT_CLASS_SHIFT (OID_FMT_TYPE_SHIFT - OID_FMT_CLASS_BITS)
#define OID_FMT_META_SHIFT (OID_FMT_CLASS_SHIFT - OID_FMT_META_BITS)

enum daos_otype_t {
    DAOS_OT_MULTI_HASHED = 0,
    DAOS_OT_OIT = 1,
    DAOS_OT_DKEY_UINT64 = 2,
    DAOS_OT_AKEY_UINT64 = 3,
    DAOS_OT_MULTI_UINT64 = 4,
    DAOS_OT_DKEY_LEXICAL = 5,
    DAOS_OT_AKEY_LEXICAL = 6,
    DAOS_OT_MULTI_LEXICAL = 7,
    DAOS_OT_KV_HASHED = 8,
    DAOS_OT_KV_UINT64 = 9,
    DAOS_OT_KV_LEXICAL = 10,
    DAOS_OT_ARRAY = 11,
    DAOS_OT_ARRAY_ATTR = 12,
    DAOS_OT_ARRAY_BYTE = 13,
    DAOS_OT_OIT_V2 = 14,
    DAOS_OT_MAX = 14
};

enum {
    DAOS_COND_PUNCH = 1 << 0,
    DAOS_COND_DKEY_INSERT = 1 << 1,
    DAOS_COND_DKEY_UPDATE = 1 << 2,
    DAOS_COND_DKEY_FETCH = 1 << 3,
    DAOS_COND_AKEY_INSERT = 1 << 4,
    DAOS_COND_AKEY_UPDATE = 1 << 5,
    DAOS_COND_AKEY_FETCH = 1 << 6,
    DAOS_COND_PER_AKEY = 1 << 7,
    DAOS_COND_MASK = (1 << 8) - 1
};

enum {
    DAOS_OO_RO = 1 << 1,
    DAOS_OO_RW = 1 << 2,
    DAOS_OO_EXCL = 1 << 3,
    DAOS_OO_IO_RAND = 1 << 4,
    DAOS_OO_IO_SEQ = 1 << 5
};

typedef struct {
    uint64_t rx_idx;
    uint64_t rx_nr;
} daos_recx_t;

typedef enum { DAOS_IOD_NONE = 0, DAOS_IOD_SINGLE = 1, DAOS_IOD_ARRAY = 2 } daos_iod_type_t;

typedef struct {
    daos_key_t iod_name;
    daos_iod_type_t iod_type;
    daos_size_t iod_size;
    uint64_t iod_flags;
    uint32_t iod_nr;
    daos_recx_t* iod_recxs;
} daos_iod_t;

typedef struct {
    daos_iod_type_t iom_type;
    uint32_t iom_nr;
    uint32_t iom_nr_out;
    uint32_t iom_flags;
    daos_size_t iom_size;
    daos_recx_t iom_recx_lo;
    daos_recx_t iom_recx_hi;
    daos_recx_t* iom_recxs;
} daos_iom_t;

enum { DAOS_REC_ANY = 0 };

typedef struct {
    daos_size_t kd_key_len;
    uint32_t kd_val_type;
} daos_key_desc_t;

int daos_obj_generate_oid(daos_handle_t coh, daos_obj_id_t* oid, enum daos_otype_t type,
                          daos_oclass_id_t cid, daos_oclass_hints_t hints, uint32_t args);
int daos_obj_open(daos_handle_t coh, daos_obj_id_t oid, unsigned int mode, daos_handle_t* oh,
                  daos_event_t* ev);
int daos_obj_close(daos_handle_t oh, daos_event_t* ev);
int daos_obj_punch(daos_handle_t oh, daos_handle_t th, uint64_t flags, daos_event_t* ev);
int daos_obj_punch_dkeys(daos_handle_t oh, daos_handle_t th, uint64_t flags, unsigned int nr,
                         daos_key_t* dkeys, daos_event_t* ev);
int daos_obj_punch_akeys(daos_handle_t oh, daos_handle_t th, uint64_t flags, daos_key_t* dkey,
                         unsigned int nr, daos_key_t* akeys, daos_event_t* ev);
int daos_obj_fetch(daos_handle_t oh, daos_handle_t th, uint64_t flags, daos_key_t* dkey,
                   unsigned int nr, daos_iod_t* iods, d_sg_list_t* sgls, daos_iom_t* ioms,
                   daos_event_t* ev);
int daos_obj_update(daos_handle_t oh, daos_handle_t th, uint64_t flags, daos_key_t* dkey,
                    unsigned int nr, daos_iod_t* iods, d_sg_list_t* sgls, daos_event_t* ev);
int daos_obj_list_dkey(daos_handle_t oh, daos_handle_t th, uint32_t* nr, daos_key_desc_t* kds,
                       d_sg_list_t* sgl, daos_anchor_t* anchor, daos_event_t* ev);
int daos_obj_list_akey(daos_handle_t oh, daos_handle_t th, daos_key_t* dkey, uint32_t* nr,
                       daos_key_desc_t* kds, d_sg_list_t* sgl, daos_anchor_t* anchor,
                       daos_event_t* ev);
/* The records of an array, as one range. Holes are included, because they read as zeros. */
int daos_obj_list_recx(daos_handle_t oh, daos_handle_t th, daos_key_t* dkey, daos_key_t* akey,
                       daos_size_t* size, uint32_t* nr, daos_recx_t* recxs,
                       daos_epoch_range_t* eprs, daos_anchor_t* anchor, bool incr_order,
                       daos_event_t* ev);
/* There is one copy, so nothing can differ. */
int daos_obj_verify(daos_handle_t coh, daos_obj_id_t oid, daos_epoch_t epoch);

/* Where an object is: one group with one copy. */
struct daos_shard_loc {
    uint32_t sd_rank;
    uint32_t sd_tgt_idx;
};
struct daos_obj_layout;
int daos_obj_layout_get(daos_handle_t coh, daos_obj_id_t oid, struct daos_obj_layout** layout);
int daos_obj_layout_free(struct daos_obj_layout* layout);

/* ---- the objects of a container, as of the time of the listing */
int daos_oit_open(daos_handle_t coh, daos_epoch_t epoch, daos_handle_t* oh, daos_event_t* ev);
int daos_oit_close(daos_handle_t oh, daos_event_t* ev);
int daos_oit_list(daos_handle_t oh, daos_obj_id_t* oids, uint32_t* oids_nr, daos_anchor_t* anchor,
                  daos_event_t* ev);

#ifdef __cplusplus
}
#endif
#endif
