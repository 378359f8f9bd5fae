// mount: this process becomes ros2store-fuse.
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "pool_place.h"
#include "process.h"

namespace ros2s::cli {
Task<Result<>> mount(Workplace work, MountOptions options) {
    ROS2S_CO_TRY(api::Uri::parse(options.uri, work.report));
    std::vector<std::string> arguments{sibling_program("ros2store-fuse"), options.uri,
                                       options.mount_point};
    arguments.insert(arguments.end(), options.further.begin(), options.further.end());
    std::vector<char*> values;
    values.reserve(arguments.size() + 1);
    for (auto& argument : arguments) values.push_back(argument.data());
    values.push_back(nullptr);
    execvp(values[0], values.data());
    co_return work.report.fail(
        Error{Code::not_found, errno},
        fmt::format("cannot run {}: {}; build or install ros2store-fuse beside "
                    "this program",
                    arguments[0], std::strerror(errno)));
}

}  // namespace ros2s::cli
