// Set-up: each connecting client gets two segments of its own, made and sealed by the listener's
// side.
#include <algorithm>
#include <bit>

#include "ros2s/fabric/shm/shm.h"
#include "ros2s/fabric/socket/socket_listener.h"
#include "shm_endpoint.h"

namespace ros2s::fabric::shm {
namespace {

// A ring of at most the budget, if that is enough for `least`. An idle connection should be small.
uint64_t ring_bytes(uint64_t budget, uint64_t least) {
    return std::clamp(std::max(std::bit_floor(budget), std::bit_ceil(least)), ring_bytes_least,
                      ring_bytes_most);
}

class ShmDomain final : public SocketDomain {
  public:
    ShmDomain(Reactor& reactor, Options options)
        : SocketDomain(reactor, ShmEndpoint::provider_name, Addresses::unix_socket),
          connections_(std::make_unique<ShmConnections>(reactor, options)) {
        ROS2S_CHECK(reactor.ring() != nullptr);
    }
    ~ShmDomain() override { ROS2S_CHECK(connections_ == nullptr); }

    Task<> close() override {
        co_await connections_->close();
        connections_.reset();
    }

  private:
    Task<Result<std::unique_ptr<Endpoint>>> finish(Admitted peer, Limits limits,
                                                   StopToken stop) override;
    Task<Result<std::unique_ptr<Endpoint>>> handshake(std::string address,
                                                      const ConnectOptions& options, StopToken stop,
                                                      Report& report) override;
    [[nodiscard]] Hello introduce(const Limits& limits) const {
        Hello hello{.domain = id_,
                    .message_bytes_max = limits.message_bytes_max,
                    .incoming_bytes_max = limits.incoming_bytes_max,
                    .memory_bytes = limits.memory_bytes_max,
                    .operations_max = limits.operations_max};
        if (limits.memory_bytes_first < limits.memory_bytes_max) {
            const uint64_t blocks = round_up(limits.memory_bytes_first, block_bytes) / block_bytes;
            hello.memory_first_blocks =
                static_cast<uint32_t>(std::clamp<uint64_t>(blocks, 1, UINT32_MAX));
        }
        hello.set_provider(ShmEndpoint::provider_name);
        return hello;
    }

    std::unique_ptr<ShmConnections> connections_;
};

// For admitted peers only: memory is made and shared here.
Task<Result<std::unique_ptr<Endpoint>>> ShmDomain::finish(Admitted peer, Limits limits,
                                                          StopToken stop) {
    const int fd = peer.socket.get();
    const Hello& hello = peer.hello;
    limits = ShmEndpoint::normalized(limits);
    limits.memory_bytes_max = std::min(hello.memory_bytes, limits.memory_bytes_max);
    uint64_t wanted = limits.memory_bytes_max;
    if (hello.memory_first_blocks > 0) {
        wanted = std::min(wanted, hello.memory_first_blocks * block_bytes);
    }
    // Half the budget is enough for a ring, because messages that were taken out of it also count.
    ShmHello layout{.to_server_bytes = ring_bytes(limits.incoming_bytes_max / 2, ring_bytes_least),
                    .to_client_bytes = ring_bytes(limits.outgoing_bytes_max,
                                                  limits.reply_bytes + ring_bytes_least),
                    .payload_bytes = round_up(std::max<uint64_t>(wanted, 1), block_bytes),
                    .slots = std::clamp<uint32_t>(limits.regions_max, 1, slots_made_most)};
    layout.control_bytes = control_bytes(layout);
    Hello answer = introduce(limits);
    answer.session = peer.session;
    answer.appended_bytes = sizeof layout;
    const bool gets_further = hello.memory_first_blocks > 0;
    if (gets_further) {
        answer.memory_first_blocks = static_cast<uint32_t>(layout.payload_bytes / block_bytes);
    }
    const uint64_t total = layout.control_bytes + layout.payload_bytes;
    ShmConnections::Room room =
        connections_->take_room(total, {peer.tenant, static_cast<uint64_t>(peer.peer.user)});
    // Not even made if there is no room for it.
    Result<Segment> control = fail(Code::no_memory);
    Result<Segment> payload = fail(Code::no_memory);
    if (room) {
        control = Segment::create("ros2store-control", layout.control_bytes);
        payload = Segment::create("ros2store-payload", layout.payload_bytes);
    }
    if (!control || !payload) {
        answer.answer = Answer::no_memory;
        answer.seal();
        ROS2S_CO_TRY(co_await send_all(reactor_, fd, object_bytes(answer), stop));
        co_return fail(Code::no_memory);
    }
    answer.seal();
    const std::vector<int> descriptors{control->descriptor(), payload->descriptor()};
    ROS2S_CO_TRY(co_await send_descriptors(reactor_, fd, object_bytes(answer), descriptors, stop));
    ROS2S_CO_TRY(co_await send_all(reactor_, fd, object_bytes(layout), stop));
    co_return std::make_unique<ShmEndpoint>(reactor_, counters_, *connections_, limits,
                                            ShmConnection{.domain = id_,
                                                          .session = answer.session,
                                                          .peer = hello,
                                                          .layout = layout,
                                                          .tenant = peer.tenant,
                                                          .gets_further = gets_further,
                                                          .initiates = true},
                                            std::move(*control), std::move(*payload),
                                            std::move(peer.socket), std::move(room));
}

Task<Result<std::unique_ptr<Endpoint>>> ShmDomain::handshake(std::string address,
                                                             const ConnectOptions& options,
                                                             StopToken stop, Report& report) {
    Limits limits = ShmEndpoint::normalized(options.limits);
    ROS2S_CO_TRY_ASSIGN(Descriptor socket, co_await connect_to(reactor_, address, stop, report));
    ROS2S_CO_TRY(co_await ask_admission(reactor_, socket.get(), introduce(limits), address, options,
                                        stop, report));
    std::array<std::byte, sizeof(Hello)> bytes{};
    std::vector<Descriptor> descriptors;
    const auto malformed = [&] {
        return report.fail(Code::denied,
                           address +
                               " sent a description of shared memory that is malformed, or "
                               "larger than requested");
    };
    const auto received =
        co_await receive_descriptors(reactor_, socket.get(), bytes, descriptors, 2, stop);
    if (!received && received.error().code == Code::corrupt) co_return malformed();
    ROS2S_CO_TRY(received);
    const auto answer = Hello::decode(bytes);
    ROS2S_CO_TRY(check_answer(answer, address, ShmEndpoint::provider_name, report));
    ShmHello layout;
    std::array<std::byte, sizeof layout> more{};
    ROS2S_CO_TRY(co_await receive_all(reactor_, socket.get(), more, stop));
    std::memcpy(&layout, more.data(), sizeof layout);
    if (answer->appended_bytes != sizeof layout || descriptors.size() != 2 ||
        !makes_sense(layout) ||
        layout.payload_bytes >
            round_up(std::max<uint64_t>(limits.memory_bytes_max, 1), block_bytes)) {
        co_return malformed();
    }
    limits.memory_bytes_max = std::min(limits.memory_bytes_max, answer->memory_bytes);
    ROS2S_CO_TRY_ASSIGN(Segment control,
                        Segment::take_in(std::move(descriptors[0]), layout.control_bytes, report));
    ROS2S_CO_TRY_ASSIGN(Segment payload,
                        Segment::take_in(std::move(descriptors[1]), layout.payload_bytes, report));
    co_return std::make_unique<ShmEndpoint>(
        reactor_, counters_, *connections_, limits,
        ShmConnection{.domain = id_,
                      .session = answer->session,
                      .peer = *answer,
                      .layout = layout,
                      .gets_further = answer->memory_first_blocks > 0},
        std::move(control), std::move(payload), std::move(socket));
}

}  // namespace

std::unique_ptr<Domain> open_domain(Reactor& reactor, Options options) {
    return std::make_unique<ShmDomain>(reactor, options);
}

}  // namespace ros2s::fabric::shm
