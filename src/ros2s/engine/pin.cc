// Pins: kept on core 0, in memory alone (object::PinTable).
#include "parts.h"

namespace ros2s::engine {

Task<Result<>> EngineStore::pin(const Call& call, object::ContainerId container,
                                const object::Holder& holder, object::FetchItem& item) {
    if (parts_->is_afar()) return parts_->from_afar(&Parts::pin, call, container, holder, item);
    return parts_->pin(call, container, holder, item);
}
Task<Result<bool>> EngineStore::unpin(const Call& call, object::ContainerId container,
                                      const object::Holder& holder, object::ObjectId object) {
    if (parts_->is_afar()) return parts_->from_afar(&Parts::unpin, call, container, holder, object);
    return parts_->unpin(call, container, holder, object);
}

void EngineStore::session_ended(uint64_t session) {
    const Time now = parts_->env.reactor.now();
    parts_->pins.session_ended(session, now, now + parts_->options.pin_grace);
}

// A punch of the object locks it on every core, this one too, until all see it. So what is found
// here is not about to go, and once it is pinned no punch passes its condition.
Task<Result<>> EngineStore::Parts::pin(const Call& call, object::ContainerId container,
                                       const object::Holder& holder, object::FetchItem& item) {
    Core& core = cores.home();
    const Gate::Hold hold(core.gate);
    ROS2S_CO_TRY(call.check(env.reactor.now()));
    LocksHeld locked(core.locks);
    const LockTable::Wanted wanted{Draft::lock_name(container, item.object),
                                   LockMode::intent_shared};
    co_await core.locks.lock(wanted);
    locked.held.push_back(wanted);
    if (!state.has_container(container)) co_return fail(Code::not_found);
    core.metrics.fetches.add();
    core.metrics.fetch_items.add();
    co_await fetch_item(core, call.trace, container, item);
    trim(core);
    if (item.status) ROS2S_CO_TRY(pins.add(container, item.object, holder));
    co_return Result<>();
}

Task<Result<bool>> EngineStore::Parts::unpin(const Call&, object::ContainerId container,
                                             const object::Holder& holder,
                                             object::ObjectId object) {
    co_return pins.remove(container, object, holder);
}

}  // namespace ros2s::engine
