// The objects of a container, below its file system: for daos_obj_* and daos_kv_*.
//
// An object of DAOS is the object of ROS2 with the same 128 bits. DFS has the high word "DFS" and a
// version, which no object of DAOS has: the upper half of its high word is never 0. A dkey is a
// dkey; if its type is a number, it is stored big-endian, so that keys are listed in the order of
// their numbers. An akey gets a tail:
//
//     01                 a single value (over value_bytes_max bytes it is an array of bytes)
//     02                 an array with records of one byte
//     SIZE (8 bytes) 03  an array with records of that many bytes, big-endian
//
// Thread rule: functions that take a Report or run on the core are marked; the rest is for any
// thread.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "akeys.h"
#include "daos.h"
#include "events.h"
#include "pools.h"
#include "ros2s/api/c/handles.h"
#include "ros2s/fs/operation_slots.h"
#include "ros2s/object/object_store.h"

namespace ros2s::daos {

struct StoreAccess {
    api::c::Instance& instance;
    object::ObjectStore& store;
    object::ContainerId container;
    fs::OperationSlots slots;  // on the core

    template <class F>
    auto run(F&& make) {
        return instance.run(std::forward<F>(make));
    }
};

// An open object or key-value object.
struct StoreObject {
    std::shared_ptr<Container> container;
    std::shared_ptr<StoreAccess> access;
    object::ObjectId id;
    unsigned mode = 0;

    [[nodiscard]] daos_otype_t type() const {
        return static_cast<daos_otype_t>(id.high >> OID_FMT_TYPE_SHIFT);
    }
    [[nodiscard]] bool is_key_value() const {
        return type() >= DAOS_OT_KV_HASHED && type() <= DAOS_OT_KV_LEXICAL;
    }
    [[nodiscard]] bool is_read_only() const {
        return (mode & DAOS_OO_RO) != 0 || container->is_read_only();
    }
    [[nodiscard]] bool has_number_dkeys() const;
    [[nodiscard]] bool has_number_akeys() const;
};
struct PlainObject : StoreObject {
    static constexpr Kind kind = Kind::object;
};
struct KeyValueObject : StoreObject {
    static constexpr Kind kind = Kind::kv;
};

// Null if the container has objects.
[[nodiscard]] const char* why_without_objects(Container& container);
// Returns 0 or -DER_. Reports the reason if it requires action by a person.
int access_of(Container& container, std::shared_ptr<StoreAccess>& access);
int open_object(daos_handle_t container, daos_obj_id_t id, unsigned mode, StoreObject& object);
void close_object(StoreObject& object);
// An object of the library (akeys.h), for one call.
int open_own(const std::shared_ptr<Container>& container, object::ObjectId id, StoreObject& object);

// For the calls that open and close. T is a StoreObject with its kind. The handle is set on
// success.
template <class T>
int open_handle(daos_handle_t container, daos_obj_id_t id, unsigned mode, std::shared_ptr<T> object,
                daos_handle_t* handle, daos_event_t* event) {
    if (handle == nullptr) return -DER_INVAL;
    const int rc = open_object(container, id, mode, *object);
    if (rc == 0) *handle = Handles::table().add(std::move(object));
    return finish_call(event, rc);
}
template <class T>
int close_handle(daos_handle_t handle, daos_event_t* event) {
    const auto object = Handles::table().remove<T>(handle);
    if (object == nullptr) return finish_call(event, -DER_NO_HDL);
    close_object(*object);
    return finish_call(event, 0);
}

// Fetches any number of items. Adjacent items of one akey see one epoch of it. Returns 0 or -DER_;
// items that are not_found or too_small are no error. -DER_AGAIN: other clients changed the akey
// during each attempt.
Task<int> fetch_items(StoreAccess& access, std::span<object::FetchItem> items);
// An update interfered with each attempt.
inline constexpr int refetches_max = 100;

// The changes of one call, done as one transaction of the store.
class Update {
  public:
    void add(object::Operation operation) { operations_.push_back(std::move(operation)); }
    // Conditions of the caller on the dkey or akey that `key` names. A new key that is there is
    // -DER_EXIST, and an old one that is not is -DER_NONEXIST.
    void require(object::Condition key, bool is_new, bool is_old) {
        using Kind = object::Condition::Kind;
        for (const auto& [kind, is_wanted, der] :
             {std::tuple(Kind::absent, is_new, -DER_EXIST),
              std::tuple(Kind::exists, is_old, -DER_NONEXIST)}) {
            if (!is_wanted) continue;
            key.kind = kind;
            conditions_.push_back(key);
            meanings_.push_back(der);
        }
    }
    [[nodiscard]] size_t size() const { return operations_.size(); }
    // A copy of the bytes that lives as long as this.
    ConstBytes keep(std::string bytes) {
        payload_.push_back(std::make_unique<std::string>(std::move(bytes)));
        return std::as_bytes(std::span(*payload_.back()));
    }
    // Runs on the core. Returns 0 or -DER_. The bytes of operations must live until it has ended.
    Task<int> commit(StoreAccess& access);

  private:
    std::vector<object::Condition> conditions_;
    std::vector<int> meanings_;
    std::vector<object::Operation> operations_;
    std::vector<std::unique_ptr<std::string>> payload_;
};

// Does the changes of fill(Update&), which returns 0 or -DER_. If it fails, nothing is changed.
template <class Fill>
int change(StoreObject& object, Fill&& fill) {
    if (object.is_read_only()) return -DER_NO_PERM;
    Update update;
    if (const int rc = fill(update); rc != 0) return rc;
    return object.access->run([&] { return update.commit(*object.access); });
}

// For the calls on objects: f(object). No program opens transactions, so that the handle of one is
// invalid.
template <class T, class F>
int call_on_object(daos_handle_t handle, daos_handle_t transaction, daos_event_t* event, F&& f) {
    if (!daos_handle_is_inval(transaction)) return finish_call(event, -DER_NO_HDL);
    return call_on<T>(handle, event, [&](const std::shared_ptr<T>& object) { return f(*object); });
}

// ---- keys. Errors: -DER_KEY2BIG, -DER_INVAL.
int to_dkey(const StoreObject& object, const daos_key_t* key, object::Dkey& out);
// The akey as the caller wrote it, without the tail.
int to_akey_bytes(const StoreObject& object, const daos_key_t& key, std::string& out);
[[nodiscard]] std::string from_number_key(bool is_number, std::string_view stored);

// The stored akeys of this name, in ascending order: arrays, and a value.
Task<Result<std::vector<object::Akey>>> stored_akeys(StoreObject& object, const object::Dkey& dkey,
                                                     const std::string& akey);
// The record size of an array: the smallest among the akeys of this name. 0: there is none.
Task<Result<uint64_t>> record_bytes_of(StoreObject& object, const object::Dkey& dkey,
                                       const std::string& akey);

// ---- values: an object whose dkeys have one value each
void add_put(const StoreObject& object, const object::Dkey& dkey, ConstBytes bytes, Update& out);
// Fetches the value of the item's dkey into its window. `size`: the size of the whole value.
// -DER_REC2BIG: the window is too small. The item's epoch is set also on failure.
int get_value(StoreObject& object, object::FetchItem& item, daos_size_t& size);

// Lists keys from the anchor on into `list`, one after the other, and moves the anchor. `request`:
// what to list. `show` returns the caller's bytes of an entry.
struct Shown {
    bool is_left_out = false;
    std::string key;
    uint32_t value_type = 0;
};
int list_keys(StoreObject& object, object::ListRequest request, uint32_t* count,
              daos_key_desc_t* descriptors, d_sg_list_t* list, daos_anchor_t* anchor,
              Shown (*show)(const StoreObject&, const object::ListEntry&));

}  // namespace ros2s::daos
