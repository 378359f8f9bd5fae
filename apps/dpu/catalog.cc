#include "catalog.h"

#include "ros2s/access/checked_file_system.h"

namespace ros2s::dpud {

std::vector<std::string> Catalog::names() const {
    std::vector<std::string> names = pools.names();
    names.insert(names.end(), delegated.names().begin(), delegated.names().end());
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

Task<Result<std::unique_ptr<fs::FileSystem>>> Catalog::open(const Call& call,
                                                            const std::string& pool,
                                                            const std::string& container,
                                                            Report& report) {
    Result<std::unique_ptr<fs::FileSystem>> found;
    if (!served.containers(pool).empty()) {
        found = co_await served.open(call, pool, container, report);
    } else if (daos.has(pool)) {
        found = co_await daos.open(call, pool, container, report);
    } else {
        found = co_await pools.open(call, pool, container, report);
    }
    ROS2S_CO_TRY_ASSIGN(auto opened, std::move(found));
    co_return std::make_unique<access::CheckedFileSystem>(reactor_, std::move(opened));
}

// ---- pools by what tenants have handed over ----------------------------------------------------

Task<Result<std::shared_ptr<object::ObjectStore>>> Catalog::store_for(
    const Call& call, std::string subject, std::string pool, capability::Use use, Report& report) {
    if (!delegated.has(pool)) {
        co_return co_await PoolCatalog::store_for(call, std::move(subject), std::move(pool),
                                                  std::move(use), report);
    }
    std::string tenant = delegated.tenant_of(pool, subject);
    co_return co_await delegated.store(call, std::move(pool), std::move(tenant), std::move(use),
                                       report);
}

Task<Result<object::ContainerRecord>> Catalog::create_container(
    const Call& call, std::string subject, std::string pool, object::ContainerProperties properties,
    fs::Owner owner, Report& report) {
    capability::Use use{
        .rights = rights::Right::create, .directories = false, .container = {properties.label}};
    const EnginePools::Creator creator{
        .subject = subject, .pool = pool, .tenant = policy_.principal(subject, pool).tenant};
    ROS2S_CO_TRY_ASSIGN(
        const auto store,
        co_await store_for(call, std::move(subject), std::move(pool), std::move(use), report));
    co_return co_await pools.create_container(call, *store, std::move(properties), owner, creator,
                                              report);
}

session::Authority Catalog::authority_for(const session::Session& session, bool read_only) const {
    const std::string& pool = session.request.pool;
    if (!delegated.has(pool)) return {};
    return delegated.authority(pool, session.request.subject, read_only);
}

Task<Result<std::unique_ptr<fs::FileSystem>>> Catalog::open_for(const Call& call,
                                                                session::Authority authority,
                                                                const std::string& pool,
                                                                const std::string& container,
                                                                Report& report) {
    if (!delegated.has(pool)) co_return co_await open(call, pool, container, report);
    capability::Use use{.rights = authority.writes ? rights::Right::write : rights::Right::read,
                        .directories = false,
                        .container = {container}};
    ROS2S_CO_TRY_ASSIGN(
        auto store,
        co_await delegated.store(call, pool, std::move(authority.tenant), std::move(use), report));
    ROS2S_CO_TRY_ASSIGN(auto opened, co_await pools.open_on(call, *store, pool, container, report));
    co_return std::make_unique<access::CheckedFileSystem>(reactor_, std::move(opened),
                                                          std::move(store));
}

}  // namespace ros2s::dpud
