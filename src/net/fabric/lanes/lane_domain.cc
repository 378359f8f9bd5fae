#include "lane_domain.h"

#include <array>

#include "lane_wire.h"
#include "ros2s/fabric/lanes/plain_environment.h"
#include "ros2s/fabric/socket/socket_listener.h"

namespace ros2s::fabric::lanes {
namespace {

class LaneDomain final : public SocketDomain {
  public:
    LaneDomain(Reactor& reactor, Options options,
               const std::function<std::unique_ptr<Worker>(Counters&)>& make_worker)
        : SocketDomain(reactor, options.provider, Addresses::network),
          options_(std::move(options)),
          use_(options_.provider),
          worker_(make_worker(counters_)) {}
    ~LaneDomain() override { ROS2S_CHECK(worker_ == nullptr); }

    size_t endpoints_max() const noexcept override { return worker_->lanes_max(); }
    Task<> close() override {
        if (worker_ == nullptr) co_return;
        co_await worker_->close();
        worker_.reset();
    }

  private:
    Task<Result<std::unique_ptr<Endpoint>>> finish(Admitted peer, Limits limits,
                                                   StopToken stop) override;
    Task<Result<std::unique_ptr<Endpoint>>> handshake(std::string address,
                                                      const ConnectOptions& options, StopToken stop,
                                                      Report& report) override;
    // The listener's answer, and the greeting after it.
    Task<Result<PeerAddress>> ask(int fd, std::string address, Hello& hello, uint64_t channel,
                                  StopToken stop, Report& report);
    // The hello, sealed, and our greeting after it.
    Task<Result<>> say(int fd, Hello hello, uint64_t channel, StopToken stop);
    // The peer's greeting, of `bytes` bytes.
    Task<Result<PeerAddress>> hear_greeting(int fd, uint32_t bytes, StopToken stop);
    [[nodiscard]] std::unique_ptr<Endpoint> make_endpoint(std::unique_ptr<LaneWire> wire,
                                                          Descriptor socket, Limits limits,
                                                          const Hello& peer, uint64_t session,
                                                          bool initiates) {
        keep_alive(socket.get());
        PacketConnection packet_session{.provider = options_.provider,
                                        .domain = id_,
                                        .session = session,
                                        .peer = peer,
                                        .peer_name = peer_at(socket.get(), options_.provider).name,
                                        .initiates = initiates};
        wire->keep(std::move(socket));
        return std::make_unique<PacketEndpoint>(reactor_, counters_, worker_->flusher(), limits,
                                                std::move(packet_session), std::move(wire));
    }

    const Options options_;
    const ForkedUse use_;
    std::unique_ptr<Worker> worker_;
};

Task<Result<>> LaneDomain::say(int fd, Hello hello, uint64_t channel, StopToken stop) {
    const std::vector<std::byte> greeting = encode_greeting(channel, worker_->address());
    hello.appended_bytes = static_cast<uint32_t>(greeting.size());
    hello.seal();
    std::vector<std::byte> bytes(sizeof hello + greeting.size());
    std::memcpy(bytes.data(), &hello, sizeof hello);
    std::memcpy(bytes.data() + sizeof hello, greeting.data(), greeting.size());
    co_return co_await send_all(reactor_, fd, bytes, stop);
}

Task<Result<PeerAddress>> LaneDomain::hear_greeting(int fd, uint32_t bytes, StopToken stop) {
    if (bytes > sizeof(Greeting) + Greeting::address_bytes_max) co_return fail(Code::corrupt);
    std::vector<std::byte> greeting(bytes);
    ROS2S_CO_TRY(co_await receive_all(reactor_, fd, greeting, stop));
    co_return decode_greeting(greeting);
}

// For admitted peers only: the library parses the peer's address here, and connects to it.
Task<Result<std::unique_ptr<Endpoint>>> LaneDomain::finish(Admitted peer, Limits limits,
                                                           StopToken stop) {
    const int fd = peer.socket.get();
    limits = PacketEndpoint::normalized(limits);
    Hello ours = PacketEndpoint::introduce(*this, limits);
    ours.session = peer.session;
    std::array<std::byte, sizeof(Hello)> bytes{};
    ROS2S_CO_TRY(co_await receive_all(reactor_, fd, bytes, stop));
    ROS2S_CO_TRY_ASSIGN(const Hello again, Hello::decode(bytes));
    auto wire = std::make_unique<LaneWire>(*worker_);
    const auto address = co_await hear_greeting(fd, again.appended_bytes, stop);
    Result<> done = address ? wire->open(*address, false) : fail(address.error());
    if (!done) {
        ours.answer = done.error().code == Code::no_memory ? Answer::no_memory : Answer::refused;
        ours.seal();
        (void)co_await send_all(reactor_, fd, object_bytes(ours), stop);
    }
    if (done) done = co_await say(fd, ours, wire->channel(), stop);
    if (done && worker_->may_cross()) wire->greet();
    if (done) done = co_await wire->met(stop);
    if (done && !worker_->may_cross()) wire->greet();
    if (!done) {
        co_await wire->close();
        co_return fail(done.error());
    }
    co_return make_endpoint(std::move(wire), std::move(peer.socket), limits, peer.hello,
                            ours.session, true);
}

Task<Result<PeerAddress>> LaneDomain::ask(int fd, std::string address, Hello& hello,
                                          uint64_t channel, StopToken stop, Report& report) {
    ROS2S_CO_TRY(co_await say(fd, hello, channel, stop));
    std::array<std::byte, sizeof(Hello)> bytes{};
    ROS2S_CO_TRY(co_await receive_all(reactor_, fd, bytes, stop));
    const auto answered = Hello::decode(bytes);
    ROS2S_CO_TRY(check_answer(answered, address, options_.provider, report));
    hello = *answered;
    auto peer = co_await hear_greeting(fd, hello.appended_bytes, stop);
    if (!peer && peer.error().code == Code::corrupt) {
        co_return report.fail(Code::denied, address + " sent an address for " + options_.provider +
                                                " that is malformed: is it the same version?");
    }
    co_return peer;
}

Task<Result<std::unique_ptr<Endpoint>>> LaneDomain::handshake(std::string address,
                                                              const ConnectOptions& options,
                                                              StopToken stop, Report& report) {
    const Limits limits = PacketEndpoint::normalized(options.limits);
    ROS2S_CO_TRY_ASSIGN(Descriptor socket, co_await connect_to(reactor_, address, stop, report));
    Hello hello = PacketEndpoint::introduce(*this, limits);
    ROS2S_CO_TRY(
        co_await ask_admission(reactor_, socket.get(), hello, address, options, stop, report));
    auto wire = std::make_unique<LaneWire>(*worker_);
    const auto peer = co_await ask(socket.get(), address, hello, wire->channel(), stop, report);
    Result<> done = peer ? wire->open(*peer, true) : fail(peer.error());
    if (peer) {
        if (done) {
            wire->greet();
            done = co_await wire->met(stop);
        }
        if (!done) {
            report.say(address + " answers, but its " + options_.provider +
                       " cannot be reached through our device " + options_.device +
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

}  // namespace

std::unique_ptr<Domain> make_domain(
    Reactor& reactor, Options options,
    const std::function<std::unique_ptr<Worker>(Counters&)>& make_worker) {
    return std::make_unique<LaneDomain>(reactor, std::move(options), make_worker);
}

}  // namespace ros2s::fabric::lanes
