#include "link.h"

namespace ros2s::fabric::sim {

void Link::lose() {
    lost_ = true;
    for (Direction& direction : directions_) {
        direction.flights.clear();
        direction.bytes = 0;
    }
    wake();
}

void Link::wake() noexcept {
    for (Event* changed : changed_) {
        if (changed != nullptr) changed->wake_all();
    }
}

SimWire::SimWire(Reactor& core, std::shared_ptr<Link> link, size_t side)
    : core_(core), link_(std::move(link)), side_(side), changed_(core), nursery_(core, 2) {
    link_->changed_[side] = &changed_;
}

SimWire::~SimWire() {
    link_->changed_[side_] = nullptr;
    // The other side must still be notified of stalls.
    if (link_->changed_[1 - side_] == nullptr) link_->network_.remove(*link_);
}

void SimWire::start(WireUser& user) noexcept {
    user_ = &user;
    const bool started = nursery_.try_spawn(transmit(*this)) && nursery_.try_spawn(deliver(*this));
    ROS2S_CHECK(started);
}

void SimWire::write(Frame& frame) noexcept {
    frame.next = nullptr;
    (last_ != nullptr ? last_->next : first_) = &frame;
    last_ = &frame;
    changed_.wake_all();
}

void SimWire::shut() noexcept {
    if (shut_) return;
    shut_ = true;
    link_->directions_[side_].closed = true;
    // Frames to a side that reads no more are dropped.
    Link::Direction& in = link_->directions_[1 - side_];
    in.flights.clear();
    in.bytes = 0;
    stop_.request_stop();
    link_->wake();
}

Task<> SimWire::close() {
    shut();
    co_await nursery_.join();
    give_back();
}

void SimWire::give_back() noexcept {
    while (first_ != nullptr) {
        Frame& frame = *first_;
        first_ = frame.next;
        if (first_ == nullptr) last_ = nullptr;
        user_->frame_sent(frame);
    }
}

bool SimWire::stalled() const {
    return link_->network_.processes_[link_->processes_[side_]].stalled;
}

// Puts the first waiting frame onto the link; false if there is no more to do.
Task<bool> SimWire::transmit_one() {
    Link::Direction& out = link_->directions_[side_];
    Network& network = link_->network_;
    while (!over() && (first_ == nullptr || stalled() ||
                       (out.bytes > 0 && out.bytes + first_->used > network.model_.buffer_bytes))) {
        co_await changed_;
    }
    if (over()) co_return false;
    Frame& frame = *first_;
    const Duration takes{frame.used * 1'000'000'000 / network.model_.bytes_per_second};
    if (!co_await sleep_for(core_, takes, stop_.token()) || over()) co_return false;
    const uint32_t lose = network.model_.lose_one_in;
    if ((lose > 0 && network.random_.one_in(lose)) ||
        network.moved(link_->processes_[0], frame.used) ||
        network.moved(link_->processes_[1], frame.used)) {
        link_->lose();
        co_return false;
    }
    // A frame to a side that reads no more is sent, and lost.
    if (!link_->directions_[1 - side_].closed) {
        out.last_arrival = std::max(out.last_arrival, core_.now() + network.draw_delay());
        const ConstBytes content = frame.content();
        Link::Flight& flight =
            out.flights.emplace_back(out.last_arrival, std::vector(content.begin(), content.end()));
        if (const uint32_t flip = network.model_.flip_one_in; flip > 0) {
            if (network.random_.one_in(flip)) {
                const uint64_t bit = network.random_.below(content.size() * 8);
                flight.bytes[bit / 8] ^= std::byte{1} << (bit % 8);
                ++network.flips_;
            }
        }
        out.bytes += frame.used;
        link_->wake();
    }
    first_ = frame.next;
    if (first_ == nullptr) last_ = nullptr;
    user_->frame_sent(frame);
    co_return true;
}

Task<> SimWire::transmit(SimWire& self) {
    while (co_await self.transmit_one()) {
    }
}

Task<> SimWire::deliver(SimWire& self) {
    Link& link = *self.link_;
    Link::Direction& in = link.directions_[1 - self.side_];
    while (true) {
        while (!self.over() && (self.stalled() || (in.flights.empty() && !in.closed))) {
            co_await self.changed_;
        }
        if (self.over() || in.flights.empty()) break;
        if (!co_await sleep_until(self.core_, in.flights.front().arrival, self.stop_.token()))
            break;
        if (self.over() || self.stalled()) continue;
        const Link::Flight flight = std::move(in.flights.front());
        in.flights.pop_front();
        in.bytes -= flight.bytes.size();
        link.wake();
        self.user_->frame_came(flight.bytes);
    }
    if (self.shut_) co_return;
    if (link.lost_) {
        const Duration after = link.network_.model_.loss_noticed_after;
        if (!co_await sleep_for(self.core_, after, self.stop_.token())) co_return;
    }
    if (!self.shut_) self.user_->broke(End::peer_died);
}

}  // namespace ros2s::fabric::sim
