// Which clients are admitted, and the log lines of refused ones. Strangers are the openssl program
// and plain sockets.
#include "tls.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>

#include "audit.h"
#include "test_support/test_rig.h"

namespace ros2s::control {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

constexpr const char* audited = "audit: a connection to the control plane was refused";

// The program's answer.
std::string shell(const std::string& command) {
    FILE* const pipe = popen(command.c_str(), "r");
    std::string answer;
    char part[512];
    while (fgets(part, sizeof part, pipe) != nullptr) answer += part;
    pclose(pipe);
    return answer;
}

// A TCP connection without TLS.
class Stranger {
  public:
    explicit Stranger(int port) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
        sockaddr_in address{.sin_family = AF_INET,
                            .sin_port = htons(static_cast<uint16_t>(port)),
                            .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
        const timeval wait{.tv_sec = std::chrono::seconds(patience).count()};
        setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);
        connected_ = ::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
    }
    Stranger(Stranger&& other) noexcept
        : socket_(std::exchange(other.socket_, -1)), connected_(other.connected_) {}
    Stranger(const Stranger&) = delete;
    Stranger& operator=(const Stranger&) = delete;
    Stranger& operator=(Stranger&&) = delete;
    ~Stranger() {
        if (socket_ >= 0) ::close(socket_);
    }
    [[nodiscard]] bool connected() const { return connected_; }
    void say(std::string_view text) {
        EXPECT_EQ(::send(socket_, text.data(), text.size(), MSG_NOSIGNAL),
                  static_cast<ssize_t>(text.size()));
    }
    // True when the server closes the connection, whatever it sent before.
    [[nodiscard]] bool hung_up() {
        char part[512];
        for (;;) {
            const ssize_t got = ::recv(socket_, part, sizeof part, 0);
            if (got == 0 || (got < 0 && errno == ECONNRESET)) return true;
            if (got < 0) return false;
        }
    }

  private:
    int socket_ = -1;
    bool connected_ = false;
};

class ControlTls : public testing::Test {
  protected:
    // A handshake by the openssl program; `more` are its options.
    std::string handshake(const std::string& more) const {
        return shell(
            fmt::format("timeout 60 openssl s_client -connect 127.0.0.1:{} -CAfile {}/ca.crt -alpn "
                        "h2 {} </dev/null 2>&1",
                        rig_->port(), rig_->certificates.directory(), more));
    }
    [[nodiscard]] static std::string shown(const pki::Identity& identity) {
        return fmt::format("-cert {} -key {}", identity.certificate_file, identity.key_file);
    }
    // Expects one more audit line, with that reason; other clients are served as before.
    void expect_refused(const char* reason) {
        ++refused_;
        EXPECT_TRUE(eventually(*rig_->client_reactor, [&] {
            return rig_->lines.with(audited).size() >= refused_;
        })) << reason;
        const auto lines = rig_->lines.with(audited);
        ASSERT_THAT(lines, SizeIs(refused_)) << reason;
        EXPECT_THAT(lines.back(), HasSubstr(reason));
        EXPECT_EQ(rig_->server->counters().refused_connections, refused_);
        EXPECT_TRUE(rig_->here([&] { return known_->keep_alive(call_, session_, report_); }))
            << report_.text();
        EXPECT_GT(rig_->open(*rig_->client()).id.value, 0u);
    }
    void start(RigOptions options = {}) {
        rig_.emplace(std::move(options));
        known_ = rig_->client();
        session_ = rig_->open(*known_).id;
    }
    [[nodiscard]] std::string serial() const {
        return shell(
            fmt::format("timeout 60 openssl s_client -connect 127.0.0.1:{} {} </dev/null "
                        "2>/dev/null | openssl x509 -noout -serial",
                        rig_->port(), shown(rig_->certificates.of("alice"))));
    }
    static pki::Seconds now() {
        return std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
    }

    std::optional<Rig> rig_;
    std::unique_ptr<ControlClient> known_;
    session::SessionId session_{};
    size_t refused_ = 0;
    const Call call_;
    Report report_;
};

TEST_F(ControlTls, RefusedPeerIsLoggedOnce) {
    start();
    EXPECT_THAT(handshake(shown(rig_->certificates.of("alice"))), HasSubstr("TLSv1.3"));
    EXPECT_THAT(rig_->lines.with(audited), SizeIs(0)) << "this one is none";

    const Certificates others{Certificates::New{}};
    handshake(shown(others.of("alice")));
    expect_refused("its certificate is not valid here (of CN=alice: ");
    EXPECT_THAT(rig_->lines.with(audited).back(), HasSubstr("issuer certificate"));

    // The server's own certificate is not accepted from a client, should its key be stolen.
    handshake(shown(rig_->certificates.of("server")));
    expect_refused(
        "its certificate is not valid here (of CN=server: unsuitable certificate purpose");

    handshake("");
    expect_refused("it presented no certificate");

    const auto expired = pki::issue(rig_->certificates.directory(),
                                    {.name = "late", .lifetime = std::chrono::days(1)}, false,
                                    now() - std::chrono::days(3), report_);
    ASSERT_TRUE(expired) << report_.text();
    handshake(shown(rig_->certificates.of("late")));
    expect_refused("its certificate is not valid here (of CN=late: certificate has expired)");

    EXPECT_THAT(handshake("-tls1_2 " + shown(rig_->certificates.of("alice"))),
                HasSubstr("Cipher is (NONE)"));
    expect_refused("its TLS is older than 1.3");

    for (const char* words : {"GET / HTTP/1.1\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
                              "\x01\x02\x03 what is this? not TLS in any case"}) {
        Stranger stranger(rig_->port());
        stranger.say(words);
        EXPECT_TRUE(stranger.hung_up());
        expect_refused("it does not speak TLS");
    }
}

TEST_F(ControlTls, ClientTrustsOnlyItsAuthority) {
    start();
    const Certificates others{Certificates::New{}};
    const auto client = ControlClient::create(
        *rig_->client_reactor, {.address = rig_->address(), .identity = others.of("alice")},
        report_);
    ASSERT_TRUE(client) << report_.text();
    const auto opened =
        rig_->here([&] { return (*client)->open_session(call_, Rig::wanted(), report_); });
    EXPECT_EQ(opened.error().code, Code::disconnected);
    EXPECT_THAT(report_.text(), HasSubstr("does not answer: the TLS handshake fails"));
    EXPECT_THAT(report_.text(), HasSubstr("ros2store doctor"));
}

TEST_F(ControlTls, OlderTlsIsRefusedByClient) {
    start();
    const auto meet = [&](const char* version) {
        FILE* const server = popen(
            fmt::format("timeout 60 openssl s_server -accept 127.0.0.1:0 -naccept 1 -rev {} -alpn "
                        "h2 -cert {}/server.crt -key {}/server.key 2>&1",
                        version, rig_->certificates.directory(), rig_->certificates.directory())
                .c_str(),
            "r");
        std::string answer;
        char part[512];
        while (answer.find("ACCEPT 127.0.0.1:") == answer.npos &&
               fgets(part, sizeof part, server) != nullptr) {
            answer += part;
        }
        const int port = std::stoi(answer.substr(answer.rfind(':') + 1));
        Report report;
        auto client = ControlClient::create(*rig_->client_reactor,
                                            {.address = fmt::format("127.0.0.1:{}", port),
                                             .identity = rig_->certificates.of("alice")},
                                            report);
        const Call call{.deadline = rig_->client_reactor->now() + 5s};
        EXPECT_FALSE(rig_->here([&] { return (*client)->list_pools(call, report); }));
        client->reset();
        while (fgets(part, sizeof part, server) != nullptr) answer += part;
        pclose(server);
        return answer;
    };
    EXPECT_THAT(meet("-tls1_2"), HasSubstr("unsupported protocol"));
    EXPECT_THAT(meet("-tls1_3"), HasSubstr("TLSv1.3"));
}

TEST_F(ControlTls, RestartedServerIsFoundAgain) {
    start();
    rig_->restart();
    Report report;
    EXPECT_TRUE(eventually(*rig_->client_reactor, [&] {
        return rig_->here([&] { return known_->keep_alive(call_, session_, report); }).has_value();
    })) << report.text();
}

TEST_F(ControlTls, RenewedFilesApplyToNewConnections) {
    start();
    const std::string before = serial();
    ASSERT_THAT(before, HasSubstr("serial="));
    EXPECT_EQ(serial(), before);
    const auto renewed =
        pki::issue(rig_->certificates.directory(),
                   {.name = "server", .alternative_names = {"127.0.0.1"}, .server = true}, true,
                   now(), report_);
    ASSERT_TRUE(renewed) << report_.text();
    const std::string after = serial();
    EXPECT_THAT(after, HasSubstr("serial="));
    EXPECT_NE(after, before);
    EXPECT_TRUE(rig_->here([&] { return known_->keep_alive(call_, session_, report_); }))
        << "what stood stands";
    EXPECT_GT(rig_->open(*rig_->client()).id.value, 0u);
    EXPECT_THAT(rig_->lines.with("was read again"), SizeIs(1));

    // Files that do not match are not used, and one log line reports this.
    std::ofstream(rig_->certificates.of("server").certificate_file) << "no certificate\n";
    EXPECT_EQ(serial(), after);
    EXPECT_EQ(serial(), after);
    EXPECT_THAT(rig_->lines.with("are not used"), SizeIs(1));
}

TEST_F(ControlTls, ThousandHalfOpenConnectionsHarmNobody) {
    constexpr size_t connections = 1000;
    rlimit files{};
    getrlimit(RLIMIT_NOFILE, &files);
    if (files.rlim_max < 16 * connections) GTEST_SKIP() << "descriptors are limited here";
    files.rlim_cur = std::max<rlim_t>(files.rlim_cur, 16 * connections);
    setrlimit(RLIMIT_NOFILE, &files);

    start({.control = {.handshake_max = 5s}});
    std::vector<Stranger> strangers;
    for (size_t i = 0; i < connections; ++i) {
        strangers.emplace_back(rig_->port());
        ASSERT_TRUE(strangers.back().connected()) << i;
    }
    EXPECT_TRUE(rig_->here([&] { return known_->keep_alive(call_, session_, report_); }));
    EXPECT_GT(rig_->open(*rig_->client()).id.value, 0u);
    for (Stranger& stranger : strangers) EXPECT_TRUE(stranger.hung_up());
    EXPECT_TRUE(eventually(*rig_->client_reactor, [&] {
        return rig_->server->counters().refused_connections == connections;
    })) << rig_->server->counters().refused_connections;
    const auto lines = rig_->lines.with(audited);
    EXPECT_THAT(lines.front(), HasSubstr("did not finish the handshake in time"));
    EXPECT_LT(lines.size(), connections / 2) << "a flood does not fill the log";
    EXPECT_GT(rig_->open(*rig_->client()).id.value, 0u);
}

TEST(ControlAudit, GrpcRefusalIsTranslated) {
    EXPECT_EQ(why_refused("UNKNOWN:Ssl handshake failed: SSL_ERROR_SSL: error:0A0000C7:SSL "
                          "routines::peer did not return a certificate {tsi_code:10}"),
              "it presented no certificate");
    EXPECT_EQ(why_refused("UNKNOWN:something new {created_time:\"now\"}"), "UNKNOWN:something new");
}

TEST(ControlAudit, FloodIsCountedAndLogIsBounded) {
    Lines lines;
    const Audit audit(lines.log());
    // By gRPC's own log function.
    for (int i = 0; i < 500; ++i) gpr_log(GPR_DEBUG, "Handshaking failed: %s", "test {}");
    EXPECT_EQ(audit.refused(), 500u);
    const size_t said = lines.with(audited).size();
    EXPECT_GE(said, lines_per_second_max);
    EXPECT_LT(said, 500u);
}

}  // namespace
}  // namespace ros2s::control
