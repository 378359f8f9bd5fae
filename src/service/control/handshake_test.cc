// pki::shake_hands() with a daemon's server, and with peers that are not one.
#include "ros2s/pki/handshake.h"

#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "test_support/test_rig.h"

namespace ros2s::control {
namespace {

using testing::Contains;
using testing::HasSubstr;

class Handshake : public testing::Test {
  protected:
    static pki::Seconds now() {
        return std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
    }
    static int connected(int port) {
        const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        const sockaddr_in address{.sin_family = AF_INET,
                                  .sin_port = htons(static_cast<uint16_t>(port)),
                                  .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
        EXPECT_EQ(::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
        return fd;
    }
    Result<pki::ServerShown> shake(const pki::Identity& identity, const std::string& name,
                                   pki::Seconds at = now()) {
        report_ = {};
        const int fd = connected(rig_.port());
        auto shown = pki::shake_hands(fd, identity, name, at, patience, report_);
        ::close(fd);
        return shown;
    }
    // The other end of the socket sends `said` and closes.
    Result<pki::ServerShown> shake_with(std::string_view said) {
        report_ = {};
        int pair[2];
        EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
        EXPECT_EQ(::write(pair[1], said.data(), said.size()), static_cast<ssize_t>(said.size()));
        ::shutdown(pair[1], SHUT_WR);
        auto shown = pki::shake_hands(pair[0], rig_.certificates.of("alice"), "localhost", now(),
                                      patience, report_);
        ::close(pair[0]);
        ::close(pair[1]);
        return shown;
    }
    Rig rig_;
    Report report_;
};

TEST_F(Handshake, ServerCertificateIsReported) {
    const pki::Identity alice = rig_.certificates.of("alice");
    for (const char* name : {"localhost", "127.0.0.1"}) {
        const auto shown = shake(alice, name);
        ASSERT_TRUE(shown) << report_.text();
        EXPECT_EQ(shown->doubt, "") << name;
        EXPECT_EQ(shown->certificate.subject, "CN=server");
        EXPECT_THAT(shown->certificate.alternative_names, Contains("localhost"));
    }
    EXPECT_EQ(rig_.lines.with("audit").size(), 0u);
}

TEST_F(Handshake, InvalidServerIsReported) {
    const pki::Identity alice = rig_.certificates.of("alice");
    auto shown = shake(alice, "elsewhere.example");
    ASSERT_TRUE(shown) << report_.text();
    EXPECT_THAT(shown->doubt, HasSubstr("ostname mismatch"));
    EXPECT_EQ(shown->name, "elsewhere.example");
    shown = shake(alice, "192.0.2.7");
    ASSERT_TRUE(shown) << report_.text();
    EXPECT_THAT(shown->doubt, HasSubstr("IP address mismatch"));
    // The client trusts the server, but not the reverse.
    const Certificates others{Certificates::New{}};
    pki::Identity mixed = alice;
    mixed.authority_file = others.directory() + "/ca.crt";
    EXPECT_FALSE(shake(mixed, "localhost"));
    EXPECT_THAT(report_.text(), HasSubstr("was not signed by the authority"));
}

TEST_F(Handshake, RefusalByServerIsReported) {
    const Certificates others{Certificates::New{}};
    const auto shown = shake(others.of("alice"), "localhost");
    ASSERT_FALSE(shown);
    EXPECT_EQ(shown.error().code, Code::denied) << report_.text();
    EXPECT_THAT(report_.text(), HasSubstr("closes the connection after our certificate"));
    const auto nobody = shake(rig_.certificates.of("nobody"), "localhost");
    ASSERT_FALSE(nobody);
    EXPECT_EQ(nobody.error().code, Code::not_found);
}

TEST_F(Handshake, PeerWithoutTlsIsReported) {
    auto shown = shake_with("HTTP/1.1 400 Bad Request\r\n\r\n");
    ASSERT_FALSE(shown);
    EXPECT_EQ(shown.error().code, Code::disconnected);
    EXPECT_THAT(report_.text(), HasSubstr("has no TLS"));
    shown = shake_with("");
    ASSERT_FALSE(shown);
    EXPECT_EQ(shown.error().code, Code::disconnected);
    EXPECT_THAT(report_.text(), HasSubstr("closes the connection"));
}

TEST_F(Handshake, SilentPeerTimesOut) {
    int pair[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    const auto shown =
        pki::shake_hands(pair[0], rig_.certificates.of("alice"), "localhost", now(), 20ms, report_);
    ASSERT_FALSE(shown);
    EXPECT_EQ(shown.error().code, Code::deadline);
    EXPECT_THAT(report_.text(), HasSubstr("sends nothing"));
    ::close(pair[0]);
    ::close(pair[1]);
}

}  // namespace
}  // namespace ros2s::control
