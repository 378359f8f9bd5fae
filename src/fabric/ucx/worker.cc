#include "worker.h"

#include <poll.h>

#include "ucx_wire.h"

namespace ros2s::fabric::ucx {

Worker::Worker(Reactor& reactor, Counters& counters, Context context)
    : reactor_(reactor), counters_(counters), context_(std::move(context)), watching_(reactor, 1) {
    set_handlers();
    reactor_.attach(*this);
    const bool started = watching_.try_spawn(watch(*this));
    ROS2S_CHECK(started);
}

Worker::~Worker() {
    ROS2S_CHECK(closed_);
    ROS2S_CHECK(wires_.empty() && attended_.empty() && winding_up_.empty());
}

Task<> Worker::close() {
    if (closed_) co_return;
    closed_ = true;
    const Time until = reactor_.now() + winding_up_within;
    while (!winding_up_.empty()) {
        step_lanes(reactor_.now() >= until);
        rouse();
        co_await sleep_for(reactor_, std::chrono::milliseconds(1));
    }
    // From here on nobody looks at UCX, so that the event stays: asking the ring to cancel is not
    // enough, because a poll that was just woken for what we took in ourselves is armed anew.
    stopping_ = true;
    if (!event_submitted_) {
        reactor_.post(watcher_);
    } else {
        const ucs_status_t status = ucx().ucp_worker_signal(handle());
        ROS2S_CHECK(status == UCS_OK);
    }
    co_await watching_.join();
    reactor_.detach(*this);
}

// UCX 1.13 does not look whether a message's number, of 16 bits, is within its table of handlers,
// and calls what lies there. So the table has them all.
void Worker::set_handlers() noexcept {
    ucp_am_handler_param_t parameters{};
    parameters.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                            UCP_AM_HANDLER_PARAM_FIELD_ARG | UCP_AM_HANDLER_PARAM_FIELD_FLAGS;
    parameters.flags = UCP_AM_FLAG_WHOLE_MSG;
    parameters.arg = this;
    // From the last, so that the table grows once.
    for (unsigned id = 65536; id-- > 0;) {
        parameters.id = id;
        parameters.cb = id == active_message_id ? came : came_for_nobody;
        const ucs_status_t status = ucx().ucp_worker_set_am_recv_handler(handle(), &parameters);
        ROS2S_CHECK(status == UCS_OK);
    }
}

ucs_status_t Worker::came_for_nobody(void* self, const void* /*header*/, size_t /*header_length*/,
                                     void* /*data*/, size_t /*length*/,
                                     const ucp_am_recv_param_t* /*parameters*/) noexcept {
    static_cast<Worker*>(self)->counters_.frames_refused.add();
    return UCS_OK;
}

uint64_t Worker::add(UcxWire& wire) {
    uint64_t channel = 0;
    while (channel == 0 || wires_.contains(channel)) channel = reactor_.random().next();
    wires_.emplace(channel, &wire);
    return channel;
}

void Worker::rouse() noexcept {
    armed_ = false;
    vain_looks_ = 0;
}

void Worker::attend(UcxWire& wire) {
    if (!std::exchange(wire.attended, true)) attended_.push_back(&wire);
}

// The world's bytes: what makes no sense ends the session whose channel it names, and what names
// none is dropped.
ucs_status_t Worker::came(void* self, const void* header, size_t header_length, void* data,
                          size_t length, const ucp_am_recv_param_t* parameters) noexcept {
    auto& worker = *static_cast<Worker*>(self);
    worker.called_back_ = true;
    FrameHeader frame;
    if (header_length == sizeof frame) std::memcpy(&frame, header, sizeof frame);
    const auto found =
        header_length == sizeof frame ? worker.wires_.find(frame.channel) : worker.wires_.end();
    if (found == worker.wires_.end()) {
        worker.counters_.frames_refused.add();
        return UCS_OK;
    }
    // What is not here with its header is a rendezvous: we never send one.
    const bool whole = (parameters->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) == 0;
    found->second->came(frame, {static_cast<const std::byte*>(data), whole ? length : 0}, whole);
    return UCS_OK;
}

bool Worker::arm() noexcept {
    if (armed_) return true;
    // UCX says "busy" while there is something to progress.
    if (ucx().ucp_worker_arm(handle()) != UCS_OK) return false;
    // A completion that came just before raises no event on plain verbs: they tell of later ones.
    called_back_ = false;
    if (ucx().ucp_worker_progress(handle()) > 0 || called_back_) return false;
    armed_ = true;
    if (!event_submitted_) {
        event_ = {.opcode = Ring::Opcode::poll,
                  .fd = context_.event_descriptor(),
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
        self.rouse();
    }
}

void Worker::wind_up(std::unique_ptr<Lane> lane) {
    winding_up_.push_back(std::move(lane));
    rouse();
    step_lanes(false);
    // The oldest ends in the next turns.
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
        for (int i = 0; i < progress_per_turn && ucx().ucp_worker_progress(handle()) > 0; ++i) {
            progressed = true;
        }
        if (progressed) {
            vain_looks_ = 0;
            found = true;
        } else if (++vain_looks_ >= vain_looks_max) {
            arm();
        }
        if (!winding_up_.empty()) step_lanes(false);
    }
    return settle() || found;
}

bool Worker::settle() noexcept {
    if (attended_.empty()) return false;
    // What is told may lead to more: that is for the next turn.
    std::vector<UcxWire*> now;
    now.swap(attended_);
    for (UcxWire* wire : now) wire->attended = false;
    for (UcxWire* wire : now) wire->settle();
    return true;
}

bool Worker::prepare_sleep() noexcept {
    if (stopping_) return true;
    if (!flusher_.empty() || !attended_.empty()) return false;
    return arm() && attended_.empty();
}

Task<> Worker::quiet(Duration within) {
    constexpr uint32_t enough = 4;
    const Time until = reactor_.now() + within;
    rouse();
    while (!armed_ && vain_looks_ < enough && reactor_.now() < until) co_await yield(reactor_);
}

}  // namespace ros2s::fabric::ucx
