// Any bytes as the body of any request: refused, or decoded, encoded and decoded as the same.
#include <algorithm>

#include "fields.h"
#include "ros2s/base/check.h"
#include "ros2s/object/validate.h"

using namespace ros2s;
using namespace ros2s::remote;
using namespace ros2s::object;

namespace {

void same(ConstBytes written, ConstBytes body) { ROS2S_CHECK(std::ranges::equal(written, body)); }

void read(Method method, ConstBytes body) {
    Buffer buffer;
    ContainerId container;
    switch (method) {
        case Method::fetch: {
            std::vector<FetchItem> items;
            if (rpc::read(body, fetch_fields, container, items)) {
                same(rpc::build(buffer, fetch_fields, container, items), body);
            }
            break;
        }
        case Method::pin: {
            Uuid holder;
            FetchItem item;
            if (rpc::read(body, pin_fields, container, holder, item)) {
                same(rpc::build(buffer, pin_fields, container, holder, item), body);
            }
            break;
        }
        case Method::fetch_chain: {
            Uuid holder;
            std::vector<FetchItem> items;
            std::vector<Link> links;
            if (!rpc::read(body, chain_fields, container, holder, items, links)) break;
            same(rpc::build(buffer, chain_fields, container, holder, items, links), body);
            (void)validate(items, links);
            break;
        }
        case Method::unpin: {
            Uuid holder;
            ObjectId object;
            if (rpc::read(body, unpin_fields, container, holder, object)) {
                same(rpc::build(buffer, unpin_fields, container, holder, object), body);
            }
            break;
        }
        case Method::pinned_again: {
            Uuid holder;
            if (rpc::read(body, pinned_again_fields, container, holder)) {
                same(rpc::build(buffer, pinned_again_fields, container, holder), body);
            }
            break;
        }
        case Method::update: {
            Transaction transaction;
            if (rpc::read(body, update_fields, container, transaction)) {
                same(rpc::build(buffer, update_fields, container, transaction), body);
            }
            break;
        }
        case Method::update_deferred: {
            uint64_t incarnation = 0;
            Transaction transaction;
            if (rpc::read(body, deferred_fields, incarnation, container, transaction)) {
                same(rpc::build(buffer, deferred_fields, incarnation, container, transaction),
                     body);
            }
            break;
        }
        case Method::list: {
            ListRequest request;
            if (rpc::read(body, list_fields, container, request)) {
                same(rpc::build(buffer, list_fields, container, request), body);
            }
            break;
        }
        case Method::query: {
            ObjectId object;
            Akey akey;
            if (rpc::read(body, query_fields, container, object, akey)) {
                same(rpc::build(buffer, query_fields, container, object, akey), body);
            }
            break;
        }
        case Method::create_container:
            if (const auto it = rpc::read_body<Creation>(body, create_fields))
                same(rpc::build(buffer, create_fields, *it), body);
            break;
        case Method::destroy_container:
            if (const auto it = rpc::read_body<Destruction>(body, destroy_fields))
                same(rpc::build(buffer, destroy_fields, *it), body);
            break;
        case Method::list_containers:
            if (const auto it = rpc::read_body<std::string>(body, list_containers_fields)) {
                same(rpc::build(buffer, list_containers_fields, *it), body);
            }
            break;
        case Method::space:
            if (rpc::read(body, space_request_fields, container)) {
                same(rpc::build(buffer, space_request_fields, container), body);
            }
            break;
        case Method::listen: {
            Uuid holder;
            Listening listening;
            if (rpc::read(body, listen_fields, container, holder, listening)) {
                same(rpc::build(buffer, listen_fields, container, holder, listening), body);
            }
            break;
        }
        case Method::sync: {
            Acknowledged known;
            if (rpc::read(body, sync_fields, container, known)) {
                same(rpc::build(buffer, sync_fields, container, known), body);
            }
            break;
        }
        default: break;
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    if (size == 0) return 0;
    read(static_cast<Method>(data[0] % 18), std::as_bytes(std::span(data, size)).subspan(1));
    return 0;
}
