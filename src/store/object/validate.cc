#include "validate.h"

#include <algorithm>

#include "checksum.h"
#include "ros2s/base/quota.h"

namespace ros2s::object {
namespace {

Result<> validate(const Dkey& dkey) {
    if (dkey.bytes.size() > key_bytes_max) return fail(Code::too_large, key_bytes_max);
    return {};
}

Result<> validate(const Extent& extent) {
    if (extent.length > array_bytes_max || extent.offset > array_bytes_max - extent.length) {
        return fail(Code::too_large, array_bytes_max);
    }
    return {};
}

Result<> validate_write(const Operation& operation) {
    ROS2S_TRY(validate(operation.extent));
    if (operation.window.length != operation.extent.length) return fail(Code::invalid);
    const uint64_t pieces = piece_count(operation.extent.offset, operation.extent.length);
    if (!operation.checksums.empty() && operation.checksums.size() != pieces) {
        return fail(Code::invalid);
    }
    if (!operation.seals.empty() && operation.seals.size() != pieces * seal_bytes) {
        return fail(Code::invalid);
    }
    return {};
}

Result<> validate_put(const Operation& operation) {
    if (operation.window.length > value_bytes_max) return fail(Code::too_large, value_bytes_max);
    if (operation.checksums.size() > 1) return fail(Code::invalid);
    return {};
}

}  // namespace

Result<> validate(const Akey& akey) {
    if (akey.bytes.empty()) return fail(Code::invalid);
    if (akey.bytes.size() > key_bytes_max) return fail(Code::too_large, key_bytes_max);
    return {};
}

Result<> validate(const FetchItem& item) {
    ROS2S_TRY(validate(item.dkey));
    ROS2S_TRY(validate(item.akey));
    ROS2S_TRY(validate(item.extent));
    if (item.window.length < item.extent.length) return fail(Code::invalid);
    return {};
}

void clear(FetchItem& item) {
    item.is_value = false;
    item.size = 0;
    item.epoch = {};
    item.checksums.clear();
    item.seals.clear();
}

bool begin_fetch(FetchItem& item) {
    clear(item);
    item.status = validate(item);
    if (item.status && !item.window.is_local()) item.status = fail(Code::unsupported);
    return item.status.has_value();
}

Result<> validate(const Condition& condition) {
    using Kind = Condition::Kind;
    switch (condition.kind) {
        case Kind::exists:
        case Kind::absent:
            if (condition.akey.bytes.empty()) return validate(condition.dkey);
            break;
        case Kind::epoch_equals:
        case Kind::size_equals: break;
        case Kind::no_dkeys: return validate(condition.akey);
        case Kind::pinned:
        case Kind::unpinned:
        case Kind::pin:
        case Kind::lease: return {};
        default: return fail(Code::invalid);
    }
    ROS2S_TRY(validate(condition.dkey));
    return validate(condition.akey);
}

Result<> validate(const Operation& operation) {
    using Kind = Operation::Kind;
    if (operation.kind != Kind::write && !operation.seals.empty()) return fail(Code::invalid);
    if (operation.kind == Kind::punch_object) return {};
    ROS2S_TRY(validate(operation.dkey));
    if (operation.kind == Kind::punch_dkey) return {};
    if (operation.kind == Kind::punch_dkeys) {
        ROS2S_TRY(validate(operation.dkey_end));
        const bool reversed =
            !operation.dkey_end.bytes.empty() && operation.dkey_end < operation.dkey;
        return reversed ? Result<>(fail(Code::invalid)) : Result<>();
    }
    ROS2S_TRY(validate(operation.akey));
    switch (operation.kind) {
        case Kind::write: return validate_write(operation);
        case Kind::put: return validate_put(operation);
        case Kind::punch_extent: return validate(operation.extent);
        case Kind::set_size: return validate(Extent{0, operation.size});
        case Kind::touch:
        case Kind::punch_akey: return {};
        default: return fail(Code::invalid);
    }
}

namespace {

// A transaction pins and leases what it makes, and not whatever object it names.
Result<> validate_holds(const Transaction& transaction) {
    size_t pins = 0, leases = 0;
    for (const Condition& condition : transaction.conditions) {
        const bool pins_it = condition.kind == Condition::Kind::pin;
        if (!pins_it && condition.kind != Condition::Kind::lease) continue;
        if (pins_it && ++pins > transaction_pins_max) {
            return fail(Code::too_large, transaction_pins_max);
        }
        if (!pins_it && ++leases > 1) return fail(Code::invalid);
        const bool makes_it =
            std::ranges::any_of(transaction.operations, [&condition](const Operation& operation) {
                return operation.kind == Operation::Kind::put &&
                       operation.object == condition.object;
            });
        if (!makes_it) return fail(Code::invalid);
    }
    return {};
}

}  // namespace

Result<> validate(const Transaction& transaction) {
    if (transaction.operations.size() > transaction_operations_max ||
        transaction.conditions.size() > transaction_operations_max) {
        return fail(Code::too_large, transaction_operations_max);
    }
    if (!transaction.id.client.is_nil() && transaction.id.sequence == 0) return fail(Code::invalid);
    for (const Condition& condition : transaction.conditions) ROS2S_TRY(validate(condition));
    ROS2S_TRY(validate_holds(transaction));
    uint64_t payload = 0;
    for (const Operation& operation : transaction.operations) {
        ROS2S_TRY(validate(operation));
        const bool carries =
            operation.kind == Operation::Kind::write || operation.kind == Operation::Kind::put;
        if (carries) payload += operation.window.length;
    }
    if (payload > transaction_bytes_max) return fail(Code::too_large, transaction_bytes_max);
    return {};
}

Result<> validate(const ListRequest& request) {
    if (request.limit == 0) return fail(Code::invalid);
    switch (request.what) {
        case ListRequest::What::objects:
            if (request.after && request.after->size() != 16) return fail(Code::invalid);
            return {};
        case ListRequest::What::dkeys:
            if (request.akey.bytes.size() > key_bytes_max) {
                return fail(Code::too_large, key_bytes_max);
            }
            return {};
        case ListRequest::What::akeys: return validate(request.dkey);
        default: return fail(Code::invalid);
    }
}

Result<> validate(std::span<const FetchItem> items, std::span<const Link> links) {
    if (items.size() > chain_items_max) return fail(Code::too_large, chain_items_max);
    uint64_t bytes = 0;
    for (size_t i = 0; i < items.size(); ++i) {
        const FetchItem& item = items[i];
        ROS2S_TRY(validate(item));
        if (!item.window.is_local()) return fail(Code::unsupported);
        const uint64_t length = item.extent.length;
        const bool is_query = links[i].kind == Link::Kind::query;
        if (links[i].kind > Link::Kind::query) return fail(Code::invalid);
        if (is_query && (length != 0 || !item.dkey.bytes.empty())) return fail(Code::invalid);
        for (const Link::Reference& reference : {links[i].object, links[i].when}) {
            if (!reference.is_set()) continue;
            const bool is_earlier = reference.item < i;
            if (!is_earlier || links[reference.item].kind == Link::Kind::query) {
                return fail(Code::invalid);
            }
        }
        if (length > chain_bytes_max - bytes) return fail(Code::too_large, chain_bytes_max);
        bytes += length;
    }
    return {};
}

Result<> validate(const ContainerProperties& properties) {
    if (!is_valid_label(properties.label)) return fail(Code::invalid);
    if (properties.chunk_bytes == 0 || properties.chunk_bytes % block_bytes != 0 ||
        properties.chunk_bytes > array_bytes_max) {
        return fail(Code::invalid);
    }
    if (properties.owner.size() > owner_bytes_max)
        return fail(Code::name_too_long, owner_bytes_max);
    return {};
}

Result<> check_room(uint64_t all, std::string_view owner, uint64_t owned) {
    if (all >= containers_max) return fail(Code::too_large, containers_max);
    const bool has_too_many = !owner.empty() && owned >= containers_of_owner_sure &&
                              exceeds_fair_share(owned, all, containers_max);
    return has_too_many ? fail(Code::too_large, owned) : Result<>();
}

}  // namespace ros2s::object
