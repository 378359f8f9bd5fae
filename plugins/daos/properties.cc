// Lists of properties: memory that programs fill and read.
#include "properties.h"

#include <cstdlib>
#include <cstring>
#include <span>

#include "access_lists.h"
#include "gurt/common.h"
#include "ranks.h"

namespace ros2s::daos {
namespace {

std::span<daos_prop_entry> entries_of(const daos_prop_t& list) {
    return {list.dpp_entries, list.dpp_entries == nullptr ? 0 : list.dpp_nr};
}

// What an entry's value is. It decides how the value is copied and freed.
enum class Content : uint8_t { number, text, access_list, ranks, roots };

Content content_of(uint32_t type) {
    switch (type) {
        case DAOS_PROP_PO_LABEL:
        case DAOS_PROP_CO_LABEL:
        case DAOS_PROP_PO_OWNER:
        case DAOS_PROP_CO_OWNER:
        case DAOS_PROP_PO_OWNER_GROUP:
        case DAOS_PROP_CO_OWNER_GROUP: return Content::text;
        case DAOS_PROP_PO_ACL:
        case DAOS_PROP_CO_ACL: return Content::access_list;
        case DAOS_PROP_PO_SVC_LIST: return Content::ranks;
        case DAOS_PROP_CO_ROOTS: return Content::roots;
        default: return Content::number;
    }
}

void free_value(daos_prop_entry& entry) {
    const auto content = content_of(entry.dpe_type);
    if (content == Content::ranks) {
        d_rank_list_free(static_cast<d_rank_list_t*>(entry.dpe_val_ptr));
    } else if (content != Content::number) {
        std::free(entry.dpe_val_ptr);
    }
    entry.dpe_val = 0;
}

void* copy_bytes(const void* value, size_t bytes) {
    void* const copy = std::malloc(bytes);
    if (copy != nullptr) std::memcpy(copy, value, bytes);
    return copy;
}

// Null: the value is null, or there is no memory.
void* copy_of(const daos_prop_entry& entry) {
    const void* const value = entry.dpe_val_ptr;
    if (value == nullptr) return nullptr;
    switch (content_of(entry.dpe_type)) {
        case Content::text: return ::strndup(entry.dpe_str, DAOS_ACL_MAX_PRINCIPAL_LEN);
        case Content::ranks: return make_rank_list(static_cast<const d_rank_list_t*>(value)->rl_nr);
        case Content::access_list: {
            const auto& list = *static_cast<const daos_acl*>(value);
            return copy_bytes(value, sizeof list + list.dal_len);
        }
        default: return copy_bytes(value, sizeof(daos_prop_co_roots));
    }
}

}  // namespace

daos_prop_entry* entry_in(const daos_prop_t* list, uint32_t type) {
    if (list == nullptr) return nullptr;
    for (auto& entry : entries_of(*list)) {
        if (entry.dpe_type == type) return &entry;
    }
    return nullptr;
}

const char* label_in(const daos_prop_t* list) {
    const auto* const entry = entry_in(list, DAOS_PROP_CO_LABEL);
    return entry == nullptr ? nullptr : entry->dpe_str;
}

}  // namespace ros2s::daos

using namespace ros2s::daos;

daos_prop_t* daos_prop_alloc(uint32_t entries_nr) {
    if (entries_nr > DAOS_PROP_ENTRIES_MAX_NR) return nullptr;
    auto* const prop = static_cast<daos_prop_t*>(std::calloc(1, sizeof(daos_prop_t)));
    if (prop == nullptr || entries_nr == 0) return prop;
    prop->dpp_nr = entries_nr;
    prop->dpp_entries =
        static_cast<daos_prop_entry*>(std::calloc(entries_nr, sizeof(daos_prop_entry)));
    if (prop->dpp_entries != nullptr) return prop;
    std::free(prop);
    return nullptr;
}

void daos_prop_free(daos_prop_t* prop) {
    if (prop == nullptr) return;
    for (auto& entry : entries_of(*prop)) free_value(entry);
    std::free(prop->dpp_entries);
    std::free(prop);
}

int daos_prop_entry_copy(daos_prop_entry* entry, daos_prop_entry* entry_dup) {
    if (entry == nullptr || entry_dup == nullptr) return -DER_INVAL;
    daos_prop_entry made = *entry;
    if (content_of(entry->dpe_type) != Content::number) {
        made.dpe_val_ptr = copy_of(*entry);
        if (made.dpe_val_ptr == nullptr && entry->dpe_val_ptr != nullptr) return -DER_NOMEM;
    }
    free_value(*entry_dup);
    *entry_dup = made;
    return 0;
}

int daos_prop_merge2(daos_prop_t* old_prop, daos_prop_t* new_prop, daos_prop_t** out_prop) {
    if (old_prop == nullptr || new_prop == nullptr || out_prop == nullptr) return -DER_INVAL;
    auto* const made = daos_prop_alloc(
        static_cast<uint32_t>(entries_of(*old_prop).size() + entries_of(*new_prop).size()));
    if (made == nullptr) return -DER_NOMEM;
    uint32_t used = 0;
    int rc = 0;
    const auto add = [&](daos_prop_entry& entry) {
        uint32_t at = 0;
        while (at < used && made->dpp_entries[at].dpe_type != entry.dpe_type) ++at;
        if (at == used) ++used;
        if (rc == 0) rc = daos_prop_entry_copy(&entry, &made->dpp_entries[at]);
    };
    for (auto& entry : entries_of(*old_prop)) add(entry);
    for (auto& entry : entries_of(*new_prop)) add(entry);
    made->dpp_nr = used;
    if (rc != 0) {
        daos_prop_free(made);
        return rc;
    }
    *out_prop = made;
    return 0;
}

int daos_prop_entry_set_str(daos_prop_entry* entry, const char* str, daos_size_t len) {
    if (entry == nullptr || content_of(entry->dpe_type) != Content::text) return -DER_INVAL;
    char* const copy = str == nullptr || len == 0 ? nullptr : ::strndup(str, len);
    if (copy == nullptr && str != nullptr && len > 0) return -DER_NOMEM;
    free_value(*entry);
    entry->dpe_str = copy;
    return 0;
}
