
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "tls_wire.h"

namespace ros2s::fabric::tls {

Result<std::unique_ptr<Sockets>> Sockets::open(Reactor& reactor) {
    Descriptor epoll(epoll_create1(EPOLL_CLOEXEC));
    if (!epoll.open()) return fail_errno(errno);
    Descriptor signal(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!signal.open()) return fail_errno(errno);
    epoll_event event{};
    event.events = EPOLLIN;
    if (epoll_ctl(epoll.get(), EPOLL_CTL_ADD, signal.get(), &event) != 0) return fail_errno(errno);
    return std::unique_ptr<Sockets>(new Sockets(reactor, std::move(epoll), std::move(signal)));
}

Sockets::Sockets(Reactor& reactor, Descriptor epoll, Descriptor signal)
    : reactor_(reactor),
      epoll_(std::move(epoll)),
      signal_(std::move(signal)),
      watching_(reactor, 1) {
    reactor_.attach(*this);
    const bool started = watching_.try_spawn(watch(*this));
    ROS2S_CHECK(started);
}

Sockets::~Sockets() { ROS2S_CHECK(closed_ && queued_.empty()); }

Task<> Sockets::close() {
    if (closed_) co_return;
    closed_ = true;
    stopping_ = true;
    if (armed_) {
        // A poll that is just being woken could outlive its cancellation.
        const uint64_t one = 1;
        const ssize_t wrote = ::write(signal_.get(), &one, sizeof one);
        ROS2S_CHECK(wrote == sizeof one);
    } else {
        reactor_.post(watcher_);
    }
    co_await watching_.join();
    reactor_.detach(*this);
}

Result<> Sockets::add(TlsWire& wire, int fd) noexcept {
    epoll_event event{};
    event.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
    event.data.ptr = &wire;
    if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) return fail_errno(errno);
    return {};
}

void Sockets::remove(TlsWire& wire, int fd) noexcept {
    (void)epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
    if (std::exchange(wire.queued, false)) std::erase(queued_, &wire);
}

void Sockets::queue(TlsWire& wire) {
    if (!std::exchange(wire.queued, true)) queued_.push_back(&wire);
}

bool Sockets::look() noexcept {
    std::array<epoll_event, events_per_look> events;
    const int count = epoll_wait(epoll_.get(), events.data(), events_per_look, 0);
    for (int i = 0; i < count; ++i) {
        auto* const wire = static_cast<TlsWire*>(events[static_cast<size_t>(i)].data.ptr);
        if (wire != nullptr) wire->happened(events[static_cast<size_t>(i)].events);
    }
    return count > 0;
}

bool Sockets::take_turns() noexcept {
    if (queued_.empty()) return false;
    // A turn may queue wires, also its own: those are for the next look.
    in_turn_.clear();
    in_turn_.swap(queued_);
    for (TlsWire* wire : in_turn_) wire->queued = false;
    for (TlsWire* wire : in_turn_) wire->turn();
    return true;
}

bool Sockets::poll() noexcept {
    if (stopping_) return false;
    bool found = flusher_.flush();
    if (!armed_) {
        if (look()) {
            empty_looks_ = 0;
        } else if (++empty_looks_ >= empty_looks_max) {
            arm();
        }
    }
    return take_turns() || found;
}

bool Sockets::prepare_sleep() noexcept {
    if (stopping_) return true;
    if (!flusher_.empty() || !queued_.empty()) return false;
    if (!armed_) {
        if (look()) return false;
        arm();
    }
    return true;
}

void Sockets::arm() noexcept {
    armed_ = true;
    event_ = {
        .opcode = Ring::Opcode::poll, .fd = epoll_.get(), .length = POLLIN, .waiter = watcher_};
    reactor_.ring()->submit(event_);
}

Task<> Sockets::watch(Sockets& self) {
    struct Park {
        Sockets& sockets;
        bool await_ready() const noexcept { return false; }
        void await_suspend(std::coroutine_handle<> handle) const noexcept {
            sockets.watcher_ = handle;
        }
        void await_resume() const noexcept {}
    };
    while (!self.stopping_) {
        co_await Park{self};
        self.armed_ = false;
        self.empty_looks_ = 0;
    }
}

}  // namespace ros2s::fabric::tls
