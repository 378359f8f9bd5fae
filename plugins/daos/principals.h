// Names of users and groups of this machine as DAOS writes them: NAME@.
#pragma once
#include <sys/types.h>

namespace ros2s::daos {

// Each returns 0 or -DER_. -DER_INVAL: not such a name. -DER_NONEXIST: nobody has it.
int to_uid(const char* principal, uid_t& uid);
int to_gid(const char* principal, gid_t& gid);
// NAME@, or NUMBER@ for a number without a name. The caller frees it. Null: no memory.
[[nodiscard]] char* user_principal(uid_t uid);
[[nodiscard]] char* group_principal(gid_t gid);

}  // namespace ros2s::daos
