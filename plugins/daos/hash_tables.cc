// d_hash_*: hash tables of records that belong to the program. A bucket is a ring of links.
#include <mutex>
#include <vector>

#include "errors.h"
#include "gurt/common.h"
#include "gurt/hash.h"

struct d_hash_table {
    uint32_t features = 0;
    d_hash_table_ops_t calls{};
    std::vector<d_list_t> buckets;
    std::mutex lock;

    [[nodiscard]] bool has(d_hash_feats feature) const { return (features & feature) != 0; }
};

namespace ros2s::daos {
namespace {

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
}  // namespace ros2s::daos

using namespace ros2s::daos;

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
