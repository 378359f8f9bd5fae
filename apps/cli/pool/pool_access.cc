#include "pool_access.h"

#include <fmt/format.h>

#include <utility>

#include "daemons/daemon_control.h"
#include "pool_location.h"
#include "ros2s/api/deployment.h"
#include "ros2s/connection/direct_pool.h"
#include "ros2s/control/control_client.h"
#include "ros2s/fs/container.h"
#include "ros2s/pool/embedded_pool.h"
#include "ros2s/pool/pool_directory.h"

namespace ros2s::cli {
namespace {

// A store that this process has open. What a pool of our own can do besides is in Opened.
class OnStore : public PoolAccess {
  public:
    Task<Result<object::PoolSpace>> space(const Call& call) override {
        auto space = co_await store_.space(call, {});
        if (!space) co_return failed("tell its space", space.error());
        co_return *space;
    }
    Task<Result<std::vector<object::ContainerRecord>>> containers(const Call& call) override {
        auto containers = co_await store_.list_containers(call);
        if (!containers) co_return failed("list its containers", containers.error());
        co_return std::move(*containers);
    }
    Task<Result<object::ContainerRecord>> find(const Call& call, std::string label) override {
        return fs::find_container(call, store_, name_, std::move(label), context_.report);
    }
    Task<Result<object::ContainerRecord>> create(const Call& call,
                                                 object::ContainerProperties properties,
                                                 fs::Owner owner) override {
        return fs::create_container(call, context_.environment.reactor, store_,
                                    std::move(properties), owner, context_.report);
    }
    Task<Result<>> destroy(const Call& call, std::string label) override {
        ROS2S_CO_TRY_ASSIGN(const auto container, co_await find(call, label));
        const auto done = co_await store_.destroy_container(call, container.id);
        if (!done) co_return failed(fmt::format("destroy '{}'", label), done.error());
        co_return Result<>{};
    }
    [[nodiscard]] Task<Result<object::ObjectStore*>> store() override { co_return &store_; }

  protected:
    OnStore(object::ObjectStore& store, std::string name, CommandContext context)
        : store_(store), name_(std::move(name)), context_(context) {}

    object::ObjectStore& store_;
    const std::string name_;  // in sentences
    CommandContext context_;

  private:
    std::unexpected<Error> failed(std::string_view what, const Error& error) {
        return context_.report.fail(error, "{} cannot {}: {}", name_, what, describe(error));
    }
};

class Opened final : public OnStore {
  public:
    Opened(std::unique_ptr<pool::EmbeddedPool> pool, CommandContext context)
        : OnStore(pool->store(), pool->shown(), context), pool_(std::move(pool)) {}
    Task<> close() override { return pool_->close(); }

    Task<Result<object::ContainerRecord>> set(const Call& call, std::string label,
                                              object::ContainerChange change) override {
        ROS2S_CO_TRY_ASSIGN(const auto container, co_await find(call, label));
        co_return co_await pool_->set_container(call, container.id, std::move(change),
                                                context_.report);
    }
    [[nodiscard]] std::optional<uint32_t> targets() const override { return pool_->targets(); }
    [[nodiscard]] std::optional<std::string> read_only_reason() const override {
        return pool_->read_only_reason();
    }

  private:
    std::unique_ptr<pool::EmbeddedPool> pool_;
};

class InCluster final : public OnStore {
  public:
    InCluster(std::unique_ptr<api::Deployment> opened, CommandContext context)
        : OnStore(*opened->store(), opened->path(), context), opened_(std::move(opened)) {}
    Task<> close() override { return opened_->close(); }

    Task<Result<object::ContainerRecord>> create(const Call& call,
                                                 object::ContainerProperties properties,
                                                 fs::Owner owner) override {
        if (properties.caps != object::Amount{}) co_return no_caps();
        co_return co_await OnStore::create(call, std::move(properties), owner);
    }
    Task<Result<object::ContainerRecord>> set(const Call&, std::string,
                                              object::ContainerChange) override {
        co_return no_caps();
    }

  private:
    std::unexpected<Error> no_caps() {
        return context_.report.fail(
            Code::unsupported,
            "{} does not count what a container uses: caps (--space, --files) and changes of the "
            "owner need a ros2store-engine. Limit the RADOS pool instead (ceph osd pool set-quota)",
            name_);
    }
    std::unique_ptr<api::Deployment> opened_;
};

class Served final : public PoolAccess {
  public:
    Served(std::unique_ptr<control::ControlClient> engine, std::string pool,
           control::ClientOptions location, CommandContext context)
        : engine_(std::move(engine)),
          pool_(std::move(pool)),
          location_(std::move(location)),
          context_(context) {}
    Task<> close() override {
        if (data_ != nullptr) (void)co_await data_->close();
    }

    Task<Result<object::PoolSpace>> space(const Call& call) override {
        ROS2S_CO_TRY_ASSIGN(const auto facts,
                            co_await engine_->query_pool(call, pool_, context_.report));
        co_return facts.space;
    }
    Task<Result<std::vector<object::ContainerRecord>>> containers(const Call& call) override {
        return engine_->list_containers(call, pool_, context_.report);
    }
    Task<Result<object::ContainerRecord>> find(const Call& call, std::string label) override {
        return engine_->query_container(call, pool_, std::move(label), context_.report);
    }
    Task<Result<object::ContainerRecord>> create(const Call& call,
                                                 object::ContainerProperties properties,
                                                 fs::Owner owner) override {
        return engine_->create_container(call, pool_, std::move(properties), owner,
                                         context_.report);
    }
    Task<Result<object::ContainerRecord>> set(const Call& call, std::string label,
                                              object::ContainerChange change) override {
        return engine_->set_container(call, pool_, std::move(label), std::move(change),
                                      context_.report);
    }
    Task<Result<>> destroy(const Call& call, std::string label) override {
        return engine_->destroy_container(call, pool_, std::move(label), context_.report);
    }
    Task<Result<object::ObjectStore*>> store() override {
        if (data_ == nullptr) {
            ROS2S_CO_TRY_ASSIGN(data_,
                                co_await connection::DirectPool::open(
                                    context_.environment.reactor,
                                    {.engine = {.control = location_.address,
                                                .server_name = location_.server_name,
                                                .identity = location_.identity,
                                                .pool = pool_,
                                                .program = std::string(pool::command_program),
                                                .providers = {"shm"}}},
                                    context_.environment.log, context_.report));
        }
        co_return &data_->store();
    }

  private:
    std::unique_ptr<control::ControlClient> engine_;
    std::unique_ptr<connection::DirectPool> data_;
    std::string pool_;
    control::ClientOptions location_;
    CommandContext context_;
};

Result<std::unique_ptr<PoolAccess>> ask_engine(const CommandContext& context,
                                               const pool::PoolDirectory& pool) {
    control::ClientOptions location = control_of(api::ServicePaths(pool.directory), Daemon::engine);
    ROS2S_TRY_ASSIGN(auto engine, control::ControlClient::create(context.environment.reactor,
                                                                 location, context.report));
    return std::make_unique<Served>(std::move(engine), pool.config.pool, std::move(location),
                                    context);
}

Task<Result<std::unique_ptr<PoolAccess>>> access_known(CommandContext context,
                                                       pool::PoolDirectory known) {
    ROS2S_CO_TRY_ASSIGN(const auto owner, owner_of(known.directory, context.report));
    if (api::is_served(known.directory, owner)) co_return ask_engine(context, known);
    ROS2S_CO_TRY_ASSIGN(auto pool, co_await open_pool(context, known.directory));
    co_return std::make_unique<Opened>(std::move(pool), context);
}

}  // namespace

Task<Result<std::unique_ptr<PoolAccess>>> access_pool(CommandContext context,
                                                      std::string directory) {
    ROS2S_CO_TRY_ASSIGN(auto known, pool::read_pool_directory(directory, context.report));
    co_return co_await access_known(context, std::move(known));
}

Task<Result<std::unique_ptr<PoolAccess>>> access_pool_of(CommandContext context, api::Uri uri,
                                                         bool formats) {
    if (uri.transport == api::Uri::Transport::rados) {
        uri.container.clear();
        ROS2S_CO_TRY_ASSIGN(auto opened,
                            co_await api::Deployment::open(context.call, context.environment, uri,
                                                           {.formats = formats}, context.report));
        co_return std::make_unique<InCluster>(std::move(opened), context);
    }
    ROS2S_CO_TRY_ASSIGN(auto known, pool::read_pool_directory(uri.dir, context.report));
    ROS2S_CO_TRY(api::check_pool_name(uri, known.config.pool, context.report));
    co_return co_await access_known(context, std::move(known));
}

}  // namespace ros2s::cli
