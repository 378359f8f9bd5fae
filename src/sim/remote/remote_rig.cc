#include "remote_rig.h"

#include "ros2s/fabric/sim/network.h"
#include "ros2s/object/forwarding_store.h"
#include "ros2s/remote/remote_store.h"
#include "ros2s/remote/store_server.h"
#include "ros2s/rpc/server.h"

namespace ros2s::sim {

using namespace object;

namespace {

class OpenGate final : public rpc::Gate {
  public:
    Result<rpc::Guest> admit(const rpc::HelloBody&, const fabric::Peer&) override {
        return rpc::Guest{};
    }
    void left(const rpc::Guest&) override {}
};

class NoTickets final : public rpc::TicketSource {
  public:
    Task<Result<std::string>> take(Report&) override { co_return std::string(); }
};

// The store that the clients see. If connections are lost, containers are changed at the store
// itself: these changes have no update names, so a client that loses the reply would have to look
// at the result.
class Reached final : public ForwardingStore {
  public:
    Reached(ObjectStore& remote, ObjectStore& containers)
        : ForwardingStore(remote), containers_(containers) {}
    Task<Result<ContainerRecord>> create_container(const Call& call,
                                                   const ContainerProperties& wanted) override {
        return containers_.create_container(call, wanted);
    }
    Task<Result<>> destroy_container(const Call& call, ContainerId container) override {
        return containers_.destroy_container(call, container);
    }

  private:
    ObjectStore& containers_;
};

class RemoteRig final : public Rig {
  public:
    RemoteRig(World& world, Random& random, std::unique_ptr<Rig> behind, RemoteTotals& totals)
        : world_(world),
          random_(random.next()),
          behind_(std::move(behind)),
          totals_(totals),
          network_(random_) {
        const uint32_t losses[] = {0, 40, 300};
        lose_one_in_ = losses[random_.below(std::size(losses))];
        // Short requests inline or not.
        if (random_.one_in(2)) channel_options_.inline_request_bytes = 0;
        if (random_.one_in(2)) server_options_.inline_reply_bytes = 160;
        channel_options_.service = remote::object_service;
        channel_options_.client.bytes[0] = 1;
    }

    Task<Result<ObjectStore*>> open(Report& report) override;
    Task<> close() override;
    Task<Result<>> grow(Report& report) override { return behind_->grow(report); }
    bool can_grow() const override { return behind_->can_grow(); }
    bool repeats_requests() const override { return lose_one_in_ > 0; }
    std::optional<Duration> reply_lease() const override { return behind_->reply_lease(); }
    void arm(const CrashPlan& plan) override { behind_->arm(plan); }
    void disarm() override { behind_->disarm(); }
    const bool& failing() const override { return behind_->failing(); }
    void crash(CrashKind kind) override { behind_->crash(kind); }
    void on_crash(std::function<void()> told) override { behind_->on_crash(std::move(told)); }
    const bool& crashed() const override { return behind_->crashed(); }
    const CrashPoint& point() const override { return behind_->point(); }

  private:
    Task<Result<>> connect(ObjectStore& store, Report& report);

    World& world_;
    Random random_;
    std::unique_ptr<Rig> behind_;
    RemoteTotals& totals_;
    fabric::sim::Network network_;
    uint32_t lose_one_in_ = 0;
    rpc::ServerOptions server_options_;
    rpc::ChannelOptions channel_options_;
    OpenGate gate_;
    NoTickets tickets_;
    std::unique_ptr<fabric::Domain> server_domain_, domain_;
    std::unique_ptr<remote::StoreServer> service_;
    std::unique_ptr<rpc::Server> server_;
    std::unique_ptr<rpc::Channel> channel_;
    std::unique_ptr<remote::RemoteStore> remote_;
    std::unique_ptr<Reached> reached_;
};

Task<Result<ObjectStore*>> RemoteRig::open(Report& report) {
    ROS2S_CO_TRY_ASSIGN(ObjectStore * store, co_await behind_->open(report));
    network_.set_model({});
    ROS2S_CO_TRY(co_await connect(*store, report));
    network_.set_model({.lose_one_in = lose_one_in_});
    ObjectStore& containers = lose_one_in_ == 0 ? static_cast<ObjectStore&>(*remote_) : *store;
    reached_ = std::make_unique<Reached>(*remote_, containers);
    co_return reached_.get();
}

Task<Result<>> RemoteRig::connect(ObjectStore& store, Report& report) {
    Reactor& core = world_.core();
    server_domain_ = network_.open_domain(core, "server");
    service_ = std::make_unique<remote::StoreServer>(store);
    ROS2S_CO_TRY_ASSIGN(
        server_, co_await rpc::Server::listen(core, *server_domain_, "store", *service_, gate_,
                                              server_options_, report));
    domain_ = network_.open_domain(core, "client");
    ROS2S_CO_TRY_ASSIGN(channel_, co_await rpc::Channel::open(core, *domain_, "store", tickets_,
                                                              channel_options_, report));
    ROS2S_CO_TRY_ASSIGN(remote_, co_await remote::RemoteStore::open({}, *channel_, report));
    co_return Result<>{};
}

Task<> RemoteRig::close() {
    reached_.reset();
    remote_.reset();
    if (channel_) {
        co_await channel_->close();
        totals_.connections_lost += channel_->metrics().connections_lost.value();
        totals_.requests_repeated += channel_->metrics().requests_repeated.value();
        channel_.reset();
    }
    if (domain_) co_await domain_->close();
    domain_.reset();
    if (server_) co_await server_->close();
    server_.reset();
    if (service_) totals_.replayed += service_->metrics().replayed.value();
    service_.reset();
    if (server_domain_) co_await server_domain_->close();
    server_domain_.reset();
    co_await behind_->close();
}

}  // namespace

std::unique_ptr<Rig> make_remote_rig(World& world, Random& random, std::unique_ptr<Rig> behind,
                                     RemoteTotals& totals) {
    return std::make_unique<RemoteRig>(world, random, std::move(behind), totals);
}

}  // namespace ros2s::sim
