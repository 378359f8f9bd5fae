// What a peer of a provider over a network library can send: a greeting, then messages of the
// library, mostly with valid headers and packets. At worst its session ends.
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <deque>

#include "lane_wire.h"
#include "ros2s/base/check.h"
#include "ros2s/runtime/os_reactor.h"
#include "silent_worker.h"

using namespace ros2s;
using namespace ros2s::fabric;
using namespace ros2s::fabric::lanes;

namespace {

constexpr uint64_t domain = 7, peer_domain = 8, session = 9;
constexpr Limits limits{.message_bytes_max = 20'000,
                        .incoming_bytes_max = 40'000,
                        .outgoing_bytes_max = 40'000,
                        .reply_bytes = 256,
                        .operations_max = 4,
                        .regions_max = 4,
                        .memory_bytes_max = 16'384,
                        .answer_within = std::chrono::milliseconds(1)};

// Every send completes at once.
class DeafLane final : public Lane {
  public:
    explicit DeafLane(LaneUser& user) : user_(&user) {}
    void send(Frame* frame) noexcept override {
        if (frame != nullptr) sent_.push_back(frame);
        if (user_ != nullptr) user_->lane_sent();
    }
    Frame* take_sent() noexcept override {
        if (sent_.empty()) return nullptr;
        Frame* frame = sent_.front();
        sent_.pop_front();
        return frame;
    }
    size_t frames_under_way() const noexcept override { return 0; }
    void leave() noexcept override { user_ = nullptr; }
    bool wind_up(bool /*force*/) noexcept override { return true; }

  private:
    LaneUser* user_;
    std::deque<Frame*> sent_;
};

// Delivers what the input says, and nothing else.
class FuzzedWorker final : public SilentWorker {
  public:
    using SilentWorker::SilentWorker;
    Result<std::unique_ptr<Lane>> open_lane(const Ends& /*ends*/, LaneUser& user) override {
        return std::make_unique<DeafLane>(user);
    }
    using Worker::take;
};

// The input, bit by bit; zeros after its end.
class Script {
  public:
    explicit Script(ConstBytes bytes) : rest_(bytes) {}
    [[nodiscard]] bool over() const { return rest_.empty(); }
    template <class T>
    T take() {
        T value{};
        const ConstBytes from = bytes(sizeof value);
        std::memcpy(&value, from.data(), from.size());
        return value;
    }
    ConstBytes bytes(size_t most) {
        const ConstBytes taken = rest_.first(std::min(most, rest_.size()));
        rest_ = rest_.subspan(taken.size());
        return taken;
    }

  private:
    ConstBytes rest_;
};

class Trial {
  public:
    Trial(Reactor& reactor, Worker& worker, Counters& counters, ConstBytes input)
        : reactor_(reactor), worker_(worker), counters_(counters), script_(input) {}

    Task<> run(FuzzedWorker& library) {
        initiates_ = (script_.take<uint8_t>() & 1) == 0;
        auto wire = std::make_unique<LaneWire>(worker_);
        channel_ = wire->channel();
        ROS2S_CHECK(wire->open({.channel = 1, .address = {std::byte{1}}}, !initiates_));
        wire->greet();
        // Some of it before the session exists.
        for (uint8_t early = script_.take<uint8_t>() % 4; early > 0; --early) come(library);
        make_endpoint(std::move(wire));
        for (bool granted = false; !script_.over();) {
            if (!initiates_ && !std::exchange(granted, true)) grant();
            come(library);
            co_await yield(reactor_);
            look_at_messages();
        }
        if (region_.live()) co_await region_.revoke();
        endpoint_->free(memory_);
        peer_.reset();
        co_await endpoint_->close();
    }

  private:
    void make_endpoint(std::unique_ptr<LaneWire> wire) {
        int ends[2] = {-1, -1};
        ROS2S_CHECK(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) == 0);
        wire->keep(Descriptor(ends[0]));
        peer_ = Descriptor(ends[1]);
        const Hello hello{.domain = peer_domain,
                          .message_bytes_max = 20'000,
                          .incoming_bytes_max = 40'000,
                          .operations_max = 4};
        endpoint_ = std::make_unique<PacketEndpoint>(reactor_, counters_, worker_.flusher(),
                                                     PacketEndpoint::normalized(limits),
                                                     PacketSession{.provider = "fuzzed",
                                                                   .domain = domain,
                                                                   .session = session,
                                                                   .peer = hello,
                                                                   .peer_name = "peer",
                                                                   .initiates = initiates_},
                                                     std::move(wire));
    }
    void grant() {
        memory_ = endpoint_->allocate(8192).value();
        if (auto region = endpoint_->grant(memory_, Rights::read_write)) {
            region_ = std::move(*region);
        }
    }
    void look_at_messages() {
        Message message;
        while (endpoint_->try_receive(message)) {
            ROS2S_CHECK(message.bytes().size() <= limits.message_bytes_max);
            (void)endpoint_->reply(message, as_bytes("answer"));
            message = Message();
        }
    }
    // One message of the library.
    void come(FuzzedWorker& library) {
        const auto wrong = script_.take<uint8_t>();
        FrameHeader header{.channel = channel_, .sequence = sequence_++};
        if (wrong == 1) header.magic = script_.take<uint32_t>();
        if (wrong == 2) header.version = script_.take<uint16_t>();
        if (wrong == 3) header.channel = script_.take<uint64_t>();
        if (wrong == 4) header.sequence = script_.take<uint64_t>();
        if (wrong == 5) header.reserved = script_.take<uint16_t>();
        const size_t bytes = wrong == 6 ? script_.take<uint8_t>() % sizeof header : sizeof header;
        const bool whole = wrong != 7;
        std::vector<std::byte> frame;
        const bool is_first = header.sequence == 0;
        if (!is_first || wrong == 8) add_packets(frame);
        library.take(object_bytes(header).first(bytes), frame, whole);
    }
    void add_packets(std::vector<std::byte>& frame) {
        const auto how = script_.take<uint8_t>();
        if (how < 32) {
            const ConstBytes any = script_.bytes(1 + script_.take<uint8_t>());
            frame.assign(any.begin(), any.end());
        }
        for (int packets = how % 4; packets >= 0; --packets) add_packet(frame);
    }
    void add_packet(std::vector<std::byte>& frame) {
        using Type = Packet::Type;
        Packet header{.type = static_cast<Type>(script_.take<uint8_t>() % 8),
                      .flags = static_cast<uint8_t>(script_.take<uint8_t>() % 4),
                      .operation = script_.take<uint16_t>(),
                      .offset = script_.take<uint16_t>(),
                      .count = script_.take<uint16_t>()};
        const bool has_key = header.type == Type::put || header.type == Type::get;
        const bool has_bytes =
            header.type == Type::message || header.type == Type::put || header.type == Type::got;
        const size_t bytes = has_bytes ? script_.take<uint16_t>() % 9000 : 0;
        if (header.type == Type::done) header.result = script_.take<uint8_t>() % 16;
        header.length = static_cast<uint32_t>((has_key ? sizeof(RemoteKey) : 0) + bytes);
        append(frame, object_bytes(header));
        if (has_key) append(frame, object_bytes(key()));
        frame.resize(frame.size() + bytes);
    }
    // The granted key, or a similar one.
    RemoteKey key() {
        RemoteKey key = region_.live() ? region_.key() : RemoteKey{};
        const auto wrong = script_.take<uint8_t>();
        if (wrong == 1) key.session = script_.take<uint64_t>();
        if (wrong == 2) key.domain = script_.take<uint64_t>();
        if (wrong == 3) key.slot = script_.take<uint32_t>();
        if (wrong == 4) key.generation = script_.take<uint32_t>();
        if (wrong == 5) key.address = script_.take<uint64_t>();
        if (wrong == 6) key.length = script_.take<uint64_t>();
        if (wrong != 7) key.seal();
        return key;
    }
    static void append(std::vector<std::byte>& frame, ConstBytes bytes) {
        frame.insert(frame.end(), bytes.begin(), bytes.end());
    }

    Reactor& reactor_;
    Worker& worker_;
    Counters& counters_;
    Script script_;
    bool initiates_ = true;
    uint64_t channel_ = 0, sequence_ = 0;
    Descriptor peer_;
    std::unique_ptr<Endpoint> endpoint_;
    Bytes memory_;
    MemoryRegion region_;
};

struct Base {
    Base() {
        Report report;
        auto made = OsReactor::create({}, report);
        ROS2S_CHECK(made);
        reactor = std::move(*made);
        worker = std::make_unique<FuzzedWorker>(*reactor, counters);
    }
    std::unique_ptr<OsReactor> reactor;
    Counters counters;
    std::unique_ptr<FuzzedWorker> worker;
};

void read_greeting(ConstBytes bytes) {
    const auto peer = decode_greeting(bytes);
    if (!peer) return;
    ROS2S_CHECK(!peer->address.empty() && peer->address.size() <= Greeting::address_bytes_max);
    ROS2S_CHECK(std::ranges::equal(encode_greeting(peer->channel, peer->address), bytes));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    static auto* const base = new Base;
    const ConstBytes input = std::as_bytes(std::span(data, size));
    read_greeting(input);
    read_greeting(encode_greeting(size, input));
    Trial trial(*base->reactor, *base->worker, base->counters, input);
    base->reactor->run(trial.run(*base->worker));
    return 0;
}
