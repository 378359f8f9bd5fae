// daos_obj_*: objects with dkeys, akeys, single values and arrays of records. Punches:
// object_punches.cc.
#include <algorithm>
#include <cstring>

#include "errors.h"
#include "store_access.h"

using namespace ros2s;
using namespace ros2s::daos;

namespace ros2s::daos {
namespace {

using object::Condition;
using object::Operation;

std::span<d_iov_t> buffers_of(d_sg_list_t& list) { return {list.sg_iovs, list.sg_nr}; }

// False: a buffer that is counted is not there.
bool are_there(d_sg_list_t* lists, unsigned count, bool writes) {
    if (lists == nullptr) return true;
    return std::ranges::all_of(std::span(lists, count), [&](d_sg_list_t& list) {
        if (list.sg_nr > 0 && list.sg_iovs == nullptr) return false;
        return std::ranges::all_of(buffers_of(list), [&](const d_iov_t& iov) {
            return iov.iov_buf != nullptr || (writes ? iov.iov_len : iov.iov_buf_len) == 0;
        });
    });
}

// ---- update

std::string gather(d_sg_list_t& list, uint64_t bytes) {
    std::string all;
    for (const auto& iov : buffers_of(list)) {
        all.append(static_cast<const char*>(iov.iov_buf),
                   std::min<uint64_t>(iov.iov_len, bytes - all.size()));
    }
    return all;
}

int add_value(const StoreObject& object, const object::Dkey& dkey, const std::string& akey,
              const daos_iod_t& iod, d_sg_list_t* list, bool copies, Collected& out) {
    Operation operation{.object = object.id, .dkey = dkey, .akey = value_akey(akey)};
    // Whatever was there: also an array of bytes, which a large value is.
    operation.kind = Operation::Kind::punch_akey;
    out.add(operation);
    if (iod.iod_size == 0) return 0;
    if (list == nullptr || list->sg_nr == 0) return -DER_INVAL;
    ConstBytes bytes(static_cast<const std::byte*>(list->sg_iovs[0].iov_buf),
                     list->sg_iovs[0].iov_len);
    if (copies || list->sg_nr > 1) bytes = out.keep(gather(*list, iod.iod_size));
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

// A range of bytes of an array, and the caller's buffer for it.
struct Part {
    object::Extent extent;
    Bytes memory;
};

// Buffers that lie one after the other are one.
void add_part(const Part& part, std::vector<Part>& parts) {
    auto* const last = parts.empty() ? nullptr : &parts.back();
    const bool continues = last != nullptr && last->extent.end() == part.extent.offset &&
                           last->memory.data() + last->memory.size() == part.memory.data();
    if (!continues) {
        parts.push_back(part);
        return;
    }
    last->extent.length += part.extent.length;
    last->memory = {last->memory.data(), last->memory.size() + part.memory.size()};
}

// -DER_IO_INVAL: records beyond the end that an array can have.
int to_extent(const daos_recx_t& records, uint64_t record_bytes, object::Extent& out) {
    uint64_t end = 0;
    const bool is_too_far = __builtin_mul_overflow(records.rx_idx, record_bytes, &out.offset) ||
                            __builtin_mul_overflow(records.rx_nr, record_bytes, &out.length) ||
                            __builtin_add_overflow(out.offset, out.length, &end);
    return is_too_far || end > object::array_bytes_max ? -DER_IO_INVAL : 0;
}

// Cuts the records of a descriptor to the buffers. 0; -DER_REC2BIG: there are fewer bytes than
// records; -DER_IO_INVAL.
int cut(const daos_iod_t& iod, uint64_t record_bytes, d_sg_list_t& list, bool writes,
        std::vector<Part>& parts) {
    auto iov = buffers_of(list).begin();
    uint64_t used = 0;
    for (const auto& records : std::span(iod.iod_recxs, iod.iod_nr)) {
        object::Extent extent;
        if (const int rc = to_extent(records, record_bytes, extent); rc != 0) return rc;
        uint64_t offset = extent.offset;
        uint64_t left = extent.length;
        while (left > 0) {
            if (iov == buffers_of(list).end()) return -DER_REC2BIG;
            const uint64_t room = (writes ? iov->iov_len : iov->iov_buf_len) - used;
            const uint64_t count = std::min(left, room);
            if (count > 0) {
                add_part({.extent = {.offset = offset, .length = count},
                          .memory = {static_cast<std::byte*>(iov->iov_buf) + used, count}},
                         parts);
            }
            offset += count;
            left -= count;
            used += count;
            if (count == room) {
                ++iov;
                used = 0;
            }
        }
    }
    return 0;
}

// One update writes no record twice: DAOS has no order for that.
bool overlap(std::span<const daos_recx_t> records) {
    std::vector<daos_recx_t> sorted(records.begin(), records.end());
    std::ranges::sort(sorted, {}, &daos_recx_t::rx_idx);
    for (size_t i = 1; i < sorted.size(); ++i) {
        if (sorted[i].rx_idx - sorted[i - 1].rx_idx < sorted[i - 1].rx_nr) return true;
    }
    return false;
}

// A program does not say the size of records that it punches. The store knows it, or the
// transaction that has written them; 1 if there are none.
int record_bytes_to_punch(StoreObject& object, const object::Dkey& dkey, const std::string& akey,
                          const Collected& before, uint64_t& record_bytes) {
    const auto stored = object.access->run([&] { return record_bytes_of(object, dkey, akey); });
    if (!stored) return der_of(stored.error());
    record_bytes = std::max<uint64_t>(*stored, 1);
    if (*stored != 0) return 0;
    for (const auto& operation : before.operations()) {
        if (operation.object != object.id || operation.dkey != dkey) continue;
        const auto parts = parse_akey(operation.akey.bytes);
        if (parts.bytes == akey && parts.type == DAOS_IOD_ARRAY) record_bytes = parts.record_bytes;
    }
    return 0;
}

int add_records(const StoreObject& object, const object::Dkey& dkey, const std::string& akey,
                uint64_t record_bytes, const daos_iod_t& iod, d_sg_list_t* list, bool copies,
                Collected& out) {
    if (iod.iod_recxs == nullptr || iod.iod_nr == 0) return -DER_INVAL;
    if (overlap({iod.iod_recxs, iod.iod_nr})) return -DER_INVAL;
    Operation operation{.object = object.id, .dkey = dkey, .akey = array_akey(akey, record_bytes)};
    if (out.expects_no_records({object.id, dkey, akey})) {
        out.require_unchanged({{{.object = object.id, .dkey = dkey, .akey = operation.akey}}});
    }
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
    const bool gathers = copies || parts.size() > parts_max;
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

void require_dkey(const StoreObject& object, const object::Dkey& dkey, uint64_t flags,
                  Collected& out) {
    Condition condition{.object = object.id, .dkey = dkey};
    if ((flags & DAOS_COND_DKEY_INSERT) != 0) {
        condition.kind = Condition::Kind::absent;
        out.require(condition, -DER_EXIST);
    }
    if ((flags & (DAOS_COND_DKEY_UPDATE | DAOS_COND_PUNCH)) != 0) {
        condition.kind = Condition::Kind::exists;
        out.require(condition, -DER_NONEXIST);
    }
}

void require_akey(const StoreObject& object, const object::Dkey& dkey, const object::Akey& akey,
                  uint64_t flags, Collected& out) {
    Condition condition{.object = object.id, .dkey = dkey, .akey = akey};
    if ((flags & DAOS_COND_AKEY_INSERT) != 0) {
        condition.kind = Condition::Kind::absent;
        out.require(condition, -DER_EXIST);
    }
    if ((flags & DAOS_COND_AKEY_UPDATE) != 0) {
        condition.kind = Condition::Kind::exists;
        out.require(condition, -DER_NONEXIST);
    }
}

int add_updates(StoreObject& object, uint64_t flags, const daos_key_t* key,
                std::span<const daos_iod_t> iods, d_sg_list_t* lists, bool copies, Collected& out) {
    object::Dkey dkey;
    if (const int rc = to_dkey(object, key, dkey); rc != 0) return rc;
    require_dkey(object, dkey, flags, out);
    for (size_t i = 0; i < iods.size(); ++i) {
        const auto& iod = iods[i];
        std::string akey;
        if (const int rc = to_akey_bytes(object, iod.iod_name, akey); rc != 0) return rc;
        auto* const list = lists == nullptr ? nullptr : &lists[i];
        const bool is_value = iod.iod_type == DAOS_IOD_SINGLE;
        if (!is_value && iod.iod_type != DAOS_IOD_ARRAY) return -DER_INVAL;
        uint64_t record_bytes = iod.iod_size;
        if (!is_value && iod.iod_size == 0) {
            const int rc = record_bytes_to_punch(object, dkey, akey, out, record_bytes);
            if (rc != 0) return rc;
        }
        require_akey(object, dkey, is_value ? value_akey(akey) : array_akey(akey, record_bytes),
                     (flags & DAOS_COND_PER_AKEY) != 0 ? iod.iod_flags : flags, out);
        const int rc = is_value
                           ? add_value(object, dkey, akey, iod, list, copies, out)
                           : add_records(object, dkey, akey, record_bytes, iod, list, copies, out);
        if (rc != 0) return rc;
    }
    return 0;
}

// ---- fetch

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

Task<int> dkey_exists(StoreObject& object, const object::Dkey& dkey) {
    const Call call;
    const object::ListRequest request{
        .what = object::ListRequest::What::akeys, .object = object.id, .dkey = dkey, .limit = 1};
    const auto reply = co_await object.access->store.list(call, object.access->container, request);
    if (!reply) co_return der_of(reply.error());
    co_return reply->entries.empty() ? -DER_NONEXIST : 0;
}

// 0; -DER_NONEXIST: nothing has this dkey. A transaction has then read that.
int read_dkey(StoreObject& object, const object::Dkey& dkey,
              const std::shared_ptr<DaosTransaction>& transaction) {
    const int rc = object.access->run([&] { return dkey_exists(object, dkey); });
    if (rc != 0 && rc != -DER_NONEXIST) return rc;
    remember(transaction, [&](Collected& out) {
        out.require({.kind = rc == 0 ? Condition::Kind::exists : Condition::Kind::absent,
                     .object = object.id,
                     .dkey = dkey},
                    -DER_TX_RESTART);
    });
    return rc;
}

// What a transaction has read must still be so when it commits: also that there was nothing.
int require_fetched(StoreObject& object, const object::Dkey& dkey, const Fetches& fetches,
                    const std::shared_ptr<DaosTransaction>& transaction) {
    bool lacks_records = false;
    remember(transaction, [&](Collected& out) {
        for (const auto& fetch : fetches.all) {
            if (!fetch.is_any || fetches.found(fetch)) {
                out.require_unchanged(fetches.of(fetch));
            } else {
                out.require_no_records({object.id, dkey, fetch.akey});
                lacks_records = true;
            }
        }
    });
    // Where nothing has the dkey, nobody may insert records of any size.
    const int rc = lacks_records ? read_dkey(object, dkey, transaction) : 0;
    return rc == -DER_NONEXIST ? 0 : rc;
}

int fetch_all(StoreObject& object, daos_handle_t handle, uint64_t flags, const daos_key_t* key,
              std::span<daos_iod_t> iods, d_sg_list_t* lists) {
    std::shared_ptr<DaosTransaction> transaction;
    if (const int rc = transaction_of(handle, object, transaction); rc != 0) return rc;
    object::Dkey dkey;
    if (const int rc = to_dkey(object, key, dkey); rc != 0) return rc;
    if ((flags & DAOS_COND_DKEY_FETCH) != 0) {
        if (const int rc = read_dkey(object, dkey, transaction); rc != 0) return rc;
    }
    Fetches fetches;
    int rc = object.access->run([&] { return fetch_at_once(object, dkey, iods, lists, fetches); });
    if (rc == 0) rc = require_fetched(object, dkey, fetches, transaction);
    if (rc != 0) return rc;
    // The program needs the sizes of all.
    for (const auto& fetch : fetches.all) {
        if (const int of_one = conclude(fetches, fetch); of_one != 0) rc = of_one;
        const uint64_t wanted = (flags & DAOS_COND_PER_AKEY) != 0 ? fetch.iod.iod_flags : flags;
        if (!fetches.found(fetch) && (wanted & DAOS_COND_AKEY_FETCH) != 0) return -DER_NONEXIST;
    }
    return rc;
}

// ---- list

Shown show_dkey(const StoreObject& object, const object::ListEntry& entry) {
    return {.key = from_number_key(object.has_number_dkeys(), entry.key)};
}

Shown show_akey(const StoreObject& object, const object::ListEntry& entry) {
    const auto parts = parse_akey(entry.key);
    if (parts.type == DAOS_IOD_NONE) return {.is_left_out = true};
    return {.key = from_number_key(object.has_number_akeys(), parts.bytes),
            .value_type = parts.type};
}

}  // namespace

Task<Result<uint64_t>> record_bytes_of(StoreObject& object, const object::Dkey& dkey,
                                       const std::string& akey) {
    const Call call;
    object::ListRequest request{
        .what = object::ListRequest::What::akeys, .object = object.id, .dkey = dkey, .after = akey};
    for (;;) {
        ROS2S_CO_TRY_ASSIGN(const auto reply, co_await object.access->store.list(
                                                  call, object.access->container, request));
        for (const auto& entry : reply.entries) {
            if (!entry.key.starts_with(akey)) co_return 0;
            const auto parts = parse_akey(entry.key);
            if (parts.bytes == akey && parts.type == DAOS_IOD_ARRAY) co_return parts.record_bytes;
            request.after = entry.key;
        }
        if (!reply.more) co_return 0;
    }
}

}  // namespace ros2s::daos

// Any class is accepted, and none too. What hints ask for, one engine has.
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

int daos_obj_fetch(daos_handle_t oh, daos_handle_t th, uint64_t flags, daos_key_t* dkey,
                   unsigned int nr, daos_iod_t* iods, d_sg_list_t* sgls, daos_iom_t* ioms,
                   daos_event_t* ev) {
    const auto object = Handles::table().find<PlainObject>(oh);
    if (object == nullptr) return finish_call(ev, -DER_NO_HDL);
    if (iods == nullptr || !are_there(sgls, nr, false)) return finish_call(ev, -DER_INVAL);
    if (ioms != nullptr) {
        say_once("daos_obj_fetch: maps of extents (daos_iom_t) are not supported");
        return finish_call(ev, -DER_NOSYS);
    }
    return finish_call(ev, fetch_all(*object, th, flags, dkey, {iods, nr}, sgls));
}

int daos_obj_update(daos_handle_t oh, daos_handle_t th, uint64_t flags, daos_key_t* dkey,
                    unsigned int nr, daos_iod_t* iods, d_sg_list_t* sgls, daos_event_t* ev) {
    const auto object = Handles::table().find<PlainObject>(oh);
    if (object == nullptr) return finish_call(ev, -DER_NO_HDL);
    if (iods == nullptr || !are_there(sgls, nr, true)) return finish_call(ev, -DER_INVAL);
    return finish_call(ev, change(*object, th, [&](Collected& out, bool copies) {
                           return add_updates(*object, flags, dkey, {iods, nr}, sgls, copies, out);
                       }));
}

int daos_obj_list_dkey(daos_handle_t oh, daos_handle_t, uint32_t* nr, daos_key_desc_t* kds,
                       d_sg_list_t* sgl, daos_anchor_t* anchor, daos_event_t* ev) {
    const auto object = Handles::table().find<PlainObject>(oh);
    if (object == nullptr) return finish_call(ev, -DER_NO_HDL);
    return finish_call(ev, list_keys(*object, {.what = object::ListRequest::What::dkeys}, nr, kds,
                                     sgl, anchor, show_dkey));
}

int daos_obj_list_akey(daos_handle_t oh, daos_handle_t, daos_key_t* dkey, uint32_t* nr,
                       daos_key_desc_t* kds, d_sg_list_t* sgl, daos_anchor_t* anchor,
                       daos_event_t* ev) {
    const auto object = Handles::table().find<PlainObject>(oh);
    if (object == nullptr) return finish_call(ev, -DER_NO_HDL);
    object::ListRequest request{.what = object::ListRequest::What::akeys};
    if (const int rc = to_dkey(*object, dkey, request.dkey); rc != 0) return rc;
    return finish_call(ev, list_keys(*object, request, nr, kds, sgl, anchor, show_akey));
}
