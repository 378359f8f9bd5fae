#include "awaited_clients.h"

#include <algorithm>

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

void AwaitedClients::note_repetition() {
    if (until_ == Time{}) return;
    until_ = std::max(until_, std::min(reactor_.now() + patience_goes_on, until_most_));
}

void AwaitedClients::over(const object::HolderName& client) {
    const auto found = containers_.find(client.container);
    if (found == containers_.end() || found->second.names.erase(client) == 0) return;
    count_.subtract();
    const auto its = found->second.clients.find(client.client);
    if (--its->second == 0) found->second.clients.erase(its);
    if (found->second.names.empty()) containers_.erase(found);
    changed_.wake_all();
}

void AwaitedClients::give_up() {
    containers_.clear();
    count_.set(0);
    changed_.wake_all();
}

bool AwaitedClients::repeats(object::ContainerId container, const StoreClient* client) const {
    if (client == nullptr || client->incarnation == 0) return false;
    const auto found = containers_.find(container);
    return found != containers_.end() && found->second.clients.contains(client->id);
}

bool AwaitedClients::holds_off(object::ContainerId container, const StoreClient* client) const {
    const auto found = containers_.find(container);
    if (found == containers_.end() || !object::sharing_rules.await_repeats) return false;
    const auto& clients = found->second.clients;
    const bool is_own = client != nullptr && clients.contains(client->id);
    return clients.size() > (is_own ? 1 : 0);
}

template <class HoldsOff>
Task<Result<>> AwaitedClients::wait_while(const Call& call, HoldsOff holds_off) {
    if (until_ == Time{}) {
        until_ = reactor_.now() + patience;
        until_most_ = reactor_.now() + patience_most;
    }
    const bool asks_again = call.client != nullptr && call.client->incarnation != 0;
    while (holds_off()) {
        if (asks_again) co_return fail(Code::leased);
        ROS2S_CO_TRY(call.check(reactor_));
        const WakeOnStop wake(call.stop, changed_);
        co_await changed_;
    }
    co_return Result<>();
}

Task<Result<>> AwaitedClients::wait(const Call& call, object::ContainerId container) {
    return wait_while(
        call, [this, container, client = call.client] { return holds_off(container, client); });
}

Task<Result<>> AwaitedClients::wait_to_fetch(const Call& call, object::ContainerId container) {
    return wait_while(call, [this, container, client = call.client] {
        return !repeats(container, client) && holds_off(container, client);
    });
}

Task<Result<>> AwaitedClients::wait_for_all(const Call& call) {
    return wait_while(call, [this] { return any(); });
}

}  // namespace ros2s::engine
