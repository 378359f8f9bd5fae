// A read into one buffer, for dfs_sys_read().
#pragma once
#include "objects.h"

namespace ros2s::daos {

// Like dfs_read(). `size`: the bytes of the buffer, and then those that were read.
int read_buffer(dfs_t* dfs, dfs_obj_t* object, void* buffer, daos_off_t offset, daos_size_t* size,
                daos_event_t* event);

}  // namespace ros2s::daos
