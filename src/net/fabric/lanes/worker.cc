#include "ros2s/fabric/lanes/worker.h"

#include <poll.h>

#include "lane_wire.h"
#include "ros2s/base/random.h"

namespace ros2s::fabric::lanes {

Worker::Worker(Reactor& reactor, Counters& counters)
    : reactor_(reactor), counters_(counters), watching_(reactor, 1) {
    reactor_.attach(*this);
    const bool started = watching_.try_spawn(watch(*this));
    ROS2S_CHECK(started);
}

Worker::~Worker() {
    ROS2S_CHECK(closed_);
    ROS2S_CHECK(wires_.empty() && queued_.empty() && winding_up_.empty());
}

Task<> Worker::close() {
    if (closed_) co_return;
    closed_ = true;
    const Time until = reactor_.now() + winding_up_within;
    while (!winding_up_.empty()) {
        step_lanes(reactor_.now() >= until);
        mark_busy();
        co_await sleep_for(reactor_, std::chrono::milliseconds(1));
    }
    // From here on the library is not looked at, so the event stays set. Cancelling in the ring
    // alone is not enough: a poll that was just woken for data that we already received is armed
    // again.
    stopping_ = true;
    if (!event_submitted_) {
        reactor_.post(watcher_);
    } else {
        signal();
    }
    co_await watching_.join();
    reactor_.detach(*this);
    co_await end();
}

uint64_t Worker::add(LaneWire& wire) {
    // It is also a ticket: an adapter's connections are requested with it. A peer that has seen
    // many channels cannot guess another one.
    uint64_t channel = 0;
    while (channel == 0 || wires_.contains(channel)) channel = Secrets().next();
    wires_.emplace(channel, &wire);
    return channel;
}

void Worker::mark_busy() noexcept {
    armed_ = false;
    empty_polls_ = 0;
}

void Worker::queue_event(LaneWire& wire) {
    if (!std::exchange(wire.queued, true)) queued_.push_back(&wire);
}

void Worker::take(ConstBytes header, ConstBytes frame, bool whole) noexcept {
    FrameHeader decoded;
    if (header.size() != sizeof decoded) return refuse();
    std::memcpy(&decoded, header.data(), sizeof decoded);
    const auto found = wires_.find(decoded.channel);
    if (found == wires_.end()) return refuse();
    found->second->came(decoded, frame, whole);
}

bool Worker::arm() noexcept {
    if (armed_) return true;
    if (!arm_events()) return false;
    armed_ = true;
    if (!event_submitted_) {
        event_ = {.opcode = Ring::Opcode::poll,
                  .fd = event_descriptor(),
                  .length = POLLIN,
                  .waiter = watcher_};
        event_submitted_ = true;
        reactor_.ring()->submit(event_);
    }
    return true;
}

Task<> Worker::watch(Worker& self) {
    struct Park {
        Worker& worker;
        bool await_ready() const noexcept { return false; }
        void await_suspend(std::coroutine_handle<> handle) const noexcept {
            worker.watcher_ = handle;
        }
        void await_resume() const noexcept {}
    };
    while (!self.stopping_) {
        co_await Park{self};
        self.event_submitted_ = false;
        self.mark_busy();
    }
}

void Worker::wind_up(std::unique_ptr<Lane> lane) {
    winding_up_.push_back(std::move(lane));
    mark_busy();
    step_lanes(false);
    // The oldest one ends in the next turns.
    for (size_t i = 0; i + winding_up_max < winding_up_.size(); ++i) {
        (void)winding_up_[i]->wind_up(true);
    }
}

void Worker::step_lanes(bool force) noexcept {
    std::erase_if(winding_up_, [&](const std::unique_ptr<Lane>& lane) {
        const bool ended = lane->wind_up(force);
        while (Frame* frame = lane->take_sent()) flusher_.give_frame(*frame);
        return ended;
    });
}

bool Worker::poll() noexcept {
    if (stopping_) return false;
    bool found = flusher_.flush();
    if (!armed_) {
        bool progressed = false;
        for (int i = 0; i < progress_per_turn && progress(); ++i) progressed = true;
        if (progressed) {
            empty_polls_ = 0;
            found = true;
        } else if (++empty_polls_ >= empty_polls_max) {
            arm();
        }
        if (!winding_up_.empty()) step_lanes(false);
    }
    return deliver_events() || found;
}

bool Worker::deliver_events() noexcept {
    if (queued_.empty()) return false;
    // The events may cause others: those are for the next turn.
    delivered_.swap(queued_);
    for (LaneWire* wire : delivered_) wire->queued = false;
    for (LaneWire* wire : delivered_) wire->deliver_events();
    delivered_.clear();
    return true;
}

bool Worker::prepare_sleep() noexcept {
    if (stopping_) return true;
    if (!flusher_.empty() || !queued_.empty()) return false;
    return arm() && queued_.empty();
}

Task<> Worker::quiet(Duration within) {
    constexpr uint32_t enough = 4;
    const Time until = reactor_.now() + within;
    mark_busy();
    while (!armed_ && empty_polls_ < enough && reactor_.now() < until) co_await yield(reactor_);
}

}  // namespace ros2s::fabric::lanes
