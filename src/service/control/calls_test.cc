// Calls that are cancelled, late, too many, too large or invalid; and what else the server offers.
// Raw stubs make the calls that our own client does not make.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>

#include "client_call.h"
#include "error_status.h"
#include "ros2s/control/files.grpc.pb.h"
#include "ros2s/control/session.grpc.pb.h"
#include "ros2s/control/store.grpc.pb.h"
#include "ros2s/control/test_support/remote_namespace.h"
#include "ros2s/session/test_support/fixed_mount.h"
#include "test_support/test_rig.h"
#include "tls.h"

namespace ros2s::control {
namespace {

using testing::HasSubstr;
using testing::IsSupersetOf;

class ControlCalls : public testing::Test {
  protected:
    void start(RigOptions options = {}) {
        rig_.emplace(std::move(options));
        client_ = rig_->client();
        session_ = rig_->open(*client_).id;
    }
    std::shared_ptr<grpc::Channel> channel() {
        auto opened = open_channel(rig_->address(), rig_->certificates.of("alice"), {}, report_);
        EXPECT_TRUE(opened) << report_.text();
        return *opened;
    }
    Task<> mount_slow(const Call& call, Result<session::MountId>& result) {
        Report report;
        const auto mounted = co_await client_->mount(call, session_, "slow", {}, report);
        result = mounted ? Result<session::MountId>(mounted->id) : fail(mounted.error());
        ended_.add();
    }
    Task<> mount_slow_after_a_step_back(const Call& call, grpc::Status& status) {
        PendingCall pending(client_->parts(), call, v1::MountReply());
        pending.context().set_deadline(std::chrono::system_clock::now() + 24h);
        v1::MountRequest request;
        request.set_session(session_.value);
        request.set_container("slow");
        auto& reply = static_cast<v1::MountReply&>(pending.reply());
        v1::Mounts::Stub stub(client_->parts().channel);
        const auto begin = [&](const PendingCall::Done& done) {
            stub.async()->Mount(&pending.context(), &request, &reply, done);
        };
        co_await pending.run(begin);
        status = pending.status();
    }
    // What gRPC would call to end the call goes to `end`.
    Task<> wait_unanswered(const Call& call, grpc::Status& status, PendingCall::Done& end) {
        PendingCall pending(client_->parts(), call, v1::MountReply());
        const auto begin = [&end](PendingCall::Done done) { end = std::move(done); };
        co_await pending.run(begin);
        status = pending.status();
        ended_.add();
    }
    // Tries again while a limit refuses it.
    Task<> mount_slow_in_the_end(const Call& call, Result<session::MountId>& result) {
        do {
            co_await mount_slow(call, result);
        } while (!result && result.error().code == Code::busy);
    }
    // Waits until the opening of the slow container has begun.
    void await_slow() {
        EXPECT_TRUE(
            eventually(*rig_->client_reactor, [&] { return rig_->pool.slow_begun.value() > 0; }));
    }

    std::optional<Rig> rig_;
    std::unique_ptr<ControlClient> client_;
    session::SessionId session_{};
    Counter ended_;
    const Call call_;
    Report report_;
};

TEST_F(ControlCalls, DeadlineReachesServer) {
    start();
    const Call late{.deadline = rig_->client_reactor->now() + 100ms};
    Result<session::MountId> result;
    rig_->here([&] { return mount_slow(late, result); });
    EXPECT_EQ(result.error().code, Code::deadline);
    // On a very slow machine the deadline may have passed before the call reached the source.
    EXPECT_TRUE(eventually(*rig_->client_reactor, [&] {
        return rig_->pool.slow_stopped.value() == rig_->pool.slow_begun.value();
    }));
    EXPECT_EQ(rig_->pool.slow_late.value(), 0u);
    const Call passed{.deadline = rig_->client_reactor->now() - 1s};
    rig_->here([&] { return mount_slow(passed, result); });
    EXPECT_EQ(result.error().code, Code::deadline);
}

// After a clock was set back, gRPC's deadline is later.
TEST_F(ControlCalls, DeadlineHoldsAfterClockStep) {
    start();
    const Call late{.deadline = rig_->client_reactor->now() + 100ms};
    grpc::Status status;
    rig_->here([&] { return mount_slow_after_a_step_back(late, status); });
    EXPECT_EQ(status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
    EXPECT_TRUE(eventually(*rig_->client_reactor, [&] {
        return rig_->pool.slow_stopped.value() == rig_->pool.slow_begun.value();
    }));
}

// gRPC waits for ever for a thread that it could not start.
TEST_F(ControlCalls, CallThatGrpcDoesNotEndIsLeftToIt) {
    start();
    OsReactor& core = *rig_->client_reactor;
    grpc::Status status;
    PendingCall::Done later;
    const Call late{.deadline = core.now() + 100ms};
    rig_->here([&] { return wait_unanswered(late, status, later); });
    EXPECT_EQ(status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
    later(grpc::Status::OK);  // resumes nobody

    StopSource stop;
    const Call stopped{.stop = stop.token()};
    Nursery nursery(core, 1);
    run_on(core, [&] { ASSERT_TRUE(nursery.try_spawn(wait_unanswered(stopped, status, later))); });
    run_on(core, [&] { stop.request_stop(); });
    EXPECT_TRUE(eventually(core, [&] { return ended_.value() == 2; }));
    EXPECT_EQ(status.error_code(), grpc::StatusCode::CANCELLED);
    later(grpc::Status::OK);
    rig_->here([&] { return nursery.join(); });
}

TEST_F(ControlCalls, CancelledCallIsStopped) {
    start();
    StopSource stop;
    const Call call{.stop = stop.token()};
    Result<session::MountId> result;
    Nursery nursery(*rig_->client_reactor, 1);
    run_on(*rig_->client_reactor,
           [&] { ASSERT_TRUE(nursery.try_spawn(mount_slow(call, result))); });
    await_slow();
    run_on(*rig_->client_reactor, [&] { stop.request_stop(); });
    rig_->here([&] { return nursery.join(); });
    EXPECT_EQ(result.error().code, Code::cancelled);
    EXPECT_TRUE(
        eventually(*rig_->client_reactor, [&] { return rig_->pool.slow_stopped.value() == 1; }));
    EXPECT_TRUE(
        eventually(*rig_->client_reactor, [&] { return rig_->server->counters().cancelled == 1; }));
}

TEST_F(ControlCalls, StoppingServerCancelsRunningCalls) {
    start();
    Result<session::MountId> result;
    Nursery nursery(*rig_->client_reactor, 1);
    run_on(*rig_->client_reactor,
           [&] { ASSERT_TRUE(nursery.try_spawn(mount_slow(call_, result))); });
    await_slow();
    rig_->there([&] { return rig_->server->stop(10ms); });
    rig_->here([&] { return nursery.join(); });
    EXPECT_FALSE(result);
    EXPECT_EQ(rig_->pool.slow_stopped.value(), 1u);
    const auto after = rig_->here([&] { return client_->list_pools(call_, report_); });
    EXPECT_EQ(after.error().code, Code::disconnected);
    // The actual problem, without gRPC's own messages.
    EXPECT_THAT(report_.text(), HasSubstr("does not answer: nothing listens there"));
    EXPECT_THAT(report_.text(), testing::Not(HasSubstr("failed to connect")));
}

TEST_F(ControlCalls, CallsOfOneSubjectAreBounded) {
    start({.control = {.calls_per_subject_max = 3}});
    StopSource stop;
    const Call call{.stop = stop.token()};
    Result<session::MountId> results[3];
    Nursery nursery(*rig_->client_reactor, 3);
    run_on(*rig_->client_reactor, [&] {
        for (auto& result : results) {
            ASSERT_TRUE(nursery.try_spawn(mount_slow_in_the_end(call, result)));
        }
    });
    const auto more = [&] {
        Report report;
        const auto listed = rig_->here([&] { return client_->list_pools(call_, report); });
        report_ = report;
        return listed ? Code::exists : listed.error().code;
    };
    // At first they may still be being received, which counts for another limit, and this call may
    // be among the three.
    EXPECT_TRUE(eventually(*rig_->client_reactor, [&] {
        return more() == Code::busy && report_.text().contains("3 calls in progress");
    })) << report_.text();
    const auto other = rig_->client("mallory");
    EXPECT_TRUE(rig_->here([&] { return other->list_pools(call_, report_); })) << "others go on";
    run_on(*rig_->client_reactor, [&] { stop.request_stop(); });
    rig_->here([&] { return nursery.join(); });
    EXPECT_TRUE(eventually(*rig_->client_reactor, [&] { return more() == Code::exists; }));
    EXPECT_GT(rig_->server->counters().refused_busy, 0u);
}

TEST_F(ControlCalls, ReadOnlyMountRefusesChanges) {
    start();
    session::FixedMountLocator locator({session_, rig_->mount(*client_, session_, "c", true)});
    RemoteNamespace names(*client_, locator, alice);
    const auto code = [](const auto& result) {
        return result ? Code::exists : result.error().code;
    };
    EXPECT_EQ(code(rig_->here([&] { return names.get_attributes(call_, fs::root_node); })),
              Code::exists);
    EXPECT_EQ(code(rig_->here([&] { return names.mkdir(call_, fs::root_node, "d", 0755, {}); })),
              Code::read_only);
    EXPECT_EQ(code(rig_->here([&] {
                  return names.create(call_, fs::root_node, "f", 0644, {.write = true}, {});
              })),
              Code::read_only);
    EXPECT_EQ(code(rig_->here([&] { return names.unlink(call_, fs::root_node, "f"); })),
              Code::read_only);
}

TEST_F(ControlCalls, HandleIsValidOnlyInItsMount) {
    start();
    session::FixedMountLocator locator({session_, rig_->mount(*client_, session_)});
    session::FixedMountLocator elsewhere_locator({session_, rig_->mount(*client_, session_)});
    RemoteNamespace names(*client_, locator, alice);
    RemoteNamespace others(*client_, elsewhere_locator, alice);
    const auto opened = rig_->here(
        [&] { return names.create(call_, fs::root_node, "f", 0644, {.write = true}, {}); });
    ASSERT_TRUE(opened);
    const auto elsewhere = rig_->here([&] { return others.close(call_, opened->handle); });
    EXPECT_EQ(elsewhere.error().code, Code::stale);
    EXPECT_TRUE(rig_->here([&] { return names.close(call_, opened->handle); }));
    const auto twice = rig_->here([&] { return names.close(call_, opened->handle); });
    EXPECT_EQ(twice.error().code, Code::stale);
}

TEST_F(ControlCalls, NamespaceCallsResumeAfterRestart) {
    start();
    session::FixedMountLocator locator({session_, rig_->mount(*client_, session_)});
    RemoteNamespace names(*client_, locator, alice);
    EXPECT_TRUE(rig_->here([&] { return names.mkdir(call_, fs::root_node, "a", 0755, {}); }));
    rig_->restart();  // the connection is lost, and the client does not know yet
    EXPECT_TRUE(rig_->here([&] { return names.mkdir(call_, fs::root_node, "b", 0755, {}); }));
    EXPECT_TRUE(rig_->here([&] { return names.get_attributes(call_, fs::root_node); }));
}

// ---- requests that our client never sends

template <class Request>
Request with_session(session::SessionId session) {
    Request request;
    request.set_session(session.value);
    return request;
}

v1::OpenSessionRequest good_session() {
    v1::OpenSessionRequest request;
    request.set_client(std::string(16, 'c'));
    request.set_purpose(v1::PURPOSE_LINK);
    request.set_pool("pool");
    request.add_providers("shm");
    return request;
}

TEST_F(ControlCalls, InvalidSessionRequestsAreRefused) {
    start();
    v1::Sessions::Stub stub(channel());
    const auto refused = [&](auto change, const char* says) {
        v1::OpenSessionRequest request = good_session();
        change(request);
        grpc::ClientContext context;
        v1::OpenSessionReply reply;
        const grpc::Status status = stub.Open(&context, request, &reply);
        EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << says;
        EXPECT_THAT(status.error_message(), HasSubstr(says));
    };
    using Q = v1::OpenSessionRequest;
    refused([](Q& q) { q.set_client("short"); }, "client has 5 bytes");
    refused([](Q& q) { q.set_client(std::string(16, '\0')); }, "client is all zeros");
    refused([](Q& q) { q.set_purpose(v1::PURPOSE_UNSPECIFIED); }, "purpose is 0");
    refused([](Q& q) { q.set_purpose(static_cast<v1::Purpose>(77)); }, "purpose is 77");
    refused([](Q& q) { q.set_pool("../etc"); }, "pool is not a label");
    refused([](Q& q) { q.set_pool(std::string(128, 'p')); }, "pool is not a label");
    refused([](Q& q) { q.set_program(std::string(257, 'p')); }, "program has 257 bytes");
    refused([](Q& q) { q.set_program("two\nlines"); },
            "program has characters that cannot be printed");
    refused([](Q& q) { q.clear_providers(); }, "providers has 0 entries");
    refused([](Q& q) { *q.mutable_providers()->Add() = std::string(33, 'x'); }, "in providers");
    refused(
        [](Q& q) {
            for (int i = 0; i < 16; ++i) q.add_providers("x");
        },
        "has 17 entries");
    grpc::ClientContext context;
    v1::OpenSessionReply reply;
    EXPECT_TRUE(stub.Open(&context, good_session(), &reply).ok());
}

TEST_F(ControlCalls, InvalidFileRequestsAreRefused) {
    start();
    const uint64_t mount = rig_->mount(*client_, session_).value;
    v1::Files::Stub stub(channel());
    const auto set_context = [&](auto& request) {
        request.mutable_context()->set_session(session_.value);
        request.mutable_context()->set_mount(mount);
    };
    uint64_t changes = 0;
    const auto name_change = [&](auto& request) {
        v1::UpdateName& name = *request.mutable_context()->mutable_update();
        name.set_slot(0);
        name.set_sequence(++changes);
    };
    const auto expect = [&](const grpc::Status& status, Code code, const char* says) {
        Report report;
        EXPECT_EQ(to_error(status, report).code, code) << says;
        EXPECT_THAT(report.text(), HasSubstr(says));
    };
    v1::NodeReply node;
    v1::EmptyReply empty;
    const auto mkdir = [&](auto change) {
        v1::MakeDirectoryRequest request;
        set_context(request);
        name_change(request);
        request.set_parent(1);
        request.set_name("d");
        change(request);
        grpc::ClientContext context;
        return stub.MakeDirectory(&context, request, &node);
    };
    using D = v1::MakeDirectoryRequest;
    expect(mkdir([](D& d) { d.set_name(""); }), Code::invalid, "name is not a valid name");
    expect(mkdir([](D& d) { d.set_name("a/b"); }), Code::invalid, "not a valid name");
    expect(mkdir([](D& d) { d.set_name(std::string("a\0b", 3)); }), Code::invalid, "NUL");
    expect(mkdir([](D& d) { d.set_name(std::string(256, 'n')); }), Code::name_too_long, "256");
    expect(mkdir([](D& d) { d.set_mode(040755); }), Code::invalid, "mode is 040755");
    expect(mkdir([](D& d) { d.mutable_context()->set_mount(99); }), Code::stale, "no mount 99");
    expect(mkdir([](D& d) { d.clear_context(); }), Code::stale, "no session 0");
    expect(mkdir([](D& d) { d.set_parent(1 << 30); }), Code::not_found, "");
    expect(mkdir([](D& d) { d.mutable_context()->clear_update(); }), Code::invalid,
           "set context.update");
    EXPECT_TRUE(mkdir([](D&) {}).ok());
    const auto named = [&](uint32_t slot, uint64_t sequence, bool repeated) {
        return mkdir([&](D& d) {
            d.set_name("named");
            v1::UpdateName& name = *d.mutable_context()->mutable_update();
            name.set_slot(slot);
            name.set_sequence(sequence);
            name.set_repeated(repeated);
        });
    };
    expect(named(4096, 1, false), Code::invalid, "slots are below 4096");
    expect(named(1, 0, false), Code::invalid, "sequences begin at 1");
    EXPECT_TRUE(named(1, 1, false).ok());
    EXPECT_TRUE(named(1, 1, true).ok()) << "its own answer";
    expect(named(1, 2, true), Code::exists, "");

    v1::MakeNodeRequest special;
    set_context(special);
    name_change(special);
    special.set_parent(1);
    special.set_name("n");
    special.set_mode(0170000 | 0644);
    grpc::ClientContext special_context;
    expect(stub.MakeNode(&special_context, special, &node), Code::invalid, "type must be");

    v1::SetXattrRequest xattr;
    set_context(xattr);
    name_change(xattr);
    xattr.set_node(1);
    xattr.set_name("user.x");
    xattr.set_how(static_cast<v1::XattrChange>(5));
    grpc::ClientContext xattr_context;
    expect(stub.SetXattr(&xattr_context, xattr, &empty), Code::invalid, "how is 5");

    v1::ReadDirectoryRequest list;
    set_context(list);
    grpc::ClientContext list_context;
    v1::ReadDirectoryReply listed;
    expect(stub.ReadDirectory(&list_context, list, &listed), Code::invalid, "limit is 0");
    list.set_limit(10);
    grpc::ClientContext stale_context;
    expect(stub.ReadDirectory(&stale_context, list, &listed), Code::stale, "");

    v1::ForgetRequest forget;
    set_context(forget);
    for (int i = 0; i < 1025; ++i) forget.add_nodes()->set_node(1);
    grpc::ClientContext forget_context;
    expect(stub.Forget(&forget_context, forget, &empty), Code::invalid, "nodes has 1025 entries");
}

TEST_F(ControlCalls, OversizedMessageIsRefused) {
    start({.control = {.message_bytes_max = 10'000}});
    v1::Pools::Stub stub(channel());
    v1::QueryPoolRequest request;
    request.set_pool(std::string(20'000, 'p'));
    grpc::ClientContext context;
    v1::QueryPoolReply reply;
    const grpc::Status status = stub.Query(&context, request, &reply);
    EXPECT_EQ(to_error(status, report_).code, Code::too_large);
    EXPECT_THAT(status.error_message(), HasSubstr("larger than max"));
    EXPECT_TRUE(rig_->here([&] { return client_->list_pools(call_, report_); }));
}

// ---- services of gRPC

grpc::ByteBuffer bytes(std::string_view text) {
    const grpc::Slice slice(text.data(), text.size());
    return {&slice, 1};
}
std::string text(const grpc::ByteBuffer& buffer) {
    std::vector<grpc::Slice> slices;
    EXPECT_TRUE(buffer.Dump(&slices).ok());
    std::string all;
    for (const grpc::Slice& slice : slices) {
        all.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
    }
    return all;
}

// Sends one message and returns one, for a service without a stub in this program.
std::string exchange(const std::shared_ptr<grpc::Channel>& channel, const std::string& method,
                     std::string_view request) {
    grpc::GenericStub stub(channel);
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + patience);
    grpc::CompletionQueue queue;
    const auto next = [&queue] {
        void* tag = nullptr;
        bool ok = false;
        return queue.Next(&tag, &ok) && ok;
    };
    const auto call = stub.PrepareCall(&context, method, &queue);
    int tag = 0;
    call->StartCall(&tag);
    EXPECT_TRUE(next());
    call->Write(bytes(request), &tag);
    (void)next();  // there is none if the method is refused
    grpc::ByteBuffer reply;
    call->Read(&reply, &tag);
    std::string answer = next() ? text(reply) : "";
    call->WritesDone(&tag);
    (void)next();
    grpc::Status status;
    call->Finish(&status, &tag);
    (void)next();
    if (answer.empty()) answer = fmt::format("status {}", static_cast<int>(status.error_code()));
    queue.Shutdown();
    while (next()) {
    }
    return answer;
}

TEST_F(ControlCalls, DrainedServerReportsNotServing) {
    start();
    constexpr const char* check = "/grpc.health.v1.Health/Check";
    // HealthCheckResponse.status: 1 is SERVING, 2 NOT_SERVING.
    EXPECT_EQ(exchange(channel(), check, ""), "\x08\x01");
    // HealthCheckRequest.service
    const std::string pool = "\x0a\x09pool/pool";
    EXPECT_EQ(exchange(channel(), check, pool), "\x08\x01");
    run_on(*rig_->server_reactor, [&] { rig_->server->set_pool_serving("pool", false); });
    EXPECT_EQ(exchange(channel(), check, pool), "\x08\x02");
    EXPECT_EQ(exchange(channel(), check, ""), "\x08\x01");
    run_on(*rig_->server_reactor, [&] { rig_->server->set_pool_serving("pool", true); });
    EXPECT_EQ(exchange(channel(), check, pool), "\x08\x01");
    EXPECT_EQ(exchange(channel(), check, "\x0a\x0apool/other"), "status 5");
    run_on(*rig_->server_reactor, [&] { rig_->server->drain(); });
    EXPECT_EQ(exchange(channel(), check, ""), "\x08\x02");
    run_on(*rig_->server_reactor, [&] { rig_->server->set_pool_serving("pool", true); });
    EXPECT_EQ(exchange(channel(), check, pool), "\x08\x02");
    EXPECT_TRUE(rig_->here([&] { return client_->keep_alive(call_, session_, report_); }))
        << "what there is goes on";
}

TEST_F(ControlCalls, MalformedRequestsAreRefused) {
    start();
    const auto answer = [&](const char* method, std::string_view request) {
        return exchange(channel(), fmt::format("/ros2s.control.v1.{}", method), request);
    };
    EXPECT_THAT(answer("Server/Query", ""), HasSubstr("test-server")) << "no field is set";
    EXPECT_EQ(answer("Sessions/KeepAlive", ""), "status 5");
    // A field without its value, and one that is longer than the message.
    for (const char* nonsense : {"\x08", "\x0a\x7fp"}) {
        EXPECT_EQ(answer("Sessions/KeepAlive", nonsense), "status 1");
        EXPECT_EQ(answer("Pools/Query", nonsense), "status 1");
    }
    EXPECT_TRUE(rig_->here([&] { return client_->list_pools(call_, report_); }));
}

TEST_F(ControlCalls, ServerDescribesItself) {
    start();
    const auto query = [&] {
        return rig_->here([&] { return client_->query_server(call_, report_); });
    };
    auto facts = query();
    ASSERT_TRUE(facts) << report_.text();
    EXPECT_EQ(facts->program, "test-server 1.2.3");
    EXPECT_TRUE(facts->serving);
    EXPECT_EQ(facts->sessions, 1u);
    ASSERT_EQ(facts->data.size(), 2u);
    EXPECT_EQ(facts->data.front().first, "shm");
    EXPECT_FALSE(facts->data.front().second.empty());
    rig_->open(*client_);
    run_on(*rig_->server_reactor, [&] { rig_->server->drain(); });
    facts = query();
    ASSERT_TRUE(facts) << report_.text();
    EXPECT_FALSE(facts->serving);
    EXPECT_EQ(facts->sessions, 2u);
}

TEST_F(ControlCalls, ReflectionNamesTheServices) {
    start();
    // ServerReflectionRequest.list_services = "*"
    const std::string answer = exchange(
        channel(), "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", "\x3a\x01*");
    for (const char* service : {"Server", "Sessions", "Pools", "Containers", "Mounts", "Files"}) {
        EXPECT_THAT(answer, HasSubstr(fmt::format("ros2s.control.v1.{}", service)));
    }
    for (const char* method : {"Sessions/Nonsense", "Regions/Add"}) {
        EXPECT_EQ(exchange(channel(), fmt::format("/ros2s.control.v1.{}", method), ""),
                  fmt::format("status {}", static_cast<int>(grpc::StatusCode::UNIMPLEMENTED)));
    }
}

// ---- addresses that cannot be used

TEST_F(ControlCalls, UnusableAddressIsReported) {
    start();
    const auto refused = [&](std::vector<std::string> listen, pki::Identity identity, Code code,
                             const char* says) {
        Report report;
        const auto started = rig_->there([&] {
            return ControlServer::start({.reactor = *rig_->server_reactor,
                                         .blocking = rig_->blocking,
                                         .sessions = rig_->sessions,
                                         .tickets = rig_->tickets,
                                         .pools = rig_->pool,
                                         .log = rig_->lines.log()},
                                        {.listen = listen, .identity = identity}, report);
        });
        ASSERT_FALSE(started) << says;
        EXPECT_EQ(started.error().code, code) << report.text();
        EXPECT_THAT(report.text(), HasSubstr(says));
    };
    const pki::Identity good = rig_->certificates.of("server");
    refused({rig_->address()}, good, Code::busy, "`ss -ltnp` shows which one");
    // An address for documentation, which no machine has.
    refused({"192.0.2.1:0"}, good, Code::busy, "192.0.2.1 is not an address of this machine");
    refused({"127.0.0.1:65536"}, good, Code::invalid, "a number up to 65535");
    refused({"::zz:7400"}, good, Code::not_found, "'::zz' is unknown");
    refused({"unix:/nowhere/at/all"}, good, Code::not_found, "mkdir -p /nowhere/at");
    refused({"unix:/" + std::string(200, 'x')}, good, Code::invalid, "longer than");
    refused({}, good, Code::invalid, "no address to listen on");
    refused({"7400"}, good, Code::invalid, "is not an address to listen on");
    refused({"host:http"}, good, Code::invalid, "is not an address to listen on");
    refused({"127.0.0.1:0"}, rig_->certificates.of("nobody"), Code::not_found, "cannot read");
    EXPECT_TRUE(rig_->here([&] { return client_->list_pools(call_, report_); }));
}

}  // namespace
}  // namespace ros2s::control
