// Lists of access rights. Access is a matter of tenants and certificates, so none is stored.
#pragma once
#include "daos_security.h"

namespace ros2s::daos {

// What the owner of a container's files and their group may do. The caller frees it. Null: no
// memory.
[[nodiscard]] daos_acl* rights_of_owner();
// Says so on standard error, and returns -DER_NOTSUPPORTED.
int refuse_rights();

}  // namespace ros2s::daos
