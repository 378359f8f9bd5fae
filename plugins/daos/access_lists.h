// Lists of access rights that programs pass.
#pragma once
#include "daos_security.h"

namespace ros2s::daos {

// -DER_INVAL: it is null, an entry reaches beyond the list or is not one of DAOS, or two are of one
// principal.
int validate(const daos_acl* list);

}  // namespace ros2s::daos
