#include "awaited_clients.h"

#include <algorithm>

#include "ros2s/object/sharing_rules.h"

namespace ros2s::engine {

void AwaitedClients::await(std::span<const object::HolderName> clients) {
    until_ = reactor_.now() + patience;
    for (const object::HolderName& each : clients) clients_[each.container].insert(each);
    count_.set(clients.size());
}

bool AwaitedClients::awaits(const object::HolderName& client) const {
    const auto found = clients_.find(client.container);
    return found != clients_.end() && found->second.contains(client);
}

void AwaitedClients::over(const object::HolderName& client) {
    const auto found = clients_.find(client.container);
    if (found == clients_.end() || found->second.erase(client) == 0) return;
    if (found->second.empty()) clients_.erase(found);
    count_.subtract();
    changed_.wake_all();
}

void AwaitedClients::give_up() {
    clients_.clear();
    count_.set(0);
    changed_.wake_all();
}

size_t AwaitedClients::give_up_in_time() {
    const size_t given_up = reactor_.now() >= until_ ? count() : 0;
    if (given_up > 0) give_up();
    // Those that wait look at their deadlines.
    changed_.wake_all();
    return given_up;
}

bool AwaitedClients::holds_off(object::ContainerId container, const StoreClient* client) const {
    const auto found = clients_.find(container);
    if (found == clients_.end() || !object::sharing_rules.await_repeats) return false;
    return client == nullptr ||
           std::ranges::none_of(found->second, [&](const object::HolderName& each) {
               return each.client == client->id;
           });
}

Task<Result<>> AwaitedClients::wait(const Call& call, object::ContainerId container) {
    while (holds_off(container, call.client)) {
        ROS2S_CO_TRY(call.check(reactor_));
        const WakeOnStop wake(call.stop, changed_);
        co_await changed_;
    }
    co_return Result<>();
}

}  // namespace ros2s::engine
