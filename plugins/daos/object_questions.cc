// What programs ask about objects besides their keys and values: which records an array has, and
// where an object is.
#include <cstdlib>

#include "errors.h"
#include "store_access.h"

using namespace ros2s;
using namespace ros2s::daos;

// As in DAOS: structures that end with an array without a size.
struct daos_obj_layout {
    uint32_t version;
    uint32_t object_class;
    uint32_t groups;
    uint32_t padding;
    struct Group {
        uint32_t copies;
        daos_shard_loc where;
    }* group;
};
static_assert(offsetof(daos_obj_layout, group) == 16);
static_assert(offsetof(daos_obj_layout::Group, where) == 4);

namespace ros2s::daos {
namespace {

// `array`: its akey is empty if there is none.
Task<int> find_records(StoreObject& object, const object::Dkey& dkey, const std::string& akey,
                       object::FetchItem& array) {
    const auto record_bytes = co_await record_bytes_of(object, dkey, akey);
    if (!record_bytes) co_return der_of(record_bytes.error());
    if (*record_bytes == 0) co_return 0;
    array = {.object = object.id, .dkey = dkey, .akey = array_akey(akey, *record_bytes)};
    co_return co_await fetch_items(*object.access, {&array, 1});
}

}  // namespace
}  // namespace ros2s::daos

int daos_obj_list_recx(daos_handle_t oh, daos_handle_t th, daos_key_t* dkey, daos_key_t* akey,
                       daos_size_t* size, uint32_t* nr, daos_recx_t* recxs,
                       daos_epoch_range_t* eprs, daos_anchor_t* anchor, bool, daos_event_t* ev) {
    return call_on_object<PlainObject>(oh, th, ev, [&](PlainObject& object) {
        if (nr == nullptr || anchor == nullptr || akey == nullptr) return -DER_INVAL;
        object::Dkey key;
        std::string bytes;
        if (const int rc = to_dkey(object, dkey, key); rc != 0) return rc;
        if (const int rc = to_akey_bytes(object, *akey, bytes); rc != 0) return rc;
        object::FetchItem array;
        if (anchor->da_type != DAOS_ANCHOR_TYPE_EOF) {
            const int rc =
                object.access->run([&] { return find_records(object, key, bytes, array); });
            if (rc != 0) return rc;
        }
        const uint64_t record_bytes = parse_akey(array.akey.bytes).record_bytes;
        const uint64_t count = record_bytes == 0 ? 0 : array.size / record_bytes;
        if (size != nullptr) *size = array.status ? record_bytes : 0;
        if (count > 0 && (*nr == 0 || recxs == nullptr)) return -DER_INVAL;
        *nr = count > 0 ? 1 : 0;
        if (count > 0) {
            recxs[0] = {.rx_idx = 0, .rx_nr = count};
            if (eprs != nullptr) {
                eprs[0] = {.epr_lo = array.epoch.value, .epr_hi = array.epoch.value};
            }
        }
        anchor->da_type = DAOS_ANCHOR_TYPE_EOF;
        return 0;
    });
}

int daos_obj_verify(daos_handle_t coh, daos_obj_id_t oid, daos_epoch_t) {
    if (Handles::table().find<Container>(coh) == nullptr) return -DER_NO_HDL;
    return oid.hi == 0 && oid.lo == 0 ? -DER_INVAL : 0;
}

// ---- where an object is

int daos_obj_layout_get(daos_handle_t coh, daos_obj_id_t oid, daos_obj_layout** layout) {
    if (Handles::table().find<Container>(coh) == nullptr) return -DER_NO_HDL;
    if (layout == nullptr) return -DER_INVAL;
    auto* const made = static_cast<daos_obj_layout*>(std::calloc(1, sizeof(daos_obj_layout)));
    auto* const group =
        static_cast<daos_obj_layout::Group*>(std::calloc(1, sizeof(daos_obj_layout::Group)));
    if (made == nullptr || group == nullptr) {
        std::free(made);
        std::free(group);
        return -DER_NOMEM;
    }
    group->copies = 1;
    made->version = 1;
    made->object_class =
        static_cast<uint32_t>((oid.hi >> OID_FMT_CLASS_SHIFT & 0xff) << OC_REDUN_SHIFT |
                              (oid.hi >> OID_FMT_META_SHIFT & MAX_NUM_GROUPS));
    made->groups = 1;
    made->group = group;
    *layout = made;
    return 0;
}

int daos_obj_layout_free(daos_obj_layout* layout) {
    if (layout == nullptr) return 0;
    std::free(layout->group);
    std::free(layout);
    return 0;
}
