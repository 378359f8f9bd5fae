// Lists of access rights. Access is a matter of tenants and certificates, so none is stored.
#pragma once
#include <sys/types.h>

#include "daos_security.h"

namespace ros2s::daos {

// What the owner of a container's files and their group may do. The caller frees it. Null: no
// memory.
[[nodiscard]] daos_acl* rights_of_owner();
// Says so on standard error, and returns -DER_NOTSUPPORTED.
int refuse_rights();

// Names of users and groups of this machine as DAOS writes them: NAME@.
// Each returns 0 or -DER_. -DER_INVAL: not such a name. -DER_NONEXIST: nobody has it.
int to_uid(const char* principal, uid_t& uid);
int to_gid(const char* principal, gid_t& gid);
// NAME@, or NUMBER@ for a number without a name. The caller frees it. Null: no memory.
[[nodiscard]] char* user_principal(uid_t uid);
[[nodiscard]] char* group_principal(gid_t gid);

}  // namespace ros2s::daos
