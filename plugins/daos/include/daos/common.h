/* What DAOS's own programs use besides its public headers (DAOS 2.6: daos/common.h, daos/debug.h,
 * daos/checksum.h, daos/cipher.h, daos/compression.h, daos/object.h and others). No faults are
 * injected; nothing is encrypted or compressed by a container's property. */
#ifndef ROS2STORE_DAOS_COMMON_H
#define ROS2STORE_DAOS_COMMON_H

#include <daos_obj.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- logging: levels of errors reach standard error */
extern int daos_client_logfac;
extern int daos_client_logfac_cache[24];
int daos_debug_init(char* logfile);
void daos_debug_fini(void);

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
