// d_hash_*: hash tables of records that belong to the program. A table has 2^ht_bits buckets, each
// a ring of links. Layouts are public: a program has the table itself in its structures.
#include <cstdlib>

#include "errors.h"
#include "gurt/common.h"
#include "gurt/hash.h"

namespace ros2s::daos {
namespace {

enum class Access : uint8_t { read, change };

uint32_t bucket_count(const d_hash_table& table) { return 1U << table.ht_bits; }

// ---- locks: one per table or one per bucket, of the kind that the table's features say

struct SpinLock {
    static int init(d_hash_lock& lock) {
        return ::pthread_spin_init(&lock.spin, PTHREAD_PROCESS_PRIVATE);
    }
    static void destroy(d_hash_lock& lock) { ::pthread_spin_destroy(&lock.spin); }
    static void take(d_hash_lock& lock, Access) { ::pthread_spin_lock(&lock.spin); }
    static void release(d_hash_lock& lock) { ::pthread_spin_unlock(&lock.spin); }
};
struct MutexLock {
    static int init(d_hash_lock& lock) { return ::pthread_mutex_init(&lock.mutex, nullptr); }
    static void destroy(d_hash_lock& lock) { ::pthread_mutex_destroy(&lock.mutex); }
    static void take(d_hash_lock& lock, Access) { ::pthread_mutex_lock(&lock.mutex); }
    static void release(d_hash_lock& lock) { ::pthread_mutex_unlock(&lock.mutex); }
};
struct ReadWriteLock {
    static int init(d_hash_lock& lock) { return ::pthread_rwlock_init(&lock.rwlock, nullptr); }
    static void destroy(d_hash_lock& lock) { ::pthread_rwlock_destroy(&lock.rwlock); }
    static void take(d_hash_lock& lock, Access access) {
        access == Access::read ? ::pthread_rwlock_rdlock(&lock.rwlock)
                               : ::pthread_rwlock_wrlock(&lock.rwlock);
    }
    static void release(d_hash_lock& lock) { ::pthread_rwlock_unlock(&lock.rwlock); }
};

// Calls f with the table's kind of locks.
template <class F>
auto with_kind(const d_hash_table& table, F&& f) {
    if ((table.ht_feats & D_HASH_FT_MUTEX) != 0) return f(MutexLock());
    if ((table.ht_feats & D_HASH_FT_RWLOCK) != 0) return f(ReadWriteLock());
    return f(SpinLock());
}

bool is_locked(const d_hash_table& table) { return (table.ht_feats & D_HASH_FT_NOLOCK) == 0; }
bool has_one_lock(const d_hash_table& table) { return (table.ht_feats & D_HASH_FT_GLOCK) != 0; }
uint32_t lock_count(const d_hash_table& table) {
    return !is_locked(table) ? 0 : has_one_lock(table) ? 1 : bucket_count(table);
}
d_hash_lock& lock_of(d_hash_table& table, uint32_t bucket) {
    return has_one_lock(table) ? table.ht_lock : table.ht_locks[bucket];
}

void take(d_hash_table& table, uint32_t bucket, Access access) {
    with_kind(table, [&](auto kind) { kind.take(lock_of(table, bucket), access); });
}
void release(d_hash_table& table, uint32_t bucket) {
    with_kind(table, [&](auto kind) { kind.release(lock_of(table, bucket)); });
}

class Locked {
  public:
    Locked(d_hash_table& table, uint32_t bucket, Access access) : table_(table), bucket_(bucket) {
        if (is_locked(table_)) take(table_, bucket_, access);
    }
    Locked(const Locked&) = delete;
    Locked& operator=(const Locked&) = delete;
    ~Locked() {
        if (is_locked(table_)) release(table_, bucket_);
    }

  private:
    d_hash_table& table_;
    uint32_t bucket_;
};

bool init_locks(d_hash_table& table) {
    const uint32_t count = lock_count(table);
    if (count > 0 && !has_one_lock(table)) {
        table.ht_locks = static_cast<d_hash_lock*>(std::calloc(count, sizeof(d_hash_lock)));
        if (table.ht_locks == nullptr) return false;
    }
    for (uint32_t i = 0; i < count; ++i) {
        if (with_kind(table, [&](auto kind) { return kind.init(lock_of(table, i)); }) == 0)
            continue;
        while (i-- > 0) with_kind(table, [&](auto kind) { kind.destroy(lock_of(table, i)); });
        std::free(table.ht_locks);
        return false;
    }
    return true;
}

// ---- records

uint32_t bucket_of_key(d_hash_table& table, const void* key, unsigned bytes) {
    const uint32_t hash = table.ht_ops->hop_key_hash != nullptr
                              ? table.ht_ops->hop_key_hash(&table, key, bytes)
                              : d_hash_string_u32(static_cast<const char*>(key), bytes);
    return hash & (bucket_count(table) - 1);
}

// 0 if the program has no such function. The table then has no bucket locks.
uint32_t bucket_of_record(d_hash_table& table, d_list_t* link) {
    if (table.ht_ops->hop_rec_hash == nullptr) return 0;
    return table.ht_ops->hop_rec_hash(&table, link) & (bucket_count(table) - 1);
}
uint32_t lock_of_record(d_hash_table& table, d_list_t* link) {
    return is_locked(table) ? bucket_of_record(table, link) : 0;
}

bool is_ephemeral(const d_hash_table& table) { return (table.ht_feats & D_HASH_FT_EPHEMERAL) != 0; }
bool moves_found(const d_hash_table& table) { return (table.ht_feats & D_HASH_FT_LRU) != 0; }

void add_reference(d_hash_table& table, d_list_t* link) {
    if (table.ht_ops->hop_rec_addref != nullptr) table.ht_ops->hop_rec_addref(&table, link);
}
bool drop_reference(d_hash_table& table, d_list_t* link) {
    return table.ht_ops->hop_rec_decref != nullptr && table.ht_ops->hop_rec_decref(&table, link);
}
void free_record(d_hash_table& table, d_list_t* link) {
    if (table.ht_ops->hop_rec_free != nullptr) table.ht_ops->hop_rec_free(&table, link);
}

d_list_t* find(d_hash_table& table, uint32_t bucket, const void* key, unsigned bytes) {
    d_list_t* link = nullptr;
    d_list_for_each(link, &table.ht_buckets[bucket].hb_head) {
        if (table.ht_ops->hop_key_cmp(&table, link, key, bytes)) return link;
    }
    return nullptr;
}

d_list_t* find_and_reference(d_hash_table& table, uint32_t bucket, const void* key,
                             unsigned bytes) {
    auto* const link = find(table, bucket, key, bytes);
    if (link == nullptr) return nullptr;
    if (moves_found(table)) d_list_move(link, &table.ht_buckets[bucket].hb_head);
    add_reference(table, link);
    return link;
}

void insert(d_hash_table& table, uint32_t bucket, d_list_t* link) {
    if (!is_ephemeral(table)) add_reference(table, link);
    d_list_add(link, &table.ht_buckets[bucket].hb_head);
}

// Returns whether the caller must free the record after it releases the lock.
bool remove(d_hash_table& table, d_list_t* link) {
    d_list_del_init(link);
    return !is_ephemeral(table) && drop_reference(table, link);
}

// Called after the last reference was dropped. Returns whether the record must be freed.
bool leave(const d_hash_table& table, d_list_t* link) {
    if (is_ephemeral(table) && !d_list_empty(link)) d_list_del_init(link);
    if (d_list_empty(link)) return true;
    say_once(
        "d_hash: the last reference of a record was dropped while the record is in its table. "
        "The record stays. Delete it from the table first");
    return false;
}

bool is_key(const void* key, unsigned bytes) { return key != nullptr && bytes > 0; }

}  // namespace
}  // namespace ros2s::daos

using namespace ros2s::daos;

int d_hash_table_create_inplace(uint32_t feats, uint32_t bits, void* priv, d_hash_table_ops_t* ops,
                                struct d_hash_table* table) {
    constexpr uint32_t bits_max = 31;
    if (table == nullptr || ops == nullptr || ops->hop_key_cmp == nullptr || bits > bits_max) {
        return -DER_INVAL;
    }
    *table = {};
    table->ht_feats = feats;
    table->ht_bits = bits;
    table->ht_priv = priv;
    table->ht_ops = ops;
    if (ops->hop_rec_hash == nullptr && is_locked(*table)) table->ht_feats |= D_HASH_FT_GLOCK;
    const uint32_t count = bucket_count(*table);
    table->ht_buckets = static_cast<d_hash_bucket*>(std::calloc(count, sizeof(d_hash_bucket)));
    if (table->ht_buckets == nullptr) return -DER_NOMEM;
    for (uint32_t i = 0; i < count; ++i) D_INIT_LIST_HEAD(&table->ht_buckets[i].hb_head);
    if (init_locks(*table)) return 0;
    std::free(table->ht_buckets);
    *table = {};
    return -DER_NOMEM;
}

int d_hash_table_create(uint32_t feats, uint32_t bits, void* priv, d_hash_table_ops_t* ops,
                        struct d_hash_table** table) {
    if (table == nullptr) return -DER_INVAL;
    *table = static_cast<d_hash_table*>(std::calloc(1, sizeof(d_hash_table)));
    if (*table == nullptr) return -DER_NOMEM;
    const int rc = d_hash_table_create_inplace(feats, bits, priv, ops, *table);
    if (rc == 0) return 0;
    std::free(*table);
    *table = nullptr;
    return rc;
}

int d_hash_table_traverse(struct d_hash_table* table, d_hash_traverse_cb_t cb, void* arg) {
    if (table == nullptr || table->ht_buckets == nullptr) return -DER_UNINIT;
    if (cb == nullptr) return -DER_INVAL;
    for (uint32_t i = 0; i < bucket_count(*table); ++i) {
        const Locked locked(*table, i, Access::read);
        d_list_t* link = nullptr;
        d_list_t* after = nullptr;
        d_list_for_each_safe(link, after, &table->ht_buckets[i].hb_head) {
            if (const int rc = cb(link, arg); rc != 0) return rc;
        }
    }
    return 0;
}

int d_hash_table_destroy_inplace(struct d_hash_table* table, bool force) {
    if (table == nullptr || table->ht_buckets == nullptr) return -DER_UNINIT;
    for (uint32_t i = 0; i < bucket_count(*table); ++i) {
        auto& head = table->ht_buckets[i].hb_head;
        while (!d_list_empty(&head)) {
            if (!force) return -DER_BUSY;
            d_hash_rec_delete_at(table, head.next);
        }
    }
    for (uint32_t i = 0; i < lock_count(*table); ++i) {
        with_kind(*table, [&](auto kind) { kind.destroy(lock_of(*table, i)); });
    }
    std::free(table->ht_locks);
    std::free(table->ht_buckets);
    *table = {};
    return 0;
}

int d_hash_table_destroy(struct d_hash_table* table, bool force) {
    const int rc = d_hash_table_destroy_inplace(table, force);
    if (rc == 0) std::free(table);
    return rc;
}

// DAOS prints statistics that it counts in debug builds only.
void d_hash_table_debug(struct d_hash_table*) {}

d_list_t* d_hash_rec_find(struct d_hash_table* table, const void* key, unsigned int ksize) {
    if (!is_key(key, ksize)) return nullptr;
    const uint32_t bucket = bucket_of_key(*table, key, ksize);
    const Locked locked(*table, bucket, moves_found(*table) ? Access::change : Access::read);
    return find_and_reference(*table, bucket, key, ksize);
}

d_list_t* d_hash_rec_find_insert(struct d_hash_table* table, const void* key, unsigned int ksize,
                                 d_list_t* link) {
    if (!is_key(key, ksize)) return nullptr;
    const uint32_t bucket = bucket_of_key(*table, key, ksize);
    const Locked locked(*table, bucket, Access::change);
    if (auto* const found = find_and_reference(*table, bucket, key, ksize)) return found;
    insert(*table, bucket, link);
    return link;
}

int d_hash_rec_insert(struct d_hash_table* table, const void* key, unsigned int ksize,
                      d_list_t* link, bool exclusive) {
    if (!is_key(key, ksize)) return -DER_INVAL;
    const uint32_t bucket = bucket_of_key(*table, key, ksize);
    const Locked locked(*table, bucket, Access::change);
    if (exclusive && find(*table, bucket, key, ksize) != nullptr) return -DER_EXIST;
    insert(*table, bucket, link);
    return 0;
}

int d_hash_rec_insert_anonym(struct d_hash_table* table, d_list_t* link, void* arg) {
    if (table->ht_ops->hop_key_init == nullptr) return -DER_INVAL;
    if ((table->ht_feats & D_HASH_FT_NO_KEYINIT_LOCK) != 0) {
        table->ht_ops->hop_key_init(table, link, arg);
        const uint32_t bucket = bucket_of_record(*table, link);
        const Locked locked(*table, bucket, Access::change);
        insert(*table, bucket, link);
        return 0;
    }
    // The bucket depends on the key, and the key is made under the lock.
    const uint32_t locks = lock_count(*table);
    for (uint32_t i = 0; i < locks; ++i) take(*table, i, Access::change);
    table->ht_ops->hop_key_init(table, link, arg);
    insert(*table, bucket_of_record(*table, link), link);
    for (uint32_t i = 0; i < locks; ++i) release(*table, i);
    return 0;
}

bool d_hash_rec_delete(struct d_hash_table* table, const void* key, unsigned int ksize) {
    if (!is_key(key, ksize)) return false;
    const uint32_t bucket = bucket_of_key(*table, key, ksize);
    d_list_t* link = nullptr;
    bool is_last = false;
    {
        const Locked locked(*table, bucket, Access::change);
        link = find(*table, bucket, key, ksize);
        if (link != nullptr) is_last = remove(*table, link);
    }
    if (is_last) free_record(*table, link);
    return link != nullptr;
}

bool d_hash_rec_delete_at(struct d_hash_table* table, d_list_t* link) {
    bool is_last = false;
    {
        const Locked locked(*table, lock_of_record(*table, link), Access::change);
        if (d_list_empty(link)) return false;
        is_last = remove(*table, link);
    }
    if (is_last) free_record(*table, link);
    return true;
}

bool d_hash_rec_evict(struct d_hash_table* table, const void* key, unsigned int ksize) {
    if (!moves_found(*table) || !is_key(key, ksize)) return false;
    const uint32_t bucket = bucket_of_key(*table, key, ksize);
    const Locked locked(*table, bucket, Access::change);
    auto* const link = find(*table, bucket, key, ksize);
    if (link != nullptr) d_list_move_tail(link, &table->ht_buckets[bucket].hb_head);
    return link != nullptr;
}

bool d_hash_rec_evict_at(struct d_hash_table* table, d_list_t* link) {
    if (!moves_found(*table)) return false;
    const uint32_t bucket = bucket_of_record(*table, link);
    auto& head = table->ht_buckets[bucket].hb_head;
    const Locked locked(*table, bucket, Access::change);
    if (link == head.prev) return false;
    d_list_move_tail(link, &head);
    return true;
}

void d_hash_rec_addref(struct d_hash_table* table, d_list_t* link) {
    const Locked locked(*table, lock_of_record(*table, link), Access::read);
    add_reference(*table, link);
}

void d_hash_rec_decref(struct d_hash_table* table, d_list_t* link) {
    bool is_last = false;
    {
        const Locked locked(*table, lock_of_record(*table, link),
                            is_ephemeral(*table) ? Access::change : Access::read);
        is_last = drop_reference(*table, link) && leave(*table, link);
    }
    if (is_last) free_record(*table, link);
}

int d_hash_rec_ndecref(struct d_hash_table* table, int count, d_list_t* link) {
    bool is_last = false;
    {
        const Locked locked(*table, lock_of_record(*table, link),
                            is_ephemeral(*table) ? Access::change : Access::read);
        if (table->ht_ops->hop_rec_ndecref != nullptr) {
            const int rc = table->ht_ops->hop_rec_ndecref(table, link, count);
            if (rc < 0) return rc;
            is_last = rc > 0;
        } else {
            while (count > 0 && !is_last) {
                is_last = drop_reference(*table, link);
                --count;
            }
            if (count > 0) return -DER_INVAL;
        }
        is_last = is_last && leave(*table, link);
    }
    if (is_last) free_record(*table, link);
    return 0;
}

bool d_hash_rec_unlinked(d_list_t* link) { return d_list_empty(link) != 0; }

d_list_t* d_hash_rec_first(struct d_hash_table* table) {
    d_list_t* first = nullptr;
    const auto keep = [](d_list_t* link, void* out) {
        *static_cast<d_list_t**>(out) = link;
        return 1;
    };
    return d_hash_table_traverse(table, keep, static_cast<void*>(&first)) < 0 ? nullptr : first;
}
