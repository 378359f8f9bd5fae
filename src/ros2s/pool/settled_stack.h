// Opening a pool's store where a growth may have been interrupted: see pool_growth.h.
#pragma once
#include <memory>

#include "ros2s/pool/pool_directory.h"
#include "ros2s/runtime/environment.h"
#include "store_stack.h"

namespace ros2s::pool {

// The caller owns the directory. `directory` is brought up to date: what was growing is a device of
// the pool, or gone. Errors: those of StoreStack::open, and
// of removing files.
[[nodiscard]] Task<Result<std::unique_ptr<StoreStack>>> open_settled(
    Environment environment, PoolDirectory& directory, Report& report,
    StackOptions stack_options = {});

// Growth is over: DIR/growing goes, durably. Errors: those of the file system.
[[nodiscard]] Result<> end_growth(const PoolDirectory& directory, Report& report);

}  // namespace ros2s::pool
