// What an admitted peer can send through TLS: a stream of bytes, in pieces of any size, mostly with
// valid lengths and packets. At worst its session ends. Also what a socket may do: be full, be
// empty, hang up.
#include <sys/socket.h>

#include <algorithm>

#include "ros2s/base/check.h"
#include "ros2s/fabric/packet/test_support/fuzzed_peer.h"
#include "ros2s/runtime/test_support/made_reactor.h"
#include "tls_wire.h"

using namespace ros2s;
using namespace ros2s::fabric;
using namespace ros2s::fabric::tls;

namespace {

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
        : reactor_(reactor), sockets_(sockets), counters_(counters), fuzzed_(input) {}

    Task<> run() {
        initiates_ = (fuzzed_.script.take<uint8_t>() & 1) == 0;
        make_endpoint();
        if (!initiates_) fuzzed_.get_grant();
        while (!fuzzed_.script.over() && fuzzed_.victim->alive()) {
            add();
            // As an event of the socket would.
            wire_->happened(1 | 4);
            co_await yield(reactor_);
            fuzzed_.look_at_messages();
        }
        co_await fuzzed_.release_memory();
        peer_.reset();
        co_await fuzzed_.victim->close();
    }

  private:
    void make_endpoint() {
        int ends[2] = {-1, -1};
        ROS2S_CHECK(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) == 0);
        peer_ = Descriptor(ends[1]);
        auto wire = std::make_unique<TlsWire>(sockets_, Descriptor(ends[0]),
                                              std::make_unique<ScriptedSocket>(stream_));
        wire_ = wire.get();
        fuzzed_.meet(reactor_, counters_, sockets_.flusher(), initiates_, std::move(wire));
    }
    // More of the stream, and how the socket behaves.
    void add() {
        stream_.bytes.erase(stream_.bytes.begin(),
                            stream_.bytes.begin() + static_cast<std::ptrdiff_t>(stream_.first));
        stream_.first = 0;
        stream_.piece_max = 1 + fuzzed_.script.take<uint16_t>();
        const auto how = fuzzed_.script.take<uint8_t>();
        constexpr std::array ends{Progress::wants_input, Progress::wants_output, Progress::ended,
                                  Progress::refused};
        stream_.at_end = how < 240 ? Progress::wants_input : ends[how % ends.size()];
        stream_.of_writes = how % 16 == 1 ? Progress::wants_output : Progress::done;
        if (how < 24) {
            const size_t count = 1 + fuzzed_.script.take<uint8_t>();
            return FuzzedPeer::append(stream_.bytes, fuzzed_.script.bytes(count));
        }
        std::vector<std::byte> frame;
        for (int packets = how % 4; packets >= 0; --packets) fuzzed_.add_packet(frame);
        FrameLength length{.bytes = static_cast<uint32_t>(frame.size())};
        if (how % 32 == 31) length.bytes = fuzzed_.script.take<uint32_t>();
        if (how % 32 == 30) length.zero = fuzzed_.script.take<uint8_t>();
        FuzzedPeer::append(stream_.bytes, object_bytes(length));
        FuzzedPeer::append(stream_.bytes, frame);
    }
    Reactor& reactor_;
    Sockets& sockets_;
    Counters& counters_;
    FuzzedPeer fuzzed_;
    Stream stream_;
    bool initiates_ = true;
    Descriptor peer_;
    TlsWire* wire_ = nullptr;  // the endpoint's
};

struct Base {
    Base() {
        reactor = made_reactor();
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
