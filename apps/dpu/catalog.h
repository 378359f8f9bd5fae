// Catalog: everything that hosts may use, for their control plane and their mounts: pools of the
// engine, pools of DAOS, and directories of this machine. A pool is one of these.
#pragma once
#include "daos_pools.h"
#include "directories.h"
#include "engine_pools.h"
#include "ros2s/control/control_server.h"
#include "ros2s/session/mounts.h"

namespace ros2s::dpud {

class Catalog final : public control::PoolCatalog, public session::FileSystemSource {
  public:
    Catalog(Reactor& reactor, BlockingPool& blocking)
        : pools(reactor), served(reactor, blocking), daos(reactor, blocking), reactor_(reactor) {}

    EnginePools pools;
    Directories served;
    DaosPools daos;

    [[nodiscard]] std::vector<std::string> names() const override;
    [[nodiscard]] object::ObjectStore* find(std::string_view pool) override {
        return pools.find(pool);
    }
    [[nodiscard]] std::vector<std::string> directories(std::string_view pool) const override {
        const auto containers = served.containers(pool);
        return containers.empty() ? daos.containers(pool) : containers;
    }
    // Without the engine's address, which hosts must not learn.
    [[nodiscard]] std::string path(const std::string& pool) const override {
        return pools.storage(pool);
    }
    [[nodiscard]] std::vector<control::AbsentPool> absent() const override {
        return pools.absent();
    }
    Task<Result<object::ContainerRecord>> create_container(const Call& call, std::string pool,
                                                           object::ContainerProperties properties,
                                                           fs::Owner owner,
                                                           Report& report) override {
        return pools.create_container(call, std::move(pool), std::move(properties), owner, report);
    }
    Task<Result<std::unique_ptr<fs::FileSystem>>> open(const Call& call, const std::string& pool,
                                                       const std::string& container,
                                                       Report& report) override;
    [[nodiscard]] bool holds_descriptors(const std::string& pool,
                                         const std::string& /*container*/) const override {
        return !served.containers(pool).empty();
    }
    [[nodiscard]] std::string storage(const std::string& pool,
                                      const std::string& container) const override {
        const std::string engine = pools.storage(pool);
        if (!engine.empty()) return engine;
        const std::string directory = served.storage(pool, container);
        return directory.empty() ? daos.storage(pool, container) : directory;
    }

  private:
    Reactor& reactor_;
};

}  // namespace ros2s::dpud
