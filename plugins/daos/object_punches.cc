// daos_obj_punch*: removes objects, dkeys and akeys.
#include <algorithm>

#include "errors.h"
#include "store_access.h"

using namespace ros2s;
using namespace ros2s::daos;

namespace ros2s::daos {
namespace {

using object::Condition;
using object::Operation;

int add_punched_akeys(StoreObject& object, uint64_t flags, const object::Dkey& dkey,
                      std::span<const daos_key_t> keys, bool is_alone, Collected& out) {
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
        auto punched = *stored;
        const auto is_in = [&](const object::Akey& each) {
            return std::ranges::find(punched, each) != punched.end();
        };
        // Also akeys that the transaction itself has written.
        bool is_own = false;
        for (const auto& operation : out.operations()) {
            if (operation.object != object.id || operation.dkey != dkey ||
                operation.kind == Operation::Kind::punch_akey ||
                parse_akey(operation.akey.bytes).bytes != akey) {
                continue;
            }
            is_own = true;
            if (!is_in(operation.akey)) punched.push_back(operation.akey);
        }
        if ((flags & DAOS_COND_PUNCH) != 0 && !is_own) {
            Condition condition{.kind = Condition::Kind::exists, .object = object.id, .dkey = dkey};
            if (stored->empty()) {
                condition.kind = Condition::Kind::absent;
                condition.akey = value_akey(akey);
                out.require(condition, -DER_TX_RESTART);
                out.require_no_records({object.id, dkey, akey});
                return -DER_NONEXIST;
            }
            condition.akey = stored->front();
            out.require(condition, -DER_NONEXIST);
        }
        std::ranges::for_each(punched, punch);
        for (const auto& usual : {value_akey(akey), array_akey(akey, 1)}) {
            if (!is_in(usual)) absent.push_back(usual);
        }
    }
    // The usual akeys are punched even if they are absent. So a concurrent update is punched as a
    // whole. A single call leaves them out if there are too many.
    const bool have_room =
        out.operations().size() + absent.size() <= object::transaction_operations_max;
    if (!is_alone || have_room) std::ranges::for_each(absent, punch);
    return 0;
}

}  // namespace
}  // namespace ros2s::daos

int daos_obj_punch(daos_handle_t oh, daos_handle_t th, uint64_t, daos_event_t* ev) {
    return punch_handle<PlainObject>(oh, th, ev);
}

int daos_obj_punch_dkeys(daos_handle_t oh, daos_handle_t th, uint64_t flags, unsigned int nr,
                         daos_key_t* dkeys, daos_event_t* ev) {
    const auto object = Handles::table().find<PlainObject>(oh);
    if (object == nullptr) return finish_call(ev, -DER_NO_HDL);
    if (dkeys == nullptr) return -DER_INVAL;
    return finish_call(
        ev, change(*object, th, [&](Collected& out, bool) {
            for (const auto& key : std::span(dkeys, nr)) {
                object::Dkey dkey;
                if (const int rc = to_dkey(*object, &key, dkey); rc != 0) return rc;
                if ((flags & DAOS_COND_PUNCH) != 0) {
                    out.require(
                        {.kind = Condition::Kind::exists, .object = object->id, .dkey = dkey},
                        -DER_NONEXIST);
                }
                out.add({.kind = Operation::Kind::punch_dkey, .object = object->id, .dkey = dkey});
            }
            return 0;
        }));
}

int daos_obj_punch_akeys(daos_handle_t oh, daos_handle_t th, uint64_t flags, daos_key_t* dkey,
                         unsigned int nr, daos_key_t* akeys, daos_event_t* ev) {
    const auto object = Handles::table().find<PlainObject>(oh);
    if (object == nullptr) return finish_call(ev, -DER_NO_HDL);
    object::Dkey key;
    if (const int rc = to_dkey(*object, dkey, key); rc != 0) return rc;
    if (akeys == nullptr) return -DER_INVAL;
    return finish_call(ev, change(*object, th, [&](Collected& out, bool copies) {
                           return add_punched_akeys(*object, flags, key, {akeys, nr}, !copies, out);
                       }));
}
