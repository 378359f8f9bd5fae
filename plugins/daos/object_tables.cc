// daos_oit_*: the objects of a container, and the calls for snapshots, which lead to such a table
// and to nothing else: the store keeps no earlier states.
#include <algorithm>
#include <cstring>

#include "errors.h"
#include "gurt/common.h"
#include "properties.h"
#include "store_access.h"

using namespace ros2s;
using namespace ros2s::daos;

namespace ros2s::daos {
namespace {

using ContainerPointer = std::shared_ptr<Container>;

struct ObjectTable {
    static constexpr Kind kind = Kind::object_table;
    std::shared_ptr<Container> container;
    std::shared_ptr<StoreAccess> access;
};

constexpr size_t id_bytes = 16;
// Objects of DFS and of the library itself have zeros there.
bool is_of_programs(object::ObjectId id) { return id.high >> OID_FMT_INTR_BITS != 0; }

Task<Result<object::ListReply>> list_objects(StoreAccess& access, object::ListRequest request) {
    const Call call;
    co_return co_await access.store.list(call, access.container, request);
}

// Fills `ids` from the anchor on.
int list_table(ObjectTable& table, daos_obj_id_t* ids, uint32_t& count, daos_anchor_t& anchor) {
    object::ListRequest request{.what = object::ListRequest::What::objects};
    // The anchor is the program's memory.
    if (anchor.da_type == DAOS_ANCHOR_TYPE_KEY) {
        request.after =
            std::string(reinterpret_cast<const char*>(std::data(anchor.da_buf)), id_bytes);
    }
    uint32_t listed = 0;
    while (listed < count && anchor.da_type != DAOS_ANCHOR_TYPE_EOF) {
        request.limit = std::min<uint32_t>(count - listed, 1024);
        const auto reply = table.access->run([&] { return list_objects(*table.access, request); });
        if (!reply) return der_of(reply.error());
        for (const auto& entry : reply->entries) {
            request.after = entry.key;
            const auto id = object::parse_object_key(entry.key);
            if (!is_of_programs(id)) continue;
            ids[listed++] = {.lo = id.low, .hi = id.high};
        }
        if (!reply->more) {
            anchor.da_type = DAOS_ANCHOR_TYPE_EOF;
        } else if (request.after && request.after->size() == id_bytes) {
            anchor.da_type = DAOS_ANCHOR_TYPE_KEY;
            std::memcpy(std::data(anchor.da_buf), request.after->data(), id_bytes);
        }
    }
    count = listed;
    return 0;
}

// Files are not objects of programs. A tool that copies or checks a container object by object
// would find none of them and report success.
int check_has_objects_only(const ContainerPointer& container) {
    ContainerSettings settings;
    if (const int rc = settings_of(container, settings); rc != 0) return rc;
    if (settings.layout != DAOS_PROP_CO_LAYOUT_POSIX) return 0;
    say_once("container '" + container->label +
             "': has files, which are not listed as objects. Copy them as files (daos filesystem "
             "copy), and check them with ros2store container check");
    return -DER_NOTSUPPORTED;
}

int open_table(const ContainerPointer& container, daos_handle_t& handle) {
    if (const int rc = check_has_objects_only(container); rc != 0) return rc;
    auto table = std::make_shared<ObjectTable>();
    table->container = container;
    if (const int rc = access_of(*container, table->access); rc != 0) return rc;
    ++container->mounts;
    handle = Handles::table().add(std::move(table));
    return 0;
}

int refuse_snapshot() {
    say_once("snapshots are not supported: the store keeps no earlier states");
    return -DER_NOTSUPPORTED;
}

// A number for daos_oit_open(). Nothing is stored for it.
uint64_t number_of_table() {
    timespec now{};
    ::clock_gettime(CLOCK_REALTIME, &now);
    constexpr uint64_t ns_per_s = 1'000'000'000;
    return d_unixnsec2hlc(static_cast<uint64_t>(now.tv_sec) * ns_per_s +
                          static_cast<uint64_t>(now.tv_nsec));
}

}  // namespace
}  // namespace ros2s::daos

// ---- tables

int daos_oit_open(daos_handle_t coh, daos_epoch_t, daos_handle_t* oh, daos_event_t* ev) {
    return call_on<Container>(coh, ev, [&](const ContainerPointer& container) {
        return oh == nullptr ? -DER_INVAL : open_table(container, *oh);
    });
}

int daos_oit_close(daos_handle_t oh, daos_event_t* ev) {
    const auto table = Handles::table().remove<ObjectTable>(oh);
    if (table == nullptr) return finish_call(ev, -DER_NO_HDL);
    --table->container->mounts;
    return finish_call(ev, 0);
}

int daos_oit_list(daos_handle_t oh, daos_obj_id_t* oids, uint32_t* oids_nr, daos_anchor_t* anchor,
                  daos_event_t* ev) {
    return call_on<ObjectTable>(oh, ev, [&](const std::shared_ptr<ObjectTable>& table) {
        if (oids == nullptr || oids_nr == nullptr || *oids_nr == 0 || anchor == nullptr) {
            return -DER_INVAL;
        }
        return list_table(*table, oids, *oids_nr, *anchor);
    });
}

// ---- snapshots

int daos_cont_create_snap_opt(daos_handle_t coh, daos_epoch_t* epoch, char*,
                              daos_snapshot_opts opts, daos_event_t* ev) {
    return call_on<Container>(coh, ev, [&](const ContainerPointer& container) {
        if (epoch == nullptr) return -DER_INVAL;
        if ((opts & DAOS_SNAP_OPT_OIT) == 0) return refuse_snapshot();
        const int rc = check_has_objects_only(container);
        if (rc == 0) *epoch = number_of_table();
        return rc;
    });
}

int daos_cont_create_snap(daos_handle_t coh, daos_epoch_t* epoch, char* name, daos_event_t* ev) {
    return daos_cont_create_snap_opt(coh, epoch, name, DAOS_SNAP_OPT_CR, ev);
}

int daos_cont_destroy_snap(daos_handle_t coh, daos_epoch_range_t epr, daos_event_t* ev) {
    return call_on<Container>(
        coh, ev, [&](const ContainerPointer&) { return epr.epr_lo > epr.epr_hi ? -DER_INVAL : 0; });
}

int daos_cont_list_snap(daos_handle_t coh, int* nr, daos_epoch_t*, char**, daos_anchor_t* anchor,
                        daos_event_t* ev) {
    return call_on<Container>(coh, ev, [&](const ContainerPointer&) {
        if (nr == nullptr || anchor == nullptr) return -DER_INVAL;
        *nr = 0;
        anchor->da_type = DAOS_ANCHOR_TYPE_EOF;
        return 0;
    });
}

int daos_cont_snap_oit_destroy(daos_handle_t coh, daos_handle_t oh, daos_event_t* ev) {
    return call_on<Container>(coh, ev, [&](const ContainerPointer&) {
        return Handles::table().find<ObjectTable>(oh) == nullptr ? -DER_NO_HDL : 0;
    });
}

int daos_cont_rollback(daos_handle_t coh, daos_epoch_t, daos_event_t* ev) {
    return call_on<Container>(coh, ev, [](const ContainerPointer&) { return refuse_snapshot(); });
}
