// Librados: the functions of Debian's librados that are used. The library is loaded when the first
// cluster is opened (docs/decisions/0705 says why not before), and stays.
#pragma once
#include <rados/librados.h>

#include "ros2s/base/result.h"

namespace ros2s::rados {

#define ROS2S_RADOS_FUNCTIONS(F)      \
    F(create)                         \
    F(shutdown)                       \
    F(connect)                        \
    F(conf_read_file)                 \
    F(conf_get)                       \
    F(conf_set)                       \
    F(cluster_stat)                   \
    F(ioctx_create)                   \
    F(ioctx_destroy)                  \
    F(ioctx_set_namespace)            \
    F(create_write_op)                \
    F(release_write_op)               \
    F(write_op_assert_exists)         \
    F(write_op_create)                \
    F(write_op_omap_cmp2)             \
    F(write_op_omap_set2)             \
    F(write_op_omap_rm_keys2)         \
    F(write_op_write_full)            \
    F(write_op_remove)                \
    F(aio_write_op_operate)           \
    F(create_read_op)                 \
    F(release_read_op)                \
    F(read_op_omap_get_vals2)         \
    F(read_op_omap_get_vals_by_keys2) \
    F(read_op_read)                   \
    F(aio_read_op_operate)            \
    F(aio_create_completion2)         \
    F(aio_get_return_value)           \
    F(aio_release)                    \
    F(omap_get_next2)                 \
    F(omap_get_end)                   \
    F(nobjects_list_open)             \
    F(nobjects_list_next2)            \
    F(nobjects_list_close)

struct Librados {
#define ROS2S_RADOS_FUNCTION(name) decltype(&rados_##name) name = nullptr;
    ROS2S_RADOS_FUNCTIONS(ROS2S_RADOS_FUNCTION)
#undef ROS2S_RADOS_FUNCTION

    // Errors: unsupported (it is not there, or lacks a function).
    [[nodiscard]] static Result<Librados> load(Report& report);
};

}  // namespace ros2s::rados
