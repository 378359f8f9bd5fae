// The classes of objects that DAOS would use for files and directories. They have no effect on
// files of ROS2, and programs see them.
#pragma once
#include <string_view>

#include "akeys.h"
#include "ros2s/fs/file_system.h"

namespace ros2s::daos {

// The class that the container's creator wants for such objects.
[[nodiscard]] daos_oclass_id_t class_of(const ContainerSettings& settings, mode_t mode);
// The id in DAOS's form of a file, directory or link: its type and class, and its node number.
[[nodiscard]] daos_obj_id_t id_of(const ContainerSettings& settings, mode_t mode, fs::NodeId node);
// 0 or EINVAL: hints for classes, "file:max,dir:single".
[[nodiscard]] int check_hints(std::string_view hints);

}  // namespace ros2s::daos
