// A certificate that becomes invalid while its client is connected.
#include "trust.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "ros2s/runtime/sim/co_test.h"
#include "test_support/test_rig.h"

namespace ros2s::control {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

class CertificateTrust : public testing::Test {
  protected:
    uint64_t live() {
        uint64_t live = 0;
        rig_.do_there([&] { live = rig_.sessions.metrics().live.value(); });
        return live;
    }
    // By rename, as people do it: a file is always complete.
    void put(const Certificates& from, const std::string& name) const {
        const std::string into = rig_.certificates.directory() + "/" + name;
        std::filesystem::copy_file(from.directory() + "/" + name, into + ".new");
        std::filesystem::rename(into + ".new", into);
    }
    // The server gets another authority, and a certificate from it.
    void replace_authority(const Certificates& by) const {
        for (const char* name : {"server.key", "server.crt", "ca.crt"}) put(by, name);
    }
    Code keep_alive(ControlClient& client, session::SessionId session) {
        report_ = {};
        const auto lives = rig_.here([&] { return client.keep_alive(call_, session, report_); });
        return lives ? Code::exists : lives.error().code;
    }

    Rig rig_;
    const Call call_;
    Report report_;
};

TEST_F(CertificateTrust, ReplacedAuthorityEndsOldSessions) {
    const auto client = rig_.client();
    const OpenedSession opened = rig_.open(*client);
    rig_.mount(*client, opened.id);
    const Certificates others{Certificates::New{}};
    replace_authority(others);
    EXPECT_TRUE(eventually(*rig_.client_reactor, [&] { return live() == 0; }));
    EXPECT_THAT(rig_.lines.with("audit: session " + std::to_string(opened.id.value) +
                                " of CN=alice is ended: the certificate of CN=alice is no longer "
                                "valid here: "),
                SizeIs(1));
    // Its ticket has ended, too. The control plane's connection still exists, but opens no other
    // session.
    rig_.do_there([&] {
        EXPECT_FALSE(
            rig_.sessions.attach(opened.ticket.ticket, {.purpose = session::Purpose::link}, alice));
    });
    const auto again =
        rig_.here([&] { return client->open_session(call_, Rig::wanted(), report_); });
    EXPECT_EQ(again.error().code, Code::denied);
    EXPECT_THAT(report_.text(), HasSubstr("is no longer valid here"));
    EXPECT_EQ(keep_alive(*client, opened.id), Code::denied);
    // The client gets a certificate of the new authority, and continues.
    for (const char* name : {"alice.key", "alice.crt"}) put(others, name);
    EXPECT_TRUE(eventually(*rig_.client_reactor, [&] {
        return rig_.here([&] { return client->open_session(call_, Rig::wanted(), report_); })
            .has_value();
    })) << report_.text();
}

// The server's new certificate is not valid yet when it comes. Later nothing changes but the time.
TEST_F(CertificateTrust, FilesRefusedAtFirstAreUsedLater) {
    const auto client = rig_.client();
    (void)rig_.open(*client);
    const Certificates others{Certificates::New{}};
    // A certificate begins an hour before it is issued.
    const auto soon = now() + std::chrono::hours(1) + std::chrono::seconds(2);
    ASSERT_TRUE(pki::issue(others.directory(),
                           {.name = "server", .alternative_names = {"127.0.0.1"}, .server = true},
                           true, soon, report_))
        << report_.text();
    replace_authority(others);
    EXPECT_TRUE(eventually(*rig_.client_reactor, [&] { return live() == 0; }));
}

// The key of a certificate was stolen, and its subject has another one by now.
TEST_F(CertificateTrust, RevokedCertificateEndsOnlyItsSessions) {
    const std::string directory = rig_.certificates.directory();
    const TemporaryDirectory stolen;
    for (const char* name : {"/alice.key", "/alice.crt"}) {
        std::filesystem::copy_file(directory + name, stolen.path() + name);
    }
    ASSERT_TRUE(pki::issue(directory, {.name = "alice"}, true, now(), report_)) << report_.text();
    const auto owner = rig_.client();
    const OpenedSession kept = rig_.open(*owner);
    const auto thief =
        ControlClient::create(*rig_.client_reactor,
                              {.address = rig_.address(),
                               .identity = {.authority_file = directory + "/ca.crt",
                                            .certificate_file = stolen.path() + "/alice.crt",
                                            .key_file = stolen.path() + "/alice.key"}},
                              report_);
    ASSERT_TRUE(thief) << report_.text();
    const auto open = [&] {
        report_ = {};
        return rig_.here(
            [&] { return (*thief)->open_session(call_, Rig::wanted(mallory), report_); });
    };
    const auto opened = open();
    ASSERT_TRUE(opened) << report_.text();
    EXPECT_EQ(live(), 2u);

    ASSERT_TRUE(pki::revoke(directory, stolen.path() + "/alice.crt", now(), report_))
        << report_.text();
    EXPECT_TRUE(eventually(*rig_.client_reactor, [&] { return live() == 1; }));
    EXPECT_THAT(rig_.lines.with("audit: session " + std::to_string(opened->id.value) +
                                " of CN=alice is ended: the certificate of CN=alice is no longer "
                                "valid here: the certificate of CN=alice was revoked by its "
                                "authority (serial "),
                SizeIs(1));
    rig_.do_there([&] {
        EXPECT_FALSE(rig_.sessions.attach(opened->ticket.ticket,
                                          {.purpose = session::Purpose::link}, mallory));
    });
    EXPECT_EQ(open().error().code, Code::denied);
    EXPECT_THAT(report_.text(), HasSubstr("was revoked by its authority"));
    EXPECT_EQ(keep_alive(*owner, kept.id), Code::exists) << report_.text();
    EXPECT_EQ(live(), 1u);
}

// The machine's clock is wrong for a while.
CO_TEST(Trust, RefusalEndsWhenClockIsCorrected, sim::World, world, 1) {
    world.step_clock(WallTime(now()) - world.core().wall_time());
    const Certificates certificates;
    admission::Accounts accounts{world.core()};
    session::TicketTable tickets{world.core(), {}};
    session::SessionTable sessions{world.core(), tickets, {.accounts = &accounts}};
    Trust trust(world.core(), world.blocking(), sessions, certificates.of("server"));
    trust.begin();
    const std::string& chain = pki::read_pem(certificates.of("alice")).certificate;
    const auto is_trusted = [&] {
        Report unused;
        return trust.check("CN=alice", chain, unused).has_value();
    };
    constexpr auto years = 24h * 365 * 5;
    world.step_clock(years);
    EXPECT_FALSE(is_trusted());
    world.step_clock(-years);
    co_await sleep_for(world.core(), 2s);
    EXPECT_TRUE(is_trusted());
}

TEST_F(CertificateTrust, RenewedAuthorityEndsNoSession) {
    const auto client = rig_.client();
    const OpenedSession opened = rig_.open(*client);
    // Trusts the old authority and the new one.
    const Certificates others{Certificates::New{}};
    {
        const std::string both = rig_.certificates.directory() + "/ca.crt";
        std::filesystem::copy_file(both, both + ".new");
        std::ofstream(both + ".new", std::ios::app)
            << std::ifstream(others.directory() + "/ca.crt").rdbuf();
        std::filesystem::rename(both + ".new", both);
    }
    const auto newcomer = ControlClient::create(
        *rig_.client_reactor,
        {.address = rig_.address(),
         .identity = {.authority_file = rig_.certificates.directory() + "/ca.crt",
                      .certificate_file = others.directory() + "/mallory.crt",
                      .key_file = others.directory() + "/mallory.key"}},
        report_);
    // The client's own check wants one authority for all three files, and this file has both.
    ASSERT_TRUE(newcomer) << report_.text();
    EXPECT_TRUE(eventually(*rig_.client_reactor, [&] {
        return rig_.here([&] { return (*newcomer)->list_pools(call_, report_); }).has_value();
    })) << report_.text();
    EXPECT_EQ(keep_alive(*client, opened.id), Code::exists) << report_.text();
    EXPECT_EQ(live(), 1u);
}

TEST_F(CertificateTrust, RenewedCertificateKeepsSession) {
    const auto client = rig_.client();
    const OpenedSession opened = rig_.open(*client);
    const auto shown = [&] {
        std::string chain;
        rig_.do_there([&] { chain = rig_.sessions.look(opened.id)->credential.chain; });
        return chain;
    };
    const std::string before = shown();
    EXPECT_THAT(before, HasSubstr("BEGIN CERTIFICATE"));
    ASSERT_TRUE(pki::issue(rig_.certificates.directory(), {.name = "alice"}, true, now(), report_))
        << report_.text();
    EXPECT_TRUE(eventually(*rig_.client_reactor, [&] {
        EXPECT_EQ(keep_alive(*client, opened.id), Code::exists) << report_.text();
        return shown() != before;
    }));
    EXPECT_EQ(live(), 1u);
}

}  // namespace
}  // namespace ros2s::control
