// Any bytes as the body of any request: refused, or decoded, encoded and decoded as the same.
#include <algorithm>
#include <tuple>

#include "fields.h"
#include "ros2s/base/check.h"
#include "ros2s/object/validate.h"

using namespace ros2s;
using namespace ros2s::remote;
using namespace ros2s::object;

namespace {

void same(ConstBytes written, ConstBytes body) { ROS2S_CHECK(std::ranges::equal(written, body)); }

template <class... Parts>
void read_again(ConstBytes body, auto fields) {
    Buffer buffer;
    std::tuple<Parts...> parts;
    std::apply(
        [&](auto&... each) {
            if (rpc::read(body, fields, each...)) same(rpc::build(buffer, fields, each...), body);
        },
        parts);
}

void read_chain(ConstBytes body) {
    read_again<ContainerId, Uuid, std::vector<FetchItem>, std::vector<Link>>(body, chain_fields);
    ContainerId container;
    Uuid holder;
    std::vector<FetchItem> items;
    std::vector<Link> links;
    if (rpc::read(body, chain_fields, container, holder, items, links)) {
        (void)validate(items, links);
    }
}

void read(Method method, ConstBytes body) {
    switch (method) {
        case Method::fetch:
            return read_again<ContainerId, std::vector<FetchItem>>(body, fetch_fields);
        case Method::pin: return read_again<ContainerId, Uuid, FetchItem>(body, pin_fields);
        case Method::fetch_chain: return read_chain(body);
        case Method::unpin: return read_again<ContainerId, Uuid, ObjectId>(body, unpin_fields);
        case Method::pinned_again: return read_again<ContainerId, Uuid>(body, pinned_again_fields);
        case Method::update: return read_again<ContainerId, Transaction>(body, update_fields);
        case Method::update_by_client:
            return read_again<uint64_t, ContainerId, Transaction>(body, client_update_fields);
        case Method::list: return read_again<ContainerId, ListRequest>(body, list_fields);
        case Method::query: return read_again<ContainerId, ObjectId, Akey>(body, query_fields);
        case Method::create_container: return read_again<Creation>(body, create_fields);
        case Method::destroy_container: return read_again<Destruction>(body, destroy_fields);
        case Method::list_containers: return read_again<std::string>(body, list_containers_fields);
        case Method::space: return read_again<ContainerId>(body, space_request_fields);
        case Method::listen: return read_again<ContainerId, Uuid, Listening>(body, listen_fields);
        case Method::sync: return read_again<ContainerId, Uuid, Acknowledged>(body, sync_fields);
        default: break;
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    if (size == 0) return 0;
    read(static_cast<Method>(data[0] % 18), std::as_bytes(std::span(data, size)).subspan(1));
    return 0;
}
