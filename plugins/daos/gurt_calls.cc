// Calls of DAOS's helper library apart from hash tables: memory, hashes, environment variables, and
// the functions behind its logging macros.
#include <array>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "gurt/common.h"
#include "ros2s/base/uuid.h"

namespace ros2s::daos {
namespace {

constexpr int level_error = 0x0400'0000;  // DLOG_ERR: only errors are written

char log_tag[] = "";
char facility_name[] = "";
dlog_fac facility{.fac_aname = facility_name,
                  .fac_lname = facility_name,
                  .fac_mask = level_error,
                  .is_enabled = true};

// Decimal digits only.
template <class T>
int read_number(const char* name, T* out) {
    if (name == nullptr || out == nullptr) return -DER_INVAL;
    const char* const text = std::getenv(name);
    if (text == nullptr) return -DER_NONEXIST;
    errno = 0;
    char* end = nullptr;
    const unsigned long long value = std::strtoull(text, &end, 0);
    if (errno != 0 || end == text || *end != '\0' || std::strchr(text, '-') != nullptr ||
        value > std::numeric_limits<T>::max()) {
        return -DER_INVAL;
    }
    *out = static_cast<T>(value);
    return 0;
}

}  // namespace
}  // namespace ros2s::daos

using namespace ros2s::daos;

// ---- memory

void d_free(void* ptr) { std::free(ptr); }
void* d_calloc(size_t nmemb, size_t size) { return std::calloc(nmemb, size); }
void* d_malloc(size_t size) { return std::malloc(size); }
void* d_realloc(void* ptr, size_t size) { return std::realloc(ptr, size); }
char* d_strndup(const char* s, size_t n) { return ::strndup(s, n); }
char* d_realpath(const char* path, char* resolved_path) { return ::realpath(path, resolved_path); }

void* d_aligned_alloc(size_t alignment, size_t size, bool zero) {
    void* const memory = std::aligned_alloc(alignment, size);
    if (memory != nullptr && zero) std::memset(memory, 0, size);
    return memory;
}

int d_asprintf(char** strp, const char* fmt, ...) {
    va_list arguments;
    va_start(arguments, fmt);
    const int bytes = ::vasprintf(strp, fmt, arguments);
    va_end(arguments);
    return bytes;
}

char* d_asprintf2(int* rc, const char* fmt, ...) {
    char* text = nullptr;
    va_list arguments;
    va_start(arguments, fmt);
    *rc = ::vasprintf(&text, fmt, arguments);
    va_end(arguments);
    return *rc < 0 ? nullptr : text;
}

char* DP_UUID(const void* uuid) {
    constexpr size_t texts = 8;
    constexpr size_t text_bytes = 40;
    thread_local std::array<std::array<char, text_bytes>, texts> all;
    thread_local size_t next = 0;
    auto& text = all[next++ % texts];
    ros2s::Uuid id;
    if (uuid != nullptr) std::memcpy(id.bytes.data(), uuid, sizeof id.bytes);
    const std::string written = id.to_string();
    text.fill('\0');
    written.copy(text.data(), text_bytes - 1);
    return text.data();
}

// ---- hashes: programs keep them, and send them to others

// Bernstein's hash of the times 33 kind.
uint32_t d_hash_string_u32(const char* string, unsigned int len) {
    uint32_t hash = 5381;
    for (unsigned i = 0; i < len; ++i) hash = hash * 33 + static_cast<unsigned char>(string[i]);
    return hash;
}

// Austin Appleby's MurmurHash64A.
uint64_t d_hash_murmur64(const unsigned char* key, unsigned int key_len, unsigned int seed) {
    constexpr uint64_t factor = 0xc6a4a7935bd1e995;
    constexpr unsigned shift = 47;
    uint64_t hash = seed ^ (key_len * factor);
    unsigned at = 0;
    for (; key_len - at >= sizeof(uint64_t); at += sizeof(uint64_t)) {
        uint64_t word = 0;
        std::memcpy(&word, key + at, sizeof word);
        word *= factor;
        word ^= word >> shift;
        hash = (hash ^ word * factor) * factor;
    }
    if (at < key_len) {
        uint64_t rest = 0;
        std::memcpy(&rest, key + at, key_len - at);
        hash = (hash ^ rest) * factor;
    }
    hash = (hash ^ hash >> shift) * factor;
    return hash ^ hash >> shift;
}

// Thomas Wang's 64-bit mix.
uint64_t d_hash_mix64(uint64_t key) {
    key = (key << 21) - key - 1;
    key ^= key >> 24;
    key *= 265;
    key ^= key >> 14;
    key *= 21;
    key ^= key >> 28;
    return key + (key << 31);
}

// Robert Jenkins' mix of three words.
uint32_t d_hash_mix96(uint32_t a, uint32_t b, uint32_t c) {
    struct Shifts {
        unsigned a, b, c;
    };
    for (const auto& by : {Shifts{13, 8, 13}, Shifts{12, 16, 5}, Shifts{3, 10, 15}}) {
        a = (a - b - c) ^ c >> by.a;
        b = (b - c - a) ^ a << by.b;
        c = (c - a - b) ^ b >> by.c;
    }
    return c;
}

// Lamping and Veach: a bucket that seldom changes when there are more buckets.
uint32_t d_hash_jump(uint64_t key, uint32_t num_buckets) {
    int64_t bucket = -1;
    for (int64_t next = 0; next < num_buckets;) {
        bucket = next;
        key = key * 2862933555777941757ULL + 1;
        const auto divisor = static_cast<double>((key >> 33) + 1);
        next = static_cast<int64_t>(static_cast<double>(bucket + 1) *
                                    (static_cast<double>(1LL << 31) / divisor));
    }
    return static_cast<uint32_t>(bucket);
}

// ---- the environment

// Text that is not a number counts as true.
int d_getenv_bool(const char* name, bool* bool_val) {
    if (name == nullptr || bool_val == nullptr) return -DER_INVAL;
    const char* const text = std::getenv(name);
    if (text == nullptr) return -DER_NONEXIST;
    char* end = nullptr;
    const long long value = std::strtoll(text, &end, 10);
    *bool_val = end == text || *end != '\0' || value != 0;
    return 0;
}

int d_getenv_uint(const char* name, unsigned int* uint_val) { return read_number(name, uint_val); }
int d_getenv_uint64_t(const char* name, uint64_t* uint64_val) {
    return read_number(name, uint64_val);
}

// ---- logging and fault injection

d_log_xstate d_log_xst{
    .tag = log_tag, .dlog_facs = &facility, .nodename = facility_name, .fac_cnt = 1};
int d_misc_logfac = 0;
// DLOG_UNINIT: the level was not looked up yet.
int d_misc_logfac_cache[16] = {INT_MIN, INT_MIN, INT_MIN, INT_MIN, INT_MIN, INT_MIN,
                               INT_MIN, INT_MIN, INT_MIN, INT_MIN, INT_MIN, INT_MIN,
                               INT_MIN, INT_MIN, INT_MIN, INT_MIN};
void (*d_alt_assert)(int, const char*, const char*, const int) = nullptr;
uint64_t DB_ALL = 0, DB_ANY = 0, DB_TRACE = 0, DB_MEM = 0, DB_NET = 0, DB_IO = 0, DB_TEST = 0;
unsigned int d_fault_inject = 0;
d_fault_attr_t* d_fault_attr_mem = nullptr;

int d_register_alt_assert(void (*alt_assert)(const int, const char*, const char*, const int)) {
    d_alt_assert = alt_assert;
    return 0;
}
void d_vlog(int, const char* fmt, va_list ap) { std::vfprintf(stderr, fmt, ap); }
void d_log_sync(void) { std::fflush(stderr); }
bool d_should_fail(d_fault_attr_t*) { return false; }
