#include "wire.h"

#include "fields.h"
#include "ros2s/object/checksum.h"

namespace ros2s::remote {

using namespace object;
using rpc::build;
using rpc::read;
using rpc::read_body;

// ---- fetch ----------------------------------------------------------------------------------

ConstBytes encode_fetch(Buffer& buffer, ContainerId container, std::span<const FetchItem> items) {
    return build(buffer, fetch_fields, container, items);
}
Result<> decode_fetch(ConstBytes body, ContainerId& container, std::vector<FetchItem>& items) {
    return read(body, fetch_fields, container, items);
}

ConstBytes encode_pin(Buffer& buffer, ContainerId container, const Uuid& holder,
                      const FetchItem& item) {
    return build(buffer, pin_fields, container, holder, item);
}
Result<> decode_pin(ConstBytes body, ContainerId& container, Uuid& holder,
                    std::vector<FetchItem>& items) {
    items.resize(1);
    return read(body, pin_fields, container, holder, items.front());
}

ConstBytes encode_unpin(Buffer& buffer, ContainerId container, const Uuid& holder,
                        ObjectId object) {
    return build(buffer, unpin_fields, container, holder, object);
}
Result<> decode_unpin(ConstBytes body, ContainerId& container, Uuid& holder, ObjectId& object) {
    return read(body, unpin_fields, container, holder, object);
}
ConstBytes encode_unpinned(Buffer& buffer, bool is_wanted) {
    return build(buffer, unpinned_fields, is_wanted);
}
Result<bool> decode_unpinned(ConstBytes body) { return read_body<bool>(body, unpinned_fields); }

uint64_t payload_bytes(const FetchItem& item) {
    if (!item.status) return 0;
    return item.is_value ? item.size : item.extent.length;
}
uint64_t request_bytes_max(const FetchItem& item) { return measured(item_fields, item); }
uint64_t reply_bytes_max(const FetchItem& item) {
    const uint64_t pieces = piece_count(item.extent.offset, item.extent.length);
    return least_bytes<FetchItem>(fetched_item_fields) +
           std::max<uint64_t>(pieces, 1) * sizeof(uint32_t) +
           (item.wants_seals ? sizeof(uint32_t) + pieces * seal_bytes : 0);
}

ConstBytes encode_fetched(Buffer& buffer, std::span<const FetchItem> items) {
    return build(buffer, fetched_fields, items);
}
Result<> decode_fetched(ConstBytes body, std::span<FetchItem> items) {
    return read(body, fetched_fields, items);
}

ConstBytes encode_chain(Buffer& buffer, ContainerId container, const Uuid& holder,
                        std::span<const FetchItem> items, std::span<const Link> links) {
    return build(buffer, chain_fields, container, holder, items, links);
}
Result<> decode_chain(ConstBytes body, ContainerId& container, Uuid& holder,
                      std::vector<FetchItem>& items, std::vector<Link>& links) {
    return read(body, chain_fields, container, holder, items, links);
}
ConstBytes encode_chained(Buffer& buffer, std::span<const FetchItem> items,
                          std::span<const Link> links) {
    return build(buffer, chained_fields, items, links);
}
Result<> decode_chained(ConstBytes body, std::span<FetchItem> items, std::span<Link> links) {
    return read(body, chained_fields, items, links);
}
uint64_t facts_bytes_max() { return least_bytes<QueryReply>(queried_fields) + key_bytes_max; }

// ---- update ---------------------------------------------------------------------------------

ConstBytes encode_update(Buffer& buffer, ContainerId container, const Transaction& transaction) {
    return build(buffer, update_fields, container, transaction);
}
Result<> decode_update(ConstBytes body, ContainerId& container, Transaction& transaction) {
    transaction.id = {};
    transaction.holder = {};
    return read(body, update_fields, container, transaction);
}

ConstBytes encode_commit(Buffer& buffer, const Commit& commit) {
    return build(buffer, commit_fields, commit);
}
Result<Commit> decode_commit(ConstBytes body) { return read_body<Commit>(body, commit_fields); }

// ---- list, query ----------------------------------------------------------------------------

ConstBytes encode_list(Buffer& buffer, ContainerId container, const ListRequest& request) {
    // No key is longer, so the bytes after the cut do not affect any comparison.
    std::string_view after;
    if (request.after) after = std::string_view(*request.after).substr(0, key_bytes_max + 1);
    return build(buffer, list_fields, container, request, request.after.has_value(), after);
}
Result<> decode_list(ConstBytes body, ContainerId& container, ListRequest& request) {
    bool has_after = false;
    std::string_view after;
    ROS2S_TRY(read(body, list_fields, container, request, has_after, after));
    request.after.reset();
    if (has_after) request.after.emplace(after);
    return {};
}

ConstBytes encode_listed(Buffer& buffer, const ListReply& reply, size_t bytes_max) {
    const std::span<const ListEntry> entries(reply.entries);
    const uint64_t others = least_bytes<std::vector<ListEntry>, bool>(listed_fields);
    const size_t count = rpc::fitting(entries, list_entry_fields, bytes_max, others);
    return build(buffer, listed_fields, entries.first(count), reply.more || count < entries.size());
}
Result<> decode_listed(ConstBytes body, ListReply& reply) {
    return read(body, listed_fields, reply.entries, reply.more);
}

ConstBytes encode_query(Buffer& buffer, ContainerId container, ObjectId object, const Akey& akey) {
    return build(buffer, query_fields, container, object, akey);
}
Result<> decode_query(ConstBytes body, ContainerId& container, ObjectId& object, Akey& akey) {
    return read(body, query_fields, container, object, akey);
}
ConstBytes encode_queried(Buffer& buffer, const QueryReply& reply) {
    return build(buffer, queried_fields, reply);
}
Result<QueryReply> decode_queried(ConstBytes body) {
    return read_body<QueryReply>(body, queried_fields);
}

// ---- containers -----------------------------------------------------------------------------

ConstBytes encode_create(Buffer& buffer, const Creation& creation) {
    return build(buffer, create_fields, creation);
}
Result<Creation> decode_create(ConstBytes body) { return read_body<Creation>(body, create_fields); }

ConstBytes encode_created(Buffer& buffer, const ContainerRecord& record) {
    return build(buffer, container_fields, record);
}
Result<ContainerRecord> decode_created(ConstBytes body) {
    return read_body<ContainerRecord>(body, container_fields);
}

ConstBytes encode_destroy(Buffer& buffer, const Destruction& destruction) {
    return build(buffer, destroy_fields, destruction);
}
Result<Destruction> decode_destroy(ConstBytes body) {
    return read_body<Destruction>(body, destroy_fields);
}

ConstBytes encode_list_containers(Buffer& buffer, std::string_view after) {
    return build(buffer, list_containers_fields, after.substr(0, object::label_bytes_max));
}
Result<std::string> decode_list_containers(ConstBytes body) {
    return read_body<std::string>(body, list_containers_fields);
}

ConstBytes encode_containers(Buffer& buffer, std::span<const ContainerRecord> records,
                             std::string_view after, size_t bytes_max) {
    while (!records.empty() && records.front().properties.label <= after) {
        records = records.subspan(1);
    }
    const uint64_t others = least_bytes<std::vector<ContainerRecord>, bool>(containers_fields);
    const size_t count = rpc::fitting(records, container_fields, bytes_max, others);
    return build(buffer, containers_fields, records.first(count), count < records.size());
}
Result<> decode_containers(ConstBytes body, ContainerPage& page) {
    return read(body, containers_fields, page.records, page.more);
}

// ---- the pool -------------------------------------------------------------------------------

ConstBytes encode_space_request(Buffer& buffer, ContainerId container) {
    return build(buffer, space_request_fields, container);
}
Result<> decode_space_request(ConstBytes body, ContainerId& container) {
    return read(body, space_request_fields, container);
}
ConstBytes encode_space(Buffer& buffer, const PoolSpace& space) {
    return build(buffer, space_fields, space);
}
Result<PoolSpace> decode_space(ConstBytes body) { return read_body<PoolSpace>(body, space_fields); }

namespace {

// The bit of a feature, which never changes. Bits that this program does not know are ignored.
struct FeatureBit {
    bool Features::* member;
    uint64_t bit;
};
constexpr FeatureBit feature_bits[] = {
    {&Features::multi_object_transactions, 1},
    {&Features::conditions, 2},
    {&Features::stored_replies, 4},
    {&Features::checksums, 8},
    {&Features::durable, 16},
    {&Features::chains, 32},
    {&Features::caps, 64},
    {&Features::seals, 128},
};

}  // namespace

ConstBytes encode_description(Buffer& buffer, const Description& description) {
    uint64_t bits = 0;
    for (const auto& [member, bit] : feature_bits) {
        if (description.features.*member) bits |= bit;
    }
    const auto path = std::string_view(description.path).substr(0, path_bytes_max);
    return build(buffer, description_fields, bits, path);
}
Result<Description> decode_description(ConstBytes body) {
    Description description;
    uint64_t bits = 0;
    ROS2S_TRY(read(body, description_fields, bits, description.path));
    for (const auto& [member, bit] : feature_bits) description.features.*member = (bits & bit) != 0;
    return description;
}

}  // namespace ros2s::remote
