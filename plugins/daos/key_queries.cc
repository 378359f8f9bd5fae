// daos_obj_query_key: the greatest or least key that is a number, and where an array ends. The
// store lists keys upwards; the greatest is found by halving the range of numbers.
#include <cstring>

#include "errors.h"
#include "store_access.h"

using namespace ros2s;
using namespace ros2s::daos;

namespace ros2s::daos {
namespace {

// A transaction has a limited number of conditions. If the search needs more, only its result is
// protected.
constexpr size_t protected_arrays_max = 100;

struct Query {
    StoreObject& object;
    uint64_t flags = 0;
    object::Dkey dkey;
    std::string akey;
    uint64_t end = 0;  // of the array, in records
    // The keys that the search has read: the greatest (or least) dkey, arrays, and akeys without
    // one.
    std::optional<uint64_t> extreme_dkey;
    std::vector<object::FetchItem> arrays;
    std::vector<Collected::Records> absent;

    [[nodiscard]] bool asks(uint64_t flag) const { return (flags & flag) != 0; }
};

// The first stored key that is a number of at least `from`.
Task<Result<std::optional<uint64_t>>> first_from(StoreObject& object, object::ListRequest request,
                                                 uint64_t from) {
    const Call call;
    const bool are_akeys = request.what == object::ListRequest::What::akeys;
    // Before all keys that begin with this number.
    if (from > 0) {
        request.after = object::Dkey::integer(from - 1).bytes + std::string(1, '\xff');
    }
    request.limit = 1;
    for (;;) {
        ROS2S_CO_TRY_ASSIGN(const auto reply, co_await object.access->store.list(
                                                  call, object.access->container, request));
        for (const auto& entry : reply.entries) {
            request.after = entry.key;
            const auto bytes = are_akeys ? parse_akey(entry.key).bytes : entry.key;
            if (bytes.size() != akey_number_bytes) continue;
            co_return object::Dkey{std::string(bytes)}.number();
        }
        if (!reply.more) co_return std::nullopt;
    }
}

// The greatest (or least) number below (or above) `bound`, or of all numbers without a bound.
Task<Result<std::optional<uint64_t>>> extreme(StoreObject& object, object::ListRequest request,
                                              bool greatest, std::optional<uint64_t> bound) {
    if (!greatest) {
        if (bound == UINT64_MAX) co_return std::nullopt;
        co_return co_await first_from(object, request, bound ? *bound + 1 : 0);
    }
    std::optional<uint64_t> found;
    uint64_t low = 0;                             // a key that is sought is at least this
    uint64_t high = bound ? *bound : UINT64_MAX;  // and below this
    if (!bound) {
        ROS2S_CO_TRY_ASSIGN(found, co_await first_from(object, request, UINT64_MAX));
        if (found) co_return found;
    }
    while (low < high) {
        const uint64_t middle = low + (high - low) / 2;
        ROS2S_CO_TRY_ASSIGN(const auto next, co_await first_from(object, request, middle));
        if (next && *next >= middle && *next < high) {
            found = next;
            low = *next + 1;
        } else {
            high = middle;
        }
    }
    co_return found;
}

// The end of the array, if the akey is one.
Task<int> find_end(Query& query) {
    auto& object = query.object;
    const auto record_bytes = co_await record_bytes_of(object, query.dkey, query.akey);
    if (!record_bytes) co_return der_of(record_bytes.error());
    if (*record_bytes == 0) {
        query.absent.push_back({object.id, query.dkey, query.akey});
        co_return -DER_NONEXIST;
    }
    auto& item = query.arrays.emplace_back(object::FetchItem{
        .object = object.id, .dkey = query.dkey, .akey = array_akey(query.akey, *record_bytes)});
    const int rc = co_await fetch_items(*object.access, {&item, 1});
    if (rc != 0) co_return rc;
    query.end = item.size / *record_bytes;
    co_return query.end == 0 ? -DER_NONEXIST : 0;
}

// The result for one dkey.
Task<int> query_akey(Query& query) {
    const bool asks_end = query.asks(DAOS_GET_RECX);
    if (!query.asks(DAOS_GET_AKEY)) {
        if (!asks_end) co_return 0;
        co_return co_await find_end(query);
    }
    const object::ListRequest akeys{
        .what = object::ListRequest::What::akeys, .object = query.object.id, .dkey = query.dkey};
    std::optional<uint64_t> bound;
    for (;;) {
        const auto found = co_await extreme(query.object, akeys, query.asks(DAOS_GET_MAX), bound);
        if (!found) co_return der_of(found.error());
        if (!*found) co_return -DER_NONEXIST;
        query.akey = object::Dkey::integer(**found).bytes;
        if (!asks_end) co_return 0;
        const int rc = co_await find_end(query);
        if (rc != -DER_NONEXIST) co_return rc;
        bound = *found;
    }
}

Task<int> run(Query& query) {
    if (!query.asks(DAOS_GET_DKEY)) co_return co_await query_akey(query);
    const object::ListRequest dkeys{.what = object::ListRequest::What::dkeys,
                                    .object = query.object.id};
    std::optional<uint64_t> bound;
    for (;;) {
        const auto found = co_await extreme(query.object, dkeys, query.asks(DAOS_GET_MAX), bound);
        if (!found) co_return der_of(found.error());
        if (!bound) query.extreme_dkey = *found;
        if (!*found) co_return -DER_NONEXIST;
        query.dkey = object::Dkey::integer(**found);
        const int rc = co_await query_akey(query);
        if (rc != -DER_NONEXIST) co_return rc;
        bound = *found;
    }
}

// The values that a transaction has read must be unchanged at its commit. For a query over all
// dkeys, these are the extreme dkey and the next number: a dkey far beyond is not noticed. Akeys
// are not protected.
void require_queried(Query& query, Collected& out) {
    if (query.arrays.size() + query.absent.size() > protected_arrays_max) {
        query.absent.clear();
        query.arrays.erase(query.arrays.begin(), query.arrays.end() - (query.end > 0 ? 1 : 0));
    }
    out.require_unchanged(query.arrays);
    for (const auto& each : query.absent) out.require_no_records(each);
    if (!query.asks(DAOS_GET_DKEY)) return;
    using Kind = object::Condition::Kind;
    const auto require = [&](Kind kind, uint64_t number) {
        out.require(
            {.kind = kind, .object = query.object.id, .dkey = object::Dkey::integer(number)},
            -DER_TX_RESTART);
    };
    const auto found = query.extreme_dkey;
    const bool greatest = query.asks(DAOS_GET_MAX);
    if (found) require(Kind::exists, *found);
    if (!found) require(Kind::absent, greatest ? 0 : UINT64_MAX);
    if (found && *found != (greatest ? UINT64_MAX : 0)) {
        require(Kind::absent, greatest ? *found + 1 : *found - 1);
    }
}

bool put_number(const std::string& stored, daos_key_t* key) {
    if (key == nullptr || key->iov_buf == nullptr || key->iov_buf_len < akey_number_bytes) {
        return false;
    }
    const std::string bytes = from_number_key(true, stored);
    std::memcpy(key->iov_buf, bytes.data(), bytes.size());
    key->iov_len = bytes.size();
    return true;
}

}  // namespace
}  // namespace ros2s::daos

int daos_obj_query_key(daos_handle_t oh, daos_handle_t th, uint64_t flags, daos_key_t* dkey,
                       daos_key_t* akey, daos_recx_t* recx, daos_event_t* ev) {
    const auto object = Handles::table().find<PlainObject>(oh);
    if (object == nullptr) return finish_call(ev, -DER_NO_HDL);
    Query query{.object = *object, .flags = flags};
    if (query.asks(DAOS_GET_MAX) == query.asks(DAOS_GET_MIN)) return -DER_INVAL;
    if (!query.asks(DAOS_GET_DKEY | DAOS_GET_AKEY | DAOS_GET_RECX)) return -DER_INVAL;
    if (query.asks(DAOS_GET_DKEY) && !object->has_number_dkeys()) return -DER_INVAL;
    if (query.asks(DAOS_GET_AKEY) && !object->has_number_akeys()) return -DER_INVAL;
    if (query.asks(DAOS_GET_RECX) && recx == nullptr) return -DER_INVAL;
    if (query.asks(DAOS_GET_RECX) && query.asks(DAOS_GET_MIN)) {
        say_once("daos_obj_query_key: the first record of an array is not known, only its end");
        return finish_call(ev, -DER_NOTSUPPORTED);
    }
    if (!query.asks(DAOS_GET_DKEY)) {
        if (const int rc = to_dkey(*object, dkey, query.dkey); rc != 0) return rc;
    }
    if (!query.asks(DAOS_GET_AKEY) && query.asks(DAOS_GET_RECX)) {
        if (akey == nullptr) return -DER_INVAL;
        if (const int rc = to_akey_bytes(*object, *akey, query.akey); rc != 0) return rc;
    }
    if (query.asks(DAOS_GET_RECX)) *recx = {};
    std::shared_ptr<DaosTransaction> transaction;
    if (const int rc = transaction_of(th, *object, transaction); rc != 0) {
        return finish_call(ev, rc);
    }
    const int rc = object->access->run([&] { return run(query); });
    if (rc == 0 || rc == -DER_NONEXIST) {
        remember(transaction, [&](Collected& out) { require_queried(query, out); });
    }
    // For keys that the program gave: there are no records.
    const bool asks_keys = query.asks(DAOS_GET_DKEY) || query.asks(DAOS_GET_AKEY);
    if (rc == -DER_NONEXIST && !asks_keys) return finish_call(ev, 0);
    if (rc != 0) return finish_call(ev, rc);
    if (query.asks(DAOS_GET_DKEY) && !put_number(query.dkey.bytes, dkey)) return -DER_INVAL;
    if (query.asks(DAOS_GET_AKEY) && !put_number(query.akey, akey)) return -DER_INVAL;
    if (query.asks(DAOS_GET_RECX)) *recx = {.rx_idx = query.end - 1, .rx_nr = 1};
    return finish_call(ev, 0);
}
