#include "machine.h"

#include <gtest/gtest.h>

#include "ros2s/device/sim/sim_device.h"
#include "ros2s/fs/dfs.h"
#include "ros2s/object/forwarding_store.h"

namespace ros2s {

using namespace object;

// The engine, as the server sees it: at some updates the machine is struck before it is told.
class Machine::Struck final : public ForwardingStore {
  public:
    Struck(Machine& machine, ObjectStore& engine) : ForwardingStore(engine), machine_(machine) {}
    Task<Result<Commit>> update(const Call& call, ContainerId container,
                                const Transaction& transaction) override {
        Result<Commit> commit;
        if (machine_.options_.keeps_replies) {
            commit = co_await below().update(call, container, transaction);
        } else {
            Transaction nameless = transaction;
            nameless.id = {};
            commit = co_await below().update(call, container, nameless);
        }
        if (commit && !commit->replayed) machine_.committed();
        co_return commit;
    }

  private:
    Machine& machine_;
};

Machine::Machine(sim::World& world, fabric::sim::Network& network, uint64_t seed,
                 MachineOptions options)
    : world_(world),
      network_(network),
      random_(seed),
      options_(options),
      env_{world.core(), world.blocking()},
      struck_(world.core()) {
    for (int i = 0; i < 2; ++i) {
        disks_.push_back(std::make_unique<device::SimDisk>(
            world.random(),
            device::SimDiskOptions{.size = 32 << 20,
                                   .flush_latency = std::chrono::microseconds(50)},
            "device-" + std::to_string(i)));
    }
}
Machine::~Machine() = default;

Task<engine::EngineStore::Devices> Machine::devices() {
    engine::EngineStore::Devices all;
    for (auto& disk : disks_) {
        auto device = co_await device::SimDevice::open(world_.core(), *disk, report_);
        EXPECT_TRUE(device) << report_.text();
        if (device) all.push_back(std::move(*device));
    }
    co_return all;
}

engine::IndexFactory Machine::index() {
    return [this](std::string_view, bool, Report&) -> Result<std::unique_ptr<engine::Index>> {
        return medium_.open();
    };
}

Task<Result<>> Machine::open_engine() {
    ROS2S_CO_TRY_ASSIGN(engine_, co_await engine::EngineStore::open(env_, co_await devices(),
                                                                    index(), {}, report_));
    co_return Result<>{};
}

Task<> Machine::make() {
    {
        const engine::EngineStore::Devices all = co_await devices();
        std::vector<device::BlockDevice*> pointers;
        for (const auto& one : all) pointers.push_back(one.get());
        const auto made = co_await engine::EngineStore::create(env_, pointers, index(),
                                                               {.journal_bytes = 1 << 20}, report_);
        EXPECT_TRUE(made) << report_.text();
        for (const auto& one : all) co_await one->close();
    }
    EXPECT_TRUE(co_await open_engine()) << report_.text();
    const Call call;
    const auto container = co_await engine_->create_container(call, {.label = "c"});
    EXPECT_TRUE(container);
    if (container) container_ = container->id;
    EXPECT_TRUE(co_await fs::Dfs::format(call, *engine_, container_, world_.core(), {}, report_))
        << report_.text();
    EXPECT_TRUE(co_await engine_->close());
    engine_.reset();
}

Task<> Machine::start() {
    EXPECT_TRUE(co_await open_engine()) << report_.text();
    Reactor& core = world_.core();
    store_ = std::make_unique<Struck>(*this, *engine_);
    service_ = std::make_unique<remote::StoreServer>(*store_);
    tickets_ = std::make_unique<session::TicketTable>(
        core, session::TicketTable::Options{.entropy = [this] { return random_.next(); }});
    sessions_ =
        std::make_unique<session::SessionTable>(core, *tickets_, session::SessionTable::Options{});
    gate_ = std::make_unique<session::SessionGate>(*sessions_, session::Purpose::store);
    domain_ = network_.open_domain(core, "machine");
    auto listening =
        co_await rpc::Server::listen(core, *domain_, "machine", *service_, *gate_, {}, report_);
    EXPECT_TRUE(listening) << report_.text();
    if (listening) server_ = std::move(*listening);
    gate_->add(*server_);
    up_ = true;
}

Task<> Machine::halt() {
    up_ = false;
    co_await sessions_->close_all();
    gate_->remove(*server_);
    co_await server_->close();
    server_.reset();
    co_await domain_->close();
    domain_.reset();
    gate_.reset();
    sessions_.reset();
    tickets_.reset();
    replayed_ += service_->metrics().replayed.value();
    service_.reset();
    store_.reset();
    (void)co_await engine_->close();  // it cannot be clean after a loss of power
    engine_.reset();
}

Task<> Machine::keep_running(Machine& self) {
    while (true) {
        while (self.up_ && !self.over_) co_await self.struck_;
        if (self.over_) break;
        co_await self.halt();
        co_await sleep_for(self.world_.core(), std::chrono::milliseconds(self.random_.below(50)));
        co_await self.start();
    }
    co_await self.halt();
}

void Machine::stop() {
    until_strike_ = 0;
    over_ = true;
    struck_.wake_all();
}

void Machine::arm() { until_strike_ = 1 + random_.below(8); }

void Machine::committed() {
    if (!up_ || until_strike_ == 0) return;
    --until_strike_;
    if (until_strike_ > 0) return;
    if (++strikes_ < options_.strikes) arm();
    strike();
}

// Nobody has been told of the update that was just committed.
void Machine::strike() {
    network_.kill("machine");
    const uint64_t how = random_.below(3);
    if (how == 0) return;  // a lost connection, and no more
    server_->abandon();
    up_ = false;
    for (auto& disk : disks_) {
        if (how == 1) {
            disk->power_loss();
        } else {
            disk->process_crash();
        }
    }
    medium_.crash(random_);
    struck_.wake_all();
}

Task<Result<std::string>> Machine::issue_ticket(Uuid client) {
    if (!up_) co_return fail(Code::disconnected);
    ROS2S_CO_TRY_ASSIGN(const session::SessionUse use,
                        sessions_->open({.subject = "host", .client = client, .pool = "pool"}));
    ROS2S_CO_TRY_ASSIGN(const session::IssuedTicket issued, sessions_->issue_ticket(*use));
    co_return std::string(issued.ticket.view());
}

// ---- the host -------------------------------------------------------------------------------

Host::Host(sim::World& world, fabric::sim::Network& network, Machine& machine, uint8_t number)
    : world_(world), network_(network), machine_(machine) {
    client_.bytes[0] = number;
    client_.bytes[15] = 1;
}

Task<Result<std::string>> Host::take(Report& /*report*/) {
    if (refused_) co_return fail(Code::denied);
    co_return co_await machine_.issue_ticket(client_);
}

Task<> Host::connect() {
    Report report;
    domain_ = network_.open_domain(world_.core(), "host");
    auto channel =
        co_await rpc::Channel::open(world_.core(), *domain_, "machine", *this,
                                    {.service = remote::object_service, .client = client_}, report);
    ROS2S_CHECK(channel);
    channel_ = std::move(*channel);
    auto store = co_await remote::RemoteStore::open({}, *channel_, report);
    ROS2S_CHECK(store);
    store_ = std::move(*store);
}

Task<> Host::disconnect() {
    store_.reset();
    co_await channel_->close();
    channel_.reset();
    co_await domain_->close();
    domain_.reset();
}

}  // namespace ros2s
