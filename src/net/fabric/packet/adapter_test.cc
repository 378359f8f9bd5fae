// Grants that an adapter uses, and a peer that does not read their announcements.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "ros2s/fabric/packet/packet_endpoint.h"
#include "ros2s/fabric/packet/wire.h"
#include "ros2s/runtime/test_support/made_reactor.h"

namespace ros2s::fabric {
namespace {

constexpr uint64_t domain = 11, peer_domain = 12, session = 22;

// Moves nothing, and counts the memory that the peer's adapter can access.
class IdleAdapter final : public OneSided {
  public:
    int exposed = 0;
    Result<Exposed> expose(Bytes /*memory*/, Rights /*rights*/) override {
        ++exposed;
        return Exposed{};
    }
    void withdraw(uint64_t /*key*/) noexcept override { --exposed; }
    Task<Result<>> write(Exposed /*to*/, ConstBytes /*from*/, PutReturns /*returns*/,
                         const bool& /*revoked*/) override {
        co_return Result<>();
    }
    Task<Result<>> read(Exposed /*from*/, Bytes /*into*/, const bool& /*revoked*/) override {
        co_return Result<>();
    }
    void stop() noexcept override {}
};

// Returns frames when it is closed.
class StuckWire final : public Wire {
  public:
    explicit StuckWire(WireUser*& user) : user_(user) {}
    [[nodiscard]] const IdleAdapter& adapter() const { return adapter_; }
    OneSided* one_sided() noexcept override { return &adapter_; }
    void start(WireUser& user) noexcept override { user_ = &user; }
    void write(Frame& frame) noexcept override { held_.push_back(&frame); }
    void shut() noexcept override {}
    Task<> close() override {
        for (Frame* frame : held_) user_->frame_sent(*frame);
        held_.clear();
        co_return;
    }

  private:
    WireUser*& user_;
    IdleAdapter adapter_;
    std::vector<Frame*> held_;
};

void append(std::vector<std::byte>& frame, const auto& object) {
    const auto bytes = object_bytes(object);
    frame.insert(frame.end(), bytes.begin(), bytes.end());
}

// A grant, and its revocation at once.
std::vector<std::byte> grant_and_revocation(uint32_t generation) {
    RemoteKey key{.rights = Rights::read,
                  .domain = peer_domain,
                  .session = session,
                  .slot = 0,
                  .generation = generation,
                  .address = 0x10000,
                  .length = 4096,
                  .native_bytes = sizeof(uint64_t)};
    key.seal();
    std::vector<std::byte> frame;
    append(frame,
           Packet{.type = Packet::Type::granted, .length = sizeof key, .count = Packet::for_ever});
    append(frame, key);
    append(frame,
           Packet{.type = Packet::Type::revoke, .length = 0, .operation = 0, .count = generation});
    return frame;
}

TEST(PacketEndpoint, UnreadNoticesEndOverBudget) {
    const auto reactor = made_reactor();
    Counters counters;
    Flusher flusher;
    WireUser* user = nullptr;
    const Hello hello{.domain = peer_domain,
                      .message_bytes_max = 20'000,
                      .incoming_bytes_max = 40'000,
                      .operations_max = 4};
    PacketEndpoint endpoint(*reactor, counters, flusher, Limits{.regions_max = 4},
                            PacketConnection{.provider = "stuck",
                                             .domain = domain,
                                             .session = session,
                                             .peer = hello,
                                             .peer_name = "peer",
                                             .initiates = true},
                            std::make_unique<StuckWire>(user));
    // The peer may owe as many as its frames hold, and four notices more.
    constexpr uint32_t frames_hold =
        PacketEndpoint::frames_max * (frame_bytes / sizeof(Packet) + 1);
    uint32_t generation = 0;
    while (endpoint.alive() && generation < 2 * frames_hold) {
        user->frame_came(grant_and_revocation(++generation));
    }
    EXPECT_LE(generation, frames_hold + 5);
    EXPECT_EQ(counters.of(End::over_budget).value(), 1U);
    reactor->run(endpoint.close());
}

// The memory is the caller's when revoke() returns: the adapter's key is withdrawn before.
Task<> revoke_without_an_answer(PacketEndpoint& endpoint, const IdleAdapter& adapter) {
    std::vector<std::byte> memory(4096);
    auto first = endpoint.grant(memory, Rights::write);
    auto second = endpoint.grant(memory, Rights::read);
    EXPECT_TRUE(first && second);
    EXPECT_EQ(adapter.exposed, 2);
    co_await first->revoke();
    EXPECT_EQ(endpoint.ended(), End::unanswered);
    EXPECT_EQ(adapter.exposed, 1);
    co_await second->revoke();
    EXPECT_EQ(adapter.exposed, 0);
    co_await endpoint.close();
}
TEST(PacketEndpoint, KeysOfSilentPeerDieAtRevocation) {
    const auto reactor = made_reactor();
    Counters counters;
    Flusher flusher;
    WireUser* user = nullptr;
    auto wire = std::make_unique<StuckWire>(user);
    const IdleAdapter& adapter = wire->adapter();
    const Hello hello{.domain = peer_domain,
                      .message_bytes_max = 20'000,
                      .incoming_bytes_max = 40'000,
                      .operations_max = 4};
    PacketEndpoint endpoint(*reactor, counters, flusher,
                            Limits{.answer_within = std::chrono::milliseconds(5)},
                            PacketConnection{.provider = "stuck",
                                             .domain = domain,
                                             .session = session,
                                             .peer = hello,
                                             .peer_name = "peer",
                                             .initiates = false},
                            std::move(wire));
    reactor->run(revoke_without_an_answer(endpoint, adapter));
}

}  // namespace
}  // namespace ros2s::fabric
