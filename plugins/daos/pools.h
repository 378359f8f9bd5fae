// Pools and containers that a program has connected to. A container is a file system of ROS2,
// opened by libros2store; a pool gives access to its containers.
#pragma once
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "akeys.h"
#include "daos_cont.h"
#include "daos_pool.h"
#include "handles.h"
#include "labels.h"
#include "ros2s/api/c/instance.h"
#include "ros2store/ros2store.h"

namespace ros2s::daos {

struct StoreAccess;

struct Pool {
    static constexpr Kind kind = Kind::pool;
    // The pool without a container. It is opened when it is first needed. Errors, with a sentence:
    // those of api::c::attach(); unsupported behind a DPU.
    Result<api::c::Instance*> attach(Report& report);
    // True if none of its containers is open.
    void detach();

    std::string label;
    ContainerUris where;
    unsigned flags = 0;
    std::atomic<uint32_t> containers = 0;  // open ones

    std::mutex lock;  // attachment
    std::optional<api::c::Attachment> attachment;
};

struct Container {
    static constexpr Kind kind = Kind::container;
    std::shared_ptr<Pool> pool;
    std::string label;
    unsigned flags = 0;
    ros2s_fs* fs = nullptr;
    std::atomic<uint32_t> mounts = 0;     // and objects and transactions
    std::mutex lock;                      // access
    std::shared_ptr<StoreAccess> access;  // set at the first object call (store_access.h)

    [[nodiscard]] bool is_read_only() const { return (flags & DAOS_COO_RO) != 0; }
};

// The UUID for a label: the label itself if it is a UUID. Otherwise it is derived from the label,
// so it is the same in all programs. ROS2 names pools and containers by label.
void uuid_of(std::string_view label, uuid_t& out);

// A line about a pool or a container on standard error, once per process.
void say(std::string_view kind, std::string_view label, std::string_view sentence);

// Each returns 0 or -DER_. A failure that requires action by a person is reported on standard
// error.
int attach(Pool& pool, api::c::Instance*& instance);
// -DER_UNINIT: daos_init() was not called more often than daos_fini().
int connect(const char* label, unsigned flags, daos_handle_t& handle);
int open_container(daos_handle_t pool, const char* label, unsigned flags, daos_handle_t& handle);
// `label` null: the container's UUID is its label.
int create_container(daos_handle_t pool, const char* label, uuid_t* uuid,
                     const ContainerSettings& settings);

}  // namespace ros2s::daos
