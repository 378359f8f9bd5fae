// Checks that every store makes before it looks at its state: keys, extents, values and
// transactions over the limits (too_large, detail = the limit), and invalid requests (invalid).
// All stores share it, so that they agree. A server runs it on requests of a peer.
#pragma once
#include "ros2s/base/result.h"
#include "ros2s/object/object_store.h"

namespace ros2s::object {

[[nodiscard]] Result<> validate(const FetchItem& item);
[[nodiscard]] Result<> validate(const Condition& condition);
[[nodiscard]] Result<> validate(const Operation& operation);
[[nodiscard]] Result<> validate(const Transaction& transaction);
[[nodiscard]] Result<> validate(const ListRequest& request);
[[nodiscard]] Result<> validate(const ContainerProperties& properties);
[[nodiscard]] Result<> validate(const Akey& akey);

}  // namespace ros2s::object
