// The error of a failed call as a sentence, for ros2s_last_error() and the log.
#pragma once
#include <string>
#include <string_view>

#include "ros2s/base/result.h"

namespace ros2s::api {

// "open 'a/b': not found", and for corrupt data what to do. A null path is omitted.
[[nodiscard]] std::string sentence_of(const Error& error, std::string_view what,
                                      std::string_view path = {});

}  // namespace ros2s::api
