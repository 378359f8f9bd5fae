#include "ros2s/fs/leases.h"

#include <algorithm>

#include "ros2s/object/sharing_rules.h"
#include "ros2s/runtime/backoff.h"
#include "ros2s/runtime/nursery.h"

namespace ros2s::fs {
namespace {

// All at once, because each may wait. Without `leases` all are lost.
Task<> tell(Reactor& reactor, std::vector<LeaseObserver*> observers,
            const std::vector<Leased>* leases) {
    const auto lost = [leases](LeaseObserver& each) {
        return leases != nullptr ? each.lost(*leases) : each.lost_all();
    };
    if (observers.size() == 1) co_return co_await lost(*observers.front());
    Nursery telling(reactor, observers.size());
    for (LeaseObserver* const each : observers) co_await telling.spawn(lost(*each));
    co_await telling.join();
}

}  // namespace

uint64_t LeaseSet::number_of(NodeId node) const {
    const auto found = held_.find(node.value);
    return found != held_.end() && reactor_.now() < until_ ? found->second : 0;
}

bool LeaseSet::holds(const Leased& lease) const {
    return lease.number != 0 && number_of({lease.node}) == lease.number;
}

uint64_t LeaseSet::held(std::span<const Leased> leases, NodeId node) const {
    uint64_t number = 0;
    for (const Leased& each : leases) {
        if (each.node != node.value) continue;
        if (!holds(each)) return 0;
        number = each.number;
    }
    return number;
}

Task<> LeaseSet::begin(uint64_t era) {
    co_await lose_all();
    era_ = era;
    std::ranges::fill(recalled_, 0);
}

void LeaseSet::extend(uint64_t era, Time until) {
    if (era != 0 && era == era_) until_ = std::max(until_, until);
}

// A client does not hear which nodes are gone. The first behind a place that the new node chooses.
void LeaseSet::make_room(uint64_t node) {
    size_t bucket = (node * 0x9E3779B97F4A7C15) % held_.bucket_count();
    while (held_.bucket_size(bucket) == 0) bucket = (bucket + 1) % held_.bucket_count();
    held_.erase(held_.begin(bucket)->first);
}

bool LeaseSet::take(uint64_t era, const Leased& lease) {
    const bool is_older = lease.number <= recalled_[bucket_of(lease.node)];
    if (era == 0 || era != era_) return false;
    if (is_older && object::sharing_rules.drop_older_grants) return false;
    if (held_.size() >= leases_max && !held_.contains(lease.node)) make_room(lease.node);
    uint64_t& number = held_[lease.node];
    number = std::max(number, lease.number);
    return number == lease.number;
}

Task<> LeaseSet::recall(std::vector<Leased> leases) {
    for (const Leased& each : leases) {
        uint64_t& recalled = recalled_[bucket_of(each.node)];
        recalled = std::max(recalled, each.number);
        const auto found = held_.find(each.node);
        if (found != held_.end() && found->second <= each.number) held_.erase(found);
    }
    if (!object::sharing_rules.drop_before_answer) co_return;
    co_await tell(reactor_, observers_, &leases);
}

Task<> LeaseSet::lose_all() {
    held_.clear();
    until_ = {};
    era_ = 0;
    co_await tell(reactor_, observers_, nullptr);
}

Task<> LeaseSet::listen(LeaseServer& server, StopToken stop) {
    // A server that has just begun has leases a moment later.
    Backoff pauses{.first = std::chrono::milliseconds(5),
                   .longest = std::chrono::milliseconds(100)};
    constexpr Duration least = std::chrono::milliseconds(1);  // between two requests without news
    bool begins = true;
    uint64_t beginnings = 0;
    while (!stop.stop_requested()) {
        const Time sent = reactor_.now();
        LeaseServer::News news;
        if (server.may_listen()) news = co_await server.hear(begins, sent);
        if (news.lost) {
            co_await lose_all();
            begins = true;
            (void)co_await sleep_for(reactor_, pauses.next(), stop);
            continue;
        }
        pauses.attempts = 0;
        if (begins) co_await begin(++beginnings);
        begins = false;
        const Duration took = reactor_.now() - sent;
        extend(beginnings,
               object::sharing_rules.count_from_sending ? news.until : news.until + took);
        if (!news.recalled.empty()) {
            co_await recall(std::move(news.recalled));
        } else {
            (void)co_await sleep_until(reactor_, sent + least, stop);
        }
    }
    co_await lose_all();
    co_await server.leave();
}

}  // namespace ros2s::fs
