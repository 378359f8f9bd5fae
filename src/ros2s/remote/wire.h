// The bodies of ObjectStore's requests and replies on the wire (docs/formats/rpc.md). Frames,
// operation ids, errors of whole requests and payload are rpc's.
//
// encode_…() replaces the contents of a buffer that its owner reuses, and returns a view of it.
// decode_…() accepts any bytes and fills its parameters, reusing their memory; a decoded value is
// within the object model's limits of counts and keys. Windows are not encoded: payload follows in
// the order of operations, or of a fetch's items. Errors of every decoder: corrupt.
#pragma once
#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ros2s/object/object_store.h"
#include "ros2s/rpc/body.h"

namespace ros2s::remote {

// The service number in a hello for a StoreServer.
inline constexpr uint32_t object_service = 1;

enum class Method : uint16_t {
    describe = 1,
    fetch = 2,
    update = 3,
    list = 4,
    query = 5,
    create_container = 6,
    destroy_container = 7,
    list_containers = 8,
    space = 9,
    pin = 10,
    unpin = 11,
    fetch_chain = 12,
};
// By method, from 1 on; for metrics and people.
inline constexpr std::array<std::string_view, 12> method_names{
    "describe",          "fetch",           "update", "list", "query", "create_container",
    "destroy_container", "list_containers", "space",  "pin",  "unpin", "fetch_chain"};

using rpc::Buffer;

// Decoded windows have their length and no address. The caller sets the address.
ConstBytes encode_fetch(Buffer& buffer, object::ContainerId container,
                        std::span<const object::FetchItem> items);
[[nodiscard]] Result<> decode_fetch(ConstBytes body, object::ContainerId& container,
                                    std::vector<object::FetchItem>& items);
// Statuses, sizes, epochs and checksums, in the order of the request. Payload: the extent or the
// value of an item without an error; none of other items.
ConstBytes encode_fetched(Buffer& buffer, std::span<const object::FetchItem> items);
[[nodiscard]] Result<> decode_fetched(ConstBytes body, std::span<object::FetchItem> items);
// Bytes of an item's payload.
[[nodiscard]] uint64_t payload_bytes(const object::FetchItem& item);
// The most bytes of an item in a request, and in its reply.
[[nodiscard]] uint64_t request_bytes_max(const object::FetchItem& item);
[[nodiscard]] uint64_t reply_bytes_max(const object::FetchItem& item);

// A fetch of one item by a holder. The reply is the one of a fetch.
ConstBytes encode_pin(Buffer& buffer, object::ContainerId container, const Uuid& holder,
                      const object::FetchItem& item);
[[nodiscard]] Result<> decode_pin(ConstBytes body, object::ContainerId& container, Uuid& holder,
                                  std::vector<object::FetchItem>& items);
ConstBytes encode_unpin(Buffer& buffer, object::ContainerId container, const Uuid& holder,
                        object::ObjectId object);
[[nodiscard]] Result<> decode_unpin(ConstBytes body, object::ContainerId& container, Uuid& holder,
                                    object::ObjectId& object);
ConstBytes encode_unpinned(Buffer& buffer, bool is_wanted);
[[nodiscard]] Result<bool> decode_unpinned(ConstBytes body);

// Items and links are as many.
ConstBytes encode_chain(Buffer& buffer, object::ContainerId container, const Uuid& holder,
                        std::span<const object::FetchItem> items,
                        std::span<const object::Link> links);
[[nodiscard]] Result<> decode_chain(ConstBytes body, object::ContainerId& container, Uuid& holder,
                                    std::vector<object::FetchItem>& items,
                                    std::vector<object::Link>& links);
// As of a fetch, and the facts of the queries.
ConstBytes encode_chained(Buffer& buffer, std::span<const object::FetchItem> items,
                          std::span<const object::Link> links);
[[nodiscard]] Result<> decode_chained(ConstBytes body, std::span<object::FetchItem> items,
                                      std::span<object::Link> links);
// The most bytes of a query's facts in a reply.
[[nodiscard]] uint64_t facts_bytes_max();

// Client, slot and sequence of the operation id are in the frame's header. Its digest and owner are
// here. The owner is a client that the sender serves; nil: the sender itself.
ConstBytes encode_update(Buffer& buffer, object::ContainerId container,
                         const object::Transaction& transaction);
[[nodiscard]] Result<> decode_update(ConstBytes body, object::ContainerId& container,
                                     object::Transaction& transaction);
// A call in every build: tests kill a daemon that enters it (tests/daemons/strike.h).
[[gnu::noinline]] ConstBytes encode_commit(Buffer& buffer, const object::Commit& commit);
[[nodiscard]] Result<object::Commit> decode_commit(ConstBytes body);

ConstBytes encode_list(Buffer& buffer, object::ContainerId container,
                       const object::ListRequest& request);
[[nodiscard]] Result<> decode_list(ConstBytes body, object::ContainerId& container,
                                   object::ListRequest& request);
// As many entries as fit into `bytes_max`, at least one; `more` if some did not fit.
ConstBytes encode_listed(Buffer& buffer, const object::ListReply& reply, size_t bytes_max);
// Appends.
[[nodiscard]] Result<> decode_listed(ConstBytes body, object::ListReply& reply);

ConstBytes encode_query(Buffer& buffer, object::ContainerId container, object::ObjectId object,
                        const object::Akey& akey);
[[nodiscard]] Result<> decode_query(ConstBytes body, object::ContainerId& container,
                                    object::ObjectId& object, object::Akey& akey);
ConstBytes encode_queried(Buffer& buffer, const object::QueryReply& reply);
[[nodiscard]] Result<object::QueryReply> decode_queried(ConstBytes body);

// Owner and digest as in an update.
struct Creation {
    object::ContainerProperties properties;
    Uuid owner{};
    uint64_t digest = 0;
};
ConstBytes encode_create(Buffer& buffer, const Creation& creation);
[[nodiscard]] Result<Creation> decode_create(ConstBytes body);
ConstBytes encode_created(Buffer& buffer, const object::ContainerRecord& record);
[[nodiscard]] Result<object::ContainerRecord> decode_created(ConstBytes body);

struct Destruction {
    object::ContainerId container;
    Uuid owner{};
    uint64_t digest = 0;
};
ConstBytes encode_destroy(Buffer& buffer, const Destruction& destruction);
[[nodiscard]] Result<Destruction> decode_destroy(ConstBytes body);

// Containers after the label `after`, in the order of labels.
ConstBytes encode_list_containers(Buffer& buffer, std::string_view after);
[[nodiscard]] Result<std::string> decode_list_containers(ConstBytes body);
struct ContainerPage {
    std::vector<object::ContainerRecord> records;
    bool more = false;
};
// As many of the records after `after` as fit into `bytes_max`, at least one.
ConstBytes encode_containers(Buffer& buffer, std::span<const object::ContainerRecord> records,
                             std::string_view after, size_t bytes_max);
// Appends.
[[nodiscard]] Result<> decode_containers(ConstBytes body, ContainerPage& page);

// Of the pool, if the container is nil.
ConstBytes encode_space_request(Buffer& buffer, object::ContainerId container);
[[nodiscard]] Result<> decode_space_request(ConstBytes body, object::ContainerId& container);
ConstBytes encode_space(Buffer& buffer, const object::PoolSpace& space);
[[nodiscard]] Result<object::PoolSpace> decode_space(ConstBytes body);

// The store of a server.
struct Description {
    object::Features features;
    std::string path;  // at most 1 KiB is sent
};
ConstBytes encode_description(Buffer& buffer, const Description& description);
[[nodiscard]] Result<Description> decode_description(ConstBytes body);

}  // namespace ros2s::remote
