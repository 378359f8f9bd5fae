#include "catalog.h"

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
    if (!served.containers(pool).empty()) return served.open(pool, container, report);
    return pools.open(call, pool, container, report);
}

}  // namespace ros2s::dpud
