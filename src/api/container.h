// Making a container ready for files: the container, and an empty file system in it.
#pragma once
#include "ros2s/base/result.h"
#include "ros2s/fs/file_system.h"
#include "ros2s/object/object_store.h"
#include "ros2s/runtime/reactor.h"
#include "ros2s/runtime/task.h"

namespace ros2s::api {

// Errors: exists, invalid (the label), no_space, read_only.
[[nodiscard]] Task<Result<object::ContainerRecord>> create_container(
    const Call& call, Reactor& reactor, object::ObjectStore& store,
    object::ContainerProperties properties, fs::Owner owner, Report& report);

}  // namespace ros2s::api
