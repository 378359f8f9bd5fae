/* Types of DAOS's helper library (DAOS 2.6, gurt/types.h). */
#ifndef ROS2STORE_DAOS_GURT_TYPES_H
#define ROS2STORE_DAOS_GURT_TYPES_H

#include <daos_types.h>

#endif
