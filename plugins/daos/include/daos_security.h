/* Lists of access rights of the DAOS client interface (DAOS 2.6, daos_security.h): memory that
 * programs print. A ROS2 container has no such list: access is a matter of
 * tenants and certificates, and daos_cont_get_acl() shows what the owner of its files may do. */
#ifndef ROS2STORE_DAOS_SECURITY_H
#define ROS2STORE_DAOS_SECURITY_H

#include <sys/types.h>

#include "daos_prop.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DAOS_ACL_VERSION 1
#define DAOS_ACL_MAX_PRINCIPAL_LEN 255
#define DAOS_ACL_MAX_PRINCIPAL_BUF_LEN (DAOS_ACL_MAX_PRINCIPAL_LEN + 1)
#define DAOS_ACL_PRINCIPAL_OWNER "OWNER@"
#define DAOS_ACL_PRINCIPAL_OWNER_GRP "GROUP@"
#define DAOS_ACL_PRINCIPAL_EVERYONE "EVERYONE@"

/* Arrays without a size, at the end of a structure, are C. */
#if defined(__clang__) && defined(__cplusplus)
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wc99-extensions"
#endif

/* Entries lie one after the other in dal_ace, ordered by dae_principal_type. */
struct daos_acl {
    uint16_t dal_ver;
    uint16_t dal_reserv;
    uint32_t dal_len;
    uint8_t dal_ace[];
};

enum daos_acl_principal_type {
    DAOS_ACL_OWNER,
    DAOS_ACL_USER,
    DAOS_ACL_OWNER_GROUP,
    DAOS_ACL_GROUP,
    DAOS_ACL_EVERYONE,
    NUM_DAOS_ACL_TYPES
};

enum daos_acl_access_type {
    DAOS_ACL_ACCESS_ALLOW = 1 << 0,
    DAOS_ACL_ACCESS_AUDIT = 1 << 1,
    DAOS_ACL_ACCESS_ALARM = 1 << 2
};

enum daos_acl_flags {
    DAOS_ACL_FLAG_GROUP = 1 << 0,
    DAOS_ACL_FLAG_POOL_INHERIT = 1 << 1,
    DAOS_ACL_FLAG_ACCESS_FAIL = 1 << 2,
    DAOS_ACL_FLAG_ACCESS_SUCCESS = 1 << 3
};

enum daos_acl_perm {
    DAOS_ACL_PERM_READ = 1 << 0,
    DAOS_ACL_PERM_WRITE = 1 << 1,
    DAOS_ACL_PERM_CREATE_CONT = 1 << 2,
    DAOS_ACL_PERM_DEL_CONT = 1 << 3,
    DAOS_ACL_PERM_GET_PROP = 1 << 4,
    DAOS_ACL_PERM_SET_PROP = 1 << 5,
    DAOS_ACL_PERM_GET_ACL = 1 << 6,
    DAOS_ACL_PERM_SET_ACL = 1 << 7,
    DAOS_ACL_PERM_SET_OWNER = 1 << 8
};
#define DAOS_ACL_PERM_CONT_ALL 0x1fb

struct daos_ace {
    uint8_t dae_access_types;
    uint8_t dae_principal_type;
    uint16_t dae_principal_len; /* of the name with its zero byte, rounded up to 8; 0: no name */
    uint16_t dae_access_flags;
    uint16_t dae_reserv;
    uint64_t dae_allow_perms;
    uint64_t dae_audit_perms;
    uint64_t dae_alarm_perms;
    char dae_principal[];
};

#if defined(__clang__) && defined(__cplusplus)
#pragma clang diagnostic pop
#endif

void daos_acl_free(struct daos_acl* acl);

/* Names of users and groups: NAME@. */
bool daos_acl_principal_is_valid(const char* name);
int daos_acl_principal_from_str(const char* principal_str, enum daos_acl_principal_type* type,
                                char** name);

/* Texts: ACCESS:FLAGS:PRINCIPAL:RIGHTS. daos_acl_from_strs(): -DER_NOTSUPPORTED. */
int daos_acl_from_strs(const char** ace_strs, size_t ace_nr, struct daos_acl** acl);
int daos_acl_to_strs(struct daos_acl* acl, char*** ace_strs, size_t* ace_nr);

#ifdef __cplusplus
}
#endif
#endif
