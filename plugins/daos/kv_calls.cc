// daos_kv_*: an object whose dkeys have one value each.
#include <algorithm>
#include <cstring>

#include "errors.h"
#include "store_access.h"

using namespace ros2s;
using namespace ros2s::daos;

namespace ros2s::daos {
namespace {

int to_kv_key(const StoreObject& object, const char* key, object::Dkey& out) {
    if (key == nullptr) return -DER_INVAL;
    daos_key_t iov;
    d_iov_set(&iov, const_cast<char*>(key), std::strlen(key));
    return to_dkey(object, &iov, out);
}

int put(StoreObject& object, uint64_t flags, const char* key, ConstBytes bytes) {
    return change(object, [&](Update& out) {
        object::Dkey dkey;
        if (const int rc = to_kv_key(object, key, dkey); rc != 0) return rc;
        out.require({.object = object.id, .dkey = dkey}, (flags & DAOS_COND_KEY_INSERT) != 0,
                    (flags & DAOS_COND_KEY_UPDATE) != 0);
        add_put(object, dkey, bytes, out);
        return 0;
    });
}

int get(StoreObject& object, uint64_t flags, const char* key, daos_size_t& size, void* buffer) {
    const uint64_t room = buffer == nullptr ? 0 : size;
    // The store zeroes memory of missing values, but the caller's buffer must keep its bytes. A
    // large buffer is not worth a copy.
    std::string own(room <= object::value_bytes_max ? room : 0, '\0');
    const Bytes direct(static_cast<std::byte*>(buffer), room);
    object::FetchItem item{.window = object::Window::local(
                               own.empty() ? direct : std::as_writable_bytes(std::span(own)))};
    if (const int rc = to_kv_key(object, key, item.dkey); rc != 0) return rc;
    const int rc = get_value(object, item, size);
    if (rc == 0 && !own.empty()) std::memcpy(buffer, own.data(), std::min<uint64_t>(size, room));
    if (rc == -DER_NONEXIST && (flags & DAOS_COND_KEY_GET) == 0) return 0;
    return rc == -DER_REC2BIG && room == 0 ? 0 : rc;
}

}  // namespace

void add_put(const StoreObject& object, const object::Dkey& dkey, ConstBytes bytes, Update& out) {
    object::Operation operation{
        .kind = object::Operation::Kind::punch_dkey, .object = object.id, .dkey = dkey};
    // Removes any earlier value, also an array of bytes, which holds a large value.
    out.add(operation);
    const bool is_large = bytes.size() > object::value_bytes_max;
    operation.kind = is_large ? object::Operation::Kind::write : object::Operation::Kind::put;
    operation.akey = value_akey({});
    operation.window = object::Window::local(bytes);
    if (is_large) operation.extent = {.offset = 0, .length = bytes.size()};
    out.add(std::move(operation));
}

int get_value(StoreObject& object, object::FetchItem& item, daos_size_t& size) {
    item.object = object.id;
    item.akey = value_akey({});
    item.extent = {.offset = 0, .length = item.window.length};
    size = 0;
    const int rc = object.access->run([&] { return fetch_items(*object.access, {&item, 1}); });
    if (rc != 0) return rc;
    if (!item.status && item.status.error().code == Code::not_found) return -DER_NONEXIST;
    size = item.status ? item.size : item.status.error().detail;
    return size <= item.window.length ? 0 : -DER_REC2BIG;
}

}  // namespace ros2s::daos

int daos_kv_open(daos_handle_t coh, daos_obj_id_t oid, unsigned int mode, daos_handle_t* oh,
                 daos_event_t* ev) {
    return open_handle(coh, oid, mode, std::make_shared<KeyValueObject>(), oh, ev);
}

int daos_kv_close(daos_handle_t oh, daos_event_t* ev) {
    return close_handle<KeyValueObject>(oh, ev);
}

int daos_kv_put(daos_handle_t oh, daos_handle_t th, uint64_t flags, const char* key,
                daos_size_t size, const void* buf, daos_event_t* ev) {
    return call_on_object<KeyValueObject>(oh, th, ev, [&](KeyValueObject& object) {
        if (buf == nullptr && size > 0) return -DER_INVAL;
        return put(object, flags, key, {static_cast<const std::byte*>(buf), size});
    });
}

int daos_kv_get(daos_handle_t oh, daos_handle_t th, uint64_t flags, const char* key,
                daos_size_t* size, void* buf, daos_event_t* ev) {
    return call_on_object<KeyValueObject>(oh, th, ev, [&](KeyValueObject& object) {
        return size == nullptr ? -DER_INVAL : get(object, flags, key, *size, buf);
    });
}
