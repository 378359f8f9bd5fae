// ObjectStore's methods on the wire, and what its bodies need beside their fields
// (docs/formats/rpc.md). Frames, update names, errors of whole requests and payload are rpc's.
// fields.h has the fields of each body.
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
inline constexpr uint32_t object_service = 7;

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
    pinned_again = 13,
    lock = 14,
    listen = 15,
    sync = 16,
    update_by_client = 17,  // of a client that defers updates
};
// By method, from 1 on; for metrics and people.
inline constexpr std::array<std::string_view, 17> method_names{"describe",
                                                               "fetch",
                                                               "update",
                                                               "list",
                                                               "query",
                                                               "create_container",
                                                               "destroy_container",
                                                               "list_containers",
                                                               "space",
                                                               "pin",
                                                               "unpin",
                                                               "fetch_chain",
                                                               "pinned_again",
                                                               "lock",
                                                               "listen",
                                                               "sync",
                                                               "update_by_client"};

using rpc::Buffer;

// Bytes of an item's payload.
[[nodiscard]] uint64_t payload_bytes(const object::FetchItem& item);
// The most bytes of an item in a request, and in its reply.
[[nodiscard]] uint64_t request_bytes_max(const object::FetchItem& item);
[[nodiscard]] uint64_t reply_bytes_max(const object::FetchItem& item);
// The most bytes of a query's facts in a reply.
[[nodiscard]] uint64_t facts_bytes_max();

// These replace the contents of a buffer that its owner reuses, and return a view of it.

// A call in every build: tests kill a daemon that enters it (tests/daemons/strike.h).
// `leased`: a lease was wanted.
[[gnu::noinline]] ConstBytes encode_commit(Buffer& buffer, const object::Commit& commit,
                                           bool leased = false);
// As many entries as fit into `bytes_max`, at least one; `more` if some did not fit.
ConstBytes encode_listed(Buffer& buffer, const object::ListReply& reply, size_t bytes_max);
// As many of the records after the label `after` as fit into `bytes_max`, at least one. Records are
// in the order of labels.
ConstBytes encode_containers(Buffer& buffer, std::span<const object::ContainerRecord> records,
                             std::string_view after, size_t bytes_max);

// The owner is a client that the sender serves; nil: the sender itself. Owner and digest as in an
// update.
struct Creation {
    object::ContainerProperties properties;
    Uuid owner{};
    uint64_t digest = 0;
};
struct Destruction {
    object::ContainerId container;
    Uuid owner{};
    uint64_t digest = 0;
};

struct ContainerPage {
    std::vector<object::ContainerRecord> records;
    bool more = false;
};

// The store of a server.
struct Description {
    object::Features features;
    std::string path;  // at most 1 KiB is sent
};

}  // namespace ros2s::remote
