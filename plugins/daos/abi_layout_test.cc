// The layout of what programs compiled for DAOS 2.6 pass to the library: sizes, offsets and numbers
// that its public headers have on 64-bit Linux (measured with the headers of DAOS 2.6.3).
#include <cstddef>

#include "daos.h"
#include "daos/common.h"
#include "daos_fs.h"
#include "daos_mgmt.h"
#include "daos_uns.h"
#include "gurt/common.h"
#include "gurt/hash.h"

namespace {

static_assert(sizeof(daos_handle_t) == 8);
static_assert(sizeof(d_iov_t) == 24);
static_assert(offsetof(d_iov_t, iov_buf_len) == 8);
static_assert(offsetof(d_iov_t, iov_len) == 16);
static_assert(sizeof(d_sg_list_t) == 16);
static_assert(offsetof(d_sg_list_t, sg_iovs) == 8);
static_assert(sizeof(d_rank_list_t) == 16);
static_assert(sizeof(daos_event_t) == 176);
static_assert(offsetof(daos_event_t, ev_private) == 8);
static_assert(offsetof(daos_event_t, ev_debug) == 168);
static_assert(sizeof(daos_anchor_t) == 120);
static_assert(offsetof(daos_anchor_t, da_flags) == 4);
static_assert(offsetof(daos_anchor_t, da_sub_anchors) == 8);
static_assert(offsetof(daos_anchor_t, da_buf) == 16);
static_assert(sizeof(daos_cont_info_t) == 48);
static_assert(offsetof(daos_cont_info_t, ci_lsnapshot) == 16);
static_assert(offsetof(daos_cont_info_t, ci_nhandles) == 24);
static_assert(offsetof(daos_cont_info_t, ci_md_mtime) == 40);
static_assert(sizeof(daos_pool_info_t) == 192);
static_assert(sizeof(daos_pool_cont_info) == 144);
static_assert(offsetof(daos_pool_cont_info, pci_label) == 16);
static_assert(offsetof(daos_pool_info_t, pi_ntargets) == 16);
static_assert(offsetof(daos_pool_info_t, pi_bits) == 40);
static_assert(offsetof(daos_pool_info_t, pi_space) == 48);
static_assert(offsetof(daos_pool_info_t, pi_rebuild_st) == 136);
static_assert(sizeof(struct daos_pool_space) == 88);
static_assert(sizeof(struct daos_space) == 32);
static_assert(sizeof(struct daos_rebuild_status) == 56);
static_assert(sizeof(daos_obj_id_t) == 16);
static_assert(sizeof(daos_range_t) == 16);
static_assert(sizeof(dfs_attr_t) == 176);
static_assert(offsetof(dfs_attr_t, da_oclass_id) == 16);
static_assert(offsetof(dfs_attr_t, da_props) == 24);
static_assert(offsetof(dfs_attr_t, da_mode) == 32);
static_assert(offsetof(dfs_attr_t, da_dir_oclass_id) == 36);
static_assert(offsetof(dfs_attr_t, da_hints) == 44);
static_assert(sizeof(dfs_iod_t) == 16);
static_assert(sizeof(dfs_obj_info_t) == 40);
static_assert(offsetof(dfs_obj_info_t, doi_chunk_size) == 8);
static_assert(offsetof(dfs_obj_info_t, doi_dir_oclass_id) == 16);
static_assert(offsetof(dfs_obj_info_t, doi_oid) == 24);
static_assert(sizeof(struct daos_prop_entry) == 16);
static_assert(offsetof(struct daos_prop_entry, dpe_val) == 8);
static_assert(sizeof(daos_prop_t) == 16);
static_assert(offsetof(daos_prop_t, dpp_entries) == 8);
static_assert(sizeof(daos_oclass_hints_t) == 2);
static_assert(sizeof(daos_oclass_id_t) == 4);
static_assert(sizeof(daos_acl) == 8);
static_assert(sizeof(daos_ace) == 32);
static_assert(sizeof(daos_target_info_t) == 48);
static_assert(offsetof(daos_target_info_t, ta_space) == 16);
static_assert(sizeof(daos_mgmt_pool_info_t) == 40);
static_assert(offsetof(daos_mgmt_pool_info_t, mgpi_svc) == 24);
static_assert(sizeof(daos_sys_info) == 4256);
static_assert(offsetof(daos_sys_info, dsi_agent_path) == 128);
static_assert(offsetof(daos_sys_info, dsi_ranks) == 4232);
static_assert(sizeof(daos_prop_co_roots) == 64);
static_assert(sizeof(pl_map_attr) == 16);
static_assert(DAOS_PROP_PO_MAX == 28);
static_assert(DAOS_PROP_CO_MAX == 4123);
static_assert(DER_NO_PERM == 1001);
static_assert(DER_NOSYS == 1010);
static_assert(DER_QUOTA_LIMIT == 1046);
static_assert(DER_IO == 2001);
static_assert(DER_NOT_RESUME == 2049);
static_assert(DER_NOTSUPPORTED == 2037);
static_assert(DER_TX_RESTART == 2025);
static_assert(DER_MISC == 1025);
static_assert(DER_UNKNOWN == 501000);
static_assert(OC_S1 == 16777217);
static_assert(OC_SX == 16842751);
static_assert(OC_EC_2P1G1 == 536870913);
static_assert(OC_EC_16P3GX == 704708607);
static_assert(OC_RP_128G1 == 335544321);
static_assert(sizeof(daos_recx_t) == 16);
static_assert(sizeof(daos_iod_t) == 64);
static_assert(offsetof(daos_iod_t, iod_type) == 24);
static_assert(offsetof(daos_iod_t, iod_size) == 32);
static_assert(offsetof(daos_iod_t, iod_flags) == 40);
static_assert(offsetof(daos_iod_t, iod_nr) == 48);
static_assert(offsetof(daos_iod_t, iod_recxs) == 56);
static_assert(sizeof(daos_iom_t) == 64);
static_assert(offsetof(daos_iom_t, iom_nr) == 4);
static_assert(offsetof(daos_iom_t, iom_size) == 16);
static_assert(offsetof(daos_iom_t, iom_recx_lo) == 24);
static_assert(offsetof(daos_iom_t, iom_recxs) == 56);
static_assert(sizeof(daos_key_desc_t) == 16);
static_assert(offsetof(daos_key_desc_t, kd_val_type) == 8);

static_assert(sizeof(d_hash_table_ops_t) == 64);
static_assert(offsetof(d_hash_table_ops_t, hop_key_init) == 8);
static_assert(offsetof(d_hash_table_ops_t, hop_key_hash) == 16);
static_assert(offsetof(d_hash_table_ops_t, hop_rec_hash) == 24);
static_assert(offsetof(d_hash_table_ops_t, hop_rec_addref) == 32);
static_assert(offsetof(d_hash_table_ops_t, hop_rec_decref) == 40);
static_assert(offsetof(d_hash_table_ops_t, hop_rec_ndecref) == 48);
static_assert(offsetof(d_hash_table_ops_t, hop_rec_free) == 56);
static_assert(sizeof(d_list_t) == 16);
static_assert(offsetof(d_list_t, prev) == 8);
static_assert(D_HASH_FT_NOLOCK == 1);
static_assert(D_HASH_FT_MUTEX == 2);
static_assert(D_HASH_FT_RWLOCK == 4);
static_assert(D_HASH_FT_EPHEMERAL == 8);
static_assert(D_HASH_FT_LRU == 16);
static_assert(D_HASH_FT_NO_KEYINIT_LOCK == 32);
static_assert(D_HASH_FT_GLOCK == 32768);
static_assert(sizeof(struct duns_attr_t) == 480);
static_assert(offsetof(struct duns_attr_t, da_oclass_id) == 4);
static_assert(offsetof(struct duns_attr_t, da_chunk_size) == 8);
static_assert(offsetof(struct duns_attr_t, da_props) == 16);
static_assert(offsetof(struct duns_attr_t, da_flags) == 24);
static_assert(offsetof(struct duns_attr_t, da_pool) == 28);
static_assert(offsetof(struct duns_attr_t, da_cont) == 156);
static_assert(offsetof(struct duns_attr_t, da_sys) == 288);
static_assert(offsetof(struct duns_attr_t, da_rel_path) == 296);
static_assert(offsetof(struct duns_attr_t, da_on_lustre) == 304);
static_assert(offsetof(struct duns_attr_t, da_no_prefix) == 305);
static_assert(offsetof(struct duns_attr_t, da_puuid) == 306);
static_assert(offsetof(struct duns_attr_t, da_cuuid) == 322);
static_assert(offsetof(struct duns_attr_t, da_dir_oclass_id) == 340);
static_assert(offsetof(struct duns_attr_t, da_file_oclass_id) == 344);
static_assert(offsetof(struct duns_attr_t, da_hints) == 348);
static_assert(DUNS_NO_PREFIX == 1);
static_assert(DUNS_NO_REVERSE_LOOKUP == 2);
static_assert(DUNS_NO_CHECK_PATH == 4);
static_assert(sizeof(struct d_log_xstate) == 32);
static_assert(sizeof(struct dlog_fac) == 24);
static_assert(offsetof(struct dlog_fac, fac_mask) == 16);
static_assert(offsetof(struct dlog_fac, is_enabled) == 20);
static_assert(offsetof(struct d_log_xstate, dlog_facs) == 8);
static_assert(offsetof(struct d_log_xstate, fac_cnt) == 24);

}  // namespace
