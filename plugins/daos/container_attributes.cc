// Attributes of containers, and ids for new objects: values of two objects of the container that
// neither files nor programs see (docs/formats/daos.md).
#include <algorithm>
#include <cstring>

#include "errors.h"
#include "store_access.h"

using namespace ros2s;
using namespace ros2s::daos;

namespace ros2s::daos {
namespace {

// The number of attempts if other clients change the object at the same time.
constexpr int attempts_max = 64;

// Open for one call.
int open_reserved(daos_handle_t handle, object::ObjectId id, StoreObject& object) {
    object.container = Handles::table().find<Container>(handle);
    if (object.container == nullptr) return -DER_NO_HDL;
    object.id = id;
    object.mode = DAOS_OO_RW;
    return access_of(*object.container, object.access);
}

int to_name(const char* name, object::Dkey& out) {
    if (name == nullptr || *name == '\0') return -DER_INVAL;
    out.bytes = name;
    if (out.bytes.size() <= object::key_bytes_max) return 0;
    say_once("names of attributes of containers have at most 255 bytes here");
    return -DER_INVAL;
}

int set_attributes(StoreObject& object, std::span<char const* const> names,
                   void const* const values[], size_t const sizes[]) {
    return change(object, daos_handle_t{}, [&](Collected& out, bool copies) {
        for (size_t i = 0; i < names.size(); ++i) {
            object::Dkey dkey;
            if (const int rc = to_name(names[i], dkey); rc != 0) return rc;
            if (values[i] == nullptr || sizes[i] == 0) return -DER_INVAL;
            add_put(object, dkey, {static_cast<const std::byte*>(values[i]), sizes[i]}, copies,
                    out);
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

// `first`: the first of `count` ids that no other caller gets.
int allocate(StoreObject& object, uint64_t count, uint64_t& first) {
    const object::Dkey name{next_id_name};
    for (int attempt = 0; attempt < attempts_max; ++attempt) {
        uint64_t next = 0;
        object::FetchItem item{
            .dkey = name,
            .window = object::Window::local(std::as_writable_bytes(std::span(&next, 1)))};
        daos_size_t size = 0;
        int rc = get_value(object, item, size);
        if (rc != 0 && rc != -DER_NONEXIST) return rc;
        if (rc == 0 && size != sizeof next) return -DER_DF_INVAL;
        if (rc == -DER_NONEXIST) next = 1;
        first = next;
        if (__builtin_add_overflow(next, count, &next)) return -DER_NOSPACE;
        rc = change(object, daos_handle_t{}, [&](Collected& out, bool copies) {
            out.require_unchanged({&item, 1});
            add_put(object, name, std::as_bytes(std::span(&next, 1)), copies, out);
            return 0;
        });
        if (rc != -DER_TX_RESTART) return rc;
    }
    return -DER_BUSY;
}

}  // namespace
}  // namespace ros2s::daos

int daos_cont_set_attr(daos_handle_t coh, int n, char const* const names[],
                       void const* const values[], size_t const sizes[], daos_event_t* ev) {
    if (n <= 0 || names == nullptr || values == nullptr || sizes == nullptr) return -DER_INVAL;
    StoreObject object;
    const int rc = open_reserved(coh, attributes_id, object);
    const std::span all(names, static_cast<size_t>(n));
    return finish_call(ev, rc != 0 ? rc : set_attributes(object, all, values, sizes));
}

int daos_cont_get_attr(daos_handle_t coh, int n, char const* const names[], void* const buffers[],
                       size_t sizes[], daos_event_t* ev) {
    if (n <= 0 || names == nullptr || sizes == nullptr) return -DER_INVAL;
    StoreObject object;
    int rc = open_reserved(coh, attributes_id, object);
    for (int i = 0; rc == 0 && i < n; ++i) {
        rc = get_attribute(object, names[i], buffers == nullptr ? nullptr : buffers[i], sizes[i]);
    }
    return finish_call(ev, rc);
}

int daos_cont_list_attr(daos_handle_t coh, char* buffer, size_t* size, daos_event_t* ev) {
    if (size == nullptr) return -DER_INVAL;
    StoreObject object;
    if (const int rc = open_reserved(coh, attributes_id, object); rc != 0) {
        return finish_call(ev, rc);
    }
    const auto names = object.access->run([&] { return all_names(object); });
    if (!names) return finish_call(ev, der_of(names.error()));
    if (buffer != nullptr) names->copy(buffer, *size);
    *size = names->size();
    return finish_call(ev, 0);
}

// A missing attribute is not an error.
int daos_cont_del_attr(daos_handle_t coh, int n, char const* const names[], daos_event_t* ev) {
    if (n <= 0 || names == nullptr) return -DER_INVAL;
    StoreObject object;
    if (const int rc = open_reserved(coh, attributes_id, object); rc != 0) {
        return finish_call(ev, rc);
    }
    return finish_call(ev, change(object, daos_handle_t{}, [&](Collected& out, bool) {
                           for (const char* const name : std::span(names, static_cast<size_t>(n))) {
                               object::Operation operation{
                                   .kind = object::Operation::Kind::punch_dkey,
                                   .object = object.id};
                               if (const int rc = to_name(name, operation.dkey); rc != 0) return rc;
                               out.add(std::move(operation));
                           }
                           return 0;
                       }));
}

int daos_cont_alloc_oids(daos_handle_t coh, daos_size_t num_oids, uint64_t* oid, daos_event_t* ev) {
    if (num_oids == 0 || oid == nullptr) return -DER_INVAL;
    StoreObject object;
    const int rc = open_reserved(coh, allocations_id, object);
    return finish_call(ev, rc != 0 ? rc : allocate(object, num_oids, *oid));
}
