#include "socket.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <cstring>
#include <filesystem>

#include "ros2s/runtime/nursery.h"
#include "ros2s/runtime/os_reactor.h"
#include "ros2s/runtime/time.h"

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

TEST_F(UnixSocket, WhoListensKeepsTheAddress) {
    const auto first = listen();
    ASSERT_TRUE(first);
    const auto second = listen();
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().code, Code::busy);
    EXPECT_NE(report_.text().find("is in use"), std::string::npos) << report_.text();
}

TEST_F(UnixSocket, TheFileOfAServerThatEndedIsTakenOver) {
    {
        ASSERT_TRUE(listen());
    }
    EXPECT_TRUE(std::filesystem::exists(address_));
    EXPECT_TRUE(listen());
}

// As the kernel leaves it for a moment where io_uring waited on the socket of a killed process.
TEST_F(UnixSocket, ASocketThatOutlivesItsServerIsTakenOver) {
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
TEST(TcpSocket, AnAddressThatADeadServerHeldIsWaitedFor) {
    Report report;
    auto reactor = OsReactor::create({}, report);
    ASSERT_TRUE(reactor) << report.text();
    for (const bool lets_go : {true, false}) {
        (*reactor)->run(listen_where_somebody_did(**reactor, lets_go));
    }
}

}  // namespace
}  // namespace ros2s::fabric
