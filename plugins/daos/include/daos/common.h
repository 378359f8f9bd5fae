/* What DAOS's own programs use besides its public headers (DAOS 2.6: daos/common.h, daos/debug.h,
 * daos/checksum.h, daos/cipher.h, daos/compression.h, daos/object.h and others). No faults are
 * injected; nothing is encrypted or compressed by a container's property. */
#ifndef ROS2STORE_DAOS_COMMON_H
#define ROS2STORE_DAOS_COMMON_H

#include <daos_obj.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- logging: levels of errors reach standard error, whatever the facility */
extern int daos_daos_logfac, daos_array_logfac, daos_kv_logfac, daos_common_logfac;
extern int daos_tree_logfac, daos_client_logfac, daos_server_logfac, daos_pool_logfac;
extern int daos_container_logfac, daos_object_logfac, daos_placement_logfac, daos_mgmt_logfac;
extern int daos_tests_logfac, daos_dfs_logfac, daos_duns_logfac, daos_drpc_logfac;
extern int daos_security_logfac, daos_dfuse_logfac, daos_il_logfac, daos_csum_logfac;
extern int daos_pipeline_logfac;
extern int daos_daos_logfac_cache[24], daos_array_logfac_cache[24], daos_kv_logfac_cache[24];
extern int daos_common_logfac_cache[24], daos_tree_logfac_cache[24], daos_client_logfac_cache[24];
extern int daos_server_logfac_cache[24], daos_pool_logfac_cache[24];
extern int daos_container_logfac_cache[24], daos_object_logfac_cache[24];
extern int daos_placement_logfac_cache[24], daos_mgmt_logfac_cache[24], daos_tests_logfac_cache[24];
extern int daos_dfs_logfac_cache[24], daos_duns_logfac_cache[24], daos_drpc_logfac_cache[24];
extern int daos_security_logfac_cache[24], daos_dfuse_logfac_cache[24], daos_il_logfac_cache[24];
extern int daos_csum_logfac_cache[24], daos_pipeline_logfac_cache[24];
extern uint64_t DB_MD, DB_PL, DB_MGMT, DB_EPC, DB_DF, DB_REBUILD, DB_SEC, DB_CSUM;
int daos_debug_init(char* logfile);
int daos_debug_init_ex(char* logfile, uint64_t logmask);
void daos_debug_fini(void);

/* ---- fault injection: requests have no effect */
void daos_fail_loc_set(uint64_t id);
void daos_fail_loc_reset(void);
void daos_fail_value_set(uint64_t val);
void daos_fail_num_set(uint64_t num);
uint64_t daos_fail_value_get(void);
int daos_fail_check(uint64_t id);
uint64_t daos_shard_fail_value(uint16_t* shards, int nr);

/* ---- memory, buffers and texts */
int daos_iov_alloc(d_iov_t* iov, daos_size_t size, bool set_full);
void daos_iov_free(d_iov_t* iov);
daos_size_t daos_sgl_data_len(d_sg_list_t* sgl, bool out);
daos_size_t daos_sgl_buf_size(d_sg_list_t* sgl);
char* daos_str_trimwhite(char* str);
typedef struct {
    void (*so_swap)(void* array, int a, int b);
    int (*so_cmp)(void* array, int a, int b);
    int (*so_cmp_key)(void* array, int i, uint64_t key);
} daos_sort_ops_t;
/* unique: -DER_INVAL if two are equal. */
int daos_array_sort(void* array, unsigned int len, bool unique, daos_sort_ops_t* ops);
void daos_array_shuffle(void* arr, unsigned int len, daos_sort_ops_t* ops);

/* ---- events: a thread's own event for calls without an event */
int daos_event_priv_reset(void);

/* ---- names of the properties csum, encrypt and compress. Errors: -DER_INVAL. */
int daos_str2csumcontprop(const char* value);
int daos_str2encryptcontprop(const char* value);
int daos_str2compresscontprop(const char* value);
/* The meaning of a property's value: a number for the functions below, 0 for "off". */
int daos_contprop2hashtype(int contprop_csum_val);
int daos_contprop2ciphertype(int contprop_encrypt_val);
int daos_contprop2compresstype(int contprop_compress_val);
/* Always null: no program can use these algorithms here. */
struct hash_ft;
struct cipher_ft;
struct compress_ft;
struct hash_ft* daos_mhash_type2algo(int type);
struct cipher_ft* daos_cipher_type2algo(int type);
struct compress_ft* daos_compress_type2algo(int type, bool qat_preferred);

/* ---- where objects are put: one target */
struct pl_map_attr {
    int pa_type;
    int pa_domain;
    unsigned int pa_domain_nr;
    unsigned int pa_target_nr;
};
int pl_map_query(uuid_t po_uuid, struct pl_map_attr* attr);

/* ---- classes of objects: always available */
int obj_class_init(void);
void obj_class_fini(void);

#ifdef __cplusplus
}
#endif
#endif
