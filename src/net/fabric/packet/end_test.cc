// A connection that ends while it is filling frames.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "ros2s/fabric/packet/packet_endpoint.h"
#include "ros2s/runtime/test_support/made_reactor.h"

namespace ros2s::fabric {
namespace {

constexpr uint64_t our_domain = 31, its_domain = 32, its_session = 33;

struct Written {
    WireUser* user = nullptr;
    std::vector<Frame*> frames;
    size_t after_the_end = 0;
};
// Keeps its frames until the test returns one.
class SlowWire final : public Wire {
  public:
    explicit SlowWire(Written& written) : written_(written) {}
    void start(WireUser& user) noexcept override { written_.user = &user; }
    void write(Frame& frame) noexcept override {
        if (shut_) ++written_.after_the_end;
        written_.frames.push_back(&frame);
    }
    void shut() noexcept override { shut_ = true; }
    Task<> close() override {
        for (Frame* frame : written_.frames) written_.user->frame_sent(*frame);
        written_.frames.clear();
        co_return;
    }

  private:
    Written& written_;
    bool shut_ = false;
};

std::vector<std::byte> frame_of(const Packet& packet, ConstBytes first, ConstBytes second = {}) {
    std::vector<std::byte> frame;
    for (const ConstBytes part : {object_bytes(packet), first, second}) {
        frame.insert(frame.end(), part.begin(), part.end());
    }
    return frame;
}

Task<> receive_all(PacketEndpoint& endpoint, int count) {
    while (count-- > 0) EXPECT_TRUE(co_await endpoint.receive());
}

// The peer begins a get, does not read, and sends puts that are refused, until one more reply does
// not fit. That reply is for the rest of the get, whose key has been revoked.
TEST(PacketEndpoint, SessionMayEndDuringGetReply) {
    const auto reactor = made_reactor();
    Counters counters;
    Flusher flusher;
    Written written;
    const Hello hello{.domain = its_domain,
                      .message_bytes_max = 20'000,
                      .incoming_bytes_max = 40'000,
                      .operations_max = 4};
    const Limits limits{.message_bytes_max = 20'000,
                        .incoming_bytes_max = 40'000,
                        .operations_max = 4,
                        .regions_max = 4};
    std::vector<std::byte> memory(4 * PacketEndpoint::frames_max * frame_bytes);
    PacketEndpoint endpoint(*reactor, counters, flusher, limits,
                            PacketConnection{.provider = "slow",
                                             .domain = our_domain,
                                             .session = its_session,
                                             .peer = hello,
                                             .peer_name = "peer",
                                             .initiates = false},
                            std::make_unique<SlowWire>(written));
    auto region = endpoint.grant(memory, Rights::read);
    ASSERT_TRUE(region);
    const RemoteKey key = region->key();
    written.user->frame_came(frame_of(
        {.type = Packet::Type::get, .length = sizeof key, .operation = 1, .count = memory.size()},
        object_bytes(key)));
    flusher.flush();
    EXPECT_EQ(written.frames.size(), PacketEndpoint::frames_max);
    const RemoteKey senseless{};
    for (size_t i = 0; i < limits.operations_max + 8 * PacketEndpoint::frames_max; ++i) {
        written.user->frame_came(frame_of({.type = Packet::Type::put,
                                           .flags = Packet::flag_answer | Packet::flag_last,
                                           .length = sizeof senseless,
                                           .operation = 2 + i},
                                          object_bytes(senseless)));
    }
    reactor->run(region->revoke());
    const std::vector<std::byte> text(9000);
    for (int i = 0; i < 2; ++i) {
        written.user->frame_came(
            frame_of({.type = Packet::Type::message, .length = 9000, .operation = 9000}, text));
    }
    reactor->run(receive_all(endpoint, 2));
    ASSERT_TRUE(endpoint.alive());
    Frame& first = *written.frames.front();
    written.frames.erase(written.frames.begin());
    written.user->frame_sent(first);
    flusher.flush();
    EXPECT_EQ(endpoint.ended(), End::over_budget);
    EXPECT_EQ(written.after_the_end, 0U);
    reactor->run(endpoint.close());
}

}  // namespace
}  // namespace ros2s::fabric
