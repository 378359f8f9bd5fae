// SocketListener: which connection is closed to make room for another one.
#include "socket_listener.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "ros2s/runtime/test_support/made_reactor.h"

namespace ros2s::fabric {
namespace {

using namespace std::chrono_literals;

// A provider whose set-up lasts until it is stopped.
class SlowSetUp final : public Handshakes {
  public:
    explicit SlowSetUp(Reactor& reactor) : reactor_(reactor) {}
    const std::string& provider() const noexcept override { return name_; }
    Task<Result<std::unique_ptr<Endpoint>>> finish(Admitted, Limits, StopToken stop) override {
        ++begun;
        co_await sleep_for(reactor_, 1h, stop);
        ++ended;
        co_return fail(Code::cancelled);
    }
    int begun = 0, ended = 0;

  private:
    Reactor& reactor_;
    const std::string name_ = "slow";
};

class WithTicket final : public PeerCheck {
  public:
    Verdict admit(uint64_t, ConstBytes credential, const Peer&) override {
        return {.admitted = as_text(credential) == "ticket", .said = {}};
    }
    void withdraw(uint64_t) noexcept override {}
};

// One that sends its hello and the credential; its connection stays.
Task<Result<>> knock(Reactor& reactor, const std::string& address, std::string_view credential,
                     std::vector<Descriptor>& connections) {
    Report report;
    auto socket = co_await connect_to(reactor, address, {}, report);
    EXPECT_TRUE(socket) << report.text();
    if (!socket) co_return fail(socket.error());
    const ConstBytes bytes = as_bytes(credential);
    Hello hello;
    hello.set_provider("slow");
    const auto answer =
        co_await ask_admission(reactor, socket->get(), hello, address,
                               {.credential = {bytes.begin(), bytes.end()}}, {}, report);
    connections.push_back(std::move(*socket));
    if (!answer) co_return fail(answer.error());
    co_return Result<>();
}

Task<> fill(Reactor& reactor, std::string address) {
    Report report;
    auto socket = listen_on(address, report);
    EXPECT_TRUE(socket) << report.text();
    if (!socket) co_return;
    SlowSetUp set_up(reactor);
    WithTicket peer_check;
    Counters counters;
    SocketListener listener(
        reactor, counters, set_up, std::move(*socket), address,
        {.limits = {}, .peer_check = &peer_check, .handshakes_max = 2, .handshake_within = 1h});
    std::vector<Descriptor> connections;
    for (int i = 0; i < 2; ++i) {
        EXPECT_TRUE(co_await knock(reactor, address, "ticket", connections));
    }
    while (set_up.begun < 2) co_await yield(reactor);
    for (int i = 0; i < 5; ++i) {
        EXPECT_EQ((co_await knock(reactor, address, "none", connections)).error().code,
                  Code::denied);
    }
    EXPECT_EQ(set_up.ended, 0);
    EXPECT_TRUE(co_await knock(reactor, address, "ticket", connections));
    while (set_up.begun < 3) co_await yield(reactor);
    while (set_up.ended < 1) co_await yield(reactor);
    co_await listener.close();
    EXPECT_EQ(set_up.ended, 3);
}

TEST(SocketListener, PendingPeerDoesNotDisplaceAdmittedPeer) {
    std::string directory = std::filesystem::temp_directory_path() / "ros2store-listener-XXXXXX";
    ASSERT_NE(::mkdtemp(directory.data()), nullptr);
    const auto reactor = made_reactor();
    reactor->run(fill(*reactor, directory + "/socket"));
    std::filesystem::remove_all(directory);
}

}  // namespace
}  // namespace ros2s::fabric
