#include "catalog.h"

#include "ros2s/access/checked_file_system.h"

namespace ros2s::dpud {

std::vector<std::string> Catalog::names() const {
    std::vector<std::string> names = pools.names();
    for (std::string& pool : served.pools()) names.push_back(std::move(pool));
    return names;
}

Task<Result<std::unique_ptr<fs::FileSystem>>> Catalog::open(const Call& call,
                                                            const std::string& pool,
                                                            const std::string& container,
                                                            Report& report) {
    const bool is_directory = !served.containers(pool).empty();
    ROS2S_CO_TRY_ASSIGN(auto opened, is_directory
                                         ? co_await served.open(pool, container, report)
                                         : co_await pools.open(call, pool, container, report));
    co_return std::make_unique<access::CheckedFileSystem>(reactor_, std::move(opened));
}

}  // namespace ros2s::dpud
