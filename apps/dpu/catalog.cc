#include "catalog.h"

#include "ros2s/access/checked_file_system.h"

namespace ros2s::dpud {

std::vector<std::string> Catalog::names() const {
    std::vector<std::string> names = pools.names();
    for (std::string& pool : served.pools()) names.push_back(std::move(pool));
    for (std::string& pool : daos.pools()) names.push_back(std::move(pool));
    return names;
}

Task<Result<std::unique_ptr<fs::FileSystem>>> Catalog::open(const Call& call,
                                                            const std::string& pool,
                                                            const std::string& container,
                                                            Report& report) {
    const bool is_directory = !served.containers(pool).empty();
    const bool is_daos = !daos.containers(pool).empty();
    Result<std::unique_ptr<fs::FileSystem>> found;
    if (is_directory) {
        found = co_await served.open(pool, container, report);
    } else if (is_daos) {
        found = co_await daos.open(pool, container, report);
    } else {
        found = co_await pools.open(call, pool, container, report);
    }
    ROS2S_CO_TRY_ASSIGN(auto opened, std::move(found));
    co_return std::make_unique<access::CheckedFileSystem>(reactor_, std::move(opened));
}

}  // namespace ros2s::dpud
