#include "open_pool.h"

#include "ros2s/runtime/rest.h"

namespace ros2s::engine {

EngineStore::OpenPool::OpenPool(std::unique_ptr<RecoveredPool> pool, Recovered what)
    : base(std::move(pool)),
      recovered(std::move(what)),
      committer(base->env, base->cores.home().devices, base->cores, base->publisher, base->state,
                base->journal, base->options, recovered.journal_end, recovered.read_only_reason),
      checkpointer(base->env, *base->index, *base->devices[0], base->cores, base->publisher,
                   base->state, base->journal, committer, base->superblock.pool,
                   base->superblock.checkpoint_first, recovered.checkpoint_number),
      leases(base->env.reactor, pins),
      awaited(base->env.reactor),
      holders(base->env, base->options, pins, locks, awaited),
      reader(base->cores, base->state, base->publisher, pins, locks, leases, holders),
      lister(base->cores, base->state),
      caches(base->cores, base->state, reader, lister, base->options.caches_share()),
      writer(base->cores, base->state, committer, checkpointer, pins, locks, leases, holders,
             awaited, caches, base->options.staging_share()),
      containers(base->cores, base->state, committer, checkpointer, base->journal, leases),
      cleaner(base->cores, base->state, base->publisher, committer, checkpointer, base->journal,
              base->options) {
    base->publisher.reads_moved = [this] { committer.release_space(); };
    caches.update = [this](const Call& call, object::ContainerId container,
                           const object::Transaction& transaction) {
        return writer.update(call, container, transaction);
    };
    containers.retired = [this](object::ContainerId container) { caches.forget(container); };
    containers.is_cache = [this](object::ContainerId container) {
        return caches.is_cache(container);
    };
    committer.want_checkpoint = [this] { checkpointer.request(); };
    holders.is_read_only = [this] { return !committer.read_only_reason().empty(); };
}

Task<> EngineStore::OpenPool::start() {
    co_await holders.start();
    if (!committer.read_only_reason().empty()) co_return;
    Cores& cores = base->cores;
    background_.emplace(base->env.reactor, 5 + cores.size());
    for (uint32_t i = 1; i < cores.size(); ++i) {
        co_await background_->spawn(base->publisher.listen(cores[i]));
    }
    co_await background_->spawn(committer.run());
    co_await background_->spawn(checkpointer.run());
    co_await background_->spawn(containers.resume_purges());
    co_await background_->spawn(caches.run());
    if (base->options.cleaner_percent > 0) co_await background_->spawn(cleaner.run());
    if (base->options.rest_after > Duration{}) {
        co_await background_->spawn(give_back_at_rest());
    }
    if (base->journal.used_blocks() > base->journal.blocks() / 2) checkpointer.request();
}

Task<bool> EngineStore::OpenPool::stop() {
    leases.close();
    co_await holders.stop();
    if (!background_) co_return false;
    closing_.request_stop();
    co_await caches.stop();
    co_await cleaner.stop();
    checkpointer.stop();
    committer.stop();
    co_await base->publisher.stop_listening();
    co_await background_->join();
    co_return true;
}

Task<> EngineStore::OpenPool::give_back_at_rest() {
    RestWatch rest;
    uint64_t before = 0;
    while (co_await sleep_for(base->env.reactor, base->options.rest_after, closing_.token())) {
        const uint64_t transactions = committer.counters.transactions.value();
        if (transactions == before) committer.prove_last();
        before = transactions;
        if (rest.came_to_rest(transactions)) committer.drop_spare();
    }
}

}  // namespace ros2s::engine
