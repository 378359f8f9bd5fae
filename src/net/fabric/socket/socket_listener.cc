#include "ros2s/fabric/socket/socket_listener.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <map>
#include <utility>

#include "ros2s/base/random.h"
#include "ros2s/fabric/deadline.h"
#include "ros2s/runtime/ring.h"
#include "ros2s/runtime/sync.h"

namespace ros2s::fabric {
namespace {

// The hello, sealed, and the credential or verdict after it.
std::vector<std::byte> encode(Hello hello, ConstBytes passed) {
    hello.passed_bytes = static_cast<uint32_t>(passed.size());
    hello.seal();
    std::vector<std::byte> bytes(sizeof hello + passed.size());
    std::memcpy(bytes.data(), &hello, sizeof hello);
    if (!passed.empty()) std::memcpy(bytes.data() + sizeof hello, passed.data(), passed.size());
    return bytes;
}

}  // namespace

Task<Result<std::unique_ptr<Stream>>> Handshakes::begin(Reactor& reactor, int fd,
                                                        PendingPeer& /*pending*/,
                                                        StopToken /*stop*/) {
    co_return std::make_unique<PlainStream>(reactor, fd);
}

SocketListener::SocketListener(Reactor& reactor, Counters& counters, Handshakes& handshakes,
                               Descriptor socket, std::string address, ListenOptions options)
    : reactor_(reactor),
      counters_(counters),
      handshakes_(handshakes),
      socket_(std::move(socket)),
      address_(std::move(address)),
      options_(options),
      arrival_(reactor),
      pending_peers_(options.pending_peers != nullptr ? *options.pending_peers
                                                      : own_pending_peers_.emplace(reactor)),
      share_{.most = options.handshakes_max},
      // Handshakes that make room take a moment to end.
      greeting_(reactor, size_t{3} * options.handshakes_max),
      accepting_(reactor, 1) {
    const bool started = accepting_.try_spawn(run(*this));
    ROS2S_CHECK(started);
}

SocketListener::~SocketListener() { ROS2S_CHECK(closed_); }

Task<> SocketListener::run(SocketListener& self) {
    while (true) {
        auto accepted = co_await accept_from(self.reactor_, self.socket_.get(), self.stop_.token());
        if (!accepted) co_return;  // stopped
        co_await self.pending_peers_.pace_accepts();
        Descriptor peer = std::move(*accepted);
        const int on = 1;  // Unix sockets refuse it and do not need it
        setsockopt(peer.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        Peer who = peer_at(peer.get(), self.handshakes_.provider());
        co_await self.greeting_.spawn(greet(self, std::move(peer), std::move(who)));
    }
}

void SocketListener::make_room(const Peer& coming) noexcept {
    // Ends the oldest handshake of the peers that have most, counting the new one.
    std::map<std::pair<int64_t, std::string_view>, size_t> counts;
    counts[{coming.user, coming.host}] = 1;
    size_t most = 0;
    for (const PendingPeer* each : admitted_) {
        most = std::max(most, ++counts[{each->peer.user, each->peer.host}]);
    }
    const auto oldest = std::ranges::find_if(admitted_, [&](const PendingPeer* each) {
        return counts.at({each->peer.user, each->peer.host}) == most;
    });
    PendingPeer& chosen = **oldest;
    admitted_.erase(oldest);
    chosen.stop.request_stop();
}

// Best effort: a peer that does not read the answer finds the socket closed.
void SocketListener::turn_away(Stream& stream, Answer answer, ConstBytes verdict) noexcept {
    Hello hello;
    hello.set_provider(handshakes_.provider());
    hello.answer = answer;
    stream.send_now(encode(hello, verdict));
}

Task<Result<Hello>> SocketListener::hear(Stream& stream, std::vector<std::byte>& credential,
                                         StopToken stop) {
    std::array<std::byte, sizeof(Hello)> bytes{};
    ROS2S_CO_TRY(co_await stream.receive(bytes, stop));
    const auto hello = Hello::decode(bytes);
    Answer answer = answer_to(hello, handshakes_.provider());
    if (hello && hello->passed_bytes > PeerCheck::credential_bytes_max) answer = Answer::refused;
    if (answer != Answer::welcome) {
        turn_away(stream, answer);
        co_return fail(Code::denied);
    }
    credential.resize(hello->passed_bytes);
    ROS2S_CO_TRY(co_await stream.receive(credential, stop));
    co_return hello;
}

Task<Result<Admitted>> SocketListener::admit(Descriptor socket, PendingPeer& pending,
                                             StopToken stop) {
    auto begun = co_await handshakes_.begin(reactor_, socket.get(), pending, stop);
    if (!begun) co_return fail(begun.error());
    std::unique_ptr<Stream> stream = std::move(*begun);
    std::vector<std::byte> credential;
    const auto hello = co_await hear(*stream, credential, stop);
    if (!hello) {
        if (pending.makes_room && !closed_) turn_away(*stream, Answer::busy);
        co_return fail(hello.error());
    }
    // Its ticket stays valid if there is no room for it.
    const bool is_full = admitted_.size() + ready_.size() >= options_.handshakes_max;
    if (closed_ || (is_full && admitted_.empty())) {
        turn_away(*stream, Answer::busy);
        co_return fail(Code::busy);
    }
    Admitted admitted{.socket = std::move(socket),
                      .stream = std::move(stream),
                      .hello = *hello,
                      .peer = pending.peer};
    admitted.session = random_seed();
    PeerCheck::Verdict verdict{.admitted = true, .said = {}};
    if (options_.peer_check != nullptr) {
        verdict = options_.peer_check->admit(admitted.session, credential, admitted.peer);
        ROS2S_CHECK(verdict.said.size() <= PeerCheck::verdict_bytes_max);
    }
    if (!verdict.admitted) {
        turn_away(*admitted.stream, Answer::refused, verdict.said);
        co_return fail(Code::denied);
    }
    admitted.tenant = verdict.tenant;
    // A peer that is not admitted yet never displaces an admitted peer.
    if (is_full) make_room(pending.peer);
    pending.leave();
    std::erase(pending_, &pending);
    admitted_.push_back(&pending);
    Hello answer{.session = admitted.session};
    answer.set_provider(handshakes_.provider());
    const std::vector<std::byte> welcome = encode(answer, verdict.said);
    const auto told = co_await admitted.stream->send(welcome, stop);
    if (!told) {
        if (options_.peer_check != nullptr) options_.peer_check->withdraw(admitted.session);
        co_return fail(told.error());
    }
    co_return admitted;
}

Task<> SocketListener::greet(SocketListener& self, Descriptor socket, Peer peer) {
    PendingPeer pending(self.pending_peers_, self.share_, std::move(peer));
    self.pending_.push_back(&pending);
    if (self.closed_) pending.stop.request_stop();
    Deadline deadline(self.reactor_, self.reactor_.now() + self.options_.handshake_within,
                      pending.stop.token());
    auto admitted = co_await self.admit(std::move(socket), pending, deadline.token());
    Result<std::unique_ptr<Endpoint>> endpoint = fail(Code::denied);
    if (admitted) {
        const uint64_t session = admitted->session;
        endpoint = co_await self.handshakes_.finish(std::move(*admitted), self.options_.limits,
                                                    deadline.token());
        if (!endpoint && self.options_.peer_check != nullptr) {
            self.options_.peer_check->withdraw(session);
        }
    }
    if (!endpoint) self.counters_.handshakes_refused.add();
    co_await deadline.finish();
    std::erase(self.pending_, &pending);
    std::erase(self.admitted_, &pending);
    if (!endpoint) co_return;
    self.ready_.push_back(std::move(*endpoint));
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
    for (const Greetings* each : {&pending_, &admitted_}) {
        for (PendingPeer* const pending : *each) pending->stop.request_stop();
    }
    co_await greeting_.join();
    while (!ready_.empty()) {
        const auto endpoint = std::move(ready_.front());
        ready_.pop_front();
        if (options_.peer_check != nullptr) options_.peer_check->withdraw(endpoint->session());
        endpoint->abandon();
        co_await endpoint->close();
    }
    socket_.reset();
    remove_socket_file(address_);
}

Task<Result<Hello>> ask_admission(Reactor& reactor, int fd, Hello hello, std::string address,
                                  const ConnectOptions& options, StopToken stop, Report& report) {
    PlainStream stream(reactor, fd);
    co_return co_await ask_admission(stream, hello, std::move(address), options, stop, report);
}

Task<Result<Hello>> ask_admission(Stream& stream, Hello hello, std::string address,
                                  const ConnectOptions& options, StopToken stop, Report& report) {
    if (options.credential.size() > PeerCheck::credential_bytes_max) {
        co_return report.fail(Code::invalid, "the credential for " + address + " is too long");
    }
    const std::vector<std::byte> ours = encode(hello, options.credential);
    ROS2S_CO_TRY(co_await stream.send(ours, stop));
    std::array<std::byte, sizeof(Hello)> bytes{};
    ROS2S_CO_TRY(co_await stream.receive(bytes, stop));
    const auto answer = Hello::decode(bytes);
    if (answer && answer->passed_bytes > 0 &&
        answer->passed_bytes <= PeerCheck::verdict_bytes_max) {
        std::vector<std::byte> verdict(answer->passed_bytes);
        ROS2S_CO_TRY(co_await stream.receive(verdict, stop));
        if (options.verdict != nullptr) *options.verdict = std::move(verdict);
    }
    ROS2S_CO_TRY(check_answer(answer, address, hello.provider_name(), report));
    co_return answer;
}

SocketDomain::SocketDomain(Reactor& reactor, std::string provider, Addresses addresses)
    : reactor_(reactor),
      id_(reactor.secrets().next()),
      provider_(std::move(provider)),
      addresses_(addresses) {}

Result<> SocketDomain::check_address(const std::string& address, Report& report) const {
    const bool wants_unix = addresses_ == Addresses::unix_socket;
    if (!address.empty() && is_unix_address(address) == wants_unix) return {};
    return report.fail(Code::invalid,
                       "'" + address + "' is not an address for provider " + provider_ +
                           (wants_unix ? ": give the path of a socket with a slash in it, or @NAME"
                                       : ": give IP:PORT or [IPv6]:PORT"));
}

Task<Result<std::unique_ptr<Listener>>> SocketDomain::listen(std::string address,
                                                             ListenOptions options,
                                                             Report& report) {
    ROS2S_CO_TRY(check_address(address, report));
    ROS2S_CO_TRY_ASSIGN(Descriptor socket, co_await listen_when_free(reactor_, address, report));
    Handshakes& self = *this;
    co_return std::make_unique<SocketListener>(reactor_, counters_, self, std::move(socket),
                                               std::move(address), options);
}

Task<Result<std::unique_ptr<Endpoint>>> SocketDomain::connect(std::string address,
                                                              ConnectOptions options,
                                                              Report& report) {
    ROS2S_CO_TRY(check_address(address, report));
    Deadline deadline(reactor_, reactor_.now() + options.within, options.stop);
    auto made = co_await handshake(address, options, deadline.token(), report);
    if (!made && made.error().code == Code::cancelled) {
        made = deadline.error();
        if (deadline.passed() && report.empty()) {
            report.say(address +
                       " does not answer: is the server hung, or at its limit of open files?");
        }
    }
    if (!made && report.empty()) {
        report.say("the connection to " + address +
                   " was lost while it was being set up: " + describe(made.error()));
    }
    co_await deadline.finish();
    co_return made;
}

}  // namespace ros2s::fabric
