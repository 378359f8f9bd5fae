// Lists of properties, and the properties of pools and containers: those that queries show, and the
// stored layout.
#pragma once
#include <cstring>
#include <memory>

#include "akeys.h"
#include "daos_prop.h"
#include "pools.h"

namespace ros2s::daos {

// Null: `list` is null, or has no such entry.
[[nodiscard]] daos_prop_entry* entry_in(const daos_prop_t* list, uint32_t type);
// The label of a container that is created with these properties. Null: they have none.
[[nodiscard]] const char* label_in(const daos_prop_t* list);

// Each returns 0 or -DER_. A list without entries gets one of each kind.
int fill_properties(const std::shared_ptr<Container>& container, daos_prop_t& properties);
int fill_properties(const Pool& pool, daos_prop_t& properties);
// The settings that were stored when the container was created. Gives the defaults if none were
// stored, or if none can be stored. Fails if they cannot be read.
int settings_of(const std::shared_ptr<Container>& container, ContainerSettings& settings);
int keep_settings(const std::shared_ptr<Container>& container, const ContainerSettings& settings);
// For a program that creates a container with daos_cont_create(): it has no file system, unless the
// properties request one.
[[nodiscard]] ContainerSettings settings_in(const daos_prop_t* properties);

// Those of files, in a dfs_attr_t or duns_attr_t. The mode is left out.
template <class Attributes>
ContainerSettings settings_of_files(const Attributes& attributes) {
    const auto* const hints = std::data(attributes.da_hints);
    return {.chunk_bytes = attributes.da_chunk_size,
            .object_class = attributes.da_oclass_id,
            .directory_class = attributes.da_dir_oclass_id,
            .file_class = attributes.da_file_oclass_id,
            .hints = std::string(hints, ::strnlen(hints, hint_bytes_max))};
}

}  // namespace ros2s::daos
