/* The DAOS client interface, as far as libros2store-daos.so has it: see docs/daos.md. Written for
 * ROS2 after the public headers of DAOS 2.6. Programs compiled with DAOS's own headers work too. */
#ifndef ROS2STORE_DAOS_H
#define ROS2STORE_DAOS_H

#include "daos_api.h"
#include "daos_array.h"
#include "daos_cont.h"
#include "daos_event.h"
#include "daos_kv.h"
#include "daos_obj.h"
#include "daos_pool.h"
#include "daos_prop.h"
#include "daos_types.h"
#include "daos_version.h"

#ifdef __cplusplus
extern "C" {
#endif

int daos_init(void);
int daos_fini(void);
int daos_version_get(int* major, int* minor, int* fix);

#ifdef __cplusplus
}
#endif
#endif
