#include "socket.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <cstring>
#include <filesystem>

#include "ros2s/runtime/nursery.h"
#include "ros2s/runtime/test_support/made_reactor.h"
#include "ros2s/runtime/time.h"
#include "socket_listener.h"

namespace ros2s::fabric {
namespace {

class UnixSocket : public testing::Test {
  protected:
    UnixSocket() {
        std::string pattern = std::filesystem::temp_directory_path() / "ros2store-socket-XXXXXX";
        EXPECT_NE(::mkdtemp(pattern.data()), nullptr);
        directory_ = pattern;
        address_ = directory_ + "/socket";
    }
    ~UnixSocket() override {
        std::error_code ignored;
        std::filesystem::remove_all(directory_, ignored);
    }
    Result<Descriptor> listen() { return listen_on(address_, report_); }
    std::string directory_, address_;
    Report report_;
};

TEST_F(UnixSocket, AddressInUseIsRefused) {
    const auto first = listen();
    ASSERT_TRUE(first);
    const auto second = listen();
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().code, Code::busy);
    EXPECT_NE(report_.text().find("is in use"), std::string::npos) << report_.text();
}

TEST_F(UnixSocket, StaleSocketFileIsTakenOver) {
    {
        ASSERT_TRUE(listen());
    }
    EXPECT_TRUE(std::filesystem::exists(address_));
    EXPECT_TRUE(listen());
}

// As the kernel leaves it for a moment if io_uring waited on the socket of a killed process.
TEST_F(UnixSocket, SocketOfKilledServerIsTakenOver) {
    const int kept = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_un path{};
    path.sun_family = AF_UNIX;
    std::memcpy(path.sun_path, address_.c_str(), address_.size() + 1);
    ASSERT_EQ(::bind(kept, reinterpret_cast<sockaddr*>(&path), sizeof path), 0);
    const pid_t server = ::fork();
    if (server == 0) ::_exit(::listen(kept, 8) == 0 ? 0 : 1);
    int status = -1;
    ASSERT_EQ(::waitpid(server, &status, 0), server);
    ASSERT_EQ(status, 0);
    EXPECT_TRUE(listen()) << report_.text();
    ::close(kept);
}

Task<> let_go_later(Reactor& reactor, Descriptor& listening) {
    co_await sleep_for(reactor, std::chrono::milliseconds(100));
    listening = Descriptor();
}

Task<> listen_where_somebody_did(Reactor& reactor, bool lets_go) {
    std::string address = "127.0.0.1:0";
    Report report;
    auto first = listen_on(address, report);
    EXPECT_TRUE(first) << report.text();
    if (!first) co_return;
    Nursery nursery(reactor, 1);
    if (lets_go) co_await nursery.spawn(let_go_later(reactor, *first));
    const auto second = co_await listen_when_free(reactor, address, report);
    EXPECT_EQ(second.has_value(), lets_go);
    EXPECT_EQ(report.text().find("is in use") == std::string::npos, lets_go) << report.text();
    co_await nursery.join();
}
TEST(TcpSocket, AddressOfDeadServerIsAwaited) {
    const auto reactor = made_reactor();
    for (const bool lets_go : {true, false}) {
        reactor->run(listen_where_somebody_did(*reactor, lets_go));
    }
}

class NoSetUp final : public Handshakes {
  public:
    const std::string& provider() const noexcept override { return provider_; }
    Task<Result<std::unique_ptr<Endpoint>>> finish(Admitted /*peer*/, Limits /*limits*/,
                                                   StopToken /*stop*/) override {
        co_return fail(Code::denied);
    }

  private:
    const std::string provider_ = "none";
};

// Makes `count` connections as another user, and stays until the pipe's other end is closed.
[[noreturn]] void crowd(const std::string& address, int count, int until) {
    if (::setgid(65534) != 0 || ::setuid(65534) != 0) ::_exit(1);
    sockaddr_un where{};
    where.sun_family = AF_UNIX;
    std::memcpy(where.sun_path + 1, address.data() + 1, address.size() - 1);
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + address.size());
    for (int i = 0; i < count; ++i) {
        const int socket = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (::connect(socket, reinterpret_cast<sockaddr*>(&where), size) != 0) ::_exit(2);
    }
    char byte = 0;
    ::_exit(::read(until, &byte, 1) == 0 ? 0 : 3);
}

// A silent connection is kept while other users have more.
Task<> two_users(Reactor& reactor) {
    constexpr int of_the_other = 100;
    std::string address = "@ros2store-socket-test-" + std::to_string(::getpid());
    Report report;
    auto listening = listen_on(address, report);
    EXPECT_TRUE(listening) << report.text();
    if (!listening) co_return;
    Counters counters;
    NoSetUp none;
    SocketListener listener(reactor, counters, none, std::move(*listening), address,
                            {.handshakes_max = 8, .handshake_within = std::chrono::minutes(10)});
    std::vector<Descriptor> ours;
    for (int i = 0; i < 4; ++i) {
        auto socket = co_await connect_to(reactor, address, {}, report);
        EXPECT_TRUE(socket) << report.text();
        if (socket) ours.push_back(std::move(*socket));
    }
    int ends[2] = {-1, -1};
    EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    const pid_t child = ::fork();
    if (child == 0) {
        ::close(ends[1]);
        crowd(address, of_the_other, ends[0]);
    }
    const Time until = reactor.now() + std::chrono::seconds(60);
    while (counters.handshakes_refused.value() < of_the_other - 4 && reactor.now() < until) {
        co_await sleep_for(reactor, std::chrono::milliseconds(1));
    }
    EXPECT_EQ(counters.handshakes_refused.value(), of_the_other - 4U);
    for (const Descriptor& each : ours) {
        char byte = 0;
        EXPECT_EQ(::recv(each.get(), &byte, 1, MSG_DONTWAIT), -1) << "its place is its own";
    }
    ::close(ends[1]);
    ::close(ends[0]);
    int status = -1;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    co_await listener.close();
}
TEST(SocketListener, CrowdOfOneUserLeavesRoomForOthers) {
    if (::getuid() != 0) GTEST_SKIP() << "root alone can be another user";
    const auto reactor = made_reactor();
    reactor->run(two_users(*reactor));
}

}  // namespace
}  // namespace ros2s::fabric
