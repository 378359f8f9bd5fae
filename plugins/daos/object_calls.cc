// daos_obj_*: all calls on objects but daos_obj_fetch, which is in object_fetches.cc.
#include <algorithm>
#include <cstdlib>

#include "daos_api.h"
#include "errors.h"
#include "record_parts.h"
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

Shown show_dkey(const StoreObject& object, const object::ListEntry& entry) {
    return {.key = from_number_key(object.has_number_dkeys(), entry.key)};
}

Shown show_akey(const StoreObject& object, const object::ListEntry& entry) {
    const auto parts = parse_akey(entry.key);
    if (parts.type == DAOS_IOD_NONE) return {.is_left_out = true};
    return {.key = from_number_key(object.has_number_akeys(), parts.bytes),
            .value_type = parts.type};
}

using object::Operation;

std::string gather(d_sg_list_t& list, uint64_t bytes) {
    std::string all;
    for (const auto& iov : buffers_of(list)) {
        all.append(static_cast<const char*>(iov.iov_buf),
                   std::min<uint64_t>(iov.iov_len, bytes - all.size()));
    }
    return all;
}

int add_value(const StoreObject& object, const object::Dkey& dkey, const std::string& akey,
              const daos_iod_t& iod, d_sg_list_t* list, Update& out) {
    Operation operation{.object = object.id, .dkey = dkey, .akey = value_akey(akey)};
    // Removes the old value, also an array of bytes (a large value).
    operation.kind = Operation::Kind::punch_akey;
    out.add(operation);
    if (iod.iod_size == 0) return 0;
    if (list == nullptr || list->sg_nr == 0) return -DER_INVAL;
    ConstBytes bytes(static_cast<const std::byte*>(list->sg_iovs[0].iov_buf),
                     list->sg_iovs[0].iov_len);
    if (list->sg_nr > 1) bytes = out.keep(gather(*list, iod.iod_size));
    if (bytes.size() < iod.iod_size) return -DER_IO_INVAL;
    operation.window = object::Window::local(bytes.first(iod.iod_size));
    const bool is_large = iod.iod_size > object::value_bytes_max;
    operation.kind = is_large ? Operation::Kind::write : Operation::Kind::put;
    if (is_large) operation.extent = {.offset = 0, .length = iod.iod_size};
    out.add(std::move(operation));
    return 0;
}

// More pieces than these are put together.
constexpr size_t parts_max = 256;

// One update writes no record twice: DAOS has no order for that.
bool overlap(std::span<const daos_recx_t> records) {
    std::vector<daos_recx_t> sorted(records.begin(), records.end());
    std::ranges::sort(sorted, {}, &daos_recx_t::rx_idx);
    for (size_t i = 1; i < sorted.size(); ++i) {
        if (sorted[i].rx_idx - sorted[i - 1].rx_idx < sorted[i - 1].rx_nr) return true;
    }
    return false;
}

// A program does not say the size of records that it punches. The store knows it; 1 if there are
// none.
int record_bytes_to_punch(StoreObject& object, const object::Dkey& dkey, const std::string& akey,
                          uint64_t& record_bytes) {
    const auto stored = object.access->run([&] { return record_bytes_of(object, dkey, akey); });
    if (!stored) return der_of(stored.error());
    record_bytes = std::max<uint64_t>(*stored, 1);
    return 0;
}

int add_records(const StoreObject& object, const object::Dkey& dkey, const std::string& akey,
                uint64_t record_bytes, const daos_iod_t& iod, d_sg_list_t* list, Update& out) {
    if (iod.iod_recxs == nullptr || iod.iod_nr == 0) return -DER_INVAL;
    if (overlap({iod.iod_recxs, iod.iod_nr})) return -DER_INVAL;
    Operation operation{.object = object.id, .dkey = dkey, .akey = array_akey(akey, record_bytes)};
    if (iod.iod_size == 0) {
        operation.kind = Operation::Kind::punch_extent;
        for (const auto& records : std::span(iod.iod_recxs, iod.iod_nr)) {
            const int rc = to_extent(records, record_bytes, operation.extent);
            if (rc != 0) return rc;
            out.add(operation);
        }
        return 0;
    }
    std::vector<Part> parts;
    if (list == nullptr) return -DER_INVAL;
    if (const int rc = cut(iod, record_bytes, *list, true, parts); rc != 0) return rc;
    operation.kind = Operation::Kind::write;
    // A transaction has a limit, and programs may have a buffer for each few bytes: ranges that lie
    // one after the other are then copied together.
    const bool gathers = parts.size() > parts_max;
    for (size_t at = 0; at < parts.size();) {
        ConstBytes bytes = parts[at].memory;
        operation.extent = parts[at++].extent;
        if (gathers) {
            std::string together(reinterpret_cast<const char*>(bytes.data()), bytes.size());
            while (at < parts.size() && parts[at].extent.offset == operation.extent.end()) {
                const auto& next = parts[at++];
                together.append(reinterpret_cast<const char*>(next.memory.data()),
                                next.memory.size());
                operation.extent.length += next.extent.length;
            }
            bytes = out.keep(std::move(together));
        }
        operation.window = object::Window::local(bytes);
        out.add(operation);
    }
    return 0;
}

int add_updates(StoreObject& object, uint64_t flags, const daos_key_t* key,
                std::span<const daos_iod_t> iods, d_sg_list_t* lists, Update& out) {
    object::Dkey dkey;
    if (const int rc = to_dkey(object, key, dkey); rc != 0) return rc;
    out.require({.object = object.id, .dkey = dkey}, (flags & DAOS_COND_DKEY_INSERT) != 0,
                (flags & (DAOS_COND_DKEY_UPDATE | DAOS_COND_PUNCH)) != 0);
    for (size_t i = 0; i < iods.size(); ++i) {
        const auto& iod = iods[i];
        std::string akey;
        if (const int rc = to_akey_bytes(object, iod.iod_name, akey); rc != 0) return rc;
        auto* const list = lists == nullptr ? nullptr : &lists[i];
        const bool is_value = iod.iod_type == DAOS_IOD_SINGLE;
        if (!is_value && iod.iod_type != DAOS_IOD_ARRAY) return -DER_INVAL;
        uint64_t record_bytes = iod.iod_size;
        if (!is_value && iod.iod_size == 0) {
            const int rc = record_bytes_to_punch(object, dkey, akey, record_bytes);
            if (rc != 0) return rc;
        }
        const uint64_t wanted = (flags & DAOS_COND_PER_AKEY) != 0 ? iod.iod_flags : flags;
        out.require({.object = object.id,
                     .dkey = dkey,
                     .akey = is_value ? value_akey(akey) : array_akey(akey, record_bytes)},
                    (wanted & DAOS_COND_AKEY_INSERT) != 0, (wanted & DAOS_COND_AKEY_UPDATE) != 0);
        const int rc = is_value ? add_value(object, dkey, akey, iod, list, out)
                                : add_records(object, dkey, akey, record_bytes, iod, list, out);
        if (rc != 0) return rc;
    }
    return 0;
}

using object::Operation;

int add_punched_dkeys(StoreObject& object, uint64_t flags, std::span<const daos_key_t> keys,
                      Update& out) {
    for (const auto& key : keys) {
        object::Dkey dkey;
        if (const int rc = to_dkey(object, &key, dkey); rc != 0) return rc;
        out.require({.object = object.id, .dkey = dkey}, false, (flags & DAOS_COND_PUNCH) != 0);
        out.add({.kind = Operation::Kind::punch_dkey, .object = object.id, .dkey = dkey});
    }
    return 0;
}

int add_punched_akeys(StoreObject& object, uint64_t flags, const object::Dkey& dkey,
                      std::span<const daos_key_t> keys, Update& out) {
    const auto punch = [&](const object::Akey& akey) {
        out.add(
            {.kind = Operation::Kind::punch_akey, .object = object.id, .dkey = dkey, .akey = akey});
    };
    std::vector<object::Akey> absent;
    for (const auto& key : keys) {
        std::string akey;
        if (const int rc = to_akey_bytes(object, key, akey); rc != 0) return rc;
        const auto stored = object.access->run([&] { return stored_akeys(object, dkey, akey); });
        if (!stored) return der_of(stored.error());
        if ((flags & DAOS_COND_PUNCH) != 0) {
            if (stored->empty()) return -DER_NONEXIST;
            out.require({.object = object.id, .dkey = dkey, .akey = stored->front()}, false, true);
        }
        std::ranges::for_each(*stored, punch);
        for (const auto& usual : {value_akey(akey), array_akey(akey, 1)}) {
            if (std::ranges::find(*stored, usual) == stored->end()) absent.push_back(usual);
        }
    }
    // The usual ones are punched even if they are absent, so that a concurrent update is punched as
    // a whole. They are left out if there are too many.
    if (out.size() + absent.size() <= object::transaction_operations_max) {
        std::ranges::for_each(absent, punch);
    }
    return 0;
}

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

// ---- daos_obj_update: values and records, in one transaction of the store.

int daos_obj_update(daos_handle_t oh, daos_handle_t th, uint64_t flags, daos_key_t* dkey,
                    unsigned int nr, daos_iod_t* iods, d_sg_list_t* sgls, daos_event_t* ev) {
    return call_on_object<PlainObject>(oh, th, ev, [&](PlainObject& object) {
        if (iods == nullptr || !are_there(sgls, nr, true)) return -DER_INVAL;
        return change(object, [&](Update& out) {
            return add_updates(object, flags, dkey, {iods, nr}, sgls, out);
        });
    });
}

// ---- daos_obj_punch*: removes objects, dkeys and akeys.

int daos_obj_punch(daos_handle_t oh, daos_handle_t th, uint64_t, daos_event_t* ev) {
    return call_on_object<PlainObject>(oh, th, ev, [&](PlainObject& object) {
        return change(object, [&](Update& out) {
            out.add({.kind = Operation::Kind::punch_object, .object = object.id});
            return 0;
        });
    });
}

int daos_obj_punch_dkeys(daos_handle_t oh, daos_handle_t th, uint64_t flags, unsigned int nr,
                         daos_key_t* dkeys, daos_event_t* ev) {
    return call_on_object<PlainObject>(oh, th, ev, [&](PlainObject& object) {
        if (dkeys == nullptr) return -DER_INVAL;
        return change(object, [&](Update& out) {
            return add_punched_dkeys(object, flags, {dkeys, nr}, out);
        });
    });
}

int daos_obj_punch_akeys(daos_handle_t oh, daos_handle_t th, uint64_t flags, daos_key_t* dkey,
                         unsigned int nr, daos_key_t* akeys, daos_event_t* ev) {
    return call_on_object<PlainObject>(oh, th, ev, [&](PlainObject& object) {
        object::Dkey key;
        if (const int rc = to_dkey(object, dkey, key); rc != 0) return rc;
        if (akeys == nullptr) return -DER_INVAL;
        return change(object, [&](Update& out) {
            return add_punched_akeys(object, flags, key, {akeys, nr}, out);
        });
    });
}

// ---- What programs ask about objects besides their keys and values: which records an array has,
// and where an object is.

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
