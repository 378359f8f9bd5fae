// What the program `daos` uses besides the public interface: variables of its logging, names of
// properties, and where objects are put.
#include <array>
#include <climits>
#include <cstring>
#include <span>

#include "daos/common.h"

// The facility is the first one of d_log_xst; each entry of its cache says that it was not filled
// (DLOG_UNINIT).
int daos_client_logfac = 0;
int daos_client_logfac_cache[24] = {INT_MIN, INT_MIN, INT_MIN, INT_MIN, INT_MIN, INT_MIN,
                                    INT_MIN, INT_MIN, INT_MIN, INT_MIN, INT_MIN, INT_MIN,
                                    INT_MIN, INT_MIN, INT_MIN, INT_MIN, INT_MIN, INT_MIN,
                                    INT_MIN, INT_MIN, INT_MIN, INT_MIN, INT_MIN, INT_MIN};

int daos_debug_init(char*) { return 0; }
void daos_debug_fini(void) {}

// ---- names of properties

namespace ros2s::daos {
namespace {

// The position in the table is the property's value.
constexpr auto checksum_names = std::to_array<const char*>(
    {"off", "crc16", "crc32", "crc64", "sha1", "sha256", "sha512", "adler32"});
constexpr auto cipher_names =
    std::to_array<const char*>({"off", "aes-xts128", "aes-xts256", "aes-cbc128", "aes-cbc192",
                                "aes-cbc256", "aes-gcm128", "aes-gcm256"});
constexpr auto compression_names = std::to_array<const char*>(
    {"off", "lz4", "deflate", "deflate1", "deflate2", "deflate3", "deflate4"});

int number_of(std::span<const char* const> names, const char* value) {
    if (value == nullptr) return -DER_INVAL;
    for (size_t i = 0; i < names.size(); ++i) {
        if (std::strcmp(names[i], value) == 0) return static_cast<int>(i);
    }
    return -DER_INVAL;
}

// The numbers of the kinds are those of the properties.
int kind_of(std::span<const char* const> names, int value) {
    return value > 0 && static_cast<size_t>(value) < names.size() ? value : 0;
}

}  // namespace
}  // namespace ros2s::daos

using namespace ros2s::daos;

int daos_str2csumcontprop(const char* value) { return number_of(checksum_names, value); }
int daos_str2encryptcontprop(const char* value) { return number_of(cipher_names, value); }
int daos_str2compresscontprop(const char* value) { return number_of(compression_names, value); }
int daos_contprop2hashtype(int value) { return kind_of(checksum_names, value); }
int daos_contprop2ciphertype(int value) { return kind_of(cipher_names, value); }
int daos_contprop2compresstype(int value) { return kind_of(compression_names, value); }
hash_ft* daos_mhash_type2algo(int) { return nullptr; }
cipher_ft* daos_cipher_type2algo(int) { return nullptr; }
compress_ft* daos_compress_type2algo(int, bool) { return nullptr; }

int pl_map_query(uuid_t, pl_map_attr* attr) {
    if (attr == nullptr) return -DER_INVAL;
    *attr = {.pa_type = 0, .pa_domain = 0, .pa_domain_nr = 1, .pa_target_nr = 1};
    return 0;
}

int obj_class_init(void) { return 0; }
void obj_class_fini(void) {}
