#include "catalog.h"

#include "ros2s/access/checked_file_system.h"

namespace ros2s::dpud {

std::vector<std::string> Catalog::names() const {
    std::vector<std::string> names = pools.names();
    for (std::string& pool : served.pools()) names.push_back(std::move(pool));
    for (std::string& pool : daos.pools()) names.push_back(std::move(pool));
    return names;
}

std::string Catalog::kept_elsewhere(std::string_view pool) const {
    if (!served.containers(pool).empty())
        return "are directories of the server: its settings name them";
    if (daos.has(pool)) return "are DAOS's: its tools make and remove them (daos container)";
    return {};
}

Task<Result<std::vector<std::string>>> Catalog::labels(const Call& call, std::string pool) {
    if (daos.has(pool)) co_return co_await daos.labels(call, std::move(pool));
    co_return served.containers(pool);
}

Task<Result<std::shared_ptr<object::ObjectStore>>> Catalog::store_for(
    const Call& call, std::string subject, std::string pool, capability::Use use, Report& report) {
    std::string tenant = policy_.principal(subject, pool).tenant;
    co_return co_await pools.store(call, std::move(pool), std::move(tenant), std::move(use),
                                   report);
}

Task<Result<object::ContainerRecord>> Catalog::create_container(
    const Call& call, std::string subject, std::string pool, object::ContainerProperties properties,
    fs::Owner owner, Report& report) {
    const Pools::Creator creator{
        .subject = subject, .pool = pool, .tenant = policy_.principal(subject, pool).tenant};
    co_return co_await pools.create_container(call, creator, std::move(properties), owner, report);
}

Task<Result<std::unique_ptr<fs::FileSystem>>> Catalog::open(const Call& call,
                                                            const session::MountedContainer& which,
                                                            Report& report) {
    const auto& [pool, container, authority, own, defers, exclusive_as] = which;
    std::shared_ptr<object::ObjectStore> store;  // null: it is no pool with objects
    Result<std::unique_ptr<fs::FileSystem>> found;
    if (!served.containers(pool).empty()) {
        found = co_await served.open(call, pool, container, report);
    } else if (daos.has(pool)) {
        found = co_await daos.open(call, pool, container, report);
    } else {
        capability::Use use{.rights = authority.writes ? rights::Right::write : rights::Right::read,
                            .directories = false,
                            .container = {container}};
        ROS2S_CO_TRY_ASSIGN(
            store, co_await pools.store(call, pool, authority.tenant, std::move(use), report));
        found = co_await pools.open(call, *store, which, report);
    }
    ROS2S_CO_TRY_ASSIGN(auto opened, std::move(found));
    co_return std::make_unique<access::CheckedFileSystem>(reactor_, std::move(opened),
                                                          std::move(store));
}

}  // namespace ros2s::dpud
