/* The version of the DAOS client interface that these headers declare: the API version of DAOS 2.6,
 * whose libdaos is libdaos.so.2. */
#ifndef ROS2STORE_DAOS_VERSION_H
#define ROS2STORE_DAOS_VERSION_H

#define DAOS_API_VERSION_MAJOR 2
#define DAOS_API_VERSION_MINOR 7
#define DAOS_API_VERSION_FIX 0

#define DAOS_VERSION_MAJOR 2
#define DAOS_VERSION_MINOR 6
#define DAOS_VERSION_FIX 0

#endif
