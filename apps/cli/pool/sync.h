// sync: what was changed through a mount is durable afterwards.
#pragma once
#include <string>

#include "commands.h"

namespace ros2s::cli {

// Of the mount that has the path: everything that was acknowledged before. Tells after 2 s how
// much it waits for. Errors come with a sentence.
[[nodiscard]] Task<Result<>> make_durable(CommandContext context, const std::string& path);

}  // namespace ros2s::cli
