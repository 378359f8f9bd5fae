// Any bytes as the body of any request: refused, or decoded, encoded and decoded as the same.
#include <algorithm>

#include "ros2s/base/check.h"
#include "ros2s/object/validate.h"
#include "wire.h"

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
            if (decode_fetch(body, container, items)) {
                same(encode_fetch(buffer, container, items), body);
            }
            break;
        }
        case Method::pin: {
            Uuid holder;
            std::vector<FetchItem> items;
            if (decode_pin(body, container, holder, items)) {
                same(encode_pin(buffer, container, holder, items.front()), body);
            }
            break;
        }
        case Method::fetch_chain: {
            Uuid holder;
            std::vector<FetchItem> items;
            std::vector<Link> links;
            if (!decode_chain(body, container, holder, items, links)) break;
            same(encode_chain(buffer, container, holder, items, links), body);
            (void)validate(items, links);
            break;
        }
        case Method::unpin: {
            Uuid holder;
            ObjectId object;
            if (decode_unpin(body, container, holder, object)) {
                same(encode_unpin(buffer, container, holder, object), body);
            }
            break;
        }
        case Method::update: {
            Transaction transaction;
            if (decode_update(body, container, transaction)) {
                same(encode_update(buffer, container, transaction), body);
            }
            break;
        }
        case Method::list: {
            ListRequest request;
            if (decode_list(body, container, request)) {
                same(encode_list(buffer, container, request), body);
            }
            break;
        }
        case Method::query: {
            ObjectId object;
            Akey akey;
            if (decode_query(body, container, object, akey)) {
                same(encode_query(buffer, container, object, akey), body);
            }
            break;
        }
        case Method::create_container:
            if (const auto it = decode_create(body)) same(encode_create(buffer, *it), body);
            break;
        case Method::destroy_container:
            if (const auto it = decode_destroy(body)) same(encode_destroy(buffer, *it), body);
            break;
        case Method::list_containers:
            if (const auto it = decode_list_containers(body)) {
                same(encode_list_containers(buffer, *it), body);
            }
            break;
        case Method::space:
            if (decode_space_request(body, container)) {
                same(encode_space_request(buffer, container), body);
            }
            break;
        default: break;
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    if (size == 0) return 0;
    read(static_cast<Method>(data[0] % 13), std::as_bytes(std::span(data, size)).subspan(1));
    return 0;
}
