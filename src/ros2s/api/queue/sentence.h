// How a failed call reads as a sentence, in ros2s_last_error() and in the log.
#pragma once
#include <string>
#include <string_view>

#include "ros2s/base/result.h"

namespace ros2s::api {

// "open 'a/b': not found", and for what is corrupt what to do. A null path is left out.
[[nodiscard]] std::string sentence_of(const Error& error, std::string_view what,
                                      std::string_view path = {});

}  // namespace ros2s::api
