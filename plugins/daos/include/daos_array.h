/* Ranges of a file for dfs_readx() and dfs_writex() (DAOS 2.6, daos_array.h). */
#ifndef ROS2STORE_DAOS_ARRAY_H
#define ROS2STORE_DAOS_ARRAY_H

#include "daos_obj.h"

typedef struct {
    daos_off_t rg_idx;
    daos_size_t rg_len;
} daos_range_t;

#endif
