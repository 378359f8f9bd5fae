// Functions and variables that DAOS's own programs use besides its public interface: variables of
// their logging, fault injection that injects nothing, and small helpers.
#include <array>
#include <cctype>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <span>

#include "daos/common.h"
#include "daos_event.h"
#include "daos_prop.h"
#include "gurt/common.h"
#include "ros2s/base/random.h"

// Each facility is the first one of d_log_xst; each entry of a cache says that it was not filled
// (DLOG_UNINIT).
#define NOT_FILLED                                                           \
    {INT_MIN, INT_MIN, INT_MIN, INT_MIN, INT_MIN, INT_MIN, INT_MIN, INT_MIN, \
     INT_MIN, INT_MIN, INT_MIN, INT_MIN, INT_MIN, INT_MIN, INT_MIN, INT_MIN, \
     INT_MIN, INT_MIN, INT_MIN, INT_MIN, INT_MIN, INT_MIN, INT_MIN, INT_MIN}
#define FACILITY(name)            \
    int daos_##name##_logfac = 0; \
    int daos_##name##_logfac_cache[24] = NOT_FILLED
FACILITY(daos);
FACILITY(array);
FACILITY(kv);
FACILITY(common);
FACILITY(tree);
FACILITY(client);
FACILITY(server);
FACILITY(pool);
FACILITY(container);
FACILITY(object);
FACILITY(placement);
FACILITY(mgmt);
FACILITY(tests);
FACILITY(dfs);
FACILITY(duns);
FACILITY(drpc);
FACILITY(security);
FACILITY(dfuse);
FACILITY(il);
FACILITY(csum);
FACILITY(pipeline);
#undef FACILITY
#undef NOT_FILLED
uint64_t DB_MD = 0, DB_PL = 0, DB_MGMT = 0, DB_EPC = 0, DB_DF = 0, DB_REBUILD = 0, DB_SEC = 0,
         DB_CSUM = 0;

int daos_debug_init(char*) { return 0; }
int daos_debug_init_ex(char*, uint64_t) { return 0; }
void daos_debug_fini(void) {}

// ---- faults

void daos_fail_loc_set(uint64_t) {}
void daos_fail_loc_reset(void) {}
void daos_fail_value_set(uint64_t) {}
void daos_fail_num_set(uint64_t) {}
uint64_t daos_fail_value_get(void) { return 0; }
int daos_fail_check(uint64_t) { return 0; }

uint64_t daos_shard_fail_value(uint16_t* shards, int nr) {
    uint64_t value = 0;
    for (int i = 0; i < nr && i < 4; ++i) value |= uint64_t{shards[i]} << (16 * i);
    return value;
}

// ---- memory, buffers and texts

int daos_iov_alloc(d_iov_t* iov, daos_size_t size, bool set_full) {
    if (iov == nullptr || size == 0) return -DER_INVAL;
    iov->iov_buf = std::calloc(1, size);
    if (iov->iov_buf == nullptr) return -DER_NOMEM;
    iov->iov_buf_len = size;
    iov->iov_len = set_full ? size : 0;
    return 0;
}

void daos_iov_free(d_iov_t* iov) {
    if (iov == nullptr) return;
    std::free(iov->iov_buf);
    *iov = {};
}

daos_size_t daos_sgl_data_len(d_sg_list_t* sgl, bool out) {
    daos_size_t bytes = 0;
    if (sgl == nullptr || sgl->sg_iovs == nullptr) return 0;
    for (const auto& iov : std::span(sgl->sg_iovs, out ? sgl->sg_nr_out : sgl->sg_nr)) {
        bytes += iov.iov_len;
    }
    return bytes;
}

daos_size_t daos_sgl_buf_size(d_sg_list_t* sgl) {
    daos_size_t bytes = 0;
    if (sgl == nullptr || sgl->sg_iovs == nullptr) return 0;
    for (const auto& iov : std::span(sgl->sg_iovs, sgl->sg_nr)) bytes += iov.iov_buf_len;
    return bytes;
}

// The next entry at this location. Null: there is none.
char* daos_str_trimwhite(char* str) {
    const auto is_space = [](char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; };
    while (is_space(*str)) ++str;
    char* end = str + std::strlen(str);
    if (str == end) return nullptr;
    while (is_space(end[-1])) --end;
    *end = '\0';
    return str;
}

// Only the caller's functions know the array and can swap two entries, so this is a heap sort.
int daos_array_sort(void* array, unsigned int len, bool unique, daos_sort_ops_t* ops) {
    const auto sift = [&](int at, int end) {
        for (int child = 2 * at + 1; child < end; child = 2 * at + 1) {
            if (child + 1 < end && ops->so_cmp(array, child, child + 1) < 0) ++child;
            if (ops->so_cmp(array, at, child) >= 0) return;
            ops->so_swap(array, at, child);
            at = child;
        }
    };
    const int count = static_cast<int>(len);
    for (int at = count / 2; at-- > 0;) sift(at, count);
    for (int end = count - 1; end > 0; --end) {
        ops->so_swap(array, 0, end);
        sift(0, end);
    }
    for (int at = 1; unique && at < count; ++at) {
        if (ops->so_cmp(array, at - 1, at) == 0) return -DER_INVAL;
    }
    return 0;
}

void daos_array_shuffle(void* arr, unsigned int len, daos_sort_ops_t* ops) {
    ros2s::Random random(d_hlc_get());
    for (unsigned at = len; at > 1; --at) {
        const auto other = static_cast<unsigned>(random.next() % at);
        if (other != at - 1) ops->so_swap(arr, static_cast<int>(at - 1), static_cast<int>(other));
    }
}

// Calls without an event use none here.
int daos_event_priv_reset(void) { return 0; }

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
