#include "rados_store.h"

#include "chain_reader.h"
#include "ros2s/object/chain.h"
#include "sweeper.h"
#include "updater.h"

namespace ros2s::rados {

// RadosStore::OpenPool: the parts that serve requests on an open pool, in dependency order. Each is
// a class that names what it uses.
class RadosStore::OpenPool {
  public:
    OpenPool(Reactor& reactor, Pool& metadata, Pool& data, RadosOptions options);

    const Env env;
    Epochs epochs;
    object::PinTable pins;
    Coordinator coordinator;
    Heads heads;
    Containers containers;
    Reader reader;
    ChainReader chains;
    Tidier tidier;
    Replies replies;
    PayloadWriter payloads;
    Rewriter rewriter;
    Publisher publisher;
    Updater updater;
    Sweeper sweeper;
};

using namespace object;

RadosStore::OpenPool::OpenPool(Reactor& reactor, Pool& metadata, Pool& data, RadosOptions options)
    : env{.reactor = reactor,
          .metadata = metadata,
          .data = data,
          .options = std::move(options),
          .store = reactor.secrets().next() | 1},
      coordinator(reactor, metadata, env.options.patience),
      heads(env, coordinator),
      containers(env, epochs),
      reader(env, heads, containers),
      chains(env, heads, containers, reader, pins),
      tidier(env),
      replies(env, coordinator, heads),
      payloads(env, heads),
      rewriter(heads, reader, payloads),
      publisher(env, coordinator, heads, replies, tidier),
      updater(env, epochs, pins, coordinator, heads, containers, tidier, replies, payloads,
              rewriter, publisher),
      sweeper(env, coordinator, heads, containers, replies) {}

RadosStore::RadosStore(std::unique_ptr<OpenPool> pool) : pool_(std::move(pool)) {}
RadosStore::~RadosStore() = default;

Task<Result<std::unique_ptr<RadosStore>>> RadosStore::open(const Call& call, Reactor& reactor,
                                                           Pool& metadata, Pool& data,
                                                           RadosOptions options, Report& report) {
    auto pool = std::make_unique<OpenPool>(reactor, metadata, data, std::move(options));
    ROS2S_CO_TRY(co_await pool->containers.open(call, report));
    pool->sweeper.start();
    co_return std::unique_ptr<RadosStore>(new RadosStore(std::move(pool)));
}

Task<> RadosStore::close() {
    co_await pool_->sweeper.close();
    co_await pool_->replies.close();
    co_await pool_->updater.close();
    co_await pool_->publisher.close();
    co_await pool_->tidier.close();
    co_await pool_->containers.close();
}

Features RadosStore::features() const {
    return {.multi_object_transactions = true,
            .conditions = true,
            .stored_replies = pool_->env.options.keeps_replies,
            .checksums = true,
            .durable = true,
            .chains = true,
            .own_epochs = true,
            .own_pins = true,
            .late_space = true};
}

std::string RadosStore::path() const { return pool_->env.metadata.description(); }

Task<Result<>> RadosStore::sweep(const Call& call, ContainerId container, Report& report,
                                 Orphans* seen) {
    return pool_->sweeper.sweep(call, container, report, seen);
}

void RadosStore::visit_metrics(const MetricVisitor& visit) const {
    pool_->sweeper.visit_metrics(visit);
}

Task<Result<>> RadosStore::fetch(const Call& call, ContainerId container,
                                 std::span<FetchItem> items) {
    return pool_->reader.fetch(call, container, items);
}

Task<Result<Commit>> RadosStore::update(const Call& call, ContainerId container,
                                        const Transaction& transaction) {
    return pool_->updater.update(call, container, transaction);
}

Task<Result<ListReply>> RadosStore::list(const Call& call, ContainerId container,
                                         const ListRequest& request) {
    return pool_->reader.list(call, container, request);
}

Task<Result<QueryReply>> RadosStore::query(const Call& call, ContainerId container, ObjectId object,
                                           const Akey& akey) {
    return pool_->reader.query(call, container, object, akey);
}

Task<Result<ContainerRecord>> RadosStore::create_container(const Call& call,
                                                           const ContainerProperties& properties) {
    return pool_->containers.create(call, properties);
}

Task<Result<>> RadosStore::destroy_container(const Call& call, ContainerId container) {
    return pool_->containers.destroy(call, container);
}

Task<Result<std::vector<ContainerRecord>>> RadosStore::list_containers(const Call& call) {
    return pool_->containers.list(call);
}

Task<Result<PoolSpace>> RadosStore::space(const Call& call, ContainerId container) {
    ROS2S_CO_TRY(call.check(pool_->env.reactor));
    if (container != ContainerId{}) {
        ROS2S_CO_TRY(co_await pool_->containers.check(call, container));
    }
    co_return co_await pool_->env.data.space();
}

Task<Result<>> RadosStore::pin(const Call& call, ContainerId container, const Holder& holder,
                               FetchItem& item) {
    // Transactions of this store that change the object hold the same mutex.
    const auto hold =
        co_await pool_->heads.mutexes.lock({space_of(container) + object_name(item.object)});
    ROS2S_CO_TRY(co_await fetch(call, container, {&item, 1}));
    if (item.status) ROS2S_CO_TRY(pool_->pins.add(container, item.object, holder));
    co_return Result<>();
}

Task<Result<>> RadosStore::fetch_chain(const Call& call, ContainerId container,
                                       const Holder& holder, std::span<FetchItem> items,
                                       std::span<Link> links) {
    ROS2S_CO_TRY_ASSIGN(const bool is_done,
                        co_await pool_->chains.fetch(call, container, holder, items, links));
    if (is_done) co_return Result<>{};
    co_return co_await fetch_in_turn(*this, call, container, holder, items, links);
}

Task<Result<bool>> RadosStore::unpin(const Call&, ContainerId container, const Holder& holder,
                                     ObjectId object) {
    co_return pool_->pins.remove(container, object, holder);
}

void RadosStore::session_ended(uint64_t session) {
    const Time now = pool_->env.reactor.now();
    pool_->pins.session_ended(session, now, now);
}

}  // namespace ros2s::rados
