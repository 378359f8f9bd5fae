// Real daemons over untrusted networks: a host behind a DPU and a direct client, both over TLS.
// Each stranger causes one line in the log.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <functional>

#include "client.h"
#include "dpu_process.h"
#include "eventually.h"
#include "ros2s/fabric/providers/providers.h"
#include "stranger.h"
#include "verified_load.h"

namespace ros2s::tests {
namespace {

using namespace std::chrono_literals;

size_t count_of(std::string_view text, std::string_view part) {
    size_t count = 0;
    for (size_t at = 0; (at = text.find(part, at)) != text.npos; at += part.size()) ++count;
    return count;
}

class DaemonsOverTls : public testing::Test {
  protected:
    void SetUp() override { reactor = started_reactor("client"); }
    // Connects to the engine's port with that certificate, and without a ticket.
    Result<> knock(const pki::Identity& identity, std::string& sentence) {
        Report refusal;
        const auto done =
            run_blocking(*reactor, [&] { return knock_there(*reactor, identity, refusal); });
        sentence = refusal.text();
        return done;
    }

    Report report;
    std::unique_ptr<OsReactor> reactor;
    EngineProcess engine;

  private:
    Task<Result<>> knock_there(Reactor& core, pki::Identity identity, Report& refusal) const {
        ROS2S_CO_TRY_ASSIGN(
            const auto domain,
            fabric::open_domain(core, "tls", {}, refusal,
                                {.tls = {.identity = identity, .server_name = "localhost"}}));
        const auto made =
            co_await domain->connect(fmt::format("127.0.0.1:{}", engine.tls_port()), {}, refusal);
        EXPECT_FALSE(made) << "without a ticket";
        if (made) {
            (*made)->abandon();
            co_await (*made)->close();
        }
        co_await domain->close();
        co_return made ? Result<>() : fail(made.error());
    }
};

TEST_F(DaemonsOverTls, HostAndDirectClientReadBackTheirWrites) {
    DpuProcess dpu{engine, "tls"};
    dpu.listen_on_tls();
    ASSERT_TRUE(engine.start() && dpu.start());
    Client host, direct;
    ASSERT_TRUE(host.open(*reactor, dpu.options(), report)) << report.text();
    ASSERT_TRUE(direct.open(*reactor, engine.options("tls"), report)) << report.text();
    VerifiedLoad behind(*reactor, host.files(), "host");
    VerifiedLoad beside(*reactor, direct.files(), "direct");
    behind.begin();
    beside.begin();
    behind.expect_progress(50);
    beside.expect_progress(50);
    behind.end();
    beside.end();
    host.close(*reactor);
    direct.close(*reactor);
    EXPECT_TRUE(engine.log().contains("data plane: tls at 127.0.0.1:")) << engine.log();
    EXPECT_TRUE(dpu.log().contains(": tls to 127.0.0.1:")) << dpu.log();
    EXPECT_FALSE(engine.log().contains("tls 127.0.0.1:0 trusts its network"));
}

TEST_F(DaemonsOverTls, RefusedPeerIsLoggedInOneLine) {
    constexpr std::string_view refused = "was refused before its hello: ";
    ASSERT_TRUE(engine.start());
    const auto says = [&](size_t lines, std::string_view why) {
        EXPECT_TRUE(eventually([&] { return count_of(engine.log(), refused) >= lines; }))
            << engine.log();
        EXPECT_EQ(count_of(engine.log(), refused), lines) << engine.log();
        EXPECT_EQ(count_of(engine.log(), why), 1U) << why << "\n" << engine.log();
    };
    const ListenAddress place{"tls", fmt::format("127.0.0.1:{}", engine.tls_port())};
    const Stranger silent(place);  // the line comes after its time

    const Stranger plain(place);
    plain.say("GET / HTTP/1.1\r\n\r\n");
    EXPECT_TRUE(plain.is_hung_up());
    says(1, "TLS: http request");

    std::string said;
    ASSERT_EQ(
        run_program(fmt::format("'{}' certs init '{}'", PROGRAM_CLI, engine.path("others")), said),
        0)
        << said;
    std::string sentence;
    // It trusts both authorities, so the refusal comes from the engine.
    pki::Identity foreign = pki::identity_in(engine.path("others"), "client");
    foreign.authority_file = engine.path("others") + "/both.crt";
    std::ofstream(foreign.authority_file)
        << std::ifstream(engine.path("others") + "/ca.crt").rdbuf()
        << std::ifstream(engine.places().storage_certs + "/ca.crt").rdbuf();
    EXPECT_EQ(knock(foreign, sentence).error().code, Code::denied) << sentence;
    EXPECT_TRUE(sentence.contains("do not accept each other")) << sentence;
    says(2, "TLS: the certificate of CN=client: ");

    EXPECT_TRUE(silent.is_hung_up());
    says(3, "it did not finish the TLS handshake in time");

    // A certificate alone is not enough.
    EXPECT_EQ(
        knock(pki::identity_in(engine.places().storage_certs, "client"), sentence).error().code,
        Code::denied)
        << sentence;
    EXPECT_EQ(count_of(engine.log(), refused), 3U) << engine.log();
}

}  // namespace
}  // namespace ros2s::tests
