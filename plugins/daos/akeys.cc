#include "akeys.h"

#include <cstring>

#include "daos_errno.h"

namespace ros2s::daos {
namespace {

constexpr char value_tail = 1;
constexpr char bytes_tail = 2;
constexpr char records_tail = 3;
constexpr size_t number_bytes = akey_number_bytes;

std::string big_endian(uint64_t number) { return object::Dkey::integer(number).bytes; }

struct StoredSizes {
    uint32_t magic = 0x59'52'52'41;  // "ARRY"
    uint32_t version = 1;
    uint64_t cell_bytes = 0;
    uint64_t chunk_cells = 0;
};
static_assert(sizeof(StoredSizes) == array_sizes_bytes);

struct StoredSettings {
    uint32_t magic = 0x544e'4f43;  // CONT
    uint32_t version = 1;
    uint32_t layout = 0;
    uint32_t mode = 0;
    uint64_t chunk_bytes = 0;
    uint32_t object_class = 0;
    uint32_t directory_class = 0;
    uint32_t file_class = 0;
    uint32_t reserved = 0;
    char hints[hint_bytes_max + 1] = {};
};
static_assert(sizeof(StoredSettings) == settings_bytes);

template <class Stored>
std::string bytes_of(const Stored& stored) {
    std::string bytes(sizeof stored, '\0');
    std::memcpy(bytes.data(), &stored, sizeof stored);
    return bytes;
}
template <class Stored>
std::optional<Stored> stored_in(std::string_view bytes) {
    Stored stored;
    const Stored expected;
    if (bytes.size() != sizeof stored) return std::nullopt;
    std::memcpy(&stored, bytes.data(), sizeof stored);
    if (stored.magic != expected.magic || stored.version != expected.version) return std::nullopt;
    return stored;
}

}  // namespace

object::Akey value_akey(std::string_view bytes) { return {std::string(bytes) + value_tail}; }

object::Akey array_akey(std::string_view bytes, uint64_t record_bytes) {
    if (record_bytes == 1) return {std::string(bytes) + bytes_tail};
    return {std::string(bytes) + big_endian(record_bytes) + records_tail};
}

AkeyParts parse_akey(std::string_view stored) {
    if (stored.empty()) return {};
    const char tail = stored.back();
    stored.remove_suffix(1);
    if (tail == value_tail) return {.bytes = stored, .type = DAOS_IOD_SINGLE};
    if (tail == bytes_tail) return {.bytes = stored, .type = DAOS_IOD_ARRAY, .record_bytes = 1};
    if (tail != records_tail || stored.size() < number_bytes) return {};
    const object::Dkey size{std::string(stored.substr(stored.size() - number_bytes))};
    stored.remove_suffix(number_bytes);
    return {.bytes = stored, .type = DAOS_IOD_ARRAY, .record_bytes = size.number()};
}

std::string encode(const ArraySizes& sizes) {
    return bytes_of(StoredSizes{.cell_bytes = sizes.cell_bytes, .chunk_cells = sizes.chunk_cells});
}

std::optional<ArraySizes> decode_array_sizes(std::string_view bytes) {
    const auto stored = stored_in<StoredSizes>(bytes);
    if (!stored || stored->cell_bytes == 0 || stored->chunk_cells == 0) return std::nullopt;
    return ArraySizes{.cell_bytes = stored->cell_bytes, .chunk_cells = stored->chunk_cells};
}

std::string encode(const ContainerSettings& settings) {
    StoredSettings stored{.layout = settings.layout,
                          .mode = settings.mode,
                          .chunk_bytes = settings.chunk_bytes,
                          .object_class = settings.object_class,
                          .directory_class = settings.directory_class,
                          .file_class = settings.file_class};
    settings.hints.copy(std::data(stored.hints), hint_bytes_max);
    return bytes_of(stored);
}

std::optional<ContainerSettings> decode_settings(std::string_view bytes) {
    const auto stored = stored_in<StoredSettings>(bytes);
    if (!stored) return std::nullopt;
    const std::string_view hints(std::data(stored->hints),
                                 ::strnlen(std::data(stored->hints), hint_bytes_max + 1));
    if (hints.size() > hint_bytes_max) return std::nullopt;
    return ContainerSettings{.layout = stored->layout,
                             .mode = stored->mode,
                             .chunk_bytes = stored->chunk_bytes,
                             .object_class = stored->object_class,
                             .directory_class = stored->directory_class,
                             .file_class = stored->file_class,
                             .hints = std::string(hints)};
}

int settings_from(int rc, std::string_view bytes, ContainerSettings& settings) {
    settings = {};
    if (rc == -DER_NONEXIST) return 0;
    if (rc == -DER_REC2BIG) return -DER_DF_INVAL;
    if (rc != 0) return rc;
    auto decoded = decode_settings(bytes);
    if (!decoded) return -DER_DF_INVAL;
    settings = std::move(*decoded);
    return 0;
}

}  // namespace ros2s::daos
