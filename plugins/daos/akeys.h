// Akeys of DAOS as akeys of ROS2, and reserved objects: docs/formats/daos.md.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "daos_obj.h"
#include "ros2s/object/vocabulary.h"

namespace ros2s::daos {

inline constexpr size_t akey_number_bytes = 8;
inline constexpr size_t akey_tail_bytes_max = akey_number_bytes + 1;

[[nodiscard]] object::Akey value_akey(std::string_view bytes);
[[nodiscard]] object::Akey array_akey(std::string_view bytes, uint64_t record_bytes);
struct AkeyParts {
    std::string_view bytes;
    daos_iod_type_t type = DAOS_IOD_NONE;
    uint64_t record_bytes = 0;
};
// Type NONE: the key is not one of this library.
[[nodiscard]] AkeyParts parse_akey(std::string_view stored);

// Objects of the container itself. In ids of programs the upper half of the high word is not zero,
// and DFS has another high word.
inline constexpr uint64_t reserved_high = 0x4441'4f01;
inline constexpr object::ObjectId attributes_id{.high = reserved_high, .low = 0};
inline constexpr object::ObjectId properties_id{.high = reserved_high, .low = 2};
inline constexpr const char* settings_name = "container";

// The settings of a program at the creation of a container. Without them, a container is a file
// system with DAOS's defaults. Zeros: the default.
struct ContainerSettings {
    uint32_t layout = DAOS_PROP_CO_LAYOUT_POSIX;
    uint32_t mode = 0;  // DFS_RELAXED or DFS_BALANCED
    uint64_t chunk_bytes = 0;
    uint32_t object_class = 0;
    uint32_t directory_class = 0;
    uint32_t file_class = 0;
    std::string hints;
    friend bool operator==(const ContainerSettings&, const ContainerSettings&) = default;
};
inline constexpr size_t hint_bytes_max = 127;
inline constexpr size_t settings_bytes = 168;
[[nodiscard]] std::string encode(const ContainerSettings& settings);
[[nodiscard]] std::optional<ContainerSettings> decode_settings(std::string_view bytes);
// Converts the result of reading the settings: `rc`, and the bytes if `rc` is 0. Only -DER_NONEXIST
// gives the defaults. Returns 0 or -DER_; -DER_DF_INVAL: the bytes are not in this format.
[[nodiscard]] int settings_from(int rc, std::string_view bytes, ContainerSettings& settings);

}  // namespace ros2s::daos
