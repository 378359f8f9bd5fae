// UcxLibrary: the functions of UCX that we call. They are looked up when the first domain is
// opened. UCX starts with signal handlers, hooks and settings for the whole process, so a program
// that opens no domain does not load it. It is loaded once and stays until the process ends.
//
// A call through a member costs as much as a call of a linked library: one load, one jump.
//
// Invariant: loading it does not change the process's signal handlers or the code of its C library,
// whatever the environment says.
#pragma once
#include <ucp/api/ucp.h>
#include <ucs/config/global_opts.h>

#include "ros2s/base/loaded_library.h"

namespace ros2s::fabric::ucx {

#define ROS2S_UCX_FUNCTIONS(EACH)        \
    EACH(ucp_am_send_nbx)                \
    EACH(ucp_cleanup)                    \
    EACH(ucp_config_modify)              \
    EACH(ucp_config_read)                \
    EACH(ucp_config_release)             \
    EACH(ucp_ep_close_nbx)               \
    EACH(ucp_ep_create)                  \
    EACH(ucp_ep_flush_nbx)               \
    EACH(ucp_get_version)                \
    EACH(ucp_get_version_string)         \
    EACH(ucp_init_version)               \
    EACH(ucp_request_free)               \
    EACH(ucp_worker_arm)                 \
    EACH(ucp_worker_create)              \
    EACH(ucp_worker_destroy)             \
    EACH(ucp_worker_get_address)         \
    EACH(ucp_worker_get_efd)             \
    EACH(ucp_worker_progress)            \
    EACH(ucp_worker_release_address)     \
    EACH(ucp_worker_set_am_recv_handler) \
    EACH(ucp_worker_signal)              \
    EACH(ucs_global_opts_set_value)      \
    EACH(ucs_status_string)

struct UcxLibrary : LoadedLibrary {
#define ROS2S_UCX_MEMBER(name) decltype(&::name) name = nullptr;
    ROS2S_UCX_FUNCTIONS(ROS2S_UCX_MEMBER)
#undef ROS2S_UCX_MEMBER
};

// The library of this process. The first call loads it, from any thread. All later calls have the
// same result. Errors: unsupported (not installed, or too old), denied (the current directory has
// settings for it from another user); the report says what to do.
[[nodiscard]] Result<const UcxLibrary*> ucx_library(Report& report);

// Loads the library of this name. Searches as the dynamic linker does. Called once in a process:
// all code but its test calls ucx_library().
[[nodiscard]] Result<UcxLibrary> load_ucx_library(const char* name, Report& report);

}  // namespace ros2s::fabric::ucx
