// Lists of properties: memory that programs fill and read.
#include <cstdlib>

#include "daos_prop.h"

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
    for (uint32_t i = 0; i < prop->dpp_nr; ++i) {
        auto& entry = prop->dpp_entries[i];
        if (entry.dpe_type == DAOS_PROP_CO_LABEL) std::free(entry.dpe_str);
    }
    std::free(prop->dpp_entries);
    std::free(prop);
}

daos_prop_entry* daos_prop_entry_get(daos_prop_t* prop, uint32_t type) {
    if (prop == nullptr) return nullptr;
    for (uint32_t i = 0; i < prop->dpp_nr; ++i) {
        if (prop->dpp_entries[i].dpe_type == type) return &prop->dpp_entries[i];
    }
    return nullptr;
}
