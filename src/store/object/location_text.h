// The location of bytes, for logs: "container … object … dkey "…" akey "…" extent [0, 4096)".
#pragma once
#include <string>

#include "ros2s/object/object_store.h"

namespace ros2s::object {

// For an item of a fetch; `bytes` is the affected range.
[[nodiscard]] std::string location_text(ContainerId container, const FetchItem& item, Extent bytes);
// The range that `detail` of a `corrupt` error names: one block, or the whole item if it is
// unknown.
[[nodiscard]] Extent damaged(const FetchItem& item);

}  // namespace ros2s::object
