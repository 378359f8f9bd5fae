// The messages that a peer of a provider over a network library can send: a greeting, then messages
// of the library, mostly with valid headers and packets. At worst its session ends.
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <deque>

#include "lane_wire.h"
#include "ros2s/base/check.h"
#include "ros2s/fabric/packet/test_support/fuzzed_peer.h"
#include "ros2s/runtime/test_support/made_reactor.h"
#include "test_support/silent_worker.h"

using namespace ros2s;
using namespace ros2s::fabric;
using namespace ros2s::fabric::lanes;

namespace {

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

class Trial {
  public:
    Trial(Reactor& reactor, Worker& worker, Counters& counters, ConstBytes input)
        : reactor_(reactor), worker_(worker), counters_(counters), fuzzed_(input) {}

    Task<> run(FuzzedWorker& library) {
        initiates_ = (fuzzed_.script.take<uint8_t>() & 1) == 0;
        auto wire = std::make_unique<LaneWire>(worker_);
        channel_ = wire->channel();
        ROS2S_CHECK(wire->open({.channel = 1, .address = {std::byte{1}}}, !initiates_));
        wire->greet();
        // Some of it before the session exists.
        for (uint8_t early = fuzzed_.script.take<uint8_t>() % 4; early > 0; --early) come(library);
        make_endpoint(std::move(wire));
        for (bool granted = false; !fuzzed_.script.over();) {
            if (!initiates_ && !std::exchange(granted, true)) fuzzed_.get_grant();
            come(library);
            co_await yield(reactor_);
            fuzzed_.look_at_messages();
        }
        co_await fuzzed_.release_memory();
        peer_.reset();
        co_await fuzzed_.victim->close();
    }

  private:
    void make_endpoint(std::unique_ptr<LaneWire> wire) {
        int ends[2] = {-1, -1};
        ROS2S_CHECK(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) == 0);
        wire->keep(Descriptor(ends[0]));
        peer_ = Descriptor(ends[1]);
        fuzzed_.meet(reactor_, counters_, worker_.flusher(), initiates_, std::move(wire));
    }
    // One message of the library.
    void come(FuzzedWorker& library) {
        const auto wrong = fuzzed_.script.take<uint8_t>();
        FrameHeader header{.channel = channel_, .sequence = sequence_++};
        if (wrong == 1) header.magic = fuzzed_.script.take<uint32_t>();
        if (wrong == 2) header.version = fuzzed_.script.take<uint16_t>();
        if (wrong == 3) header.channel = fuzzed_.script.take<uint64_t>();
        if (wrong == 4) header.sequence = fuzzed_.script.take<uint64_t>();
        if (wrong == 5) header.reserved = fuzzed_.script.take<uint16_t>();
        const size_t bytes =
            wrong == 6 ? fuzzed_.script.take<uint8_t>() % sizeof header : sizeof header;
        const bool whole = wrong != 7;
        std::vector<std::byte> frame;
        const bool is_first = header.sequence == 0;
        if (!is_first || wrong == 8) add_packets(frame);
        library.take(object_bytes(header).first(bytes), frame, whole);
    }
    void add_packets(std::vector<std::byte>& frame) {
        const auto how = fuzzed_.script.take<uint8_t>();
        if (how < 32) {
            const ConstBytes any = fuzzed_.script.bytes(1 + fuzzed_.script.take<uint8_t>());
            frame.assign(any.begin(), any.end());
        }
        for (int packets = how % 4; packets >= 0; --packets) fuzzed_.add_packet(frame);
    }
    Reactor& reactor_;
    Worker& worker_;
    Counters& counters_;
    FuzzedPeer fuzzed_;
    bool initiates_ = true;
    uint64_t channel_ = 0, sequence_ = 0;
    Descriptor peer_;
};

struct Base {
    Base() {
        reactor = made_reactor();
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
