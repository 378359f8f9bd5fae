// daos_obj_punch*: removes objects, dkeys and akeys.
#include <algorithm>

#include "errors.h"
#include "store_access.h"

using namespace ros2s;
using namespace ros2s::daos;

namespace ros2s::daos {
namespace {

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

}  // namespace
}  // namespace ros2s::daos

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
