#include "ros2s/fabric/pending_peers.h"

#include <algorithm>
#include <utility>

#include "ros2s/runtime/sync.h"

namespace ros2s::fabric {

Task<> PendingPeers::pace_accepts() {
    co_await accepting_.acquire();
    const SemaphoreHold hold(accepting_);
    if (++accepted_ % accepts_per_turn == 0) co_await yield(reactor_);
}

void PendingPeers::make_room(const Share& at) noexcept {
    const bool only_here = at.now > at.most;
    if (!only_here && present_.size() <= most_) return;
    PendingPeer* chosen = nullptr;
    for (PendingPeer* const each : present_) {
        if (only_here && &each->at_ != &at) continue;
        if (chosen == nullptr || each->rank() > chosen->rank()) chosen = each;
    }
    chosen->leave();
    chosen->makes_room = true;
    chosen->stop.request_stop();
}

void PendingPeers::next_step() noexcept {
    if (stepping_ != nullptr || waiting_.empty()) return;
    const auto next = std::ranges::min_element(
        waiting_, {}, [](const PendingPeer* each) { return each->at_.last_step; });
    PendingPeer& chosen = **next;
    waiting_.erase(next);
    stepping_ = &chosen;
    chosen.at_.last_step = ++steps_;
    chosen.turn_.wake_all();
}

PendingPeer::PendingPeer(PendingPeers& all, PendingPeers::Share& at, Peer who)
    : peer(std::move(who)),
      all_(all),
      at_(at),
      here_(all.counts_.try_emplace({&at, peer.user, peer.host}).first),
      anywhere_(all.counts_.try_emplace({nullptr, peer.user, peer.host}).first),
      turn_(all.reactor_) {
    ++at_.now;
    ++here_->second;
    ++anywhere_->second;
    all_.present_.push_back(this);
    all_.make_room(at_);
}

void PendingPeer::leave() noexcept {
    if (!std::exchange(counts_, false)) return;
    --at_.now;
    for (const auto& count : {here_, anywhere_}) {
        if (--count->second == 0) all_.counts_.erase(count);
    }
    std::erase(all_.present_, this);
}

Task<Result<>> PendingPeer::begin_step(StopToken until) {
    const WakeOnStop wake(until, turn_);
    all_.waiting_.push_back(this);
    all_.next_step();
    while (all_.stepping_ != this && !until.stop_requested()) co_await turn_;
    if (until.stop_requested()) {
        if (all_.stepping_ == this) all_.stepping_ = nullptr;
        std::erase(all_.waiting_, this);
        all_.next_step();
        co_return fail(Code::cancelled);
    }
    began_ = all_.reactor_.now();
    co_return Result<>{};
}

Task<> PendingPeer::end_step() {
    const Duration took = all_.reactor_.now() - began_;
    co_await sleep_for(all_.reactor_, PendingPeers::rest_per_step * took);
    all_.stepping_ = nullptr;
    all_.next_step();
}

std::optional<uint64_t> PendingPeer::take_line() noexcept {
    const auto second =
        std::chrono::floor<std::chrono::seconds>(all_.reactor_.now().time_since_epoch()).count();
    if (second != std::exchange(all_.second_, second)) all_.lines_ = 0;
    if (all_.lines_ < PendingPeers::lines_per_second) {
        ++all_.lines_;
        return std::exchange(all_.left_out_, 0);
    }
    ++all_.left_out_;
    return std::nullopt;
}

}  // namespace ros2s::fabric
