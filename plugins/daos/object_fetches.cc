// daos_obj_fetch: values and records of several akeys, as they were at one time.
#include <algorithm>
#include <cstring>

#include "errors.h"
#include "record_parts.h"
#include "store_access.h"

using namespace ros2s;
using namespace ros2s::daos;

namespace ros2s::daos {
namespace {

// One descriptor of a fetch. Its items lie one after the other.
struct Fetch {
    daos_iod_t& iod;
    d_sg_list_t* list;
    std::string akey;
    uint64_t record_bytes = 0;
    bool is_any = false;        // the program asks for the size of the records
    bool is_too_small = false;  // there are fewer bytes in the buffers than in the records
    size_t first = 0;
    size_t count = 0;
    std::string scattered;  // a value for more than one buffer
};
struct Fetches {
    std::vector<Fetch> all;
    std::vector<object::FetchItem> items;

    [[nodiscard]] std::span<const object::FetchItem> of(const Fetch& fetch) const {
        return std::span(items).subspan(fetch.first, fetch.count);
    }
    [[nodiscard]] bool found(const Fetch& fetch) const {
        const auto& status = items[fetch.first].status;
        return status || status.error().code == Code::too_small;
    }
};

void plan_value(const StoreObject& object, const object::Dkey& dkey, Fetch& fetch,
                std::vector<object::FetchItem>& items) {
    uint64_t room = 0;
    Bytes memory;
    if (fetch.list != nullptr) {
        for (const auto& iov : buffers_of(*fetch.list)) room += iov.iov_buf_len;
        if (fetch.list->sg_nr == 1) {
            memory = {static_cast<std::byte*>(fetch.list->sg_iovs[0].iov_buf), room};
        } else if (fetch.list->sg_nr > 1) {
            fetch.scattered.resize(room);
            memory = std::as_writable_bytes(std::span(fetch.scattered));
        }
    }
    room = std::min<uint64_t>(room, object::transaction_bytes_max);
    fetch.first = items.size();
    fetch.count = 1;
    items.push_back({.object = object.id,
                     .dkey = dkey,
                     .akey = value_akey(fetch.akey),
                     .extent = {.offset = 0, .length = room},
                     .window = object::Window::local(memory.first(room))});
}

// Errors: -DER_IO_INVAL. Without buffers, or room in them, the item is about the array alone.
int plan_records(const StoreObject& object, const object::Dkey& dkey, Fetch& fetch,
                 std::vector<object::FetchItem>& items) {
    std::vector<Part> parts;
    if (fetch.list != nullptr && fetch.list->sg_nr > 0) {
        const int rc = cut(fetch.iod, fetch.record_bytes, *fetch.list, false, parts);
        fetch.is_too_small = rc == -DER_REC2BIG;
        if (rc != 0 && !fetch.is_too_small) return rc;
    }
    if (parts.empty() || fetch.is_too_small) parts.assign(1, {});
    fetch.first = items.size();
    fetch.count = parts.size();
    for (const auto& part : parts) {
        items.push_back({.object = object.id,
                         .dkey = dkey,
                         .akey = array_akey(fetch.akey, fetch.record_bytes),
                         .extent = part.extent,
                         .window = object::Window::local(part.memory)});
    }
    return 0;
}

int plan(const StoreObject& object, const object::Dkey& dkey, std::span<daos_iod_t> iods,
         d_sg_list_t* lists, Fetches& out) {
    out.all.reserve(iods.size());  // windows refer to its strings
    for (size_t i = 0; i < iods.size(); ++i) {
        auto& iod = iods[i];
        const bool is_array = iod.iod_type == DAOS_IOD_ARRAY;
        if (!is_array && iod.iod_type != DAOS_IOD_SINGLE) return -DER_INVAL;
        const bool is_any = is_array && iod.iod_size == DAOS_REC_ANY;
        auto& fetch = out.all.emplace_back(Fetch{.iod = iod,
                                                 .list = lists == nullptr ? nullptr : &lists[i],
                                                 .record_bytes = is_any ? 1 : iod.iod_size,
                                                 .is_any = is_any});
        int rc = to_akey_bytes(object, iod.iod_name, fetch.akey);
        if (rc == 0 && is_array) rc = plan_records(object, dkey, fetch, out.items);
        if (rc != 0) return rc;
        if (!is_array) plan_value(object, dkey, fetch, out.items);
    }
    return 0;
}

void scatter(const std::string& bytes, uint64_t size, d_sg_list_t& list) {
    uint64_t at = 0;
    for (auto& iov : buffers_of(list)) {
        const uint64_t count = std::min<uint64_t>(iov.iov_buf_len, size - at);
        std::memcpy(iov.iov_buf, bytes.data() + at, count);
        iov.iov_len = count;
        at += count;
    }
}

// Fills the caller's descriptor and list. 0 or -DER_REC2BIG.
int conclude(const Fetches& fetches, const Fetch& fetch) {
    const bool found = fetches.found(fetch);
    if (fetch.list != nullptr) fetch.list->sg_nr_out = found ? fetch.list->sg_nr : 0;
    if (fetch.is_too_small && (found || !fetch.is_any)) {
        fetch.iod.iod_size = fetch.record_bytes;
        return -DER_REC2BIG;
    }
    if (!found) {
        fetch.iod.iod_size = 0;
        return 0;
    }
    if (fetch.iod.iod_type == DAOS_IOD_ARRAY) {
        fetch.iod.iod_size = fetch.record_bytes;
        if (fetch.list == nullptr) return 0;
        // Up to the last byte that the array has.
        uint64_t left = 0;
        uint64_t before = 0;
        for (const auto& item : fetches.of(fetch)) {
            if (item.size > item.extent.offset) {
                left = before + std::min(item.extent.length, item.size - item.extent.offset);
            }
            before += item.extent.length;
        }
        fetch.list->sg_nr_out = 0;
        for (uint32_t i = 0; i < fetch.list->sg_nr; ++i) {
            auto& iov = fetch.list->sg_iovs[i];
            iov.iov_len = std::min<uint64_t>(iov.iov_buf_len, left);
            left -= iov.iov_len;
            if (iov.iov_len > 0) fetch.list->sg_nr_out = i + 1;
        }
        return 0;
    }
    const auto& value = fetches.items[fetch.first];
    const uint64_t size = value.status ? value.size : value.status.error().detail;
    fetch.iod.iod_size = size;
    if (fetch.list == nullptr || fetch.list->sg_nr == 0) return 0;
    if (size > value.extent.length) return -DER_REC2BIG;
    if (fetch.list->sg_nr == 1) {
        fetch.list->sg_iovs[0].iov_len = size;
    } else {
        scatter(fetch.scattered, size, *fetch.list);
    }
    return 0;
}

// 0 or -DER_.
Task<int> read_planned(StoreObject& object, const object::Dkey& dkey, Fetches& fetches) {
    int rc = co_await fetch_items(*object.access, fetches.items);
    if (rc != 0) co_return rc;
    // Records of another size?
    const size_t planned = fetches.items.size();
    for (auto& fetch : fetches.all) {
        if (!fetch.is_any || fetches.found(fetch)) continue;
        const auto size = co_await record_bytes_of(object, dkey, fetch.akey);
        if (!size) co_return der_of(size.error());
        if (*size <= 1) continue;
        fetch.record_bytes = *size;
        rc = plan_records(object, dkey, fetch, fetches.items);
        if (rc != 0) co_return rc;
    }
    if (fetches.items.size() == planned) co_return 0;
    co_return co_await fetch_items(*object.access, std::span(fetches.items).subspan(planned));
}

// What several akeys were at one time, if none has changed when all are read. -DER_AGAIN: one has.
Task<int> check_unchanged(StoreObject& object, const object::Dkey& dkey, const Fetches& fetches) {
    if (fetches.all.size() <= 1) co_return 0;
    // First, while the others are as they were seen: are arrays still absent, of any record size?
    for (const auto& fetch : fetches.all) {
        if (!fetch.is_any || fetches.found(fetch)) continue;
        const auto size = co_await record_bytes_of(object, dkey, fetch.akey);
        if (!size) co_return der_of(size.error());
        if (std::max<uint64_t>(*size, 1) != fetch.record_bytes) co_return -DER_AGAIN;
    }
    std::vector<object::FetchItem> now;
    for (const auto& fetch : fetches.all) {
        const auto& seen = fetches.items[fetch.first];
        now.push_back({.object = seen.object, .dkey = seen.dkey, .akey = seen.akey});
    }
    if (const int rc = co_await fetch_items(*object.access, now); rc != 0) co_return rc;
    for (size_t i = 0; i < now.size(); ++i) {
        if (now[i].epoch != fetches.items[fetches.all[i].first].epoch) co_return -DER_AGAIN;
    }
    co_return 0;
}

// Shows no part of an update. 0 or -DER_.
Task<int> fetch_at_once(StoreObject& object, const object::Dkey& dkey, std::span<daos_iod_t> iods,
                        d_sg_list_t* lists, Fetches& out) {
    for (int i = 0; i < refetches_max; ++i) {
        out = {};
        int rc = plan(object, dkey, iods, lists, out);
        if (rc == 0) rc = co_await read_planned(object, dkey, out);
        if (rc != 0) co_return rc;
        rc = co_await check_unchanged(object, dkey, out);
        if (rc != -DER_AGAIN) co_return rc;
    }
    co_return -DER_AGAIN;
}

// 0; -DER_NONEXIST: nothing has this dkey.
Task<int> dkey_exists(StoreObject& object, const object::Dkey& dkey) {
    const Call call;
    const object::ListRequest request{
        .what = object::ListRequest::What::akeys, .object = object.id, .dkey = dkey, .limit = 1};
    const auto reply = co_await object.access->store.list(call, object.access->container, request);
    if (!reply) co_return der_of(reply.error());
    co_return reply->entries.empty() ? -DER_NONEXIST : 0;
}

int fetch_all(StoreObject& object, uint64_t flags, const daos_key_t* key,
              std::span<daos_iod_t> iods, d_sg_list_t* lists) {
    object::Dkey dkey;
    int rc = to_dkey(object, key, dkey);
    if (rc == 0 && (flags & DAOS_COND_DKEY_FETCH) != 0) {
        rc = object.access->run([&] { return dkey_exists(object, dkey); });
    }
    if (rc != 0) return rc;
    Fetches fetches;
    rc = object.access->run([&] { return fetch_at_once(object, dkey, iods, lists, fetches); });
    if (rc != 0) return rc;
    // The program needs the sizes of all.
    for (const auto& fetch : fetches.all) {
        if (const int of_one = conclude(fetches, fetch); of_one != 0) rc = of_one;
        const uint64_t wanted = (flags & DAOS_COND_PER_AKEY) != 0 ? fetch.iod.iod_flags : flags;
        if (!fetches.found(fetch) && (wanted & DAOS_COND_AKEY_FETCH) != 0) return -DER_NONEXIST;
    }
    return rc;
}

}  // namespace
}  // namespace ros2s::daos

int daos_obj_fetch(daos_handle_t oh, daos_handle_t th, uint64_t flags, daos_key_t* dkey,
                   unsigned int nr, daos_iod_t* iods, d_sg_list_t* sgls, daos_iom_t* ioms,
                   daos_event_t* ev) {
    return call_on_object<PlainObject>(oh, th, ev, [&](PlainObject& object) {
        if (iods == nullptr || !are_there(sgls, nr, false)) return -DER_INVAL;
        if (ioms == nullptr) return fetch_all(object, flags, dkey, {iods, nr}, sgls);
        say_once("daos_obj_fetch: maps of extents (daos_iom_t) are not supported");
        return -DER_NOSYS;
    });
}
