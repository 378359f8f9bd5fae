// Sessions, tickets, pools and containers over the wire; one server, real TLS.
#include <gmock/gmock.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>

#include <filesystem>

#include "ros2s/control/session.pb.h"
#include "ros2s/pki/watched_identity.h"
#include "ros2s/session/gate.h"
#include "test_support/test_rig.h"

namespace ros2s::control {
namespace {

using session::Purpose;
using testing::ElementsAre;
using testing::HasSubstr;

class ControlSessions : public testing::Test {
  protected:
    // The data plane's check of a ticket in a connection's hello.
    Code redeem(Rig& rig, const session::Ticket& ticket, Purpose purpose = Purpose::link,
                Uuid client = alice) {
        Code code = admitted;
        rig.do_there([&] {
            session::SessionGate gate(rig.sessions, purpose);
            const auto guest = gate.admit({.client = client, .ticket = ticket.view()}, {});
            attached_ = guest ? guest->session : 0;
            if (guest) gate.left(*guest);
            if (!guest) code = guest.error().code;
        });
        return code;
    }
    static constexpr Code admitted = Code::exists;
    uint64_t attached_ = 0;
    const Call call_;
    Report report_;
};

TEST_F(ControlSessions, OpenedSessionCarriesDataPlaneFacts) {
    Rig rig;
    const auto client = rig.client();
    SessionOptions wanted = Rig::wanted();
    wanted.providers = {"ofi+verbs", "ucx+tcp", "shm"};
    const auto opened = rig.here([&] { return client->open_session(call_, wanted, report_); });
    ASSERT_TRUE(opened) << report_.text();
    EXPECT_EQ(opened->provider, "ucx+tcp") << "the first of the client's that the server has";
    EXPECT_EQ(opened->address, "10.0.0.1:7401");
    EXPECT_EQ(opened->idle_max, 60s);
    EXPECT_GT(opened->ticket.lifetime, 0s);
    rig.do_there([&] {
        const auto all = rig.sessions.all();
        EXPECT_EQ(all.size(), 1u);
        EXPECT_EQ(all.front()->request.subject, "CN=alice");
        EXPECT_EQ(all.front()->request.client, alice);
        EXPECT_EQ(all.front()->request.program, "test");
    });
    const auto lives = rig.here([&] { return client->keep_alive(call_, opened->id, report_); });
    ASSERT_TRUE(lives) << report_.text();
    EXPECT_EQ(*lives, 60s);
    EXPECT_TRUE(rig.here([&] { return client->close_session(call_, opened->id, report_); }));
    const auto gone = rig.here([&] { return client->keep_alive(call_, opened->id, report_); });
    EXPECT_EQ(gone.error().code, Code::stale);
    EXPECT_THAT(report_.text(), HasSubstr("Open a new one"));
}

TEST_F(ControlSessions, TicketWorksOnceForItsClientAndPurpose) {
    Rig rig;
    const auto client = rig.client();
    const OpenedSession opened = rig.open(*client);
    EXPECT_EQ(redeem(rig, opened.ticket.ticket), admitted);
    EXPECT_EQ(attached_, opened.id.value);
    EXPECT_EQ(redeem(rig, opened.ticket.ticket), Code::denied) << "once and not twice";
    const auto more = rig.here([&] { return client->issue_ticket(call_, opened.id, report_); });
    ASSERT_TRUE(more) << report_.text();
    EXPECT_NE(more->ticket, opened.ticket.ticket);
    EXPECT_EQ(redeem(rig, more->ticket), admitted);
    EXPECT_EQ(attached_, opened.id.value);
    EXPECT_EQ(redeem(rig, rig.open(*client).ticket.ticket, Purpose::link, mallory), Code::denied);
    EXPECT_EQ(redeem(rig, rig.open(*client).ticket.ticket, Purpose::store), Code::denied);
}

TEST_F(ControlSessions, TicketEndsWithItsSession) {
    Rig rig;
    const auto client = rig.client();
    const OpenedSession opened = rig.open(*client);
    const OpenedSession other = rig.open(*client);
    ASSERT_TRUE(rig.here([&] { return client->close_session(call_, opened.id, report_); }));
    EXPECT_EQ(redeem(rig, opened.ticket.ticket), Code::denied);
    EXPECT_EQ(redeem(rig, other.ticket.ticket), admitted);
    EXPECT_EQ(attached_, other.id.value);
}

TEST_F(ControlSessions, ExpiredTicketIsRefused) {
    Rig rig({.tickets = {.lifetime = 1ns}});
    const auto client = rig.client();
    const OpenedSession opened = rig.open(*client);
    EXPECT_EQ(redeem(rig, opened.ticket.ticket), Code::denied);
    EXPECT_EQ(rig.tickets.metrics().expired.value(), 1u);
}

TEST_F(ControlSessions, SessionOfAnotherSubjectIsStale) {
    Rig rig;
    const auto client = rig.client();
    const auto other = rig.client("mallory");
    const OpenedSession opened = rig.open(*client);
    const session::MountId mount = rig.mount(*client, opened.id);
    const auto code = [](const auto& result) {
        return result ? Code::exists : result.error().code;
    };
    EXPECT_EQ(code(rig.here([&] { return other->keep_alive(call_, opened.id, report_); })),
              Code::stale);
    EXPECT_EQ(code(rig.here([&] { return other->issue_ticket(call_, opened.id, report_); })),
              Code::stale);
    EXPECT_EQ(code(rig.here([&] { return other->close_session(call_, opened.id, report_); })),
              Code::stale);
    EXPECT_EQ(code(rig.here([&] { return other->unmount(call_, opened.id, mount, report_); })),
              Code::stale);
    // Nor through its own session.
    const OpenedSession own = rig.open(*other);
    EXPECT_EQ(code(rig.here([&] { return other->unmount(call_, own.id, mount, report_); })),
              Code::stale);
    EXPECT_TRUE(rig.here([&] { return client->keep_alive(call_, opened.id, report_); }));
}

TEST_F(ControlSessions, SessionLimitIsNamedInRefusal) {
    Rig rig;
    const auto client = rig.client();
    rig.do_there([&] { rig.accounts.set({.others = {.sessions = 1}}); });
    const OpenedSession opened = rig.open(*client);
    Report report;
    const auto refused =
        rig.here([&] { return client->open_session(call_, Rig::wanted(), report); });
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Code::busy);
    EXPECT_EQ(to_errno(refused.error()), EBUSY);
    EXPECT_THAT(report.text(), HasSubstr("has as many sessions as it may have, 1."));
    EXPECT_THAT(report.text(), HasSubstr("`ros2store tenant set NAME --sessions`"));
    uint64_t counted = 0;
    rig.do_there([&] {
        for (const auto& each : rig.accounts.all()) counted += each->metrics.refused.value();
    });
    EXPECT_EQ(counted, 1U);
    rig.do_there([&] { rig.accounts.set({}); });
    rig.open(*client);
    EXPECT_TRUE(rig.here([&] { return client->keep_alive(call_, opened.id, report_); }));
}

TEST_F(ControlSessions, RefusedOpenIsExplained) {
    Rig rig({.sessions = {.per_subject_max = 1}});
    const auto client = rig.client();
    const auto refused = [&](SessionOptions wanted, Code code, const char* says) {
        Report report;
        const auto opened = rig.here([&] { return client->open_session(call_, wanted, report); });
        ASSERT_FALSE(opened) << says;
        EXPECT_EQ(opened.error().code, code) << report.text();
        EXPECT_THAT(report.text(), HasSubstr(says));
    };
    SessionOptions wanted = Rig::wanted();
    wanted.providers = {"ofi+verbs"};
    refused(wanted, Code::unsupported, "available: shm, ucx+tcp");
    wanted = Rig::wanted();
    wanted.pool = "lake";
    refused(wanted, Code::not_found, "there is no pool 'lake' here; available: pool");
    wanted = Rig::wanted();
    wanted.purpose = Purpose::store;
    refused(wanted, Code::unsupported, "sessions for link, not for store");
    rig.open(*client);
    refused(Rig::wanted(), Code::busy, "close some");
    rig.do_there([&] { rig.server->drain(); });
    refused(Rig::wanted(), Code::closed, "is stopping");
}

// Answers each call with the same bytes.
class FalseService final : public grpc::CallbackGenericService {
  public:
    explicit FalseService(const std::string& reply) : reply_(reply) {}
    grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext*) override {
        return new Answer(reply_);
    }

  private:
    class Answer final : public grpc::ServerGenericBidiReactor {
      public:
        explicit Answer(const grpc::Slice& reply) : reply_(&reply, 1) { StartRead(&request_); }
        void OnReadDone(bool) override { StartWriteAndFinish(&reply_, {}, grpc::Status::OK); }
        void OnDone() override { delete this; }

      private:
        grpc::ByteBuffer request_, reply_;
    };
    grpc::Slice reply_;
};

TEST_F(ControlSessions, UnrequestedProviderIsRefused) {
    Rig rig;
    v1::OpenSessionReply reply;
    reply.set_session(1);
    reply.mutable_ticket()->set_ticket(std::string(session::ticket_bytes, 't'));
    reply.mutable_ticket()->set_lifetime_ms(UINT64_MAX);
    reply.set_idle_ms(UINT64_MAX);
    for (const std::string provider : {"shm", "ucx+tcp", ""}) {
        reply.set_provider(provider);
        FalseService service(reply.SerializeAsString());
        const pki::Pem pem = pki::read_pem(rig.certificates.of("server"));
        grpc::SslServerCredentialsOptions tls;
        tls.pem_key_cert_pairs = {{pem.key, pem.certificate}};
        int port = 0;
        grpc::ServerBuilder builder;
        builder.AddListeningPort("127.0.0.1:0", grpc::SslServerCredentials(tls), &port);
        builder.RegisterCallbackGenericService(&service);
        const auto server = builder.BuildAndStart();
        ASSERT_NE(server, nullptr);
        Report report;
        const auto client = ControlClient::create(*rig.client_reactor,
                                                  {.address = "127.0.0.1:" + std::to_string(port),
                                                   .identity = rig.certificates.of("alice")},
                                                  report);
        ASSERT_TRUE(client) << report.text();
        const auto opened =
            rig.here([&] { return (*client)->open_session(call_, Rig::wanted(), report); });
        EXPECT_EQ(opened.has_value(), provider == "shm") << provider << ": " << report.text();
        if (!opened) {
            EXPECT_THAT(report.text(), HasSubstr("no valid provider"));
            continue;
        }
        EXPECT_GT(opened->ticket.lifetime, 0s);
        EXPECT_GT(opened->idle_max, 0s);
    }
}

TEST_F(ControlSessions, SessionWithoutTicketIsRefused) {
    Rig rig({.tickets = {.per_subject_max = 1}});
    const auto client = rig.client();
    const OpenedSession opened = rig.open(*client);
    const auto second =
        rig.here([&] { return client->open_session(call_, Rig::wanted(), report_); });
    EXPECT_EQ(second.error().code, Code::busy);
    EXPECT_THAT(report_.text(), HasSubstr("too many tickets are unused"));
    rig.do_there([&] { EXPECT_EQ(rig.sessions.all().size(), 1u); });
    EXPECT_EQ(redeem(rig, opened.ticket.ticket), admitted);
    EXPECT_GT(rig.open(*client).id.value, 0u);
}

TEST_F(ControlSessions, UnusedSessionEnds) {
    Rig rig({.sessions = {.idle_max = 20ms}});
    const auto client = rig.client();
    rig.open(*client);
    EXPECT_TRUE(eventually(*rig.client_reactor,
                           [&] { return rig.sessions.metrics().reaped.value() == 1; }));
}

TEST_F(ControlSessions, ContainersAreCreatedMountedAndDestroyed) {
    Rig rig;
    const auto client = rig.client();
    const auto pools = rig.here([&] { return client->list_pools(call_, report_); });
    ASSERT_TRUE(pools) << report_.text();
    EXPECT_THAT(*pools, ElementsAre("pool"));
    const auto made = rig.here([&] {
        return client->create_container(call_, "pool", {.label = "new", .chunk_bytes = 1 << 16},
                                        {.uid = 7, .gid = 8}, report_);
    });
    ASSERT_TRUE(made) << report_.text();
    EXPECT_EQ(made->properties.chunk_bytes, 1u << 16);
    const auto found =
        rig.here([&] { return client->query_container(call_, "pool", "new", report_); });
    ASSERT_TRUE(found) << report_.text();
    EXPECT_EQ(found->id, made->id);
    EXPECT_EQ(found->created, made->created);
    const auto all = rig.here([&] { return client->list_containers(call_, "pool", report_); });
    ASSERT_TRUE(all) << report_.text();
    ASSERT_EQ(all->size(), 2u);
    EXPECT_EQ((*all)[1].properties.label, "new");
    const auto facts = rig.here([&] { return client->query_pool(call_, "pool", report_); });
    ASSERT_TRUE(facts) << report_.text();
    EXPECT_EQ(facts->containers, 2u);
    EXPECT_GT(facts->space.total_bytes, 0u);
    const auto twice = rig.here(
        [&] { return client->create_container(call_, "pool", {.label = "new"}, {}, report_); });
    EXPECT_EQ(twice.error().code, Code::exists);

    const OpenedSession opened = rig.open(*client);
    const session::MountId mount = rig.mount(*client, opened.id, "new");
    const auto destroy = [&] {
        return rig.here([&] { return client->destroy_container(call_, "pool", "new", report_); });
    };
    EXPECT_EQ(destroy().error().code, Code::busy);
    EXPECT_THAT(report_.text(), HasSubstr("unmount it first"));
    EXPECT_TRUE(rig.here([&] { return client->unmount(call_, opened.id, mount, report_); }));
    EXPECT_TRUE(destroy()) << report_.text();
    EXPECT_EQ(destroy().error().code, Code::not_found);
}

TEST_F(ControlSessions, UnixSocketIsServed) {
    const TemporaryDirectory directory;
    // A path with characters that have a meaning in URIs.
    const std::string path = directory.path() + "/a b%41#?;é";
    Rig rig({.control = {.listen = {"unix:" + path, "127.0.0.1:0"}}});
    EXPECT_TRUE(std::filesystem::is_socket(path));
    Report report;
    const auto client = ControlClient::create(*rig.client_reactor,
                                              {.address = rig.address(),
                                               .identity = rig.certificates.of("alice"),
                                               .server_name = "localhost"},
                                              report);
    ASSERT_TRUE(client) << report.text();
    EXPECT_GT(rig.open(**client).id.value, 0u);
    EXPECT_THAT(rig.server->addresses()[1], testing::MatchesRegex("127.0.0.1:[1-9][0-9]*"));
}

}  // namespace
}  // namespace ros2s::control
