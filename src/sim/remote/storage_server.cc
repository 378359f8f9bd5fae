#include "storage_server.h"

#include <fmt/format.h>

#include <algorithm>

#include "ros2s/fs/dfs.h"
#include "ros2s/object/forwarding_store.h"

namespace ros2s::sim {

using namespace object;

namespace {
constexpr uint64_t down_ms_max = 50;
}

// The store as the server sees it: at some updates the machine is struck before the server gets the
// result. The server also ends when a request fails after a device reported an error: its clients
// go on with the next one.
class StorageServer::Struck final : public ForwardingStore {
  public:
    Struck(StorageServer& server, ObjectStore& below) : ForwardingStore(below), server_(server) {}
    Task<Result<Commit>> update(const Call& call, ContainerId container,
                                const Transaction& transaction) override {
        Result<Commit> commit;
        if (server_.options_.keeps_replies) {
            commit = co_await below().update(call, container, transaction);
        } else {
            Transaction nameless = transaction;
            nameless.id = {};
            commit = co_await below().update(call, container, nameless);
        }
        if (commit && !commit->replayed) server_.committed();
        co_return seen(std::move(commit));
    }
    Task<Result<>> fetch(const Call& call, ContainerId container,
                         std::span<FetchItem> items) override {
        co_return seen(co_await below().fetch(call, container, items), items);
    }
    Task<Result<ListReply>> list(const Call& call, ContainerId container,
                                 const ListRequest& request) override {
        co_return seen(co_await below().list(call, container, request));
    }
    Task<Result<QueryReply>> query(const Call& call, ContainerId container, ObjectId object,
                                   const Akey& akey) override {
        co_return seen(co_await below().query(call, container, object, akey));
    }
    Task<Result<>> fetch_chain(const Call& call, ContainerId container, const Holder& holder,
                               std::span<FetchItem> items, std::span<Link> links) override {
        co_return seen(co_await below().fetch_chain(call, container, holder, items, links), items);
    }
    Task<Result<>> pin(const Call& call, ContainerId container, const Holder& holder,
                       FetchItem& item) override {
        co_return seen(co_await below().pin(call, container, holder, item), {&item, 1});
    }

  private:
    template <class T>
    T seen(T result, std::span<const FetchItem> items = {}) {
        const auto failed = [](const FetchItem& item) {
            return !item.status && item.status.error().code == Code::io;
        };
        if (!result || std::ranges::any_of(items, failed)) server_.failed();
        return result;
    }
    StorageServer& server_;
};

StorageServer::StorageServer(World& world, fabric::sim::Network& network, Rig& rig, uint64_t seed,
                             StorageServerOptions options)
    : world_(world),
      network_(network),
      rig_(rig),
      random_(seed),
      options_(std::move(options)),
      reaping_(world.core(), 1),
      struck_(world.core()) {
    rig_.on_crash([this] { fall(); });
}
StorageServer::~StorageServer() { rig_.on_crash({}); }

// ---- opening and closing -------------------------------------------------------------------

Task<> StorageServer::make() {
    Report report;
    const auto store = co_await rig_.open(report);
    ROS2S_CHECK(store);
    const Call call;
    const ContainerProperties properties{.label = "c"};
    const auto container = co_await (*store)->create_container(call, properties);
    ROS2S_CHECK(container);
    container_ = container->id;
    ROS2S_CHECK(co_await fs::Dfs::format(call, **store, container_, world_.core(), {}, report));
    co_await rig_.close();
}

void StorageServer::arm_rig(bool in_recovery) {
    if (calm_ || !options_.next_crash) return;
    if (const auto plan = options_.next_crash(in_recovery)) rig_.arm(*plan);
}

void StorageServer::note_point(bool in_recovery) {
    points_.push_back(rig_.point());
    points_.back().in_recovery = in_recovery;
}

Task<bool> StorageServer::open_rig() {
    while (true) {
        arm_rig(true);
        opening_ = world_.now();
        Report report;
        const auto store = co_await rig_.open(report);
        if (rig_.crashed()) {
            note_point(true);
            co_await rig_.close();
            continue;
        }
        rig_.disarm();
        if (store) opened_ = *store;
        if (store) co_return true;
        if (rig_.failing()) {
            co_await rig_.close();
            continue;
        }
        problems_.push_back(fmt::format("the store could not be opened again: {} ({})",
                                        describe(store.error()), report.text()));
        co_await rig_.close();
        co_return false;
    }
}

Task<bool> StorageServer::start() {
    if (!co_await open_rig()) co_return false;
    starts_.push_back(opening_);
    co_await serve();
    arm_rig(false);
    co_return true;
}

Task<> StorageServer::serve() {
    Reactor& core = world_.core();
    Report report;
    store_ = std::make_unique<Struck>(*this, *opened_);
    service_ = std::make_unique<remote::StoreServer>(*store_);
    tickets_ = std::make_unique<session::TicketTable>(
        core, session::TicketTable::Options{.entropy = [this] { return random_.next(); }});
    sessions_ =
        std::make_unique<session::SessionTable>(core, *tickets_, session::SessionTable::Options{});
    gate_ = std::make_unique<session::SessionGate>(*sessions_, session::Purpose::store);
    domain_ = network_.open_domain(core, process);
    auto listening =
        co_await rpc::Server::listen(core, *domain_, process, *service_, *gate_, {}, report);
    ROS2S_CHECK(listening);
    server_ = std::move(*listening);
    gate_->add(*server_);
    sessions_->watch(*this);
    reaping_stop_.emplace();
    if (options_.ends_sessions) co_await reaping_.spawn(sessions_->reap(reaping_stop_->token()));
    up_ = true;
}

// A store that is killed does not hear of it.
Task<> StorageServer::session_ending(session::Session& session) {
    if (!up_) co_return;
    ++ends_[session.request.client];
    service_->session_ended(session.id.value);
}

Task<> StorageServer::halt() {
    up_ = false;
    reaping_stop_->request_stop();
    co_await reaping_.join();
    co_await sessions_->close_all();
    sessions_->unwatch(*this);
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
    opened_ = nullptr;
    co_await rig_.close();
}

Task<> StorageServer::keep_running(StorageServer& self) {
    while (true) {
        while (self.up_ && !self.over_) co_await self.struck_;
        co_await self.halt();
        if (self.over_) co_return;
        co_await sleep_for(self.world_.core(),
                           std::chrono::milliseconds(self.random_.below(down_ms_max)));
        if (!co_await self.start()) co_return;
    }
}

void StorageServer::calm() {
    calm_ = true;
    until_strike_ = 0;
    rig_.disarm();
}

void StorageServer::stop() {
    calm();
    over_ = true;
    struck_.wake_all();
}

// ---- crashes -------------------------------------------------------------------------------

void StorageServer::arm() { until_strike_ = 1 + random_.below(options_.strike_within); }

void StorageServer::committed() {
    if (!up_ || until_strike_ == 0) return;
    --until_strike_;
    if (until_strike_ > 0) return;
    if (++strikes_ < options_.strikes) arm();
    strike();
}

void StorageServer::kill() {
    if (!up_) return;
    striking_ = true;
    rig_.crash(random_.one_in(2) ? CrashKind::power : CrashKind::process);
    striking_ = false;
}

// No client learns of the error.
void StorageServer::failed() {
    if (!up_ || !rig_.failing()) return;
    ++device_errors_;
    kill();
}

// No client knows of the update that was just committed.
void StorageServer::strike() {
    const uint64_t how = random_.below(3);
    if (how == 0) return network_.kill(process);  // only a lost connection
    striking_ = true;
    rig_.crash(how == 1 ? CrashKind::power : CrashKind::process);
    striking_ = false;
}

// Called at the rig's crash: no further message leaves. During recovery there are no clients yet.
void StorageServer::fall() {
    if (!up_) return;
    if (!striking_) note_point(false);
    up_ = false;
    network_.kill(process);
    server_->abandon();
    struck_.wake_all();
}

Result<std::string> StorageServer::issue_ticket(Uuid client, session::SessionId& session) {
    if (!up_) return fail(Code::disconnected);
    if (!sessions_->use(session)) {
        ROS2S_TRY_ASSIGN(const session::SessionUse opened,
                         sessions_->open({.subject = "host", .client = client, .pool = "pool"}));
        session = opened->id;
    }
    ROS2S_TRY_ASSIGN(const session::SessionUse use, sessions_->use(session));
    ROS2S_TRY_ASSIGN(const session::IssuedTicket issued, sessions_->issue_ticket(*use));
    return std::string(issued.ticket.view());
}

}  // namespace ros2s::sim
