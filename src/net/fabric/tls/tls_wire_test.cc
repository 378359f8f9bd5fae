// A wire over a socket whose results the test sets: partial transfers, full, empty, and its end.
#include "tls_wire.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>

#include "ros2s/runtime/test_support/made_reactor.h"

namespace ros2s::fabric::tls {
namespace {

// Frames of zeros without end, in pieces of at most `piece_max`.
struct Endless final : SecureSocket {
    size_t piece_max = SIZE_MAX;
    size_t reads = 0;
    size_t given = 0;
    static constexpr size_t one = sizeof(FrameLength) + frame_bytes;
    Progress shake_hands() noexcept override { return Progress::done; }
    Moved read(Bytes into) noexcept override {
        ++reads;
        const FrameLength length{.bytes = frame_bytes};
        const size_t count = std::min(into.size(), piece_max);
        for (std::byte& byte : into.first(count)) {
            const size_t at = given++ % one;
            byte = at < sizeof length ? object_bytes(length)[at] : std::byte{0};
        }
        return {.bytes = count};
    }
    Moved write(ConstBytes from, bool /*more*/) noexcept override { return {.bytes = from.size()}; }
    const std::string& peer_subject() const noexcept override { return nothing; }
    const std::string& why() const noexcept override { return nothing; }
    void read_ahead() override {}
    void became_readable(bool /*hung_up*/) noexcept override {}
    void change_key_every(uint64_t /*records*/) noexcept override {}
    const std::string nothing;
};

// Ends the connection because of a frame, as a packet that breaks the protocol does.
struct EndsAt final : WireUser {
    Wire* wire = nullptr;
    size_t left = SIZE_MAX;
    void frame_sent(Frame& /*frame*/) noexcept override {}
    void frame_came(ConstBytes /*frame*/) noexcept override {
        if (--left == 0) wire->shut();
    }
    void broke(End /*how*/) noexcept override { wire->shut(); }
};

class TlsWireTurns : public testing::Test {
  protected:
    void run(Task<> (*test)(TlsWireTurns&)) {
        reactor = made_reactor();
        sockets = std::move(*Sockets::open(*reactor));
        reactor->run(around(*this, test));
    }
    static Task<> around(TlsWireTurns& self, Task<> (*test)(TlsWireTurns&)) {
        co_await test(self);
        co_await self.sockets->close();
    }
    void begin() {
        int ends[2] = {-1, -1};
        ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
        peer = Descriptor(ends[1]);
        auto made = std::make_unique<Endless>();
        socket = made.get();
        wire = std::make_unique<TlsWire>(*sockets, Descriptor(ends[0]), std::move(made));
        user.wire = wire.get();
    }
    std::unique_ptr<OsReactor> reactor;
    std::unique_ptr<Sockets> sockets;
    Descriptor peer;
    Endless* socket = nullptr;  // the wire's
    std::unique_ptr<TlsWire> wire;
    EndsAt user;

    static Task<> end_where_a_turn_ends(TlsWireTurns& test) {
        for (test.user.left = 1; test.user.left < 10; ++test.user.left) {
            const size_t frames = test.user.left;
            test.begin();
            test.wire->start(test.user);
            while (test.user.left > 0) co_await yield(*test.reactor);
            // The endpoint's owner does so at once.
            co_await test.wire->close();
            test.wire.reset();
            for (int turns = 0; turns < 3; ++turns) co_await yield(*test.reactor);
            test.user.left = frames;
        }
    }
    static Task<> tiny_records(TlsWireTurns& test) {
        test.begin();
        test.socket->piece_max = 1;
        test.wire->start(test.user);
        co_await yield(*test.reactor);
        EXPECT_GT(test.socket->reads, 0U);
        EXPECT_LE(test.socket->reads, 1000U);
        co_await test.wire->close();
        test.wire.reset();
    }
};

TEST_F(TlsWireTurns, SessionMayEndAtTurnEnd) { run(end_where_a_turn_ends); }
TEST_F(TlsWireTurns, RecordsPerTurnAreBounded) { run(tiny_records); }

}  // namespace
}  // namespace ros2s::fabric::tls
