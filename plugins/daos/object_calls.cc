// daos_obj_*: opens, closes and lists objects. object_fetches.cc, object_updates.cc and
// object_punches.cc have the rest.
#include "daos_api.h"
#include "errors.h"
#include "store_access.h"

using namespace ros2s;
using namespace ros2s::daos;

namespace ros2s::daos {
namespace {

Shown show_dkey(const StoreObject& object, const object::ListEntry& entry) {
    return {.key = from_number_key(object.has_number_dkeys(), entry.key)};
}

Shown show_akey(const StoreObject& object, const object::ListEntry& entry) {
    const auto parts = parse_akey(entry.key);
    if (parts.type == DAOS_IOD_NONE) return {.is_left_out = true};
    return {.key = from_number_key(object.has_number_akeys(), parts.bytes),
            .value_type = parts.type};
}

}  // namespace
}  // namespace ros2s::daos

// Any class is accepted, also none. Hints are ignored, because one engine serves all classes alike.
int daos_obj_generate_oid(daos_handle_t coh, daos_obj_id_t* oid, enum daos_otype_t type,
                          daos_oclass_id_t cid, daos_oclass_hints_t, uint32_t) {
    if (oid == nullptr || type > DAOS_OT_MAX) return -DER_INVAL;
    if (Handles::table().find<Container>(coh) == nullptr) return -DER_NO_HDL;
    const uint64_t id = cid == OC_UNKNOWN ? static_cast<uint64_t>(OC_SX) : cid;
    const uint64_t own = oid->hi & UINT32_MAX;
    oid->hi = own | static_cast<uint64_t>(type) << OID_FMT_TYPE_SHIFT |
              (id >> OC_REDUN_SHIFT & 0xff) << OID_FMT_CLASS_SHIFT |
              (id & MAX_NUM_GROUPS) << OID_FMT_META_SHIFT;
    return 0;
}

int daos_obj_open(daos_handle_t coh, daos_obj_id_t oid, unsigned int mode, daos_handle_t* oh,
                  daos_event_t* ev) {
    return open_handle(coh, oid, mode, std::make_shared<PlainObject>(), oh, ev);
}

int daos_obj_close(daos_handle_t oh, daos_event_t* ev) { return close_handle<PlainObject>(oh, ev); }

int daos_obj_list_dkey(daos_handle_t oh, daos_handle_t th, uint32_t* nr, daos_key_desc_t* kds,
                       d_sg_list_t* sgl, daos_anchor_t* anchor, daos_event_t* ev) {
    return call_on_object<PlainObject>(oh, th, ev, [&](PlainObject& object) {
        return list_keys(object, {.what = object::ListRequest::What::dkeys}, nr, kds, sgl, anchor,
                         show_dkey);
    });
}

int daos_obj_list_akey(daos_handle_t oh, daos_handle_t th, daos_key_t* dkey, uint32_t* nr,
                       daos_key_desc_t* kds, d_sg_list_t* sgl, daos_anchor_t* anchor,
                       daos_event_t* ev) {
    return call_on_object<PlainObject>(oh, th, ev, [&](PlainObject& object) {
        object::ListRequest request{.what = object::ListRequest::What::akeys};
        if (const int rc = to_dkey(object, dkey, request.dkey); rc != 0) return rc;
        return list_keys(object, request, nr, kds, sgl, anchor, show_akey);
    });
}

int daos_tx_close(daos_handle_t, daos_event_t* ev) { return finish_call(ev, -DER_NO_HDL); }
