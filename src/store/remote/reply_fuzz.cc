// Any bytes as the body of any reply: refused, or decoded, encoded and decoded as the same.
#include <algorithm>

#include "fields.h"
#include "ros2s/base/check.h"

using namespace ros2s;
using namespace ros2s::remote;
using namespace ros2s::object;

namespace {

void same(ConstBytes written, ConstBytes body) { ROS2S_CHECK(std::ranges::equal(written, body)); }

void read_fetched(size_t count, ConstBytes body) {
    std::vector<FetchItem> items(count);
    for (size_t i = 0; i < count; ++i) items[i].extent = {0, i * 5000};
    if (!rpc::read(body, fetched_fields, items)) return;
    for (const FetchItem& item : items) ROS2S_CHECK(payload_bytes(item) <= item.extent.length);
    Buffer once, twice;
    rpc::build(once, fetched_fields, items);
    ROS2S_CHECK(rpc::read(once, fetched_fields, items).has_value());
    same(rpc::build(twice, fetched_fields, items),
         once);  // an unknown code became `io` the first time
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
    if (!rpc::read(body, chained_fields, items, links)) return;
    for (const FetchItem& item : items) ROS2S_CHECK(payload_bytes(item) <= item.extent.length);
    Buffer once, twice;
    rpc::build(once, chained_fields, items, links);
    ROS2S_CHECK(rpc::read(once, chained_fields, items, links).has_value());
    same(rpc::build(twice, chained_fields, items, links), once);
}

template <class Body>
void read_again(ConstBytes body, auto fields) {
    Buffer buffer;
    if (const auto it = rpc::read_body<Body>(body, fields)) {
        same(rpc::build(buffer, fields, *it), body);
    }
}

void read(Method method, ConstBytes body) {
    Buffer buffer;
    switch (method) {
        case Method::describe: {
            Buffer again;
            if (const auto it = rpc::read_body<Description>(body, description_fields)) {
                rpc::build(buffer, description_fields, *it);  // unknown features were dropped
                same(rpc::build(again, description_fields,
                                *rpc::read_body<Description>(buffer, description_fields)),
                     buffer);
            }
            break;
        }
        case Method::update:
            if (const auto it = rpc::read_body<Commit>(body, commit_fields))
                same(encode_commit(buffer, *it), body);
            break;
        case Method::list: {
            ListReply reply;
            if (rpc::read(body, listed_fields, reply.entries, reply.more)) {
                same(encode_listed(buffer, reply, body.size()), body);
            }
            break;
        }
        case Method::query: return read_again<QueryReply>(body, queried_fields);
        case Method::create_container: return read_again<ContainerRecord>(body, container_fields);
        case Method::list_containers: {
            ContainerPage page;
            static_cast<void>(rpc::read(body, containers_fields, page.records, page.more));
            break;
        }
        case Method::space: return read_again<PoolSpace>(body, space_fields);
        case Method::unpin: return read_again<bool>(body, unpinned_fields);
        case Method::pinned_again: return read_again<bool>(body, refused_a_punch_fields);
        default: break;
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    if (size < 2) return 0;
    const ConstBytes body = std::as_bytes(std::span(data, size)).subspan(2);
    const auto method = static_cast<Method>(data[0] % 14);
    if (method == Method::fetch) {
        read_fetched(data[1] % 8, body);
    } else if (method == Method::fetch_chain) {
        read_chained(data[1] % 8, body);
    } else {
        read(method, body);
    }
    return 0;
}
