// A transaction's conditions, judged on the cores that have what they ask about. The caller holds
// the locks of all of them.
#pragma once
#include "core.h"
#include "draft.h"

namespace ros2s::engine {

// Those that this core has the keys of; not those about pins. Errors: condition_failed (detail =
// the first that fails), those of Loader::load().
Task<Result<>> judge(Core& core, object::ContainerId container,
                     const object::Transaction& transaction, const Draft& draft);

}  // namespace ros2s::engine
