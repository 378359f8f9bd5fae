// Chains (ObjectStore::fetch_chain()) for stores that do the items one after the other, and for
// those that send them to another store.
#pragma once
#include "ros2s/object/object_store.h"

namespace ros2s::object {

// Does fetch_chain() with the store's fetch, pin and query.
[[nodiscard]] Task<Result<>> fetch_in_turn(ObjectStore& store, const Call& call,
                                           ContainerId container, const Holder& holder,
                                           std::span<FetchItem> items, std::span<Link> links);

// After the items before it were done: gives the item its object. Errors, which are the item's
// status: not_found, invalid.
[[nodiscard]] Result<> resolve(std::span<FetchItem> items, std::span<const Link> links,
                               size_t index);
// The same without the condition, which may refer to an item that was not done yet.
[[nodiscard]] Result<> resolve_object(std::span<FetchItem> items, std::span<const Link> links,
                                      size_t index);

}  // namespace ros2s::object
