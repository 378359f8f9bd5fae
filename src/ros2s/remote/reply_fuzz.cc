// Any bytes as the body of any reply: refused, or decoded, encoded and decoded as the same.
#include <algorithm>

#include "ros2s/base/check.h"
#include "wire.h"

using namespace ros2s;
using namespace ros2s::remote;
using namespace ros2s::object;

namespace {

void same(ConstBytes written, ConstBytes body) { ROS2S_CHECK(std::ranges::equal(written, body)); }

void read_fetched(size_t count, ConstBytes body) {
    std::vector<FetchItem> items(count);
    for (size_t i = 0; i < count; ++i) items[i].extent = {0, i * 5000};
    if (!decode_fetched(body, items)) return;
    for (const FetchItem& item : items) ROS2S_CHECK(payload_bytes(item) <= item.extent.length);
    Buffer once, twice;
    encode_fetched(once, items);
    ROS2S_CHECK(decode_fetched(once, items).has_value());
    same(encode_fetched(twice, items), once);  // an unknown code became `io` the first time
}

// Every second item is a query.
void read_chained(size_t count, ConstBytes body) {
    std::vector<FetchItem> items(count);
    std::vector<Link> links(count);
    for (size_t i = 0; i < count; ++i) {
        if (i % 2 == 1) {
            links[i].kind = Link::Kind::query;
        } else {
            items[i].extent = {0, i * 5000};
        }
    }
    if (!decode_chained(body, items, links)) return;
    for (const FetchItem& item : items) ROS2S_CHECK(payload_bytes(item) <= item.extent.length);
    Buffer once, twice;
    encode_chained(once, items, links);
    ROS2S_CHECK(decode_chained(once, items, links).has_value());
    same(encode_chained(twice, items, links), once);
}

void read(Method method, ConstBytes body) {
    Buffer buffer;
    switch (method) {
        case Method::describe: {
            Buffer again;
            if (const auto it = decode_description(body)) {
                encode_description(buffer, *it);  // unknown features were dropped
                same(encode_description(again, *decode_description(buffer)), buffer);
            }
            break;
        }
        case Method::update:
            if (const auto it = decode_commit(body)) same(encode_commit(buffer, *it), body);
            break;
        case Method::list: {
            ListReply reply;
            if (decode_listed(body, reply)) {
                same(encode_listed(buffer, reply, body.size()), body);
            }
            break;
        }
        case Method::query:
            if (const auto it = decode_queried(body)) same(encode_queried(buffer, *it), body);
            break;
        case Method::create_container:
            if (const auto it = decode_created(body)) same(encode_created(buffer, *it), body);
            break;
        case Method::list_containers: {
            ContainerPage page;
            static_cast<void>(decode_containers(body, page));
            break;
        }
        case Method::space:
            if (const auto it = decode_space(body)) same(encode_space(buffer, *it), body);
            break;
        case Method::unpin:
            if (const auto it = decode_unpinned(body)) same(encode_unpinned(buffer, *it), body);
            break;
        default: break;
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    if (size < 2) return 0;
    const ConstBytes body = std::as_bytes(std::span(data, size)).subspan(2);
    const auto method = static_cast<Method>(data[0] % 13);
    if (method == Method::fetch) {
        read_fetched(data[1] % 8, body);
    } else if (method == Method::fetch_chain) {
        read_chained(data[1] % 8, body);
    } else {
        read(method, body);
    }
    return 0;
}
