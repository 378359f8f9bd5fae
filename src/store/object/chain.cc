#include "chain.h"

#include <cstring>

#include "validate.h"

namespace ros2s::object {
namespace {

// The bytes of the value from there on. Errors: not_found, invalid (it has fewer than `count`).
Result<ConstBytes> value_at(std::span<const FetchItem> items, const Link::Reference& reference,
                            size_t count) {
    const FetchItem& item = items[reference.item];
    if (!item.status) return fail(Code::not_found);
    if (!item.is_value || reference.offset > item.size || count > item.size - reference.offset) {
        return fail(Code::invalid);
    }
    return item.window.bytes().subspan(reference.offset, count);
}

}  // namespace

Result<> resolve(std::span<FetchItem> items, std::span<const Link> links, size_t index) {
    const Link& link = links[index];
    if (link.when.is_set()) {
        ROS2S_TRY_ASSIGN(const ConstBytes byte, value_at(items, link.when, 1));
        if ((std::to_integer<uint8_t>(byte[0]) & link.mask) != link.value) {
            return fail(Code::not_found);
        }
    }
    return resolve_object(items, links, index);
}

Result<> resolve_object(std::span<FetchItem> items, std::span<const Link> links, size_t index) {
    const Link& link = links[index];
    if (!link.object.is_set()) return {};
    ROS2S_TRY_ASSIGN(const ConstBytes low, value_at(items, link.object, sizeof(uint64_t)));
    std::memcpy(&items[index].object.low, low.data(), low.size());
    return {};
}

Task<Result<>> fetch_in_turn(ObjectStore& store, const Call& call, ContainerId container,
                             const Holder& holder, std::span<FetchItem> items,
                             std::span<Link> links) {
    ROS2S_CO_TRY(validate(items, links));
    // Nothing to do still checks the container and the call.
    if (items.empty()) co_return co_await store.fetch(call, container, items);
    for (size_t i = 0; i < items.size(); ++i) {
        FetchItem& item = items[i];
        clear(item);
        links[i].facts = {};
        links[i].lease = 0;
        item.status = resolve(items, links, i);
        if (!item.status) continue;
        if (links[i].wants_lease) {
            ROS2S_CO_TRY_ASSIGN(links[i].lease,
                                co_await store.lease(call, container, holder, item.object));
        }
        switch (links[i].kind) {
            case Link::Kind::fetch:
                ROS2S_CO_TRY(co_await store.fetch(call, container, {&item, 1}));
                break;
            case Link::Kind::pin:
                ROS2S_CO_TRY(co_await store.pin(call, container, holder, item));
                break;
            case Link::Kind::query: {
                ROS2S_CO_TRY_ASSIGN(links[i].facts,
                                    co_await store.query(call, container, item.object, item.akey));
                break;
            }
        }
    }
    co_return Result<>();
}

}  // namespace ros2s::object
