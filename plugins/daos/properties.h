// Properties of containers: those that daos_cont_query() shows, and the stored layout.
#pragma once
#include <memory>

#include "akeys.h"
#include "daos_prop.h"
#include "pools.h"

namespace ros2s::daos {

// Each returns 0 or -DER_. A list without entries gets one of each kind.
int fill_properties(const std::shared_ptr<Container>& container, daos_prop_t& properties);
int fill_properties(const Pool& pool, daos_prop_t& properties);
// The settings that were stored when the container was created. Gives the defaults if none were
// stored, or if none can be stored. Fails if they cannot be read.
int settings_of(const std::shared_ptr<Container>& container, ContainerSettings& settings);
int keep_settings(const std::shared_ptr<Container>& container, const ContainerSettings& settings);
// For a program that creates a container with daos_cont_create(): it has no file system, unless the
// properties request one.
[[nodiscard]] ContainerSettings settings_in(daos_prop_t* properties);

}  // namespace ros2s::daos
