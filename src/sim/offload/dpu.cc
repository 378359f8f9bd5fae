#include "dpu.h"

#include <fmt/format.h>

#include "ros2s/fs/dfs.h"
#include "ros2s/object/forwarding_store.h"

namespace ros2s::sim {

using namespace object;

// The store below the file system: a killed DPU sends nothing to it.
class Dpu::Struck final : public ForwardingStore {
  public:
    Struck(Dpu& dpu, ObjectStore& below) : ForwardingStore(below), dpu_(dpu) {}
    Task<Result<>> fetch(const Call& call, ContainerId container,
                         std::span<FetchItem> items) override {
        if (!dpu_.up_) co_return fail(Code::closed);
        co_return co_await below().fetch(call, container, items);
    }
    bool post_fetch(const Call& call, ContainerId container, FetchItem& item,
                    PostedFetch& fetch) override {
        if (!dpu_.up_ || !dpu_.is_straight_) return false;
        const bool is_posted = below().post_fetch(call, container, item, fetch);
        if (is_posted) ++dpu_.straight_reads_;
        return is_posted;
    }
    Task<Result<Commit>> update(const Call& call, ContainerId container,
                                const Transaction& transaction) override {
        if (!dpu_.up_) co_return fail(Code::closed);
        const Moment moment = dpu_.next_moment();
        if (moment == Moment::before) dpu_.strike();
        if (moment == Moment::before) co_return fail(Code::closed);
        Transaction sent = transaction;
        if (!dpu_.options_.passes_names) sent.id = {};
        const auto commit = co_await below().update(call, container, sent);
        if (!dpu_.up_) co_return fail(Code::closed);
        if (moment == Moment::after) dpu_.strike();
        if (moment == Moment::after) co_return fail(Code::closed);
        co_return commit;
    }
    Task<Result<ListReply>> list(const Call& call, ContainerId container,
                                 const ListRequest& request) override {
        if (!dpu_.up_) co_return fail(Code::closed);
        co_return co_await below().list(call, container, request);
    }
    Task<Result<QueryReply>> query(const Call& call, ContainerId container, ObjectId object,
                                   const Akey& akey) override {
        if (!dpu_.up_) co_return fail(Code::closed);
        co_return co_await below().query(call, container, object, akey);
    }
    Task<Result<>> fetch_chain(const Call& call, ContainerId container, const Holder& holder,
                               std::span<FetchItem> items, std::span<Link> links) override {
        if (!dpu_.up_) co_return fail(Code::closed);
        const auto done = co_await below().fetch_chain(call, container, holder, items, links);
        co_await dpu_.be_late();
        co_return done;
    }
    Task<Result<>> pin(const Call& call, ContainerId container, const Holder& holder,
                       FetchItem& item) override {
        if (!dpu_.up_) co_return fail(Code::closed);
        co_return co_await below().pin(call, container, holder, item);
    }
    Task<Result<bool>> unpin(const Call& call, ContainerId container, const Holder& holder,
                             ObjectId object) override {
        if (!dpu_.up_) co_return fail(Code::closed);
        co_return co_await below().unpin(call, container, holder, object);
    }
    Task<Result<LeaseNews>> listen(const Call& call, ContainerId container, const Holder& holder,
                                   const Listening& listening) override {
        if (!dpu_.up_) co_return fail(Code::closed);
        co_return co_await below().listen(call, container, holder, listening);
    }
    Task<Result<std::optional<Lock>>> lock(const Call& call, ContainerId container,
                                           const Holder& holder,
                                           const LockRequest& request) override {
        if (!dpu_.up_) co_return fail(Code::denied);  // final: it does not ask again
        auto done = co_await below().lock(call, container, holder, request);
        co_await dpu_.be_late();
        co_return done;
    }
    Task<Result<bool>> pinned_again(const Call& call, ContainerId container,
                                    const Holder& holder) override {
        if (!dpu_.up_) co_return fail(Code::closed);
        co_return co_await below().pinned_again(call, container, holder);
    }

  private:
    Dpu& dpu_;
};

Dpu::Dpu(World& world, fabric::sim::Network& network, StorageServer& server, uint64_t seed,
         DpuOptions options)
    : world_(world),
      core_(world.core(), options.clock_percent),
      network_(network),
      storage_(server),
      random_(seed),
      options_(options),
      process_(fmt::format("dpu {}", options.number)),
      client_process_(process_ + ", as a client"),
      reaping_(core_, 1),
      is_straight_(seed % 2 == 0),
      struck_(core_) {}
Dpu::~Dpu() = default;

// Each process is a new client instance.
Task<bool> Dpu::reach_store() {
    while (!over_) {
        engine_ = std::make_unique<StoreClient>(world_, core_, network_, storage_, client_process_,
                                                Uuid::make(Secrets(random_)));
        if (co_await engine_->connect()) co_return true;
        engine_.reset();
        co_await sleep_for(core_, std::chrono::milliseconds(10));
    }
    co_return false;
}

Task<bool> Dpu::start() {
    if (!co_await reach_store()) co_return false;
    co_await serve();
    co_return true;
}

Task<> Dpu::serve() {
    Report report;
    verified_ = std::make_unique<client::VerifyingStore>(core_, engine_->store());
    store_ = std::make_unique<Struck>(*this, *verified_);
    tickets_ = std::make_unique<session::TicketTable>(
        core_, session::TicketTable::Options{.entropy = [this] { return random_.next(); }});
    sessions_ =
        std::make_unique<session::SessionTable>(core_, *tickets_, session::SessionTable::Options{});
    mounts_ =
        std::make_unique<session::Mounts>(core_, *sessions_, *this, session::Mounts::Options{});
    gate_ = std::make_unique<session::SessionGate>(*sessions_, session::Purpose::link);
    link_ = std::make_unique<hostlink::LinkServer>(core_, *sessions_, *mounts_);
    domain_ = network_.open_domain(world_.core(), process_);
    auto listening =
        co_await rpc::Server::listen(core_, *domain_, process_, *link_, *gate_, {}, report);
    ROS2S_CHECK(listening);
    server_ = std::move(*listening);
    gate_->add(*server_);
    is_straight_ = !is_straight_;
    sessions_->watch(*this);
    reaping_stop_.emplace();
    if (options_.ends_sessions) co_await reaping_.spawn(sessions_->reap(reaping_stop_->token()));
    up_ = true;
}

Task<> Dpu::session_ending(session::Session& session) {
    ++ends_[session.request.client];
    co_return;
}

uint64_t Dpu::ends_of(const Uuid& host) const {
    const auto found = ends_.find(host);
    const uint64_t sessions = found == ends_.end() ? 0 : found->second;
    const uint64_t at_storage = engine_ ? storage_.ends_of(engine_->client()) : 0;
    return (kills_ << 32) + sessions + at_storage;
}

Task<> Dpu::be_late() {
    if (options_.late_most == Duration{} || !random_.one_in(4)) co_return;
    const auto most = static_cast<uint64_t>(options_.late_most.count());
    co_await sleep_for(core_, Duration(random_.below(most)));
}

// Nothing of a killed DPU reaches the engine: its store and its connection are closed.
Task<> Dpu::halt() {
    up_ = false;
    engine_->refuse();
    network_.kill(client_process_);
    reaping_stop_->request_stop();
    co_await reaping_.join();
    co_await sessions_->close_all();
    sessions_->unwatch(*this);
    gate_->remove(*server_);
    co_await server_->close();
    server_.reset();
    co_await domain_->close();
    domain_.reset();
    link_.reset();
    gate_.reset();
    mounts_.reset();
    sessions_.reset();
    tickets_.reset();
    store_.reset();
    verified_.reset();
    co_await engine_->disconnect();
    engine_.reset();
}

Task<> Dpu::keep_running(Dpu& self) {
    while (true) {
        while (self.up_ && !self.over_) co_await self.struck_;
        co_await self.halt();
        if (self.over_) co_return;
        co_await sleep_for(self.core_, std::chrono::milliseconds(self.random_.below(50)));
        if (!co_await self.start()) co_return;
    }
}

void Dpu::stop() {
    until_strike_ = 0;
    over_ = true;
    struck_.wake_all();
}

void Dpu::arm() { until_strike_ = 1 + random_.below(options_.strike_within); }

Dpu::Moment Dpu::next_moment() {
    if (until_strike_ == 0) return Moment::none;
    --until_strike_;
    if (until_strike_ > 0) return Moment::none;
    return random_.below(3) == 0 ? Moment::before : Moment::after;
}

// Another update may have killed the DPU already.
void Dpu::strike() {
    if (!up_) return;
    if (++strikes_ < options_.strikes) arm();
    kill();
}

void Dpu::kill() {
    if (!up_) return;
    ++kills_;
    up_ = false;
    engine_->refuse();
    network_.kill(process_);
    network_.kill(client_process_);
    server_->abandon();
    struck_.wake_all();
}

Task<Result<std::unique_ptr<fs::FileSystem>>> Dpu::open(const Call& call,
                                                        const session::MountedContainer& which,
                                                        Report& report) {
    const fs::DfsOptions options{.orphan_grace = options_.orphan_grace,
                                 .takes_leases = which.own != session::MountId{},
                                 .orphan_sweep = std::chrono::milliseconds(100)};
    ROS2S_CO_TRY_ASSIGN(auto mounted, co_await fs::Dfs::mount(call, *store_, storage_.container(),
                                                              core_, options, report));
    co_return std::unique_ptr<fs::FileSystem>(std::move(mounted));
}

Result<session::SessionId> Dpu::open_session(Uuid client) {
    if (!up_) return fail(Code::disconnected);
    ROS2S_TRY_ASSIGN(const session::SessionUse use,
                     sessions_->open({.subject = "host",
                                      .client = client,
                                      .purpose = session::Purpose::link,
                                      .pool = "pool"}));
    return use->id;
}

Result<std::string> Dpu::issue_ticket(session::SessionId session) {
    if (!up_) return fail(Code::disconnected);
    ROS2S_TRY_ASSIGN(const session::SessionUse use, sessions_->use(session));
    ROS2S_TRY_ASSIGN(const session::IssuedTicket issued, sessions_->issue_ticket(*use));
    return std::string(issued.ticket.view());
}

Task<Result<session::MountId>> Dpu::mount(session::SessionId session) {
    if (!up_) co_return fail(Code::disconnected);
    ROS2S_CO_TRY_ASSIGN(const session::SessionUse use, sessions_->use(session));
    Report report;
    co_return co_await mounts_->mount({}, *use, "c", {.wants_leases = options_.lends}, report);
}

}  // namespace ros2s::sim
