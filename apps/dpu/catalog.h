// Catalog: the pools that hosts may use, for their control plane and their mounts: pools of the
// engine, pools of DAOS, and directories of this machine.
#pragma once
#include "daos_pools.h"
#include "directories.h"
#include "pools.h"
#include "ros2s/control/control_server.h"
#include "ros2s/rights/policy.h"
#include "ros2s/session/mounts.h"

namespace ros2s::dpud {

class Catalog final : public control::PoolCatalog, public session::FileSystemSource {
  public:
    // `files`: for calls of file systems that block.
    Catalog(Reactor& reactor, BlockingPool& blocking, FileThreads files,
            session::SessionTable& sessions)
        : pools(reactor, blocking, sessions),
          served(reactor, files),
          daos(reactor, files),
          reactor_(reactor),
          policy_(sessions.rights().policy()) {}

    Pools pools;
    Directories served;
    DaosPools daos;

    [[nodiscard]] std::vector<std::string> names() const override;
    [[nodiscard]] object::ObjectStore* find(std::string_view pool) override {
        return pools.find(pool);
    }
    [[nodiscard]] std::string kept_elsewhere(std::string_view pool) const override;
    Task<Result<std::vector<std::string>>> labels(const Call& call, std::string pool) override;
    // Without the engine's address, which hosts must not receive.
    [[nodiscard]] std::string path(const std::string& pool) const override {
        return pools.storage(pool);
    }
    [[nodiscard]] std::vector<control::AbsentPool> absent() const override {
        return pools.absent();
    }
    Task<Result<std::shared_ptr<object::ObjectStore>>> store_for(const Call& call,
                                                                 std::string subject,
                                                                 std::string pool,
                                                                 capability::Use use,
                                                                 Report& report) override;
    [[nodiscard]] std::vector<rights::Grant> handed_over(std::string_view pool,
                                                         std::string_view subject) const override {
        return pools.chains.handed_over(pool, subject);
    }
    Task<Result<object::ContainerRecord>> create_container(const Call& call, std::string subject,
                                                           std::string pool,
                                                           object::ContainerProperties properties,
                                                           fs::Owner owner,
                                                           Report& report) override;
    // The tenant and its rights, as long as its record does not change.
    [[nodiscard]] session::Authority authority_for(const session::Session& session,
                                                   bool read_only) const override {
        return pools.chains.authority(session.request.pool, session.request.subject, read_only);
    }
    Task<Result<std::unique_ptr<fs::FileSystem>>> open(const Call& call,
                                                       const session::MountedContainer& which,
                                                       Report& report) override;
    [[nodiscard]] bool lends(const std::string& pool,
                             const std::string& /*container*/) const override {
        return pools.is_of_engine(pool);
    }
    [[nodiscard]] bool holds_descriptors(const std::string& pool,
                                         const std::string& /*container*/) const override {
        return !served.containers(pool).empty();
    }
    [[nodiscard]] std::string storage(const std::string& pool,
                                      const std::string& container) const override {
        const std::string engine = path(pool);
        if (!engine.empty()) return engine;
        const std::string directory = served.storage(pool, container);
        return directory.empty() ? daos.storage(pool, container) : directory;
    }

  private:
    Reactor& reactor_;
    const rights::Policy& policy_;
};

}  // namespace ros2s::dpud
