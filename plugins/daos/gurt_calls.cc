// What programs use of DAOS's helper library apart from hash tables: memory, a hash, lists of
// ranks, times, and the data of its macros for logging and fault injection.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <span>

#include "gurt/common.h"
#include "ranks.h"

namespace ros2s::daos {
namespace {

constexpr int level_error = 0x0400'0000;  // DLOG_ERR: only errors are written

char log_tag[] = "";
char facility_name[] = "";
dlog_fac facility{.fac_aname = facility_name,
                  .fac_lname = facility_name,
                  .fac_mask = level_error,
                  .is_enabled = true};

// A time is a count of 1/16 ns since 2021.
constexpr uint64_t start_ns = 1609459200 * uint64_t{1'000'000'000};
constexpr uint64_t units_per_ns = 16;

}  // namespace

d_rank_list_t* make_rank_list(uint32_t count) {
    auto* const list = static_cast<d_rank_list_t*>(std::calloc(1, sizeof(d_rank_list_t)));
    if (list == nullptr || count == 0) return list;
    list->rl_ranks = static_cast<d_rank_t*>(std::calloc(count, sizeof(d_rank_t)));
    if (list->rl_ranks == nullptr) {
        std::free(list);
        return nullptr;
    }
    list->rl_nr = count;
    std::iota(list->rl_ranks, list->rl_ranks + count, 0);
    return list;
}

}  // namespace ros2s::daos

using namespace ros2s::daos;

// ---- memory

void d_free(void* ptr) { std::free(ptr); }
void* d_calloc(size_t nmemb, size_t size) { return std::calloc(nmemb, size); }
void* d_realloc(void* ptr, size_t size) { return std::realloc(ptr, size); }
char* d_strndup(const char* s, size_t n) { return ::strndup(s, n); }

char* d_asprintf2(int* rc, const char* fmt, ...) {
    char* text = nullptr;
    va_list arguments;
    va_start(arguments, fmt);
    *rc = ::vasprintf(&text, fmt, arguments);
    va_end(arguments);
    return *rc < 0 ? nullptr : text;
}

void d_rank_list_free(d_rank_list_t* rank_list) {
    if (rank_list == nullptr) return;
    std::free(rank_list->rl_ranks);
    std::free(rank_list);
}

// ---- hashes, times, the environment

// Bernstein's hash of the times 33 kind. Programs send its values to other programs.
uint32_t d_hash_string_u32(const char* string, unsigned int len) {
    uint32_t hash = 5381;
    for (unsigned i = 0; i < len; ++i) hash = hash * 33 + static_cast<unsigned char>(string[i]);
    return hash;
}

uint64_t d_hlc2unixnsec(uint64_t hlc) { return hlc / units_per_ns + start_ns; }

// Returns 0 if the result cannot be represented.
uint64_t d_unixnsec2hlc(uint64_t unixnsec) {
    const uint64_t since = unixnsec - start_ns;
    return unixnsec < start_ns || since > UINT64_MAX / units_per_ns ? 0 : since * units_per_ns;
}

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

// ---- logging and fault injection

d_log_xstate d_log_xst{
    .tag = log_tag, .dlog_facs = &facility, .nodename = facility_name, .fac_cnt = 1};
void (*d_alt_assert)(int, const char*, const char*, const int) = nullptr;
uint64_t DB_TRACE = 0, DB_MEM = 0;
unsigned int d_fault_inject = 0;
d_fault_attr_t* d_fault_attr_mem = nullptr;

void d_vlog(int, const char* fmt, va_list ap) { std::vfprintf(stderr, fmt, ap); }
void d_log_sync(void) { std::fflush(stderr); }
bool d_should_fail(d_fault_attr_t*) { return false; }
