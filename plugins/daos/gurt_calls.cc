// What programs use of DAOS's helper libraries: memory, hashes and hash tables, lists of ranks,
// times, names of properties, and the data of its macros for logging and fault injection.
#include <array>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <numeric>
#include <span>
#include <vector>

#include "daos/common.h"
#include "errors.h"
#include "gurt/common.h"
#include "gurt/hash.h"
#include "ranks.h"

using namespace ros2s::daos;

struct d_hash_table {
    uint32_t features = 0;
    d_hash_table_ops_t calls{};
    std::vector<d_list_t> buckets;
    std::mutex lock;

    [[nodiscard]] bool has(d_hash_feats feature) const { return (features & feature) != 0; }
};

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

std::unique_lock<std::mutex> locked(d_hash_table& table) {
    if (table.has(D_HASH_FT_NOLOCK)) return {};
    return std::unique_lock(table.lock);
}

d_list_t& bucket_of(d_hash_table& table, const void* key, unsigned bytes) {
    const uint32_t hash = table.calls.hop_key_hash != nullptr
                              ? table.calls.hop_key_hash(&table, key, bytes)
                              : d_hash_string_u32(static_cast<const char*>(key), bytes);
    return table.buckets[hash & (table.buckets.size() - 1)];
}

void add_reference(d_hash_table& table, d_list_t* link) {
    if (table.calls.hop_rec_addref != nullptr) table.calls.hop_rec_addref(&table, link);
}
bool drop_reference(d_hash_table& table, d_list_t* link) {
    return table.calls.hop_rec_decref != nullptr && table.calls.hop_rec_decref(&table, link);
}
void free_record(d_hash_table& table, d_list_t* link) {
    if (table.calls.hop_rec_free != nullptr) table.calls.hop_rec_free(&table, link);
}

d_list_t* find(d_hash_table& table, d_list_t& bucket, const void* key, unsigned bytes) {
    d_list_t* link = nullptr;
    d_list_for_each(link, &bucket) {
        if (table.calls.hop_key_cmp(&table, link, key, bytes)) return link;
    }
    return nullptr;
}

d_list_t* first_in(std::vector<d_list_t>& buckets) {
    for (auto& bucket : buckets) {
        if (!d_list_empty(&bucket)) return bucket.next;
    }
    return nullptr;
}

// Called after the last reference was dropped. Returns whether the record must be freed.
bool leave(const d_hash_table& table, d_list_t* link) {
    if (table.has(D_HASH_FT_EPHEMERAL) && !d_list_empty(link)) d_list_del_init(link);
    if (d_list_empty(link)) return true;
    say_once(
        "d_hash: the last reference of a record was dropped while the record is in its table. "
        "The record stays");
    return false;
}

bool is_key(const void* key, unsigned bytes) { return key != nullptr && bytes > 0; }

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

// ---- What the program `daos` uses besides the public interface: variables of its logging, names
// of properties, and where objects are put.

// The facility is the first one of d_log_xst; each entry of its cache says that it was not filled
// (DLOG_UNINIT).
int daos_client_logfac = 0;
int daos_client_logfac_cache[24] = {INT_MIN, INT_MIN, INT_MIN, INT_MIN, INT_MIN, INT_MIN,
                                    INT_MIN, INT_MIN, INT_MIN, INT_MIN, INT_MIN, INT_MIN,
                                    INT_MIN, INT_MIN, INT_MIN, INT_MIN, INT_MIN, INT_MIN,
                                    INT_MIN, INT_MIN, INT_MIN, INT_MIN, INT_MIN, INT_MIN};

int daos_debug_init(char*) { return 0; }
void daos_debug_fini(void) {}

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

// ---- d_hash_*: hash tables of records that belong to the program. A bucket is a ring of links.

int d_hash_table_create(uint32_t feats, uint32_t bits, void*, d_hash_table_ops_t* ops,
                        struct d_hash_table** table) {
    constexpr uint32_t bits_max = 24;
    if (table == nullptr) return -DER_INVAL;
    *table = nullptr;
    if (ops == nullptr || ops->hop_key_cmp == nullptr || bits > bits_max) return -DER_INVAL;
    *table = new d_hash_table{.features = feats,
                              .calls = *ops,
                              .buckets = std::vector<d_list_t>(size_t{1} << bits),
                              .lock = {}};
    for (auto& bucket : (*table)->buckets) D_INIT_LIST_HEAD(&bucket);
    return 0;
}

int d_hash_table_destroy(struct d_hash_table* table, bool force) {
    if (table == nullptr) return -DER_UNINIT;
    while (auto* const link = first_in(table->buckets)) {
        if (!force) return -DER_BUSY;
        d_list_del_init(link);
        const bool holds = !table->has(D_HASH_FT_EPHEMERAL);
        if (holds && drop_reference(*table, link)) free_record(*table, link);
    }
    delete table;
    return 0;
}

d_list_t* d_hash_rec_find(struct d_hash_table* table, const void* key, unsigned int ksize) {
    if (!is_key(key, ksize)) return nullptr;
    const auto lock = locked(*table);
    auto& bucket = bucket_of(*table, key, ksize);
    auto* const link = find(*table, bucket, key, ksize);
    if (link == nullptr) return nullptr;
    if (table->has(D_HASH_FT_LRU)) d_list_move(link, &bucket);
    add_reference(*table, link);
    return link;
}

int d_hash_rec_insert(struct d_hash_table* table, const void* key, unsigned int ksize,
                      d_list_t* link, bool exclusive) {
    if (!is_key(key, ksize)) return -DER_INVAL;
    const auto lock = locked(*table);
    auto& bucket = bucket_of(*table, key, ksize);
    if (exclusive && find(*table, bucket, key, ksize) != nullptr) return -DER_EXIST;
    if (!table->has(D_HASH_FT_EPHEMERAL)) add_reference(*table, link);
    d_list_add(link, &bucket);
    return 0;
}

void d_hash_rec_decref(struct d_hash_table* table, d_list_t* link) {
    auto lock = locked(*table);
    const bool is_last = drop_reference(*table, link) && leave(*table, link);
    if (lock) lock.unlock();
    if (is_last) free_record(*table, link);
}

bool d_hash_rec_unlinked(d_list_t* link) { return d_list_empty(link) != 0; }

d_list_t* d_hash_rec_first(struct d_hash_table* table) {
    const auto lock = locked(*table);
    return first_in(table->buckets);
}
