#include "awaited_clients.h"

#include "ros2s/object/sharing_rules.h"

namespace ros2s::engine {

void AwaitedClients::await(std::span<const object::HolderName> clients) {
    for (const object::HolderName& each : clients) {
        Container& container = containers_[each.container];
        if (!container.names.insert(each).second) continue;
        ++container.clients[each.client];
        count_.add();
    }
}

bool AwaitedClients::awaits(const object::HolderName& client) const {
    const auto found = containers_.find(client.container);
    return found != containers_.end() && found->second.names.contains(client);
}

void AwaitedClients::over(const object::HolderName& client) {
    const auto found = containers_.find(client.container);
    if (found == containers_.end() || found->second.names.erase(client) == 0) return;
    count_.subtract();
    const auto its = found->second.clients.find(client.client);
    if (--its->second == 0) found->second.clients.erase(its);
    if (!found->second.names.empty()) return;
    containers_.erase(found);
    changed_.wake_all();
}

void AwaitedClients::give_up() {
    containers_.clear();
    count_.set(0);
    changed_.wake_all();
}

bool AwaitedClients::holds_off(object::ContainerId container, const StoreClient* client) const {
    const auto found = containers_.find(container);
    if (found == containers_.end() || !object::sharing_rules.await_repeats) return false;
    return client == nullptr || !found->second.clients.contains(client->id);
}

Task<Result<>> AwaitedClients::wait(const Call& call, object::ContainerId container) {
    if (until_ == Time{}) until_ = reactor_.now() + patience;
    const bool asks_again = call.client != nullptr && call.client->incarnation != 0;
    while (holds_off(container, call.client)) {
        if (asks_again) co_return fail(Code::leased);
        ROS2S_CO_TRY(call.check(reactor_));
        const WakeOnStop wake(call.stop, changed_);
        co_await changed_;
    }
    co_return Result<>();
}

}  // namespace ros2s::engine
