// What an admitted peer can send through TLS: a stream of bytes, in pieces of any size, mostly with
// valid lengths and packets. At worst its session ends. Also what a socket may do: be full, be
// empty, hang up.
#include <sys/socket.h>

#include <algorithm>

#include "ros2s/base/check.h"
#include "ros2s/fabric/packet/packet_endpoint.h"
#include "ros2s/runtime/os_reactor.h"
#include "tls_wire.h"

using namespace ros2s;
using namespace ros2s::fabric;
using namespace ros2s::fabric::tls;

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

// The input; zeros after its end.
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

// What the peer has sent and the socket has not given yet.
struct Stream {
    std::vector<std::byte> bytes;
    size_t first = 0;
    size_t piece_max = 1;
    Progress at_end = Progress::wants_input;
    Progress of_writes = Progress::done;
};

class ScriptedSocket final : public SecureSocket {
  public:
    explicit ScriptedSocket(Stream& stream) : stream_(stream) {}
    Progress shake_hands() noexcept override { return Progress::done; }
    Moved read(Bytes into) noexcept override {
        ROS2S_CHECK(!into.empty());
        const size_t count =
            std::min({into.size(), stream_.bytes.size() - stream_.first, stream_.piece_max});
        if (count == 0) return {.progress = stream_.at_end};
        std::memcpy(into.data(), stream_.bytes.data() + stream_.first, count);
        stream_.first += count;
        return {.bytes = count};
    }
    Moved write(ConstBytes from, bool /*more*/) noexcept override {
        if (stream_.of_writes != Progress::done) return {.progress = stream_.of_writes};
        return {.bytes = std::min(from.size(), write_bytes_max)};
    }
    const std::string& peer_subject() const noexcept override { return nothing_; }
    const std::string& why() const noexcept override { return nothing_; }
    void read_ahead() override {}
    void became_readable(bool /*hung_up*/) noexcept override {}
    void change_key_every(uint64_t /*records*/) noexcept override {}

  private:
    Stream& stream_;
    const std::string nothing_;
};

class Trial {
  public:
    Trial(Reactor& reactor, Sockets& sockets, Counters& counters, ConstBytes input)
        : reactor_(reactor), sockets_(sockets), counters_(counters), script_(input) {}

    Task<> run() {
        initiates_ = (script_.take<uint8_t>() & 1) == 0;
        make_endpoint();
        if (!initiates_) grant();
        while (!script_.over() && endpoint_->alive()) {
            add();
            // As an event of the socket would.
            wire_->happened(1 | 4);
            co_await yield(reactor_);
            look_at_messages();
        }
        if (region_.live()) co_await region_.revoke();
        endpoint_->free(memory_);
        peer_.reset();
        co_await endpoint_->close();
    }

  private:
    void make_endpoint() {
        int ends[2] = {-1, -1};
        ROS2S_CHECK(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) == 0);
        peer_ = Descriptor(ends[1]);
        auto wire = std::make_unique<TlsWire>(sockets_, Descriptor(ends[0]),
                                              std::make_unique<ScriptedSocket>(stream_));
        wire_ = wire.get();
        const Hello hello{.domain = peer_domain,
                          .message_bytes_max = 20'000,
                          .incoming_bytes_max = 40'000,
                          .operations_max = 4};
        endpoint_ = std::make_unique<PacketEndpoint>(reactor_, counters_, sockets_.flusher(),
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
    // More of the stream, and how the socket behaves.
    void add() {
        stream_.bytes.erase(stream_.bytes.begin(),
                            stream_.bytes.begin() + static_cast<std::ptrdiff_t>(stream_.first));
        stream_.first = 0;
        stream_.piece_max = 1 + script_.take<uint16_t>();
        const auto how = script_.take<uint8_t>();
        constexpr std::array ends{Progress::wants_input, Progress::wants_output, Progress::ended,
                                  Progress::refused};
        stream_.at_end = how < 240 ? Progress::wants_input : ends[how % ends.size()];
        stream_.of_writes = how % 16 == 1 ? Progress::wants_output : Progress::done;
        if (how < 24) return append(stream_.bytes, script_.bytes(1 + script_.take<uint8_t>()));
        std::vector<std::byte> frame;
        for (int packets = how % 4; packets >= 0; --packets) add_packet(frame);
        FrameLength length{.bytes = static_cast<uint32_t>(frame.size())};
        if (how % 32 == 31) length.bytes = script_.take<uint32_t>();
        if (how % 32 == 30) length.zero = script_.take<uint8_t>();
        append(stream_.bytes, object_bytes(length));
        append(stream_.bytes, frame);
    }
    void add_packet(std::vector<std::byte>& frame) {
        using Type = Packet::Type;
        Packet header{.type = static_cast<Type>(script_.take<uint8_t>() % 11),
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
        if (wrong == 5) key.length = script_.take<uint64_t>();
        if (wrong != 6) key.seal();
        return key;
    }
    static void append(std::vector<std::byte>& to, ConstBytes bytes) {
        to.insert(to.end(), bytes.begin(), bytes.end());
    }

    Reactor& reactor_;
    Sockets& sockets_;
    Counters& counters_;
    Script script_;
    Stream stream_;
    bool initiates_ = true;
    Descriptor peer_;
    TlsWire* wire_ = nullptr;  // the endpoint's
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
        sockets = std::move(*Sockets::open(*reactor));
    }
    std::unique_ptr<OsReactor> reactor;
    Counters counters;
    std::unique_ptr<Sockets> sockets;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    static auto* const base = new Base;
    Trial trial(*base->reactor, *base->sockets, base->counters,
                std::as_bytes(std::span(data, size)));
    base->reactor->run(trial.run());
    return 0;
}
