// daos_obj_update: values and records, in one transaction of the store.
#include <algorithm>

#include "errors.h"
#include "record_parts.h"
#include "store_access.h"

using namespace ros2s;
using namespace ros2s::daos;

namespace ros2s::daos {
namespace {

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

}  // namespace
}  // namespace ros2s::daos

int daos_obj_update(daos_handle_t oh, daos_handle_t th, uint64_t flags, daos_key_t* dkey,
                    unsigned int nr, daos_iod_t* iods, d_sg_list_t* sgls, daos_event_t* ev) {
    return call_on_object<PlainObject>(oh, th, ev, [&](PlainObject& object) {
        if (iods == nullptr || !are_there(sgls, nr, true)) return -DER_INVAL;
        return change(object, [&](Update& out) {
            return add_updates(object, flags, dkey, {iods, nr}, sgls, out);
        });
    });
}
