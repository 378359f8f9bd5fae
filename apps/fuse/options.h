// The command line of ros2store-fuse.
#pragma once
#include <optional>
#include <string>

#include "ros2s/api/uri.h"

namespace ros2s::fuse {

struct Options {
    api::Uri uri;             // `dir` is absolute
    std::string mount_point;  // as typed
    bool foreground = false;
    bool allow_other = false;
    bool read_only = false;
    bool no_exec = false;
    bool caching = true;
    bool exclusive = false;  // nobody else has the container open
    bool print_pid = false;
};

// The options, or nothing: then the program ends with `exit_status`, and the message has been
// printed (help on standard output, a mistake on standard error).
[[nodiscard]] std::optional<Options> parse_options(int count, char** arguments, int& exit_status);

}  // namespace ros2s::fuse
