// Checks that every store makes before it looks at its state: keys, extents, values and
// transactions over the limits (too_large, detail = the limit), and invalid requests (invalid).
// All stores share it, so that they agree. A server runs it on requests of a peer.
#pragma once
#include "ros2s/base/result.h"
#include "ros2s/object/object_store.h"

namespace ros2s::object {

[[nodiscard]] Result<> validate(const FetchItem& item);
// Clears what a fetch returns beside the bytes and the status.
void clear(FetchItem& item);
// Clears the item. Returns whether the store looks it up; if not, its status is the reason. Errors
// also: unsupported (a window that is not local).
[[nodiscard]] bool begin_fetch(FetchItem& item);
[[nodiscard]] Result<> validate(const Condition& condition);
[[nodiscard]] Result<> validate(const Operation& operation);
[[nodiscard]] Result<> validate(const Transaction& transaction);
[[nodiscard]] Result<> validate(const ListRequest& request);
[[nodiscard]] Result<> validate(const ContainerProperties& properties);
[[nodiscard]] Result<> validate(const Akey& akey);
// Checks whether a pool with `all` containers accepts another one of this owner, who has `owned` of
// them. An owner may have at most as many containers as are free, but always
// containers_of_owner_sure if the pool has room. An empty owner (administrators) is not limited.
// Errors: too_large (detail = containers_max, or what the owner has).
[[nodiscard]] Result<> check_room(uint64_t all, std::string_view owner, uint64_t owned);
// A chain: its items and as many links. Errors also: unsupported (a window that is not local).
[[nodiscard]] Result<> validate(std::span<const FetchItem> items, std::span<const Link> links);

}  // namespace ros2s::object
