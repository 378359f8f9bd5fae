// Fetch and update: the bodies that go with payload.
#include <algorithm>

#include "fields.h"
#include "ros2s/rpc/frame.h"

namespace ros2s::remote {

using namespace object;

// ---- fetch ----------------------------------------------------------------------------------

constexpr uint64_t item_fixed_bytes = 40;   // object, two lengths, extent
constexpr uint64_t reply_fixed_bytes = 35;  // code, errno, detail, kind, size, epoch, count

// What a store may say of an item that was asked for.
static bool is_plausible(const FetchItem& item) {
    if (!item.status) return item.checksums.empty();
    if (item.is_value) return item.size <= item.extent.length && item.extent.offset == 0;
    return true;
}

template <class Out>
static void put(Out& out, const FetchItem& item) {
    put(out, item.object);
    out.text(item.dkey.bytes);
    out.text(item.akey.bytes);
    put(out, item.extent);
}
static void take(Decoder& in, FetchItem& item) {
    item.object = take_object(in);
    take_key(in, item.dkey.bytes);
    take_key(in, item.akey.bytes);
    item.extent = take_extent(in);
    item.window = {.length = item.extent.length};
    item.status = {};
    item.checksums.clear();
}

ConstBytes encode_fetch(Buffer& buffer, ContainerId container, std::span<const FetchItem> items) {
    return build(buffer, [&](auto& out) {
        out.uuid(container.uuid);
        out.number(static_cast<uint32_t>(items.size()));
        for (const FetchItem& item : items) put(out, item);
    });
}

Result<> decode_fetch(ConstBytes body, ContainerId& container, std::vector<FetchItem>& items) {
    Decoder in(body);
    container.uuid = in.uuid();
    const auto count = in.number<uint32_t>();
    if (count > fetch_items_max || count > in.left() / item_fixed_bytes) return fail(Code::corrupt);
    items.resize(count);
    for (FetchItem& item : items) take(in, item);
    return finish(in);
}

ConstBytes encode_pin(Buffer& buffer, ContainerId container, const Uuid& holder,
                      const FetchItem& item) {
    return build(buffer, [&](auto& out) {
        out.uuid(container.uuid);
        out.uuid(holder);
        put(out, item);
    });
}
Result<> decode_pin(ConstBytes body, ContainerId& container, Uuid& holder,
                    std::vector<FetchItem>& items) {
    Decoder in(body);
    container.uuid = in.uuid();
    holder = in.uuid();
    items.resize(1);
    take(in, items.front());
    return finish(in);
}

ConstBytes encode_unpin(Buffer& buffer, ContainerId container, const Uuid& holder,
                        ObjectId object) {
    return build(buffer, [&](auto& out) {
        out.uuid(container.uuid);
        out.uuid(holder);
        put(out, object);
    });
}
Result<> decode_unpin(ConstBytes body, ContainerId& container, Uuid& holder, ObjectId& object) {
    Decoder in(body);
    container.uuid = in.uuid();
    holder = in.uuid();
    object = take_object(in);
    return finish(in);
}
ConstBytes encode_unpinned(Buffer& buffer, bool is_wanted) {
    return build(buffer, [&](auto& out) { out.number(uint8_t{is_wanted}); });
}
Result<bool> decode_unpinned(ConstBytes body) {
    Decoder in(body);
    const bool is_wanted = take_flag(in);
    ROS2S_TRY(finish(in));
    return is_wanted;
}

uint64_t payload_bytes(const FetchItem& item) {
    if (!item.status) return 0;
    return item.is_value ? item.size : item.extent.length;
}
uint64_t request_bytes_max(const FetchItem& item) {
    return item_fixed_bytes + item.dkey.bytes.size() + item.akey.bytes.size();
}
uint64_t reply_bytes_max(const FetchItem& item) {
    const uint64_t pieces = piece_count(item.extent.offset, item.extent.length);
    return reply_fixed_bytes + std::max<uint64_t>(pieces, 1) * sizeof(uint32_t);
}

ConstBytes encode_fetched(Buffer& buffer, std::span<const FetchItem> items) {
    return build(buffer, [&](auto& out) {
        out.number(static_cast<uint32_t>(items.size()));
        for (const FetchItem& item : items) {
            put(out, item.status);
            out.number(uint8_t{item.is_value});
            out.number(item.size);
            out.number(item.epoch.value);
            put(out, item.checksums);
        }
    });
}

Result<> decode_fetched(ConstBytes body, std::span<FetchItem> items) {
    Decoder in(body);
    if (in.number<uint32_t>() != items.size()) return fail(Code::corrupt);
    for (FetchItem& item : items) {
        item.status = rpc::take_status(in);
        item.is_value = take_flag(in);
        item.size = in.number<uint64_t>();
        item.epoch.value = in.number<uint64_t>();
        take_checksums(in, item.checksums);
        if (!is_plausible(item)) return fail(Code::corrupt);
    }
    return finish(in);
}

// ---- update ---------------------------------------------------------------------------------

constexpr uint64_t condition_bytes_min = 33;
constexpr uint64_t operation_bytes_min = 65;

template <class Out>
static void put(Out& out, const Condition& condition) {
    out.number(static_cast<uint8_t>(condition.kind));
    put(out, condition.object);
    out.text(condition.dkey.bytes);
    out.text(condition.akey.bytes);
    out.number(condition.value);
}
static void take(Decoder& in, Condition& condition) {
    condition.kind = static_cast<Condition::Kind>(in.number<uint8_t>());
    condition.object = take_object(in);
    take_key(in, condition.dkey.bytes);
    take_key(in, condition.akey.bytes);
    condition.value = in.number<uint64_t>();
    if (condition.kind > Condition::Kind::unpinned) in.refuse();
}

static bool carries(const Operation& operation) {
    return operation.kind == Operation::Kind::write || operation.kind == Operation::Kind::put;
}

template <class Out>
static void put(Out& out, const Operation& operation) {
    out.number(static_cast<uint8_t>(operation.kind));
    put(out, operation.object);
    out.text(operation.dkey.bytes);
    out.text(operation.akey.bytes);
    out.text(operation.dkey_end.bytes);
    put(out, operation.extent);
    out.number(operation.size);
    out.number(carries(operation) ? operation.window.length : uint64_t{0});
    put(out, operation.checksums);
}
static void take(Decoder& in, Operation& operation) {
    operation.kind = static_cast<Operation::Kind>(in.number<uint8_t>());
    operation.object = take_object(in);
    take_key(in, operation.dkey.bytes);
    take_key(in, operation.akey.bytes);
    take_key(in, operation.dkey_end.bytes);
    operation.extent = take_extent(in);
    operation.size = in.number<uint64_t>();
    operation.window = {.length = in.number<uint64_t>()};
    take_checksums(in, operation.checksums);
    if (operation.kind > Operation::Kind::punch_object) in.refuse();
    if (!carries(operation) && operation.window.length != 0) in.refuse();
}

// Reads `count` elements, each of which takes `least` bytes.
template <class T>
static void take_all(Decoder& in, std::vector<T>& elements, uint64_t least) {
    const auto count = in.number<uint32_t>();
    if (count > transaction_operations_max || count > in.left() / least) return in.refuse();
    elements.resize(count);
    for (T& element : elements) take(in, element);
}

static bool names_holder(const Transaction& transaction) {
    return std::ranges::any_of(transaction.conditions, &Condition::is_about_pins);
}

ConstBytes encode_update(Buffer& buffer, ContainerId container, const Transaction& transaction) {
    return build(buffer, [&](auto& out) {
        out.uuid(container.uuid);
        out.uuid(transaction.id.owner);
        out.number(transaction.id.digest);
        out.number(static_cast<uint32_t>(transaction.conditions.size()));
        for (const Condition& condition : transaction.conditions) put(out, condition);
        out.number(static_cast<uint32_t>(transaction.operations.size()));
        for (const Operation& operation : transaction.operations) put(out, operation);
        if (names_holder(transaction)) out.uuid(transaction.holder.client);
    });
}

Result<> decode_update(ConstBytes body, ContainerId& container, Transaction& transaction) {
    Decoder in(body);
    container.uuid = in.uuid();
    transaction.id = {.owner = in.uuid()};
    transaction.id.digest = in.number<uint64_t>();
    take_all(in, transaction.conditions, condition_bytes_min);
    take_all(in, transaction.operations, operation_bytes_min);
    transaction.holder = {};
    if (names_holder(transaction)) transaction.holder.client = in.uuid();
    return finish(in);
}

ConstBytes encode_commit(Buffer& buffer, const Commit& commit) {
    return build(buffer, [&](auto& out) {
        out.number(commit.epoch.value);
        put(out, commit.time);
        out.number(uint8_t{commit.replayed});
    });
}
Result<Commit> decode_commit(ConstBytes body) {
    Decoder in(body);
    Commit commit;
    commit.epoch.value = in.number<uint64_t>();
    commit.time = take_time(in);
    commit.replayed = take_flag(in);
    ROS2S_TRY(finish(in));
    return commit;
}

}  // namespace ros2s::remote
