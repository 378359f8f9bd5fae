/* Objects of the DAOS client interface (DAOS 2.6, daos_obj.h). */
#ifndef ROS2STORE_DAOS_OBJ_H
#define ROS2STORE_DAOS_OBJ_H

#include "daos_obj_class.h"
#include "daos_prop.h"

#ifdef __cplusplus
extern "C" {
#endif

#ifdef __cplusplus
}
#endif
#endif
