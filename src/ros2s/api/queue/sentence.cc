#include "ros2s/api/queue/sentence.h"

#include <fmt/format.h>

namespace ros2s::api {

std::string sentence_of(const Error& error, std::string_view what, std::string_view path) {
    const std::string_view remedy =
        error.code == Code::corrupt
            ? "; the bytes on the media are not those that were written: restore the file from a "
              "copy, and look at the disk"
            : "";
    return path.data() == nullptr
               ? fmt::format("{}: {}{}", what, describe(error), remedy)
               : fmt::format("{} '{}': {}{}", what, path, describe(error), remedy);
}

}  // namespace ros2s::api
