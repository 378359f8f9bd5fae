#include "ros2s/api/pool_directory.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>

namespace ros2s::api {

Task<Result<>> create_pool(const Call&, Environment, const PoolCreation& creation, Report&) {
    std::filesystem::create_directories(creation.directory);
    std::ofstream(creation.directory + "/config.yaml")
        << "pool: " << (creation.pool.empty() ? "pool" : creation.pool) << "\n";
    co_return {};
}

Result<PoolDirectory> read_pool_directory(const std::string& directory, Report& report) {
    PoolDirectory found{.directory = std::filesystem::absolute(directory)};
    std::ifstream config(directory + "/config.yaml");
    std::string key;
    if (!(config >> key >> found.pool)) {
        return report.fail(Code::not_found, fmt::format("no pool in {}", directory));
    }
    return found;
}

Result<OsReactorOptions> reactor_options(const std::string&, Report&) { return OsReactorOptions{}; }

}  // namespace ros2s::api
