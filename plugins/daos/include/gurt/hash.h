/* Hash tables of DAOS's helper library (DAOS 2.6, gurt/hash.h). The records belong to the program,
 * and have a link for the table. */
#ifndef ROS2STORE_DAOS_GURT_HASH_H
#define ROS2STORE_DAOS_GURT_HASH_H

#include <stdbool.h>
#include <stdint.h>

#include "list.h"
#include "types.h"

#ifdef __cplusplus
extern "C" {
#endif

struct d_hash_table;

/* The program's functions for its records. Only hop_key_cmp is required. */
typedef struct {
    bool (*hop_key_cmp)(struct d_hash_table* table, d_list_t* link, const void* key,
                        unsigned int ksize);
    /* Not called: no record is inserted without a key. */
    void (*hop_key_init)(struct d_hash_table* table, d_list_t* link, void* arg);
    /* NULL: d_hash_string_u32(). */
    uint32_t (*hop_key_hash)(struct d_hash_table* table, const void* key, unsigned int ksize);
    /* Not called. */
    uint32_t (*hop_rec_hash)(struct d_hash_table* table, d_list_t* link);
    void (*hop_rec_addref)(struct d_hash_table* table, d_list_t* link);
    /* Whether it was the last reference. */
    bool (*hop_rec_decref)(struct d_hash_table* table, d_list_t* link);
    /* Not called. */
    int (*hop_rec_ndecref)(struct d_hash_table* table, d_list_t* link, int count);
    void (*hop_rec_free)(struct d_hash_table* table, d_list_t* link);
} d_hash_table_ops_t;

enum d_hash_feats {
    /* The table has one lock, a mutex. With this feature it has none. */
    D_HASH_FT_NOLOCK = 1 << 0,
    D_HASH_FT_MUTEX = 1 << 1,
    D_HASH_FT_RWLOCK = 1 << 2,
    /* The table itself holds no references. A record leaves the table when its last reference is
     * dropped. */
    D_HASH_FT_EPHEMERAL = 1 << 3,
    /* A found record becomes the first of its bucket. */
    D_HASH_FT_LRU = 1 << 4,
    D_HASH_FT_NO_KEYINIT_LOCK = 1 << 5,
    D_HASH_FT_GLOCK = 1 << 15
};

int d_hash_table_create(uint32_t feats, uint32_t bits, void* priv, d_hash_table_ops_t* ops,
                        struct d_hash_table** table);
int d_hash_table_destroy(struct d_hash_table* table, bool force);

d_list_t* d_hash_rec_find(struct d_hash_table* table, const void* key, unsigned int ksize);
int d_hash_rec_insert(struct d_hash_table* table, const void* key, unsigned int ksize,
                      d_list_t* link, bool exclusive);
void d_hash_rec_decref(struct d_hash_table* table, d_list_t* link);
bool d_hash_rec_unlinked(d_list_t* link);
d_list_t* d_hash_rec_first(struct d_hash_table* table);

#ifdef __cplusplus
}
#endif
#endif
