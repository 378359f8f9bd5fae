#include "thread_turns.h"

#include "ros2s/base/check.h"

namespace ros2s {

ThreadTurns::~ThreadTurns() { ROS2S_CHECK(tenants_.empty()); }

bool ThreadTurns::has_room(const Tenant& tenant) const noexcept {
    const size_t free = threads_ - running_;
    return free > 0 && (tenant.running == 0 || tenant.running < free);
}

bool ThreadTurns::begin_now(uint64_t number) noexcept {
    Tenant& tenant = tenants_[number];
    if (tenant.first != nullptr || !has_room(tenant)) return false;
    ++tenant.running;
    ++running_;
    return true;
}

void ThreadTurns::wait(uint64_t number, Waiter& waiter) noexcept {
    Tenant& tenant = tenants_[number];
    (tenant.last != nullptr ? tenant.last->next : tenant.first) = &waiter;
    waiter.previous = tenant.last;
    waiter.state = Waiter::State::waiting;
    tenant.last = &waiter;
}

void ThreadTurns::remove(Tenant& tenant, Waiter& waiter) noexcept {
    (waiter.previous != nullptr ? waiter.previous->next : tenant.first) = waiter.next;
    (waiter.next != nullptr ? waiter.next->previous : tenant.last) = waiter.previous;
}

void ThreadTurns::stop_waiting(uint64_t number, Waiter& waiter) noexcept {
    if (waiter.state != Waiter::State::waiting) return;
    const auto found = tenants_.find(number);
    ROS2S_CHECK(found != tenants_.end());
    Tenant& tenant = found->second;
    remove(tenant, waiter);
    waiter.state = Waiter::State::outside;
    if (tenant.running == 0 && tenant.first == nullptr) tenants_.erase(found);
    reactor_.post(waiter.handle);
}

ThreadTurns::Tenants::value_type* ThreadTurns::next() noexcept {
    Tenants::value_type* best = nullptr;
    const auto look_at = [&](Tenants::value_type& each) {
        const Tenant& tenant = each.second;
        if (tenant.first == nullptr || !has_room(tenant)) return;
        if (best == nullptr || tenant.running < best->second.running) best = &each;
    };
    const auto after = tenants_.upper_bound(last_);
    for (auto i = after; i != tenants_.end(); ++i) look_at(*i);
    for (auto i = tenants_.begin(); i != after; ++i) look_at(*i);
    return best;
}

void ThreadTurns::leave(uint64_t number) noexcept {
    const auto found = tenants_.find(number);
    ROS2S_CHECK(found != tenants_.end() && found->second.running > 0);
    --found->second.running;
    --running_;
    while (auto* const each = next()) {
        Tenant& tenant = each->second;
        last_ = each->first;
        Waiter& first = *tenant.first;
        remove(tenant, first);
        first.state = Waiter::State::inside;
        ++tenant.running;
        ++running_;
        reactor_.post(first.handle);
    }
    if (found->second.running == 0 && found->second.first == nullptr) tenants_.erase(found);
}

}  // namespace ros2s
