// Libdfs: the functions of DAOS's client libraries that are used. The libraries are loaded when the
// first pool is opened (docs/daos.md), and stay. Their declarations are the ones of
// plugins/daos, which has the same interface for other programs.
#pragma once
#include <daos.h>
#include <daos_fs.h>

#include <string>

#include "ros2s/base/result.h"

namespace ros2s::daos {

#define ROS2S_DAOS_FUNCTIONS(F) \
    F(daos_init)                \
    F(daos_fini)                \
    F(daos_version_get)         \
    F(daos_pool_connect)        \
    F(daos_pool_disconnect)     \
    F(daos_pool_query)          \
    F(daos_pool_list_cont)      \
    F(daos_cont_open)           \
    F(daos_cont_close)          \
    F(daos_eq_create)           \
    F(daos_eq_destroy)          \
    F(daos_eq_poll)             \
    F(daos_event_init)          \
    F(daos_event_fini)          \
    F(dfs_init)                 \
    F(dfs_fini)                 \
    F(dfs_mount)                \
    F(dfs_umount)               \
    F(dfs_lookup)               \
    F(dfs_lookup_rel)           \
    F(dfs_open)                 \
    F(dfs_release)              \
    F(dfs_obj2id)               \
    F(dfs_get_symlink_value)    \
    F(dfs_read)                 \
    F(dfs_write)                \
    F(dfs_get_size)             \
    F(dfs_punch)                \
    F(dfs_readdir)              \
    F(dfs_stat)                 \
    F(dfs_ostat)                \
    F(dfs_osetattr)             \
    F(dfs_remove)               \
    F(dfs_move)                 \
    F(dfs_exchange)             \
    F(dfs_setxattr)             \
    F(dfs_getxattr)             \
    F(dfs_removexattr)          \
    F(dfs_listxattr)

struct Libdfs {
// Of some functions the name is a macro, which names the symbol of their present version.
#define ROS2S_DAOS_FUNCTION(name) decltype(&::name) name = nullptr;
    ROS2S_DAOS_FUNCTIONS(ROS2S_DAOS_FUNCTION)
#undef ROS2S_DAOS_FUNCTION

    // `file`: a path, or a name that the loader finds. Errors: unsupported, with a sentence (the
    // library is missing, lacks a function, or has another version of the interface).
    [[nodiscard]] static Result<Libdfs> load(const std::string& file, Report& report);
};

// The result of a function of libdfs: 0, or a positive errno.
[[nodiscard]] inline Result<> checked(int rc) { return rc == 0 ? Result<>() : fail_errno(rc); }
// The result of a function of libdaos: 0, or a negative number of DAOS's own.
[[nodiscard]] Result<> checked_der(int rc);
// "it does not exist (DAOS error -1005)"
[[nodiscard]] std::string describe_der(int rc);

}  // namespace ros2s::daos
