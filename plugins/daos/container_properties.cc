// Properties and rights of containers. Of what a program sets, the layout is kept, as a value of
// an object of the container (docs/formats/daos.md). Others are DAOS's defaults.
#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "access_lists.h"
#include "errors.h"
#include "mount.h"
#include "properties.h"
#include "ranks.h"
#include "store_access.h"

using namespace ros2s;
using namespace ros2s::daos;

namespace ros2s::daos {
namespace {

const object::Dkey settings_key{settings_name};

Result<fs::Attributes> root_of(const Container& container) {
    auto& fs = *container.fs;
    return fs.run([&] { return fs.file_system().get_attributes(fs.call, fs::root_node); });
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
        case DAOS_PROP_CO_ACL: made = rights_of_owner(); break;
        case DAOS_PROP_CO_ROOTS: made = shown_roots(); break;
        case DAOS_PROP_CO_OWNER:
        case DAOS_PROP_CO_OWNER_GROUP: {
            const auto root = root_of(*container);
            if (!root) return der_of(root.error());
            made = entry.dpe_type == DAOS_PROP_CO_OWNER ? user_principal(root->uid)
                                                        : group_principal(root->gid);
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
        case DAOS_PROP_PO_OWNER: entry.dpe_str = user_principal(::geteuid()); break;
        case DAOS_PROP_PO_OWNER_GROUP: entry.dpe_str = group_principal(::getegid()); break;
        case DAOS_PROP_PO_ACL: entry.dpe_val_ptr = rights_of_owner(); break;
        case DAOS_PROP_PO_SVC_LIST: entry.dpe_val_ptr = make_rank_list(1); break;
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

int set_owner(const Container& container, const char* user, const char* group) {
    if (user == nullptr && group == nullptr) return -DER_INVAL;
    if (container.is_read_only()) return -DER_NO_PERM;
    fs::SetAttributes changes;
    if (user != nullptr) {
        if (const int rc = to_uid(user, changes.uid.emplace()); rc != 0) return rc;
    }
    if (group != nullptr) {
        if (const int rc = to_gid(group, changes.gid.emplace()); rc != 0) return rc;
    }
    return der_of_errno(set_attributes(*container.fs, fs::root_node, changes));
}

// Of a container's properties only the layout can be changed. All are set, or none is.
int set_properties(const std::shared_ptr<Container>& container,
                   std::span<daos_prop_entry> entries) {
    const daos_prop_entry* layout = nullptr;
    for (const auto& entry : entries) {
        if (entry.dpe_type == DAOS_PROP_CO_LAYOUT_TYPE) layout = &entry;
        // Programs set the status to healthy. It always is.
        if (&entry == layout || entry.dpe_type == DAOS_PROP_CO_STATUS) continue;
        if (entry.dpe_type == DAOS_PROP_CO_LABEL && entry.dpe_str != nullptr &&
            container->label == entry.dpe_str) {
            continue;
        }
        say_once("daos_cont_set_prop: of a container's properties only the layout can be changed");
        return -DER_NOTSUPPORTED;
    }
    if (layout == nullptr) return 0;
    ContainerSettings settings;
    if (const int rc = settings_of(container, settings); rc != 0) return rc;
    settings.layout = static_cast<uint32_t>(layout->dpe_val);
    return keep_settings(container, settings);
}

int get_rights(const std::shared_ptr<Container>& container, daos_prop_t*& out) {
    auto* const made = daos_prop_alloc(3);
    if (made == nullptr) return -DER_NOMEM;
    made->dpp_entries[0].dpe_type = DAOS_PROP_CO_ACL;
    made->dpp_entries[1].dpe_type = DAOS_PROP_CO_OWNER;
    made->dpp_entries[2].dpe_type = DAOS_PROP_CO_OWNER_GROUP;
    const int rc = fill_properties(container, *made);
    if (rc == 0) {
        out = made;
    } else {
        daos_prop_free(made);
    }
    return rc;
}

// Runs f(object) with the object of the attributes.
template <class F>
int call_on_attributes(daos_handle_t handle, daos_event_t* event, F&& f) {
    return call_on<Container>(handle, event, [&](const std::shared_ptr<Container>& container) {
        StoreObject object;
        const int rc = open_own(container, attributes_id, object);
        return rc != 0 ? rc : f(object);
    });
}

int to_name(const char* name, object::Dkey& out) {
    if (name == nullptr || *name == '\0') return -DER_INVAL;
    out.bytes = name;
    if (out.bytes.size() <= object::key_bytes_max) return 0;
    say_once("names of attributes of containers have at most 255 bytes here");
    return -DER_INVAL;
}

int put_attributes(StoreObject& object, std::span<char const* const> names,
                   void const* const values[], size_t const sizes[]) {
    return change(object, [&](Update& out) {
        for (size_t i = 0; i < names.size(); ++i) {
            object::Dkey dkey;
            if (const int rc = to_name(names[i], dkey); rc != 0) return rc;
            if (values[i] == nullptr || sizes[i] == 0) return -DER_INVAL;
            add_put(object, dkey, {static_cast<const std::byte*>(values[i]), sizes[i]}, out);
        }
        return 0;
    });
}

int get_attribute(StoreObject& object, const char* name, void* buffer, size_t& size) {
    object::FetchItem item;
    if (const int rc = to_name(name, item.dkey); rc != 0) return rc;
    // A value that does not fit is truncated, and `size` becomes its full length.
    std::string whole(object::value_bytes_max, '\0');
    daos_size_t bytes = 0;
    int rc = -DER_REC2BIG;
    while (rc == -DER_REC2BIG) {
        whole.resize(std::max<size_t>(whole.size(), bytes));
        item.window = object::Window::local(std::as_writable_bytes(std::span(whole)));
        rc = get_value(object, item, bytes);
    }
    if (rc != 0) return rc;
    if (buffer != nullptr) std::memcpy(buffer, whole.data(), std::min<size_t>(size, bytes));
    size = bytes;
    return 0;
}

Task<Result<std::string>> all_names(StoreObject& object) {
    const Call call;
    std::string names;
    object::ListRequest request{.what = object::ListRequest::What::dkeys, .object = object.id};
    for (;;) {
        ROS2S_CO_TRY_ASSIGN(const auto reply, co_await object.access->store.list(
                                                  call, object.access->container, request));
        for (const auto& entry : reply.entries) {
            names.append(entry.key).push_back('\0');
            request.after = entry.key;
        }
        if (!reply.more) co_return names;
    }
}

}  // namespace

// Settings that cannot be read are an error, not the defaults: a caller would store the defaults
// over them.
int settings_of(const std::shared_ptr<Container>& container, ContainerSettings& settings) {
    settings = {};
    StoreObject object;
    if (why_without_objects(*container) != nullptr) return 0;
    if (const int rc = open_own(container, properties_id, object); rc != 0) return rc;
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
    if (const int rc = open_own(container, properties_id, object); rc != 0) return rc;
    const std::string bytes = encode(settings);
    return change(object, [&](Update& out) {
        add_put(object, settings_key, std::as_bytes(std::span(bytes)), out);
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

ContainerSettings settings_in(const daos_prop_t* properties) {
    const auto* const layout = entry_in(properties, DAOS_PROP_CO_LAYOUT_TYPE);
    return {.layout = layout == nullptr ? uint32_t{DAOS_PROP_CO_LAYOUT_UNKNOWN}
                                        : static_cast<uint32_t>(layout->dpe_val)};
}

}  // namespace ros2s::daos

using ContainerPointer = std::shared_ptr<Container>;

int daos_cont_set_prop(daos_handle_t coh, daos_prop_t* prop, daos_event_t* ev) {
    return call_on<Container>(coh, ev, [&](const ContainerPointer& container) {
        if (prop == nullptr || prop->dpp_nr == 0 || prop->dpp_entries == nullptr) {
            return -DER_INVAL;
        }
        if (container->is_read_only()) return -DER_NO_PERM;
        return set_properties(container, {prop->dpp_entries, prop->dpp_nr});
    });
}

// ---- rights

int daos_cont_get_acl(daos_handle_t coh, daos_prop_t** acl_prop, daos_event_t* ev) {
    return call_on<Container>(coh, ev, [&](const ContainerPointer& container) {
        return acl_prop == nullptr ? -DER_INVAL : get_rights(container, *acl_prop);
    });
}

int daos_cont_update_acl(daos_handle_t coh, daos_acl*, daos_event_t* ev) {
    return call_on<Container>(coh, ev, [](const ContainerPointer&) { return refuse_rights(); });
}

int daos_cont_overwrite_acl(daos_handle_t coh, daos_acl* acl, daos_event_t* ev) {
    return daos_cont_update_acl(coh, acl, ev);
}

int daos_cont_delete_acl(daos_handle_t coh, daos_acl_principal_type, d_string_t, daos_event_t* ev) {
    return daos_cont_update_acl(coh, nullptr, ev);
}

int daos_cont_set_owner(daos_handle_t coh, d_string_t user, d_string_t group, daos_event_t* ev) {
    return call_on<Container>(coh, ev, [&](const ContainerPointer& container) {
        return set_owner(*container, user, group);
    });
}

int daos_cont_set_owner_no_check(daos_handle_t coh, d_string_t user, d_string_t group,
                                 daos_event_t* ev) {
    return daos_cont_set_owner(coh, user, group, ev);
}

// ---- Attributes of containers: values of an object of the container that neither files nor
// programs see (docs/formats/daos.md).

int daos_cont_set_attr(daos_handle_t coh, int n, char const* const names[],
                       void const* const values[], size_t const sizes[], daos_event_t* ev) {
    return call_on_attributes(coh, ev, [&](StoreObject& object) {
        if (n <= 0 || names == nullptr || values == nullptr || sizes == nullptr) return -DER_INVAL;
        return put_attributes(object, {names, static_cast<size_t>(n)}, values, sizes);
    });
}

int daos_cont_get_attr(daos_handle_t coh, int n, char const* const names[], void* const buffers[],
                       size_t sizes[], daos_event_t* ev) {
    return call_on_attributes(coh, ev, [&](StoreObject& object) {
        if (n <= 0 || names == nullptr || sizes == nullptr) return -DER_INVAL;
        int rc = 0;
        for (int i = 0; rc == 0 && i < n; ++i) {
            rc = get_attribute(object, names[i], buffers == nullptr ? nullptr : buffers[i],
                               sizes[i]);
        }
        return rc;
    });
}

int daos_cont_list_attr(daos_handle_t coh, char* buffer, size_t* size, daos_event_t* ev) {
    return call_on_attributes(coh, ev, [&](StoreObject& object) {
        if (size == nullptr) return -DER_INVAL;
        const auto names = object.access->run([&] { return all_names(object); });
        if (!names) return der_of(names.error());
        if (buffer != nullptr) names->copy(buffer, *size);
        *size = names->size();
        return 0;
    });
}

// A missing attribute is not an error.
int daos_cont_del_attr(daos_handle_t coh, int n, char const* const names[], daos_event_t* ev) {
    return call_on_attributes(coh, ev, [&](StoreObject& object) {
        if (n <= 0 || names == nullptr) return -DER_INVAL;
        return change(object, [&](Update& out) {
            for (const char* const name : std::span(names, static_cast<size_t>(n))) {
                object::Operation operation{.kind = object::Operation::Kind::punch_dkey,
                                            .object = object.id};
                if (const int rc = to_name(name, operation.dkey); rc != 0) return rc;
                out.add(std::move(operation));
            }
            return 0;
        });
    });
}
