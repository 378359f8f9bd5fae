// daos_oit_*: the objects of a container, and the calls for snapshots, which lead to such a table
// and to nothing else: the store keeps no earlier states.
#include <algorithm>
#include <cstring>
#include <map>

#include "daos_api.h"
#include "errors.h"
#include "gurt/common.h"
#include "properties.h"
#include "store_access.h"

using namespace ros2s;
using namespace ros2s::daos;

namespace ros2s::daos {
namespace {

struct ObjectTable {
    static constexpr Kind kind = Kind::object_table;
    std::shared_ptr<Container> container;
    std::shared_ptr<StoreAccess> access;
    std::mutex lock;  // marks
    std::map<object::ObjectId, std::string> marks;
};

// As in DAOS.
constexpr size_t mark_bytes_max = 32;
// The limit of marks in an open table. More marks are -DER_NOMEM.
constexpr size_t marks_max = size_t{4} << 20;

constexpr size_t id_bytes = 16;
// Objects of DFS and of the library itself have zeros there.
bool is_of_programs(object::ObjectId id) { return id.high >> OID_FMT_INTR_BITS != 0; }

Task<Result<object::ListReply>> list_objects(StoreAccess& access, object::ListRequest request) {
    const Call call;
    co_return co_await access.store.list(call, access.container, request);
}

// Fills `ids` from the anchor on with the ids for which takes(id) is true.
template <class Takes>
int list_table(ObjectTable& table, daos_obj_id_t* ids, uint32_t& count, daos_anchor_t& anchor,
               Takes&& takes) {
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
            if (!is_of_programs(id) || !takes(id)) continue;
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

template <class Takes>
int list_handle(daos_handle_t handle, daos_obj_id_t* ids, uint32_t* count, daos_anchor_t* anchor,
                daos_event_t* event, Takes&& takes) {
    const auto table = Handles::table().find<ObjectTable>(handle);
    if (table == nullptr) return finish_call(event, -DER_NO_HDL);
    if (ids == nullptr || count == nullptr || *count == 0 || anchor == nullptr) return -DER_INVAL;
    return finish_call(event, list_table(*table, ids, *count, *anchor,
                                         [&](object::ObjectId id) { return takes(*table, id); }));
}

// Files are not objects of programs. A tool that copies or checks a container object by object
// would find none of them and report success.
int check_has_objects_only(const std::shared_ptr<Container>& container) {
    if (container == nullptr) return -DER_NO_HDL;
    ContainerSettings settings;
    if (const int rc = settings_of(container, settings); rc != 0) return rc;
    if (settings.layout != DAOS_PROP_CO_LAYOUT_POSIX) return 0;
    say_once("container '" + container->label +
             "': has files, which are not listed as objects. Copy them as files (daos filesystem "
             "copy), and check them with ros2store container check");
    return -DER_NOTSUPPORTED;
}

int refuse_snapshot() {
    say_once("snapshots are not supported: the store keeps no earlier states");
    return -DER_NOTSUPPORTED;
}

bool is_open(daos_handle_t handle) { return Handles::table().find<Container>(handle) != nullptr; }

}  // namespace
}  // namespace ros2s::daos

// ---- tables

int daos_oit_open(daos_handle_t coh, daos_epoch_t, daos_handle_t* oh, daos_event_t* ev) {
    if (oh == nullptr) return -DER_INVAL;
    auto table = std::make_shared<ObjectTable>();
    table->container = Handles::table().find<Container>(coh);
    int rc = check_has_objects_only(table->container);
    if (rc == 0) rc = access_of(*table->container, table->access);
    if (rc == 0) {
        ++table->container->mounts;
        *oh = Handles::table().add(std::move(table));
    }
    return finish_call(ev, rc);
}

int daos_oit_close(daos_handle_t oh, daos_event_t* ev) {
    const auto table = Handles::table().remove<ObjectTable>(oh);
    if (table == nullptr) return finish_call(ev, -DER_NO_HDL);
    --table->container->mounts;
    return finish_call(ev, 0);
}

int daos_oit_list(daos_handle_t oh, daos_obj_id_t* oids, uint32_t* oids_nr, daos_anchor_t* anchor,
                  daos_event_t* ev) {
    return list_handle(oh, oids, oids_nr, anchor, ev,
                       [](ObjectTable&, object::ObjectId) { return true; });
}

int daos_oit_mark(daos_handle_t oh, daos_obj_id_t oid, d_iov_t* marker, daos_event_t* ev) {
    const auto table = Handles::table().find<ObjectTable>(oh);
    if (table == nullptr) return finish_call(ev, -DER_NO_HDL);
    if (marker != nullptr &&
        (marker->iov_buf == nullptr || marker->iov_len == 0 ||
         marker->iov_len > marker->iov_buf_len || marker->iov_len > mark_bytes_max)) {
        return -DER_INVAL;
    }
    const object::ObjectId id{.high = oid.hi, .low = oid.lo};
    object::ListRequest before{.what = object::ListRequest::What::dkeys, .object = id, .limit = 1};
    const auto found = table->access->run([&] { return list_objects(*table->access, before); });
    if (!found) return finish_call(ev, der_of(found.error()));
    if (found->entries.empty()) return finish_call(ev, -DER_NONEXIST);
    const std::lock_guard locked(table->lock);
    if (marker == nullptr) {
        table->marks.erase(id);
    } else if (table->marks.size() >= marks_max) {
        return finish_call(ev, -DER_NOMEM);
    } else {
        table->marks[id].assign(static_cast<const char*>(marker->iov_buf), marker->iov_len);
    }
    return finish_call(ev, 0);
}

int daos_oit_list_unmarked(daos_handle_t oh, daos_obj_id_t* oids, uint32_t* oids_nr,
                           daos_anchor_t* anchor, daos_event_t* ev) {
    return list_handle(oh, oids, oids_nr, anchor, ev, [](ObjectTable& table, object::ObjectId id) {
        const std::lock_guard locked(table.lock);
        return !table.marks.contains(id);
    });
}

// `filter` returns 1 to list an entry, 0 to leave it out, and -DER_ to end the call.
int daos_oit_list_filter(daos_handle_t oh, daos_obj_id_t* oids, uint32_t* oids_nr,
                         daos_anchor_t* anchor, daos_oit_filter_cb filter, daos_event_t* ev) {
    if (filter == nullptr) return daos_oit_list(oh, oids, oids_nr, anchor, ev);
    int failure = 0;
    const int rc = list_handle(
        oh, oids, oids_nr, anchor, nullptr, [&](ObjectTable& table, object::ObjectId id) {
            std::string mark;
            {
                const std::lock_guard locked(table.lock);
                if (const auto found = table.marks.find(id); found != table.marks.end()) {
                    mark = found->second;
                }
            }
            d_iov_t marker{};
            d_iov_set(&marker, mark.data(), mark.size());
            const int wanted = failure != 0 ? 0 : filter({.lo = id.low, .hi = id.high}, &marker);
            if (wanted < 0) failure = wanted;
            return wanted > 0;
        });
    return finish_call(ev, rc != 0 ? rc : failure);
}

// ---- snapshots

int daos_cont_create_snap_opt(daos_handle_t coh, daos_epoch_t* epoch, char*,
                              daos_snapshot_opts opts, daos_event_t* ev) {
    if (!is_open(coh)) return finish_call(ev, -DER_NO_HDL);
    if (epoch == nullptr) return -DER_INVAL;
    if ((opts & DAOS_SNAP_OPT_OIT) == 0) return finish_call(ev, refuse_snapshot());
    const int rc = check_has_objects_only(Handles::table().find<Container>(coh));
    if (rc == 0) *epoch = d_hlc_get();
    return finish_call(ev, rc);
}

int daos_cont_create_snap(daos_handle_t coh, daos_epoch_t* epoch, char* name, daos_event_t* ev) {
    return daos_cont_create_snap_opt(coh, epoch, name, DAOS_SNAP_OPT_CR, ev);
}

// Nothing is stored for the numbers of tables.
int daos_cont_destroy_snap(daos_handle_t coh, daos_epoch_range_t epr, daos_event_t* ev) {
    if (!is_open(coh)) return finish_call(ev, -DER_NO_HDL);
    return finish_call(ev, epr.epr_lo > epr.epr_hi ? -DER_INVAL : 0);
}

int daos_cont_list_snap(daos_handle_t coh, int* nr, daos_epoch_t*, char**, daos_anchor_t* anchor,
                        daos_event_t* ev) {
    if (!is_open(coh)) return finish_call(ev, -DER_NO_HDL);
    if (nr == nullptr || anchor == nullptr) return -DER_INVAL;
    *nr = 0;
    anchor->da_type = DAOS_ANCHOR_TYPE_EOF;
    return finish_call(ev, 0);
}

int daos_cont_snap_oit_create(daos_handle_t coh, daos_epoch_t, char*, daos_event_t* ev) {
    return finish_call(ev, check_has_objects_only(Handles::table().find<Container>(coh)));
}

int daos_cont_snap_oit_destroy(daos_handle_t coh, daos_handle_t oh, daos_event_t* ev) {
    const bool is_valid = is_open(coh) && Handles::table().find<ObjectTable>(oh) != nullptr;
    return finish_call(ev, is_valid ? 0 : -DER_NO_HDL);
}

int daos_cont_rollback(daos_handle_t coh, daos_epoch_t, daos_event_t* ev) {
    return finish_call(ev, is_open(coh) ? refuse_snapshot() : -DER_NO_HDL);
}

int daos_tx_open_snap(daos_handle_t coh, daos_epoch_t, daos_handle_t* th, daos_event_t* ev) {
    if (th == nullptr) return -DER_INVAL;
    return finish_call(ev, is_open(coh) ? refuse_snapshot() : -DER_NO_HDL);
}
