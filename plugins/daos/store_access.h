// The objects of a container, below its file system: for daos_obj_*, daos_kv_* and daos_tx_*.
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
#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
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

// An open object, key-value object or array.
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

// A transaction that is being collected. A single call also uses one.
class Collected {
  public:
    void add(object::Operation operation) { operations_.push_back(std::move(operation)); }
    // A condition of the caller. `der`: the result if it fails.
    void require(object::Condition condition, int der) {
        conditions_.push_back(std::move(condition));
        meanings_.push_back(der);
    }
    // Requires that fetched items are unchanged at the commit. Adjacent items of one akey make one
    // condition.
    void require_unchanged(std::span<const object::FetchItem> items);
    // Requires that an array is absent, with any record size. The store has no such condition, so
    // this checks records of one byte, and the sizes that the transaction writes.
    struct Records {
        object::ObjectId object;
        object::Dkey dkey;
        std::string akey;
        friend bool operator==(const Records&, const Records&) = default;
    };
    void require_no_records(Records records);
    [[nodiscard]] bool expects_no_records(const Records& records) const {
        return std::ranges::find(absent_records_, records) != absent_records_.end();
    }
    [[nodiscard]] bool is_empty() const { return operations_.empty() && conditions_.empty(); }
    void clear() { *this = {}; }
    // The sizes at one moment, so that the transaction can be cut back to them.
    struct Mark {
        size_t operations, conditions, payload;
    };
    // Conditions on values that a call has read stay, because the program has seen the values.
    [[nodiscard]] Mark mark() const {
        return {operations_.size(), conditions_.size(), payload_.size()};
    }
    void back_to(const Mark& mark) {
        const auto shorten = [](auto& list, size_t size) {
            list.erase(list.begin() + static_cast<ptrdiff_t>(size), list.end());
        };
        shorten(operations_, mark.operations);
        shorten(payload_, mark.payload);
        for (size_t i = conditions_.size(); i-- > mark.conditions;) {
            if (meanings_[i] == -DER_TX_RESTART) continue;
            conditions_.erase(conditions_.begin() + static_cast<ptrdiff_t>(i));
            meanings_.erase(meanings_.begin() + static_cast<ptrdiff_t>(i));
        }
    }
    [[nodiscard]] const std::vector<object::Operation>& operations() const { return operations_; }
    // A copy of the bytes that lives as long as this.
    ConstBytes keep(std::string bytes) {
        payload_.push_back(std::make_unique<std::string>(std::move(bytes)));
        return std::as_bytes(std::span(*payload_.back()));
    }
    // The operations may be executed in several transactions if they exceed the limits of one.
    void allow_steps() { has_steps_ = true; }
    // Runs on the core. Returns 0 or -DER_. The bytes of operations must live until it has ended.
    Task<int> commit(StoreAccess& access, object::Epoch& epoch);

  private:
    Task<int> commit_step(StoreAccess& access, std::span<const object::Operation> operations,
                          object::Epoch& epoch);

    bool has_steps_ = false;
    std::vector<object::Condition> conditions_;
    std::vector<int> meanings_;
    std::vector<Records> absent_records_;
    std::vector<object::Operation> operations_;
    std::vector<std::unique_ptr<std::string>> payload_;
};

struct DaosTransaction {
    static constexpr Kind kind = Kind::transaction;
    enum class State : uint8_t { open, committed, aborted, failed };
    std::shared_ptr<Container> container;
    std::shared_ptr<StoreAccess> access;
    uint64_t flags = 0;
    std::mutex lock;  // the rest
    State state = State::open;
    Collected collected;
    object::Epoch epoch{};
};

// Null and 0: DAOS_TX_NONE. Errors: -DER_NO_HDL; -DER_NO_PERM (it does not take operations).
int transaction_of(daos_handle_t handle, const StoreObject& object,
                   std::shared_ptr<DaosTransaction>& transaction);

// Adds conditions on the read values to the transaction, if there is one. `require(Collected&)`
// adds them.
template <class Require>
void remember(const std::shared_ptr<DaosTransaction>& transaction, Require&& require) {
    if (transaction == nullptr) return;
    const std::lock_guard locked(transaction->lock);
    require(transaction->collected);
}

// Runs the changes of `fill(Collected&, copies)` in the transaction, or at once. `fill` returns 0
// or -DER_, and must copy the caller's bytes if `copies`. If it fails, nothing is changed.
template <class Fill>
int change(StoreObject& object, daos_handle_t handle, Fill&& fill) {
    if (object.is_read_only()) return -DER_NO_PERM;
    std::shared_ptr<DaosTransaction> transaction;
    if (const int rc = transaction_of(handle, object, transaction); rc != 0) return rc;
    if (transaction != nullptr) {
        const std::lock_guard locked(transaction->lock);
        if ((transaction->flags & DAOS_TF_RDONLY) != 0) return -DER_NO_PERM;
        if (transaction->state != DaosTransaction::State::open) return -DER_NO_PERM;
        const auto before = transaction->collected.mark();
        const int rc = fill(transaction->collected, true);
        if (rc != 0) transaction->collected.back_to(before);
        return rc;
    }
    Collected single;
    if (const int rc = fill(single, false); rc != 0) return rc;
    object::Epoch epoch;
    return object.access->run([&] { return single.commit(*object.access, epoch); });
}

// The calls that punch a whole object.
template <class T>
int punch_handle(daos_handle_t handle, daos_handle_t transaction, daos_event_t* event) {
    const auto object = Handles::table().find<T>(handle);
    if (object == nullptr) return finish_call(event, -DER_NO_HDL);
    return finish_call(
        event, change(*object, transaction, [&](Collected& out, bool) {
            out.add({.kind = object::Operation::Kind::punch_object, .object = object->id});
            return 0;
        }));
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
void add_put(const StoreObject& object, const object::Dkey& dkey, ConstBytes bytes, bool copies,
             Collected& out);
// Fetches the value of the item's dkey into its window. `size`: the size of the whole value.
// -DER_REC2BIG: the window is too small. The item's epoch is set also on failure.
int get_value(StoreObject& object, object::FetchItem& item, daos_size_t& size);

// Lists keys from the anchor on into `list`, one after the other, and moves the anchor. `ask` makes
// the request's fixed part, `show(entry, descriptor)` returns the caller's bytes of an entry, or
// nothing to leave it out.
struct Shown {
    bool is_left_out = false;
    std::string key;
    uint32_t value_type = 0;
};
int list_keys(StoreObject& object, object::ListRequest request, uint32_t* count,
              daos_key_desc_t* descriptors, d_sg_list_t* list, daos_anchor_t* anchor,
              Shown (*show)(const StoreObject&, const object::ListEntry&));

}  // namespace ros2s::daos
