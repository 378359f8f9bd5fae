#include "ros2s/api/queue/sentence.h"

#include <fmt/format.h>

namespace ros2s::api {

std::string sentence_of(const Error& error, std::string_view what, std::string_view path) {
    const std::string_view remedy =
        error.code == Code::corrupt
            ? "; corrupt data was not returned: check the disk and restore the file from a copy"
            : "";
    return path.data() == nullptr
               ? fmt::format("{}: {}{}", what, describe(error), remedy)
               : fmt::format("{} '{}': {}{}", what, path, describe(error), remedy);
}

}  // namespace ros2s::api
