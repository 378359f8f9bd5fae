// A scan of the keys of all cores, each of which knows its own: their pages, merged as far as all
// of them reach. Called on core 0. Errors: those of Loader::scan().
#pragma once
#include <string>

#include "core.h"

namespace ros2s::engine {

// As Loader::scan(). On several cores items are raw.
Task<Result<Loader::Page>> scan(Cores& cores, std::string from, std::string to, size_t limit,
                                bool reverse = false);

}  // namespace ros2s::engine
