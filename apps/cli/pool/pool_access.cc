#include "pool_access.h"

#include <fmt/format.h>

#include <utility>

#include "pool_location.h"
#include "ros2s/api/deployment.h"
#include "ros2s/api/server_address.h"
#include "ros2s/connection/direct_pool.h"
#include "ros2s/fs/container.h"
#include "ros2s/pki/certificate.h"
#include "ros2s/pool/embedded_pool.h"
#include "ros2s/pool/pool_directory.h"

namespace ros2s::cli {
namespace {

// A store that this process has open. Opened has the functions that only a pool of ours has.
class OnStore : public PoolAccess {
  public:
    Task<Result<object::PoolSpace>> space(const Call& call) override {
        auto space = co_await store_.space(call, {});
        if (!space) co_return failed("read its space", space.error());
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
    Task<Result<control::SeenLeases>> leases(const Call&, std::string) override {
        co_return no_leases();
    }
    Task<Result<>> evict(const Call&, std::string, std::string) override { co_return no_leases(); }

  protected:
    OnStore(object::ObjectStore& store, std::string name, CommandContext context)
        : store_(store), name_(std::move(name)), context_(context) {}

    object::ObjectStore& store_;
    const std::string name_;  // in sentences
    CommandContext context_;

  private:
    std::unexpected<Error> no_leases() {
        return context_.report.fail(
            Code::unsupported,
            "no server has {} open, so nobody has leases; name a running engine or DPU, as in "
            "ros2s://HOST:PORT/POOL/CONTAINER, or the directory of `up`",
            name_);
    }
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

// A pool that a server has open.
class Served final : public PoolAccess {
  public:
    Served(std::unique_ptr<control::ControlClient> server, api::Uri uri, api::ServerAddress address,
           CommandContext context)
        : server_(std::move(server)),
          uri_(std::move(uri)),
          address_(std::move(address)),
          context_(context) {}
    Task<> close() override {
        if (data_ != nullptr) (void)co_await data_->close();
    }

    Task<Result<object::PoolSpace>> space(const Call& call) override {
        ROS2S_CO_TRY_ASSIGN(const auto facts,
                            co_await told(server_->query_pool(call, uri_.pool, context_.report)));
        co_return facts.space;
    }
    Task<Result<std::vector<object::ContainerRecord>>> containers(const Call& call) override {
        return told(server_->list_containers(call, uri_.pool, context_.report));
    }
    Task<Result<object::ContainerRecord>> find(const Call& call, std::string label) override {
        return told(server_->query_container(call, uri_.pool, std::move(label), context_.report));
    }
    Task<Result<object::ContainerRecord>> create(const Call& call,
                                                 object::ContainerProperties properties,
                                                 fs::Owner owner) override {
        return told(server_->create_container(call, uri_.pool, std::move(properties), owner,
                                              context_.report));
    }
    Task<Result<object::ContainerRecord>> set(const Call& call, std::string label,
                                              object::ContainerChange change) override {
        return told(server_->set_container(call, uri_.pool, std::move(label), std::move(change),
                                           context_.report));
    }
    Task<Result<>> destroy(const Call& call, std::string label) override {
        return told(server_->destroy_container(call, uri_.pool, std::move(label), context_.report));
    }
    Task<Result<control::SeenLeases>> leases(const Call& call, std::string label) override {
        return told(server_->list_leases(call, uri_.pool, std::move(label), context_.report));
    }
    Task<Result<>> evict(const Call& call, std::string label, std::string holder) override {
        return told(server_->evict_holder(call, uri_.pool, std::move(label), std::move(holder),
                                          context_.report));
    }
    Task<Result<object::ObjectStore*>> store() override {
        // Also a failure is kept: a list asks once for each container.
        if (!store_) store_ = co_await open_data();
        co_return *store_;
    }

  private:
    // An error with what helps.
    template <class R>
    Task<R> told(Task<R> asking) {
        auto done = co_await std::move(asking);
        if (!done) api::say_what_helps(uri_, done.error(), context_.report);
        co_return done;
    }
    Task<Result<object::ObjectStore*>> open_data() {
        if (uri_.transport == api::Uri::Transport::dpu) {
            co_return context_.report.fail(
                Code::unsupported,
                "'{}' is behind a DPU, which gives no access to the keys of containers: encrypt "
                "containers and change their keys at the engine, by a URI like {}. The DPU's "
                "settings can encrypt what its hosts create (encryption: new_containers)",
                uri_.to_string(), "ros2s://engine:7400/pool/main");
        }
        ROS2S_CO_TRY_ASSIGN(const api::DataWay way, api::data_way(address_, uri_, context_.report));
        ROS2S_CO_TRY_ASSIGN(
            data_, co_await connection::DirectPool::open(
                       context_.environment.reactor,
                       {.server = {.control = address_.control,
                                   .server_name = address_.name,
                                   .identity = pki::identity_in(address_.certificates, "client"),
                                   .pool = uri_.pool,
                                   .program = std::string(pool::command_program),
                                   .providers = way.providers,
                                   .ucx_device = way.ucx_device},
                        .opening = context_.call},
                       context_.environment.log, context_.report));
        co_return &data_->store();
    }

    std::unique_ptr<control::ControlClient> server_;
    std::unique_ptr<connection::DirectPool> data_;
    std::optional<Result<object::ObjectStore*>> store_;
    const api::Uri uri_;
    const api::ServerAddress address_;
    CommandContext context_;
};

Result<std::unique_ptr<PoolAccess>> ask_server(const CommandContext& context, api::Uri uri) {
    ROS2S_TRY_ASSIGN(api::ServerAddress address, api::server_address(uri, context.report));
    auto server = control::ControlClient::create(
        context.environment.reactor,
        {.address = address.control,
         .identity = pki::identity_in(address.certificates, "client"),
         .server_name = address.name},
        context.report);
    if (!server) {
        api::say_what_helps(uri, server.error(), context.report);
        return fail(server.error());
    }
    return std::make_unique<Served>(std::move(*server), std::move(uri), std::move(address),
                                    context);
}

Task<Result<std::unique_ptr<PoolAccess>>> access_known(CommandContext context,
                                                       pool::PoolDirectory known) {
    ROS2S_CO_TRY_ASSIGN(const auto owner, owner_of(known.directory, context.report));
    if (api::is_served(known.directory, owner)) {
        co_return ask_server(context, {.transport = api::Uri::Transport::direct,
                                       .pool = known.config.pool,
                                       .dir = known.directory});
    }
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
    if (uri.transport != api::Uri::Transport::local) co_return ask_server(context, std::move(uri));
    ROS2S_CO_TRY_ASSIGN(auto known, pool::read_pool_directory(uri.dir, context.report));
    ROS2S_CO_TRY(api::check_pool_name(uri, known.config.pool, context.report));
    co_return co_await access_known(context, std::move(known));
}

}  // namespace ros2s::cli
