// Properties and rights of containers. Of what a program sets, the layout is kept, as a value of
// an object of the container (docs/formats/daos.md). Others are DAOS's defaults.
#include <cstdlib>
#include <cstring>

#include "daos_security.h"
#include "errors.h"
#include "gurt/common.h"
#include "properties.h"
#include "store_access.h"

using namespace ros2s;
using namespace ros2s::daos;

namespace ros2s::daos {
namespace {

const object::Dkey settings_key{settings_name};

int open_kept(const std::shared_ptr<Container>& container, StoreObject& object) {
    object.container = container;
    object.id = properties_id;
    object.mode = DAOS_OO_RW;
    return access_of(*container, object.access);
}

Result<fs::Attributes> root_of(const Container& container) {
    auto& fs = *container.fs;
    return fs.run([&] { return fs.file_system().get_attributes(fs.call, fs::root_node); });
}

// NAME@, or NUMBER@ for a number without a name on this machine.
char* principal_of(uint32_t number, int (*look_up)(uint32_t, char**)) {
    char* name = nullptr;
    if (look_up(number, &name) == 0) return name;
    return ::asprintf(&name, "%u@", number) < 0 ? nullptr : name;
}

daos_acl* shown_rights() {
    static const char* const texts[] = {"A::OWNER@:rwdtTaAo", "A:G:GROUP@:rwtT"};
    const char* all[] = {texts[0], texts[1]};
    daos_acl* list = nullptr;
    return daos_acl_from_strs(all, std::size(all), &list) == 0 ? list : nullptr;
}

// The first object of a container that is not a file system. Its program finds the others through
// it.
daos_prop_co_roots* shown_roots() {
    auto* const roots =
        static_cast<daos_prop_co_roots*>(std::calloc(1, sizeof(daos_prop_co_roots)));
    if (roots == nullptr) return nullptr;
    roots->cr_oids[0].hi = (uint64_t{OC_S1} >> OC_REDUN_SHIFT) << OID_FMT_CLASS_SHIFT |
                           uint64_t{1} << OID_FMT_META_SHIFT;
    return roots;
}

// 0 or -DER_.
int fill(const std::shared_ptr<Container>& container, daos_prop_entry& entry) {
    entry.dpe_flags = 0;
    void* made = nullptr;
    switch (entry.dpe_type) {
        case DAOS_PROP_CO_LABEL: made = ::strdup(container->label.c_str()); break;
        case DAOS_PROP_CO_ACL: made = shown_rights(); break;
        case DAOS_PROP_CO_ROOTS: made = shown_roots(); break;
        case DAOS_PROP_CO_OWNER:
        case DAOS_PROP_CO_OWNER_GROUP: {
            const auto root = root_of(*container);
            if (!root) return der_of(root.error());
            made = entry.dpe_type == DAOS_PROP_CO_OWNER
                       ? principal_of(root->uid, daos_acl_uid_to_principal)
                       : principal_of(root->gid, daos_acl_gid_to_principal);
            break;
        }
        case DAOS_PROP_CO_LAYOUT_TYPE: {
            ContainerSettings settings;
            const int rc = settings_of(container, settings);
            entry.dpe_val = settings.layout;
            return rc;
        }
        case DAOS_PROP_CO_LAYOUT_VER:
        case DAOS_PROP_CO_REDUN_LVL:
        case DAOS_PROP_CO_EC_PDA:
        case DAOS_PROP_CO_OBJ_VERSION: entry.dpe_val = 1; return 0;
        case DAOS_PROP_CO_CSUM_CHUNK_SIZE: entry.dpe_val = 32 << 10; return 0;
        case DAOS_PROP_CO_DEDUP_THRESHOLD: entry.dpe_val = 4 << 10; return 0;
        case DAOS_PROP_CO_EC_CELL_SZ: entry.dpe_val = 64 << 10; return 0;
        case DAOS_PROP_CO_RP_PDA: entry.dpe_val = UINT32_MAX; return 0;
        case DAOS_PROP_CO_PERF_DOMAIN: entry.dpe_val = 255; return 0;
        // The values that mean off, none, or healthy.
        default: entry.dpe_val = 0; return 0;
    }
    entry.dpe_val_ptr = made;
    return made == nullptr ? -DER_NOMEM : 0;
}

// Properties of a pool. Only its label is its own. No list gives rights on a pool.
int fill(const Pool& pool, daos_prop_entry& entry) {
    entry.dpe_flags = 0;
    switch (entry.dpe_type) {
        case DAOS_PROP_PO_LABEL: entry.dpe_str = ::strdup(pool.label.c_str()); break;
        case DAOS_PROP_PO_OWNER:
            entry.dpe_str = principal_of(::geteuid(), daos_acl_uid_to_principal);
            break;
        case DAOS_PROP_PO_OWNER_GROUP:
            entry.dpe_str = principal_of(::getegid(), daos_acl_gid_to_principal);
            break;
        case DAOS_PROP_PO_ACL: entry.dpe_val_ptr = shown_rights(); break;
        case DAOS_PROP_PO_SVC_LIST: entry.dpe_val_ptr = d_rank_list_alloc(1); break;
        case DAOS_PROP_PO_EC_CELL_SZ: entry.dpe_val = 64 << 10; return 0;
        case DAOS_PROP_PO_EC_PDA: entry.dpe_val = 1; return 0;
        case DAOS_PROP_PO_RP_PDA: entry.dpe_val = UINT32_MAX; return 0;
        case DAOS_PROP_PO_PERF_DOMAIN: entry.dpe_val = 255; return 0;
        default: entry.dpe_val = 0; return 0;
    }
    return entry.dpe_val_ptr == nullptr ? -DER_NOMEM : 0;
}

// Fills the listed properties between `first` and `end`. A list without entries gets one of each
// kind; an entry without a type gets the next kind.
template <class Fill>
int fill_list(daos_prop_t& properties, uint32_t first, uint32_t end, Fill&& fill_one) {
    if (properties.dpp_nr == 0 || properties.dpp_entries == nullptr) {
        const uint32_t count = end - first;
        auto* const entries =
            static_cast<daos_prop_entry*>(std::calloc(count, sizeof(daos_prop_entry)));
        if (entries == nullptr) return -DER_NOMEM;
        properties = {.dpp_nr = count, .dpp_entries = entries};
    }
    if (properties.dpp_nr > DAOS_PROP_ENTRIES_MAX_NR) return -DER_INVAL;
    for (auto& entry : std::span(properties.dpp_entries, properties.dpp_nr)) {
        if (entry.dpe_type == 0) {
            if (first == end) break;
            entry.dpe_type = first++;
        }
        if (const int rc = fill_one(entry); rc != 0) return rc;
    }
    return 0;
}

int refuse_rights() {
    say_once(
        "who may use a container is set by tenants and certificates, not by lists of access "
        "rights: see docs/control.md");
    return -DER_NOTSUPPORTED;
}

int set_owner(daos_handle_t handle, const char* user, const char* group) {
    const auto container = Handles::table().find<Container>(handle);
    if (container == nullptr) return -DER_NO_HDL;
    if (user == nullptr && group == nullptr) return -DER_INVAL;
    if (container->is_read_only()) return -DER_NO_PERM;
    fs::SetAttributes changes;
    if (user != nullptr) {
        uid_t uid = 0;
        if (const int rc = daos_acl_principal_to_uid(user, &uid); rc != 0) return rc;
        changes.uid = uid;
    }
    if (group != nullptr) {
        gid_t gid = 0;
        if (const int rc = daos_acl_principal_to_gid(group, &gid); rc != 0) return rc;
        changes.gid = gid;
    }
    auto& fs = *container->fs;
    const auto done =
        fs.run([&] { return fs.file_system().set_attributes(fs.call, fs::root_node, changes); });
    return done ? 0 : der_of(done.error());
}

}  // namespace

// Settings that cannot be read are an error, not the defaults: a caller would store the defaults
// over them.
int settings_of(const std::shared_ptr<Container>& container, ContainerSettings& settings) {
    settings = {};
    StoreObject object;
    if (why_without_objects(*container) != nullptr) return 0;
    if (const int rc = open_kept(container, object); rc != 0) return rc;
    std::string bytes(settings_bytes, '\0');
    object::FetchItem item{
        .dkey = settings_key,
        .window = object::Window::local(std::as_writable_bytes(std::span(bytes)))};
    daos_size_t size = 0;
    const int rc = get_value(object, item, size);
    if (rc == 0) bytes.resize(size);
    return settings_from(rc, bytes, settings);
}

// Behind a DPU, and for containers that may be encrypted, nothing is stored.
int keep_settings(const std::shared_ptr<Container>& container, const ContainerSettings& settings) {
    StoreObject object;
    if (why_without_objects(*container) != nullptr) return 0;
    if (const int rc = open_kept(container, object); rc != 0) return rc;
    const std::string bytes = encode(settings);
    return change(object, daos_handle_t{}, [&](Collected& out, bool) {
        add_put(object, settings_key, std::as_bytes(std::span(bytes)), true, out);
        return 0;
    });
}

int fill_properties(const std::shared_ptr<Container>& container, daos_prop_t& properties) {
    return fill_list(properties, DAOS_PROP_CO_MIN + 1, DAOS_PROP_CO_MAX,
                     [&](daos_prop_entry& entry) { return fill(container, entry); });
}

int fill_properties(const Pool& pool, daos_prop_t& properties) {
    return fill_list(properties, DAOS_PROP_PO_MIN + 1, DAOS_PROP_PO_MAX,
                     [&](daos_prop_entry& entry) { return fill(pool, entry); });
}

ContainerSettings settings_in(daos_prop_t* properties) {
    const auto* const layout = daos_prop_entry_get(properties, DAOS_PROP_CO_LAYOUT_TYPE);
    return {.layout = layout == nullptr ? uint32_t{DAOS_PROP_CO_LAYOUT_UNKNOWN}
                                        : static_cast<uint32_t>(layout->dpe_val)};
}

}  // namespace ros2s::daos

int daos_cont_set_prop(daos_handle_t coh, daos_prop_t* prop, daos_event_t* ev) {
    const auto container = Handles::table().find<Container>(coh);
    if (container == nullptr) return finish_call(ev, -DER_NO_HDL);
    if (prop == nullptr || prop->dpp_nr == 0 || prop->dpp_entries == nullptr) return -DER_INVAL;
    if (container->is_read_only()) return finish_call(ev, -DER_NO_PERM);
    // All or nothing.
    const std::span entries(prop->dpp_entries, prop->dpp_nr);
    for (const auto& entry : entries) {
        const bool is_kept = entry.dpe_type == DAOS_PROP_CO_LAYOUT_TYPE;
        // Programs set the status to healthy. It always is.
        if (is_kept || entry.dpe_type == DAOS_PROP_CO_STATUS) continue;
        if (entry.dpe_type == DAOS_PROP_CO_LABEL && entry.dpe_str != nullptr &&
            container->label == entry.dpe_str) {
            continue;
        }
        say_once("daos_cont_set_prop: of a container's properties only the layout can be changed");
        return finish_call(ev, -DER_NOTSUPPORTED);
    }
    const auto* const layout = daos_prop_entry_get(prop, DAOS_PROP_CO_LAYOUT_TYPE);
    if (layout == nullptr) return finish_call(ev, 0);
    ContainerSettings settings;
    if (const int rc = settings_of(container, settings); rc != 0) return finish_call(ev, rc);
    settings.layout = static_cast<uint32_t>(layout->dpe_val);
    return finish_call(ev, keep_settings(container, settings));
}

int daos_cont_status_clear(daos_handle_t coh, daos_event_t* ev) {
    return finish_call(ev, Handles::table().find<Container>(coh) == nullptr ? -DER_NO_HDL : 0);
}

int daos_cont_aggregate(daos_handle_t coh, daos_epoch_t, daos_event_t* ev) {
    return daos_cont_status_clear(coh, ev);
}

// ---- rights

int daos_cont_get_acl(daos_handle_t coh, daos_prop_t** acl_prop, daos_event_t* ev) {
    const auto container = Handles::table().find<Container>(coh);
    if (container == nullptr) return finish_call(ev, -DER_NO_HDL);
    if (acl_prop == nullptr) return -DER_INVAL;
    auto* const made = daos_prop_alloc(3);
    if (made == nullptr) return finish_call(ev, -DER_NOMEM);
    made->dpp_entries[0].dpe_type = DAOS_PROP_CO_ACL;
    made->dpp_entries[1].dpe_type = DAOS_PROP_CO_OWNER;
    made->dpp_entries[2].dpe_type = DAOS_PROP_CO_OWNER_GROUP;
    const int rc = fill_properties(container, *made);
    if (rc == 0) {
        *acl_prop = made;
    } else {
        daos_prop_free(made);
    }
    return finish_call(ev, rc);
}

int daos_cont_update_acl(daos_handle_t coh, daos_acl* acl, daos_event_t* ev) {
    if (Handles::table().find<Container>(coh) == nullptr) return finish_call(ev, -DER_NO_HDL);
    return finish_call(ev, daos_acl_validate(acl) != 0 ? -DER_INVAL : refuse_rights());
}

int daos_cont_overwrite_acl(daos_handle_t coh, daos_acl* acl, daos_event_t* ev) {
    return daos_cont_update_acl(coh, acl, ev);
}

int daos_cont_delete_acl(daos_handle_t coh, daos_acl_principal_type, d_string_t, daos_event_t* ev) {
    if (Handles::table().find<Container>(coh) == nullptr) return finish_call(ev, -DER_NO_HDL);
    return finish_call(ev, refuse_rights());
}

int daos_cont_set_owner(daos_handle_t coh, d_string_t user, d_string_t group, daos_event_t* ev) {
    return finish_call(ev, set_owner(coh, user, group));
}

int daos_cont_set_owner_no_check(daos_handle_t coh, d_string_t user, d_string_t group,
                                 daos_event_t* ev) {
    return daos_cont_set_owner(coh, user, group, ev);
}
