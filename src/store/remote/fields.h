// The bodies of requests and replies, field by field. They are written and read with rpc::build(),
// rpc::read() and rpc::read_body(). A reader accepts any bytes and reuses the memory of its parts;
// a value that was read is within the object model's limits of counts and keys. Windows are not
// written: payload follows in the order of operations, or of a fetch's items. A window that was
// read has its length and no address; the caller sets the address.
#pragma once
#include <algorithm>

#include "ros2s/base/fields.h"
#include "ros2s/object/leases.h"
#include "ros2s/object/lock_fields.h"
#include "ros2s/rpc/body.h"
#include "wire.h"

namespace ros2s::remote {

inline constexpr size_t path_bytes_max = 1024;

inline constexpr auto object_fields = [](auto& io, auto& object) {
    io("high", object.high);
    io("low", object.low);
};

// ---- fetch, pin -----------------------------------------------------------------------------

inline constexpr auto item_fields = []<class Io>(Io& io, auto& item) {
    io.part("object", item.object, object_fields);
    io.text("dkey", item.dkey.bytes, object::key_bytes_max);
    io.text("akey", item.akey.bytes, object::key_bytes_max);
    io("offset", item.extent.offset);
    io("length", item.extent.length);
    if constexpr (Io::reads) {
        item.window = {.length = item.extent.length};
        item.status = {};
        item.checksums.clear();
        item.wants_seals = false;
        item.seals.clear();
    }
};
// A message has fields for seals only if they are used: peers without the feature do not have these
// fields.
inline bool want_seals(std::span<const object::FetchItem> items) {
    return std::ranges::any_of(items, &object::FetchItem::wants_seals);
}
inline constexpr size_t seals_bytes_max =
    object::transaction_bytes_max / block_bytes * object::seal_bytes * 2;
inline constexpr auto seal_request_fields = [](auto& io, auto& item) {
    io("its seals are wanted", item.wants_seals);
};
inline constexpr auto seals_fields = [](auto& io, auto& of) {
    io.text("seals", of.seals, seals_bytes_max);
};
inline constexpr auto fetch_fields = [](auto& io, auto& container, auto& items) {
    io("container", container.uuid);
    io.list("items", items, object::fetch_items_max, item_fields);
    if (io.more("where seals are wanted", want_seals(items))) {
        io.each(items, seal_request_fields);
        io.refuse_when(!want_seals(items));
    }
};

// Returns true if a store may return this for a requested item.
inline bool is_plausible(const object::FetchItem& item) {
    if (!item.status) return item.checksums.empty();
    if (item.is_value) return item.size <= item.extent.length && item.extent.offset == 0;
    return true;
}
// Payload: the extent or the value of an item without an error; none of other items.
inline constexpr auto fetched_item_fields = [](auto& io, auto& item) {
    io.part("status", item.status, rpc::status_fields);
    io("is a value", item.is_value);
    io("size", item.size);
    io("epoch", item.epoch.value);
    io.numbers("checksums", item.checksums);
    io.refuse_when(!is_plausible(item));
};
inline constexpr auto fetched_fields = [](auto& io, auto& items) {
    io.known("items", static_cast<uint32_t>(items.size()));
    io.each(items, fetched_item_fields);
    if (io.has("where seals were wanted", want_seals(items))) io.each(items, seals_fields);
};

// A fetch of one item by a holder. The reply is the one of a fetch.
inline constexpr auto pin_fields = [](auto& io, auto& container, auto& holder, auto& item) {
    io("container", container.uuid);
    io("holder", holder);
    item_fields(io, item);
};
inline constexpr auto unpin_fields = [](auto& io, auto& container, auto& holder, auto& object) {
    io("container", container.uuid);
    io("holder", holder);
    io.part("object", object, object_fields);
};
inline constexpr auto unpinned_fields = [](auto& io, auto& is_wanted) {
    io("it was the last pin, and a punch had been refused for it", is_wanted);
};

inline constexpr auto pinned_again_fields = [](auto& io, auto& container, auto& holder) {
    io("container", container.uuid);
    io("holder", holder);
};
inline constexpr auto refused_a_punch_fields = [](auto& io, auto& is_wanted) {
    io("a punch had been refused because the holder was awaited", is_wanted);
};

// ---- lock -----------------------------------------------------------------------------------

inline constexpr auto lock_request_fields = [](auto& io, auto& container, auto& holder,
                                               auto& request) {
    io("container", container.uuid);
    io("holder", holder);
    io.part("object", request.object, object_fields);
    io.choice("how", request.how, object::LockRequest::How::claim);
    io.part("lock", request.lock, object::lock_fields);
    io("the owner waits", request.waits);
};

// ---- listen ---------------------------------------------------------------------------------

inline constexpr auto lease_fields = [](auto& io, auto& lease) {
    io.part("object", lease.object, object_fields);
    io("number", lease.number);
};
// One that ends has both flags. An older server takes it as one that begins.
inline constexpr auto listen_fields = []<class Io>(Io& io, auto& container, auto& holder,
                                                   auto& listening) {
    io("container", container.uuid);
    io("holder", holder);
    bool begins = listening.begins || listening.ends;
    bool waits = listening.waits || listening.ends;
    io("begins", begins);
    io("waits for news", waits);
    if constexpr (Io::reads) {
        listening.ends = begins && waits;
        listening.begins = begins && !waits;
        listening.waits = waits && !begins;
    }
    io.list("leases given back", listening.given_back, object::lease_news_max, lease_fields);
};
inline constexpr auto news_fields = [](auto& io, auto& news) {
    io("all leases are lost", news.lost);
    io.list("leases asked back", news.recalled, object::lease_news_max, lease_fields);
};

// ---- chain ----------------------------------------------------------------------------------

inline constexpr auto link_fields = [](auto& io, auto& link) {
    io.choice("kind", link.kind, object::Link::Kind::query);
    io("item with the low word of its object", link.object.item);
    io("offset there", link.object.offset);
    io("item that it depends on", link.when.item);
    io("offset there", link.when.offset);
    io("mask", link.mask);
    io("value", link.value);
    io("a lease is wanted", link.wants_lease);
};
// Items and links are as many.
inline constexpr auto chain_fields = []<class Io>(Io& io, auto& container, auto& holder,
                                                  auto& items, auto& links) {
    io("container", container.uuid);
    io("holder", holder);
    io.list("items", items, object::chain_items_max, item_fields);
    if constexpr (Io::reads) links.resize(items.size());
    io.each(links, link_fields);
};

// ---- update ---------------------------------------------------------------------------------

inline constexpr auto condition_fields = [](auto& io, auto& condition) {
    io.choice("kind", condition.kind, object::Condition::Kind::lease);
    io.part("object", condition.object, object_fields);
    io.text("dkey", condition.dkey.bytes, object::key_bytes_max);
    io.text("akey", condition.akey.bytes, object::key_bytes_max);
    io("value", condition.value);
};

inline bool carries(const object::Operation& operation) {
    return operation.kind == object::Operation::Kind::write ||
           operation.kind == object::Operation::Kind::put;
}
inline constexpr auto operation_fields = []<class Io>(Io& io, auto& operation) {
    io.choice("kind", operation.kind, object::Operation::Kind::punch_object);
    io.part("object", operation.object, object_fields);
    io.text("dkey", operation.dkey.bytes, object::key_bytes_max);
    io.text("akey", operation.akey.bytes, object::key_bytes_max);
    io.text("end of dkeys", operation.dkey_end.bytes, object::key_bytes_max);
    io("offset", operation.extent.offset);
    io("length", operation.extent.length);
    io("size", operation.size);
    uint64_t payload = carries(operation) ? operation.window.length : 0;
    io("payload", payload);
    io.refuse_when(!carries(operation) && payload != 0);
    if constexpr (Io::reads) operation.window = {.length = payload};
    io.numbers("checksums", operation.checksums);
    if constexpr (Io::reads) operation.seals.clear();
};

inline bool carry_seals(std::span<const object::Operation> operations) {
    return std::ranges::any_of(operations,
                               [](const auto& operation) { return !operation.seals.empty(); });
}
// Client, slot and sequence of the update name are in the frame's header. Its digest and owner are
// here.
inline constexpr auto update_fields = []<class Io>(Io& io, auto& container, auto& transaction) {
    constexpr uint64_t most = object::transaction_operations_max;
    if constexpr (Io::reads) {
        transaction.id = {};
        transaction.holder = {};
    }
    io("container", container.uuid);
    io("owner (nil: the sender's own)", transaction.id.owner);
    io("digest of the request (0: the transaction's)", transaction.id.digest);
    io.list("conditions", transaction.conditions, most, condition_fields);
    io.list("operations", transaction.operations, most, operation_fields);
    io("holder", transaction.holder.client);
    if (io.more("where writes have seals", carry_seals(transaction.operations))) {
        io.each(transaction.operations, seals_fields);
        io.refuse_when(!carry_seals(transaction.operations));
    }
};
inline constexpr auto client_update_fields = [](auto& io, auto& incarnation, auto& container,
                                                auto& transaction) {
    io("known incarnation (0: any)", incarnation);
    io("deferred", transaction.deferred);
    io("was lost", transaction.was_lost);
    update_fields(io, container, transaction);
};
inline constexpr auto sync_fields = [](auto& io, auto& container, auto& holder, auto& known) {
    io("container", container.uuid);
    io("holder", holder);
    io("known incarnation (0: none)", known.incarnation);
    io("greatest epoch since", known.last.value);
};
inline constexpr auto synced_fields = [](auto& io, auto& incarnation) {
    io("incarnation", incarnation);
};
inline constexpr auto commit_fields = [](auto& io, auto& commit) {
    io("epoch", commit.epoch.value);
    io("of the commit", commit.time);
    io("replayed", commit.replayed);
};
inline constexpr auto leased_commit_fields = [](auto& io, auto& commit) {
    commit_fields(io, commit);
    io("number of the lease (0: none)", commit.lease);
};

// ---- list, query ----------------------------------------------------------------------------

inline constexpr auto list_fields = []<class Io>(Io& io, auto& container, auto& request) {
    // No key is longer, so the bytes after the cut do not affect any comparison.
    bool has_after = request.after.has_value();
    std::string_view after;
    if (has_after) after = std::string_view(*request.after).substr(0, object::key_bytes_max + 1);
    io("container", container.uuid);
    io.choice("what", request.what, object::ListRequest::What::akeys);
    io.part("object", request.object, object_fields);
    io.text("dkey", request.dkey.bytes, object::key_bytes_max);
    io.text("akey", request.akey.bytes, object::key_bytes_max);
    io("there is a key to start after", has_after);
    io.text("that key", after, object::key_bytes_max + 1);
    io("limit", request.limit);
    io.refuse_when(!has_after && !after.empty());
    if constexpr (Io::reads) {
        request.after.reset();
        if (has_after) request.after.emplace(after);
    }
};

inline constexpr auto list_entry_fields = [](auto& io, auto& entry) {
    io.text("key", entry.key, object::key_bytes_max);
    io.text("value", entry.value, object::value_bytes_max);
    io("epoch", entry.epoch.value);
};
// Elements, to which a reader appends, and whether there are more. A page that promises more but is
// empty is invalid: its client would repeat the request forever.
inline constexpr auto page_fields = [](auto& io, auto& elements, auto& more, auto fields) {
    const size_t count = io.append("entries", elements, fields);
    io("more", more);
    io.refuse_when(more && count == 0);
};
inline constexpr auto listed_fields = [](auto& io, auto& entries, auto& more) {
    page_fields(io, entries, more, list_entry_fields);
};

inline constexpr auto query_fields = [](auto& io, auto& container, auto& object, auto& akey) {
    io("container", container.uuid);
    io.part("object", object, object_fields);
    io.text("akey", akey.bytes, object::key_bytes_max);
};
inline constexpr auto queried_fields = [](auto& io, auto& reply) {
    io("exists", reply.exists);
    io.text("highest dkey", reply.highest_dkey.bytes, object::key_bytes_max);
    io("size", reply.size);
    io("epoch", reply.last_epoch.value);
    io("of the last change", reply.last_time);
    io("bytes used", reply.bytes_used);
};

inline constexpr auto link_result_fields = [](auto& io, auto& link) {
    if (io.has("where a lease was wanted", link.wants_lease)) {
        io("number of the lease (0: none)", link.lease);
    }
    if (io.has("of a query", link.kind == object::Link::Kind::query)) {
        queried_fields(io, link.facts);
    }
};
inline constexpr auto chained_fields = [](auto& io, auto& items, auto& links) {
    fetched_fields(io, items);
    io.each(links, link_result_fields);
};

// ---- containers, the pool -------------------------------------------------------------------

inline constexpr auto properties_fields = [](auto& io, auto& properties) {
    io.text("label", properties.label, object::label_bytes_max);
    io("chunk bytes", properties.chunk_bytes);
    io.text("owner", properties.owner, object::owner_bytes_max);
    io("cap of bytes", properties.caps.bytes);
    io("cap of values", properties.caps.values);
};
inline constexpr auto container_fields = [](auto& io, auto& record) {
    io("container", record.id.uuid);
    properties_fields(io, record.properties);
    io("of creation", record.created);
    io("used bytes", record.used.bytes);
    io("used values", record.used.values);
};
inline constexpr auto create_fields = [](auto& io, auto& creation) {
    io("owner", creation.owner);
    io("digest", creation.digest);
    properties_fields(io, creation.properties);
};
inline constexpr auto destroy_fields = [](auto& io, auto& destruction) {
    io("owner", destruction.owner);
    io("digest", destruction.digest);
    io("container", destruction.container.uuid);
};
inline constexpr auto list_containers_fields = [](auto& io, auto& after) {
    io.text("label to start after", after, object::label_bytes_max);
};
inline constexpr auto containers_fields = [](auto& io, auto& records, auto& more) {
    page_fields(io, records, more, container_fields);
};

// Of the pool, if the container is nil.
inline constexpr auto space_request_fields = [](auto& io, auto& container) {
    io("container, or nil", container.uuid);
};
inline constexpr auto space_fields = [](auto& io, auto& space) {
    io("total bytes", space.total_bytes);
    io("free bytes", space.free_bytes);
    io("values at most", space.total_values);
    io("values that may be added", space.free_values);
};
// The bit of a feature, which never changes. Unknown bits are ignored.
struct FeatureBit {
    bool object::Features::* member;
    uint64_t bit;
};
inline constexpr FeatureBit feature_bits[] = {
    {&object::Features::multi_object_transactions, 1},
    {&object::Features::conditions, 2},
    {&object::Features::stored_replies, 4},
    {&object::Features::checksums, 8},
    {&object::Features::durable, 16},
    {&object::Features::chains, 32},
    {&object::Features::caps, 64},
    {&object::Features::seals, 128},
    {&object::Features::locks, 256},
    {&object::Features::leases, 512},
    {&object::Features::update_leases, 1024},
    {&object::Features::deferred, 4096},
};
inline constexpr auto description_fields = []<class Io>(Io& io, auto& description) {
    uint64_t bits = 0;
    for (const auto& [member, bit] : feature_bits) {
        if (description.features.*member) bits |= bit;
    }
    auto path = std::string_view(description.path).substr(0, path_bytes_max);
    io("features", bits);
    io.text("path", path, path_bytes_max);
    if constexpr (Io::reads) {
        for (const auto& [member, bit] : feature_bits) {
            description.features.*member = (bits & bit) != 0;
        }
        description.path = path;
    }
};

}  // namespace ros2s::remote
