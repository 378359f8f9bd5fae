// Pools: the pools that this process owns, by name, for the control plane and the data plane.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ros2s/control/control_server.h"
#include "ros2s/daemon/session_sources.h"
#include "ros2s/exporter/metrics_server.h"
#include "ros2s/pool/embedded_pool.h"

namespace ros2s::engined {

class Pools final : public control::PoolCatalog {
  public:
    // Waits for an owner of a pool that will probably end soon. Errors: busy (the report names the
    // owner). open() reports other problems of the directory.
    static Task<Result<>> await_owner(Reactor& reactor, std::string directory, Report& report);
    // Opens one more. Errors: those of EmbeddedPool::open(); exists (a pool of that name is open).
    Task<Result<>> open(Environment environment, std::string directory, Report& report);
    Task<> close();

    [[nodiscard]] std::vector<std::string> names() const override;
    [[nodiscard]] object::ObjectStore* find(std::string_view pool) override;
    [[nodiscard]] std::string path(const std::string& pool) const override {
        return pools_.at(pool)->path();
    }
    [[nodiscard]] tenancy::TenantRegistry* tenants(std::string_view pool) override;
    [[nodiscard]] object::LeaseTable* leases(std::string_view pool) override;
    [[nodiscard]] const tenancy::TenantRegistry* tenants(std::string_view pool) const;
    [[nodiscard]] daemon::NotDurable not_durable(const session::Session& session) const;
    // Of a pool that is open here.
    [[nodiscard]] Uuid id(std::string_view pool) const { return pools_.find(pool)->second->id(); }
    [[nodiscard]] std::string capability_keys_file(std::string_view pool) const {
        return pools_.find(pool)->second->capability_keys_file();
    }
    // The name under which the tenant owns containers. None: there is no such tenant.
    [[nodiscard]] std::optional<std::string> owner_named(std::string_view pool,
                                                         std::string_view tenant) const;
    Task<Result<object::ContainerRecord>> set_container(const Call& call, std::string pool,
                                                        object::ContainerId container,
                                                        object::ContainerChange change,
                                                        Report& report) override;
    // They may create for others. Without a tenant, they own nothing.
    void set_administrators(std::vector<std::string> subjects) {
        administrators_ = std::move(subjects);
    }
    [[nodiscard]] bool is_administrator(std::string_view subject) const;
    // Applies the caps of the tenants of all pools.
    void apply_caps();
    // Called when a container has another owner.
    std::function<void()> on_owner_change;
    Task<Result<object::ContainerRecord>> create_container(const Call& call, std::string subject,
                                                           std::string pool,
                                                           object::ContainerProperties properties,
                                                           fs::Owner owner,
                                                           Report& report) override;
    // Their counters, each with its label `pool`. They live as long as this.
    void add_metrics(std::vector<exporter::Source>& sources) const;

  private:
    std::map<std::string, std::unique_ptr<pool::EmbeddedPool>, std::less<>> pools_;
    std::map<std::string, std::unique_ptr<tenancy::TenantRegistry>, std::less<>> tenants_;
    std::vector<std::string> administrators_;
};

}  // namespace ros2s::engined
