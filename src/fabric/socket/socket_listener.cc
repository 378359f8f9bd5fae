#include "ros2s/fabric/socket/socket_listener.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>

#include "ros2s/fabric/wake_on_stop.h"
#include "ros2s/runtime/ring.h"

namespace ros2s::fabric {

SocketListener::SocketListener(Reactor& reactor, Counters& counters, Handshakes& handshakes,
                               Descriptor socket, std::string address, ListenOptions options)
    : reactor_(reactor),
      counters_(counters),
      handshakes_(handshakes),
      socket_(std::move(socket)),
      address_(std::move(address)),
      options_(options),
      arrival_(reactor),
      greeting_(reactor, options.handshakes_max),
      accepting_(reactor, 1) {
    const bool started = accepting_.try_spawn(run(*this));
    ROS2S_CHECK(started);
}

SocketListener::~SocketListener() { ROS2S_CHECK(closed_); }

Task<> SocketListener::run(SocketListener& self) {
    while (true) {
        const auto polled =
            co_await self.reactor_.ring()->poll(self.socket_.get(), POLLIN, self.stop_.token());
        if (!polled) co_return;  // stopped
        Descriptor peer(
            accept4(self.socket_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
        if (!peer.open()) {
            // Out of descriptors or memory: the backlog keeps the others meanwhile.
            const bool passes = errno == EAGAIN || errno == ECONNABORTED || errno == EINTR;
            const Duration pause = std::chrono::milliseconds(passes ? 0 : 20);
            co_await sleep_for(self.reactor_, pause, self.stop_.token());
            continue;
        }
        const int on = 1;  // refused by Unix sockets, which need it not
        setsockopt(peer.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        if (self.greeting_.running() + self.ready_.size() >= self.options_.handshakes_max &&
            !self.stop_longest()) {
            self.turn_away(peer.get(), Answer::busy);
            continue;
        }
        co_await self.greeting_.spawn(greet(self, std::move(peer)));
    }
}

bool SocketListener::stop_longest() noexcept {
    if (under_way_.empty()) return false;
    Greeting& longest = *under_way_.front();
    under_way_.pop_front();
    longest.makes_room = true;
    longest.stop.request_stop();
    return true;
}

// Best effort: who does not read the answer finds the socket closed.
void SocketListener::turn_away(int fd, Answer answer) noexcept {
    counters_.handshakes_refused.add();
    Hello hello;
    hello.set_provider(handshakes_.provider());
    hello.answer = answer;
    hello.seal();
    (void)::send(fd, &hello, sizeof hello, MSG_DONTWAIT | MSG_NOSIGNAL);
}

Task<bool> SocketListener::greet_within(int fd, const Greeting& greeting, Hello& hello,
                                        std::vector<std::byte>& appended, StopToken stop) {
    std::array<std::byte, sizeof(Hello)> bytes{};
    const auto received = co_await receive_all(reactor_, fd, bytes, stop);
    if (!received) {
        if (greeting.makes_room && !closed_) {
            turn_away(fd, Answer::busy);
        } else {
            counters_.handshakes_refused.add();
        }
        co_return false;
    }
    const auto decoded = Hello::decode(bytes);
    Answer answer = answer_to(decoded, handshakes_.provider());
    if (decoded && decoded->appended_bytes > handshakes_.appended_bytes_max()) {
        answer = Answer::refused;
    }
    if (answer != Answer::welcome) {
        turn_away(fd, answer);
        co_return false;
    }
    hello = *decoded;
    appended.resize(hello.appended_bytes);
    co_return (co_await receive_all(reactor_, fd, appended, stop)).has_value();
}

Task<> SocketListener::greet(SocketListener& self, Descriptor socket) {
    Greeting greeting;
    const auto place = self.under_way_.insert(self.under_way_.end(), &greeting);
    if (self.closed_) greeting.stop.request_stop();
    Deadline deadline(self.reactor_, self.reactor_.now() + self.options_.handshake_within,
                      greeting.stop.token());
    Hello hello;
    std::vector<std::byte> appended;
    std::unique_ptr<Endpoint> endpoint;
    if (co_await self.greet_within(socket.get(), greeting, hello, appended, deadline.token())) {
        auto made = co_await self.handshakes_.finish(std::move(socket), hello, std::move(appended),
                                                     self.options_.limits, deadline.token());
        if (made) {
            endpoint = std::move(*made);
        } else {
            self.counters_.handshakes_refused.add();
        }
    }
    co_await deadline.finish();
    if (!greeting.makes_room) self.under_way_.erase(place);
    if (endpoint == nullptr) co_return;
    self.ready_.push_back(std::move(endpoint));
    self.arrival_.wake_all();
}

Task<Result<std::unique_ptr<Endpoint>>> SocketListener::accept(StopToken stop) {
    const WakeOnStop wake(stop, arrival_);
    while (ready_.empty()) {
        if (closed_) co_return fail(Code::closed);
        if (stop.stop_requested()) co_return fail(Code::cancelled);
        co_await arrival_;
    }
    auto endpoint = std::move(ready_.front());
    ready_.pop_front();
    co_return endpoint;
}

Task<> SocketListener::close() {
    if (closed_) co_return;
    closed_ = true;
    stop_.request_stop();
    arrival_.wake_all();
    co_await accepting_.join();
    while (stop_longest()) {
    }
    co_await greeting_.join();
    while (!ready_.empty()) {
        const auto endpoint = std::move(ready_.front());
        ready_.pop_front();
        endpoint->abandon();
        co_await endpoint->close();
    }
    socket_.reset();
    remove_socket_file(address_);
}

}  // namespace ros2s::fabric
