// Where bytes lie, for logs: "container … object … dkey "…" akey "…" extent [0, 4096)".
#pragma once
#include <string>

#include "ros2s/object/object_store.h"

namespace ros2s::object {

// Of an item that was fetched; `bytes` are those that the line is about.
[[nodiscard]] std::string place_text(ContainerId container, const FetchItem& item, Extent bytes);
// What `detail` of a `corrupt` error says: the block of it, or all of the item where it says
// nothing.
[[nodiscard]] Extent damaged(const FetchItem& item);

}  // namespace ros2s::object
