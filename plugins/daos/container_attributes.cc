// Attributes of containers: values of an object of the container that neither files nor programs
// see (docs/formats/daos.md).
#include <algorithm>
#include <cstring>

#include "errors.h"
#include "store_access.h"

using namespace ros2s;
using namespace ros2s::daos;

namespace ros2s::daos {
namespace {

// Runs f(object) with the object of the attributes.
template <class F>
int call_on_attributes(daos_handle_t handle, daos_event_t* event, F&& f) {
    return call_on<Container>(handle, event, [&](const std::shared_ptr<Container>& container) {
        StoreObject object;
        const int rc = open_own(container, attributes_id, object);
        return rc != 0 ? rc : f(object);
    });
}

int to_name(const char* name, object::Dkey& out) {
    if (name == nullptr || *name == '\0') return -DER_INVAL;
    out.bytes = name;
    if (out.bytes.size() <= object::key_bytes_max) return 0;
    say_once("names of attributes of containers have at most 255 bytes here");
    return -DER_INVAL;
}

int put_attributes(StoreObject& object, std::span<char const* const> names,
                   void const* const values[], size_t const sizes[]) {
    return change(object, [&](Update& out) {
        for (size_t i = 0; i < names.size(); ++i) {
            object::Dkey dkey;
            if (const int rc = to_name(names[i], dkey); rc != 0) return rc;
            if (values[i] == nullptr || sizes[i] == 0) return -DER_INVAL;
            add_put(object, dkey, {static_cast<const std::byte*>(values[i]), sizes[i]}, out);
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

}  // namespace
}  // namespace ros2s::daos

int daos_cont_set_attr(daos_handle_t coh, int n, char const* const names[],
                       void const* const values[], size_t const sizes[], daos_event_t* ev) {
    return call_on_attributes(coh, ev, [&](StoreObject& object) {
        if (n <= 0 || names == nullptr || values == nullptr || sizes == nullptr) return -DER_INVAL;
        return put_attributes(object, {names, static_cast<size_t>(n)}, values, sizes);
    });
}

int daos_cont_get_attr(daos_handle_t coh, int n, char const* const names[], void* const buffers[],
                       size_t sizes[], daos_event_t* ev) {
    return call_on_attributes(coh, ev, [&](StoreObject& object) {
        if (n <= 0 || names == nullptr || sizes == nullptr) return -DER_INVAL;
        int rc = 0;
        for (int i = 0; rc == 0 && i < n; ++i) {
            rc = get_attribute(object, names[i], buffers == nullptr ? nullptr : buffers[i],
                               sizes[i]);
        }
        return rc;
    });
}

int daos_cont_list_attr(daos_handle_t coh, char* buffer, size_t* size, daos_event_t* ev) {
    return call_on_attributes(coh, ev, [&](StoreObject& object) {
        if (size == nullptr) return -DER_INVAL;
        const auto names = object.access->run([&] { return all_names(object); });
        if (!names) return der_of(names.error());
        if (buffer != nullptr) names->copy(buffer, *size);
        *size = names->size();
        return 0;
    });
}

// A missing attribute is not an error.
int daos_cont_del_attr(daos_handle_t coh, int n, char const* const names[], daos_event_t* ev) {
    return call_on_attributes(coh, ev, [&](StoreObject& object) {
        if (n <= 0 || names == nullptr) return -DER_INVAL;
        return change(object, [&](Update& out) {
            for (const char* const name : std::span(names, static_cast<size_t>(n))) {
                object::Operation operation{.kind = object::Operation::Kind::punch_dkey,
                                            .object = object.id};
                if (const int rc = to_name(name, operation.dkey); rc != 0) return rc;
                out.add(std::move(operation));
            }
            return 0;
        });
    });
}
