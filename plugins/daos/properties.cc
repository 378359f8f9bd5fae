// Lists of properties: memory that programs fill and read.
#include <cstdlib>
#include <cstring>
#include <span>

#include "daos_security.h"
#include "gurt/common.h"

namespace ros2s::daos {
namespace {

std::span<daos_prop_entry> entries_of(daos_prop_t& prop) {
    return {prop.dpp_entries, prop.dpp_entries == nullptr ? 0 : prop.dpp_nr};
}

bool is_access_list(uint32_t type) { return type == DAOS_PROP_PO_ACL || type == DAOS_PROP_CO_ACL; }

void free_value(daos_prop_entry& entry) {
    if (entry.dpe_type == DAOS_PROP_PO_SVC_LIST) {
        d_rank_list_free(static_cast<d_rank_list_t*>(entry.dpe_val_ptr));
    } else if (daos_prop_has_str(&entry) || daos_prop_has_ptr(&entry)) {
        std::free(entry.dpe_val_ptr);
    }
    entry.dpe_val = 0;
}

// Null: the value is null, or there is no memory.
void* copy_of(const daos_prop_entry& entry) {
    if (entry.dpe_val_ptr == nullptr) return nullptr;
    if (entry.dpe_type == DAOS_PROP_PO_SVC_LIST) {
        d_rank_list_t* copy = nullptr;
        d_rank_list_dup(&copy, static_cast<const d_rank_list_t*>(entry.dpe_val_ptr));
        return copy;
    }
    if (is_access_list(entry.dpe_type)) {
        return daos_acl_dup(static_cast<daos_acl*>(entry.dpe_val_ptr));
    }
    if (entry.dpe_type != DAOS_PROP_CO_ROOTS) {
        return ::strndup(entry.dpe_str, DAOS_ACL_MAX_PRINCIPAL_LEN);
    }
    void* const copy = std::malloc(sizeof(daos_prop_co_roots));
    if (copy != nullptr) std::memcpy(copy, entry.dpe_val_ptr, sizeof(daos_prop_co_roots));
    return copy;
}

}  // namespace
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

void daos_prop_fini(daos_prop_t* prop) {
    if (prop == nullptr) return;
    for (auto& entry : entries_of(*prop)) free_value(entry);
    std::free(prop->dpp_entries);
    *prop = {};
}

void daos_prop_free(daos_prop_t* prop) {
    daos_prop_fini(prop);
    std::free(prop);
}

daos_prop_entry* daos_prop_entry_get(daos_prop_t* prop, uint32_t type) {
    if (prop == nullptr) return nullptr;
    for (auto& entry : entries_of(*prop)) {
        if (entry.dpe_type == type) return &entry;
    }
    return nullptr;
}

bool daos_prop_has_str(daos_prop_entry* entry) {
    switch (entry->dpe_type) {
        case DAOS_PROP_PO_LABEL:
        case DAOS_PROP_CO_LABEL:
        case DAOS_PROP_PO_OWNER:
        case DAOS_PROP_CO_OWNER:
        case DAOS_PROP_PO_OWNER_GROUP:
        case DAOS_PROP_CO_OWNER_GROUP: return true;
        default: return false;
    }
}

bool daos_prop_has_ptr(daos_prop_entry* entry) {
    const uint32_t type = entry->dpe_type;
    return is_access_list(type) || type == DAOS_PROP_PO_SVC_LIST || type == DAOS_PROP_CO_ROOTS;
}

int daos_prop_entry_copy(daos_prop_entry* entry, daos_prop_entry* entry_dup) {
    if (entry == nullptr || entry_dup == nullptr) return -DER_INVAL;
    daos_prop_entry made = *entry;
    if (daos_prop_has_str(entry) || daos_prop_has_ptr(entry)) {
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

daos_prop_t* daos_prop_merge(daos_prop_t* old_prop, daos_prop_t* new_prop) {
    daos_prop_t* made = nullptr;
    return daos_prop_merge2(old_prop, new_prop, &made) == 0 ? made : nullptr;
}

int daos_prop_entry_set_str(daos_prop_entry* entry, const char* str, daos_size_t len) {
    if (entry == nullptr || !daos_prop_has_str(entry)) return -DER_INVAL;
    char* const copy = str == nullptr || len == 0 ? nullptr : ::strndup(str, len);
    if (copy == nullptr && str != nullptr && len > 0) return -DER_NOMEM;
    free_value(*entry);
    entry->dpe_str = copy;
    return 0;
}

int daos_prop_set_str(daos_prop_t* prop, uint32_t type, const char* str, daos_size_t len) {
    auto* const entry = daos_prop_entry_get(prop, type);
    return entry == nullptr ? -DER_NONEXIST : daos_prop_entry_set_str(entry, str, len);
}

int daos_prop_entry_set_ptr(daos_prop_entry* entry, const void* ptr, daos_size_t size) {
    if (entry == nullptr || !daos_prop_has_ptr(entry)) return -DER_INVAL;
    void* const copy = ptr == nullptr || size == 0 ? nullptr : std::malloc(size);
    if (copy == nullptr && ptr != nullptr && size > 0) return -DER_NOMEM;
    if (copy != nullptr) std::memcpy(copy, ptr, size);
    free_value(*entry);
    entry->dpe_val_ptr = copy;
    return 0;
}

int daos_prop_set_ptr(daos_prop_t* prop, uint32_t type, const void* ptr, daos_size_t size) {
    auto* const entry = daos_prop_entry_get(prop, type);
    return entry == nullptr ? -DER_NONEXIST : daos_prop_entry_set_ptr(entry, ptr, size);
}
