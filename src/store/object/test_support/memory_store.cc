#include "memory_store.h"

#include "memory_state.h"
#include "ros2s/base/check.h"
#include "ros2s/object/chain.h"
#include "ros2s/object/leases.h"
#include "ros2s/object/validate.h"

namespace ros2s::object {

MemoryStore::MemoryStore(Reactor& reactor) : MemoryStore(reactor, Options{}) {}
MemoryStore::MemoryStore(Reactor& reactor, Options options)
    : reactor_(reactor),
      options_(options),
      state_(std::make_unique<MemoryState>(options.capacity_bytes)),
      leases_(std::make_unique<LeaseTable>(reactor, state_->pins())) {}
MemoryStore::~MemoryStore() = default;

Features MemoryStore::features() const {
    return {.multi_object_transactions = true,
            .conditions = true,
            .stored_replies = true,
            .checksums = true,
            .durable = false,
            .chains = true,
            .seals = true,
            .locks = true,
            .leases = true,
            .update_leases = true};
}

Task<> MemoryStore::delay() {
    const auto most = static_cast<uint64_t>(options_.delay_max.count());
    if (most == 0) co_return;
    co_await sleep_for(reactor_, Duration(reactor_.random().below(most + 1)));
}

Task<Result<>> MemoryStore::fetch(const Call& call, ContainerId container,
                                  std::span<FetchItem> items) {
    ROS2S_CHECK(items.size() <= fetch_items_max);
    co_await delay();
    ROS2S_CO_TRY(call.check(reactor_));
    if (!state_->has(container)) co_return fail(Code::not_found);
    for (FetchItem& item : items) fetch_item(container, item);
    co_await delay();
    co_return Result<>();
}

void MemoryStore::fetch_item(ContainerId container, FetchItem& item) {
    if (begin_fetch(item)) state_->fetch(container, item);
}

Task<Result<Commit>> MemoryStore::update(const Call& call, ContainerId container,
                                         const Transaction& transaction) {
    ROS2S_CO_TRY(validate(transaction));
    for (const Operation& operation : transaction.operations) {
        if (!operation.window.is_local()) co_return fail(Code::unsupported);
    }
    co_await delay();
    ROS2S_CO_TRY(call.check(reactor_));
    if (read_only_) co_return fail(Code::read_only);
    if (!state_->has(container)) co_return fail(Code::not_found);
    ROS2S_CO_TRY(leases_->admit(container, transaction));
    const uint64_t lease = leases_->grant(container, transaction);
    Result<Commit> commit =
        state_->update(container, transaction, reactor_.now(), reactor_.wall_time());
    if (commit && !commit->replayed) commit->lease = lease;
    co_await delay();
    co_return commit;
}

Task<Result<ListReply>> MemoryStore::list(const Call& call, ContainerId container,
                                          const ListRequest& request) {
    ROS2S_CO_TRY(validate(request));
    co_await delay();
    ROS2S_CO_TRY(call.check(reactor_));
    if (!state_->has(container)) co_return fail(Code::not_found);
    ListReply reply = state_->list(container, request);
    co_await delay();
    co_return reply;
}

Task<Result<QueryReply>> MemoryStore::query(const Call& call, ContainerId container,
                                            ObjectId object, const Akey& akey) {
    ROS2S_CO_TRY(validate(akey));
    co_await delay();
    ROS2S_CO_TRY(call.check(reactor_));
    if (!state_->has(container)) co_return fail(Code::not_found);
    QueryReply reply = state_->query(container, object, akey);
    co_await delay();
    co_return reply;
}

Task<Result<ContainerRecord>> MemoryStore::create_container(const Call& call,
                                                            const ContainerProperties& properties) {
    ROS2S_CO_TRY(validate(properties));
    co_await delay();
    ROS2S_CO_TRY(call.check(reactor_));
    if (read_only_) co_return fail(Code::read_only);
    co_return state_->create({Uuid::make(reactor_.secrets())}, properties, reactor_.wall_time());
}

Task<Result<>> MemoryStore::destroy_container(const Call& call, ContainerId container) {
    co_await delay();
    ROS2S_CO_TRY(call.check(reactor_));
    if (read_only_) co_return fail(Code::read_only);
    co_await leases_->end_all(container);
    leases_->reopen(container);
    co_return state_->destroy(container);
}

Task<Result<std::vector<ContainerRecord>>> MemoryStore::list_containers(const Call& call) {
    co_await delay();
    ROS2S_CO_TRY(call.check(reactor_));
    co_return state_->containers();
}

Task<Result<PoolSpace>> MemoryStore::space(const Call& call, ContainerId container) {
    co_await delay();
    ROS2S_CO_TRY(call.check(reactor_));
    if (container != ContainerId{} && !state_->has(container)) co_return fail(Code::not_found);
    co_return state_->space();
}

Task<Result<>> MemoryStore::pin(const Call& call, ContainerId container, const Holder& holder,
                                FetchItem& item) {
    co_await delay();
    ROS2S_CO_TRY(call.check(reactor_));
    if (!state_->has(container)) co_return fail(Code::not_found);
    fetch_item(container, item);
    if (item.status) ROS2S_CO_TRY(state_->pins().add(container, item.object, holder));
    co_await delay();
    co_return Result<>();
}

Task<Result<>> MemoryStore::fetch_chain(const Call& call, ContainerId container,
                                        const Holder& holder, std::span<FetchItem> items,
                                        std::span<Link> links) {
    return fetch_in_turn(*this, call, container, holder, items, links);
}

Task<Result<LeaseNews>> MemoryStore::listen(const Call& call, ContainerId container,
                                            const Holder& holder, const Listening& listening) {
    co_await delay();
    ROS2S_CO_TRY(call.check(reactor_));
    if (!state_->has(container)) co_return fail(Code::not_found);
    co_return co_await leases_->listen(call, container, holder, listening);
}

Task<Result<uint64_t>> MemoryStore::lease(const Call&, ContainerId container, const Holder& holder,
                                          ObjectId object) {
    co_return leases_->grant(container, object, holder);
}

Task<Result<bool>> MemoryStore::unpin(const Call&, ContainerId container, const Holder& holder,
                                      ObjectId object) {
    co_await delay();
    const bool is_wanted = state_->pins().remove(container, object, holder);
    co_await delay();
    co_return is_wanted;
}

Task<Result<std::optional<Lock>>> MemoryStore::lock(const Call& call, ContainerId container,
                                                    const Holder& holder,
                                                    const LockRequest& request) {
    co_await delay();
    ROS2S_CO_TRY(call.check(reactor_));
    if (!state_->has(container)) co_return fail(Code::not_found);
    co_return state_->locks().lock(container, holder, request, reactor_.now());
}

void MemoryStore::session_ended(uint64_t session) {
    state_->locks().session_ended(session, reactor_.now(), reactor_.now());
    state_->pins().session_ended(session, reactor_.now(), reactor_.now());
}

}  // namespace ros2s::object
