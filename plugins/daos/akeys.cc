#include "akeys.h"

#include <array>

#include "daos_errno.h"
#include "ros2s/base/fields.h"

namespace ros2s::daos {
namespace {

constexpr char value_tail = 1;
constexpr char bytes_tail = 2;
constexpr char records_tail = 3;
constexpr size_t number_bytes = akey_number_bytes;

std::string big_endian(uint64_t number) { return object::Dkey::integer(number).bytes; }

using Hints = std::array<char, hint_bytes_max + 1>;  // zero bytes after the text
constexpr auto settings_fields = [](auto& io, auto& settings, auto& hints) {
    io.known("magic", uint32_t{0x544e'4f43});  // "CONT"
    io.known("version", uint32_t{1});
    io("layout", settings.layout);
    io("mode", settings.mode);
    io("bytes of a chunk", settings.chunk_bytes);
    io("class of objects", settings.object_class);
    io("class of directories", settings.directory_class);
    io("class of files", settings.file_class);
    io.known("reserved", uint32_t{0});
    io.bytes("hints", hints);
    io.refuse_when(hints.back() != '\0');
};

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

std::string encode(const ContainerSettings& settings) {
    Hints hints{};
    settings.hints.copy(hints.data(), hint_bytes_max);
    return written(settings_fields, settings, hints);
}

std::optional<ContainerSettings> decode_settings(std::string_view bytes) {
    ContainerSettings settings;
    Hints hints{};
    FieldReader in(as_bytes(bytes));
    settings_fields(in, settings, hints);
    if (!in.done()) return std::nullopt;
    settings.hints = hints.data();
    return settings;
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
