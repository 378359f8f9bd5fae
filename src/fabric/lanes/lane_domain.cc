#include "lane_domain.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <array>

#include "lane_wire.h"
#include "ros2s/fabric/socket/socket_listener.h"

namespace ros2s::fabric::lanes {
namespace {

// A machine that died says nothing: the kernel asks it, once a second.
void keep_alive(int fd) {
    const int on = 1;
    const int idle_s = 2;
    const int interval_s = 1;
    const int probes = 5;
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof interval_s);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
}

std::string describe_peer(int fd, const std::string& provider) {
    sockaddr_storage address{};
    socklen_t length = sizeof address;
    std::array<char, 64> host{};
    std::array<char, 16> port{};
    if (getpeername(fd, reinterpret_cast<sockaddr*>(&address), &length) != 0 ||
        getnameinfo(reinterpret_cast<sockaddr*>(&address), length, host.data(), host.size(),
                    port.data(), port.size(), NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
        return "unknown (" + provider + ")";
    }
    return std::string(host.data()) + " port " + port.data() + " (" + provider + ")";
}

class LaneDomain final : public Domain, private Handshakes {
  public:
    LaneDomain(Reactor& reactor, DomainNames names,
               const std::function<std::unique_ptr<Worker>(Counters&)>& make_worker)
        : reactor_(reactor),
          names_(std::move(names)),
          id_(reactor.random().next()),
          worker_(make_worker(counters_)) {}
    ~LaneDomain() override { ROS2S_CHECK(worker_ == nullptr); }

    const std::string& provider() const noexcept override { return names_.provider; }
    uint64_t id() const noexcept override { return id_; }
    Counters& counters() noexcept override { return counters_; }
    size_t endpoints_max() const noexcept override { return worker_->lanes_max(); }
    Task<Result<std::unique_ptr<Listener>>> listen(std::string address, ListenOptions options,
                                                   Report& report) override {
        ROS2S_CO_TRY(check_address(address, report));
        ROS2S_CO_TRY_ASSIGN(Descriptor socket,
                            co_await listen_when_free(reactor_, address, report));
        Handshakes& self = *this;
        co_return std::make_unique<SocketListener>(reactor_, counters_, self, std::move(socket),
                                                   std::move(address), options);
    }
    Task<Result<std::unique_ptr<Endpoint>>> connect(std::string address, ConnectOptions options,
                                                    Report& report) override;
    Task<> close() override {
        if (worker_ == nullptr) co_return;
        co_await worker_->close();
        worker_.reset();
    }

  private:
    Result<> check_address(const std::string& address, Report& report) const {
        if (!address.empty() && address.front() != '@' && address.find('/') == std::string::npos) {
            return {};
        }
        return report.fail(Code::invalid, "'" + address + "' is no address for provider " +
                                              names_.provider + ": give IP:PORT or [IPv6]:PORT");
    }
    Task<Result<std::unique_ptr<Endpoint>>> finish(Descriptor socket, Hello hello,
                                                   std::vector<std::byte> appended, Limits limits,
                                                   StopToken stop) override;
    uint32_t appended_bytes_max() const noexcept override {
        return sizeof(Greeting) + Greeting::address_bytes_max;
    }
    Task<Result<std::unique_ptr<Endpoint>>> handshake(std::string address, Limits limits,
                                                      StopToken stop, Report& report);
    // The peer's answer, and the greeting that came with it.
    Task<Result<PeerAddress>> ask(int fd, std::string address, Hello& hello, uint64_t channel,
                                  StopToken stop, Report& report);
    Task<Result<>> answer(int fd, Hello hello, uint64_t channel, StopToken stop);
    [[nodiscard]] Hello introduce(const Limits& limits) const {
        Hello hello{.domain = id_};
        PacketEndpoint::introduce(hello, limits);
        hello.set_provider(names_.provider);
        return hello;
    }
    [[nodiscard]] std::unique_ptr<Endpoint> make_endpoint(std::unique_ptr<LaneWire> wire,
                                                          Descriptor socket, Limits limits,
                                                          const Hello& peer, uint64_t session,
                                                          bool initiates) {
        keep_alive(socket.get());
        PacketSession settled{.provider = names_.provider,
                              .domain = id_,
                              .session = session,
                              .peer = peer,
                              .peer_name = describe_peer(socket.get(), names_.provider),
                              .initiates = initiates};
        wire->keep(std::move(socket));
        return std::make_unique<PacketEndpoint>(reactor_, counters_, worker_->flusher(), limits,
                                                std::move(settled), std::move(wire));
    }

    Reactor& reactor_;
    const DomainNames names_;
    const uint64_t id_;
    Counters counters_;
    std::unique_ptr<Worker> worker_;
};

// The hello, sealed, and our greeting behind it.
Task<Result<>> LaneDomain::answer(int fd, Hello hello, uint64_t channel, StopToken stop) {
    const std::vector<std::byte> greeting = encode_greeting(channel, worker_->address());
    hello.appended_bytes = static_cast<uint32_t>(greeting.size());
    hello.seal();
    std::vector<std::byte> bytes(sizeof hello + greeting.size());
    std::memcpy(bytes.data(), &hello, sizeof hello);
    std::memcpy(bytes.data() + sizeof hello, greeting.data(), greeting.size());
    co_return co_await send_all(reactor_, fd, bytes, stop);
}

Task<Result<std::unique_ptr<Endpoint>>> LaneDomain::finish(Descriptor socket, Hello hello,
                                                           std::vector<std::byte> appended,
                                                           Limits limits, StopToken stop) {
    limits = PacketEndpoint::settle(limits);
    Hello ours = introduce(limits);
    ours.session = reactor_.random().next();
    auto wire = std::make_unique<LaneWire>(*worker_);
    const auto peer = decode_greeting(appended);
    Result<> done = peer ? wire->open(*peer, false) : fail(peer.error());
    if (!done) {
        ours.answer = done.error().code == Code::no_memory ? Answer::no_memory : Answer::refused;
        ours.seal();
        (void)co_await send_all(reactor_, socket.get(), object_bytes(ours), stop);
    }
    if (done) done = co_await answer(socket.get(), ours, wire->channel(), stop);
    if (done && worker_->may_cross()) wire->greet();
    if (done) done = co_await wire->met(stop);
    if (done && !worker_->may_cross()) wire->greet();
    if (!done) {
        co_await wire->close();
        co_return fail(done.error());
    }
    co_return make_endpoint(std::move(wire), std::move(socket), limits, hello, ours.session, true);
}

Task<Result<PeerAddress>> LaneDomain::ask(int fd, std::string address, Hello& hello,
                                          uint64_t channel, StopToken stop, Report& report) {
    ROS2S_CO_TRY(co_await answer(fd, hello, channel, stop));
    std::array<std::byte, sizeof(Hello)> bytes{};
    ROS2S_CO_TRY(co_await receive_all(reactor_, fd, bytes, stop));
    const auto answered = Hello::decode(bytes);
    ROS2S_CO_TRY(check_answer(answered, address, names_.provider, report));
    hello = *answered;
    std::vector<std::byte> appended(std::min(hello.appended_bytes, appended_bytes_max() + 1));
    ROS2S_CO_TRY(co_await receive_all(reactor_, fd, appended, stop));
    auto peer = decode_greeting(appended);
    if (!peer) {
        co_return report.fail(Code::denied, address + " sent an address for " + names_.provider +
                                                " that makes no sense: is it the same version?");
    }
    co_return peer;
}

Task<Result<std::unique_ptr<Endpoint>>> LaneDomain::handshake(std::string address, Limits limits,
                                                              StopToken stop, Report& report) {
    ROS2S_CO_TRY_ASSIGN(Descriptor socket, co_await connect_to(reactor_, address, stop, report));
    Hello hello = introduce(limits);
    auto wire = std::make_unique<LaneWire>(*worker_);
    const auto peer = co_await ask(socket.get(), address, hello, wire->channel(), stop, report);
    Result<> done = peer ? wire->open(*peer, true) : fail(peer.error());
    if (peer) {
        if (done) {
            wire->greet();
            done = co_await wire->met(stop);
        }
        if (!done) {
            report.say(address + " answers, but its " + names_.provider +
                       " cannot be reached through our device " + names_.device +
                       ": check that both sides' device= are on one network, and the firewall");
        }
    }
    if (!done) {
        co_await wire->close();
        co_return fail(done.error());
    }
    co_return make_endpoint(std::move(wire), std::move(socket), limits, hello, hello.session,
                            false);
}

Task<Result<std::unique_ptr<Endpoint>>> LaneDomain::connect(std::string address,
                                                            ConnectOptions options,
                                                            Report& report) {
    ROS2S_CO_TRY(check_address(address, report));
    Deadline deadline(reactor_, reactor_.now() + options.within, options.stop);
    auto made = co_await handshake(address, PacketEndpoint::settle(options.limits),
                                   deadline.token(), report);
    if (!made && made.error().code == Code::cancelled) {
        made = deadline.error();
        if (deadline.passed() && report.empty()) {
            report.say(address + " does not answer: is the server hung?");
        }
    }
    if (!made && report.empty()) {
        report.say("the connection to " + address +
                   " was lost while it was being set up: " + describe(made.error()));
    }
    co_await deadline.finish();
    co_return made;
}

}  // namespace

std::unique_ptr<Domain> make_domain(
    Reactor& reactor, DomainNames names,
    const std::function<std::unique_ptr<Worker>(Counters&)>& make_worker) {
    return std::make_unique<LaneDomain>(reactor, std::move(names), make_worker);
}

}  // namespace ros2s::fabric::lanes
