#include "socket.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <cstring>
#include <filesystem>

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

}  // namespace
}  // namespace ros2s::fabric
