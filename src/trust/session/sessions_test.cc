// Sessions: whose they are, how many there can be, and when they end.
#include "sessions.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <thread>

#include "ros2s/base/process_end.h"
#include "ros2s/runtime/nursery.h"
#include "ros2s/runtime/sim/co_test.h"
#include "test_support/session.h"

namespace ros2s::session {
namespace {

struct Tables {
    explicit Tables(SessionTable::Options options = {}, admission::Allowances allowances = {},
                    Log log = {})
        : accounts(world.core(), std::move(allowances)),
          sessions(world.core(), tickets, with_accounts(options), std::move(log)) {}
    ~Tables() { world.run(sessions.close_all()); }
    Tables& operator=(Tables&&) = delete;

    sim::World world{1};
    TicketTable tickets{world.core(), {.entropy = [this] { return world.random().next(); }}};
    admission::Accounts accounts;
    SessionTable sessions;

  private:
    SessionTable::Options with_accounts(SessionTable::Options options) {
        options.accounts = &accounts;
        return options;
    }
};

// While it exists, sessions that are over are closed.
struct ReapingRig : Rig {
    ReapingRig() { world.run(begin()); }
    ~ReapingRig() {
        stop.request_stop();
        world.run(nursery.join());
    }
    Task<> begin() { co_await nursery.spawn(sessions.reap(stop.token())); }

    StopSource stop;
    Nursery nursery{world.core(), 1};
};

TEST(SessionTable, SessionOfAnotherSubjectIsStale) {
    Rig rig;
    const SessionId id = (*rig.sessions.open(request()))->id;
    EXPECT_TRUE(rig.sessions.find(id, "CN=alice"));
    EXPECT_EQ(rig.sessions.find(id, "CN=bob").error().code, Code::stale);
    EXPECT_EQ(rig.sessions.find({99}, "CN=alice").error().code, Code::stale);
    rig.world.run(rig.sessions.close(id));
    EXPECT_EQ(rig.sessions.find(id, "CN=alice").error().code, Code::stale);
    EXPECT_EQ(rig.recorder.ended, std::vector<uint64_t>{id.value});
}

// A tenant cannot infer numbers of others, or how many sessions were opened, from its own numbers.
TEST(SessionTable, NumbersRevealNothingAboutOthers) {
    Rig rig;
    std::vector<uint64_t> sessions, mounts, tickets;
    for (int i = 0; i < 3; ++i) {
        const auto session = rig.sessions.open(request());
        ASSERT_TRUE(session);
        sessions.push_back((*session)->id.value);
        const auto issued = rig.sessions.issue_ticket(**session);
        ASSERT_TRUE(issued);
        std::memcpy(&tickets.emplace_back(), issued->ticket.bytes.data(), sizeof(uint64_t));
        Report report;
        const auto mount = rig.world.run(rig.mounts.mount(Call{}, **session, "c", {}, report));
        ASSERT_TRUE(mount) << report.text();
        mounts.push_back(mount->value);
    }
    for (const auto& numbers : {sessions, mounts, tickets}) {
        for (size_t i = 1; i < numbers.size(); ++i) {
            EXPECT_GT(std::max(numbers[i], numbers[i - 1]) - std::min(numbers[i], numbers[i - 1]),
                      1'000'000U);
        }
    }
}

// However many subjects take as much as they can, another one finds room.
TEST(SessionTable, SessionsOfOneSubjectLeaveRoomForOthers) {
    Tables tables({.sessions_max = 8, .per_subject_max = 8});
    const auto open_all = [&](const std::string& subject) {
        for (size_t count = 0;; ++count) {
            const auto opened = tables.sessions.open(request(subject));
            if (!opened) return std::pair(count, opened.error().code);
        }
    };
    EXPECT_EQ(open_all("CN=alice"), std::pair(size_t{4}, Code::busy));
    EXPECT_EQ(open_all("CN=bob"), std::pair(size_t{2}, Code::busy));
    EXPECT_EQ(open_all("CN=carol"), std::pair(size_t{1}, Code::busy));
    EXPECT_EQ(open_all("CN=dave"), std::pair(size_t{1}, Code::busy));
    EXPECT_EQ(open_all("CN=eve"), std::pair(size_t{0}, Code::no_memory));
}

// Another certificate of the tenant brings it no more.
TEST(SessionTable, SessionsOfOneTenantLeaveRoomForOthers) {
    admission::Allowances allowances;
    for (int i = 0; i < 16; ++i) allowances.accounts[fmt::format("CN={}", i)] = {{"pool", "batch"}};
    Tables tables({.sessions_max = 16}, allowances);
    SessionTable& sessions = tables.sessions;
    size_t opened = 0;
    for (int i = 0; i < 16; ++i) opened += sessions.open(request(fmt::format("CN={}", i))) ? 1 : 0;
    EXPECT_EQ(opened, 8U);
    EXPECT_EQ(sessions.open(request("CN=9")).error().code, Code::busy);
    EXPECT_EQ(tables.accounts.open("CN=0", "pool")->metrics.refused.value(), 9U);
    for (int i = 0; i < 4; ++i)
        EXPECT_TRUE(sessions.open(request("CN=bob"))) << "of another tenant";
}

// A delegated DPU has a session for each tenant. A flood of one of them hides no line of another.
TEST(SessionTable, AuditLinesBelongToTenantOfCapability) {
    std::vector<std::string> lines;
    Tables tables({}, {}, Log([&](LogLevel, std::string_view line) { lines.emplace_back(line); }));
    SessionTable& sessions = tables.sessions;
    const auto show = [&](const std::string& tenant) {
        const auto session = sessions.open(request("CN=dpu"));
        EXPECT_TRUE(session);
        (*session)->shows = {.nonce = "n",
                             .provider = "shm",
                             .capability = std::make_shared<rights::VerifiedCapability>()};
        sessions.use_account(**session, tenant);
        return (*session)->id;
    };
    const SessionId alice = show("alice"), bob = show("bob");
    const auto wrote = [&](SessionId id, AuditAction action) {
        lines.clear();
        sessions.audit().say(event_of(*sessions.look(id), action, {.pool = "pool"},
                                      AuditDecision::refused, Error{.code = Code::over_cap}, "no"));
        return lines.empty() ? std::string() : lines.back();
    };
    for (uint32_t i = 0; i < audit_lines_per_second_max; ++i) {
        EXPECT_NE(wrote(alice, AuditAction::write), "");
    }
    EXPECT_EQ(wrote(alice, AuditAction::write), "");
    const std::string line = wrote(bob, AuditAction::write);
    EXPECT_NE(line.find(" tenant=bob shown_by=\"CN=dpu\" "), std::string::npos) << line;
    EXPECT_EQ(wrote(bob, AuditAction::create).find("earlier ones"), std::string::npos);
    EXPECT_NE(wrote(alice, AuditAction::create).find("(1 earlier ones"), std::string::npos);
    // Without a capability it is the subject's.
    const SessionId own = (*sessions.open(request("CN=dpu")))->id;
    const std::string plain = wrote(own, AuditAction::write);
    EXPECT_NE(plain.find(" tenant=\"CN=dpu\" action="), std::string::npos) << plain;
}

TEST(SessionTable, SessionsOfOneSubjectShareATenant) {
    Rig rig;
    const uint64_t first = (*rig.sessions.open(request()))->tenant;
    EXPECT_EQ((*rig.sessions.open(request()))->tenant, first);
    EXPECT_NE((*rig.sessions.open(request("CN=bob")))->tenant, first);
}

TEST(SessionTable, SubjectInTwoPoolsUsesTenantOfItsPool) {
    admission::Allowances allowances;
    allowances.accounts["CN=alice"] = {{"other", "guests"}, {"pool", "batch"}};
    allowances.accounts["batch"] = {{"other", "other/batch"}};
    Tables tables({}, allowances);
    SessionTable& sessions = tables.sessions;
    SessionRequest elsewhere = request();
    elsewhere.pool = "other";
    const auto here = *sessions.open(request());
    const auto there = *sessions.open(elsewhere);
    EXPECT_EQ(here->tenant_name(), "batch");
    EXPECT_EQ(there->tenant_name(), "guests");
    EXPECT_NE(here->tenant, there->tenant);
    EXPECT_EQ(sessions.account_of("CN=alice", "pool")->number, here->tenant);
    sessions.use_account(*there, "batch");
    EXPECT_EQ(there->tenant_name(), "other/batch");
}

// Each session keeps its account, even if its subject has another one since.
TEST(SessionTable, SessionsKeepTheirAccount) {
    admission::Allowances allowances;
    allowances.accounts["CN=alice"] = {{"other", "guests"}, {"pool", "batch"}};
    Tables tables({}, allowances);
    SessionTable& sessions = tables.sessions;
    const uint64_t first = (*sessions.open(request()))->tenant;
    SessionRequest elsewhere = request();
    elsewhere.pool = "other";
    EXPECT_TRUE(sessions.open(elsewhere));
    for (size_t i = 0; i < 2 * admission::Accounts::kept_max; ++i) {
        (void)tables.accounts.open(fmt::format("CN={}", i));
    }
    EXPECT_NE(tables.accounts.find(first), nullptr);
}

TEST(SessionTable, RefusalsCountForTheirTenant) {
    Tables tables({.per_subject_max = 2});
    SessionTable& sessions = tables.sessions;
    const SessionId id = (*sessions.open(request()))->id;
    EXPECT_FALSE(sessions.find(id, "CN=bob")) << "who has no account";
    EXPECT_TRUE(sessions.open(request("CN=bob")));
    EXPECT_FALSE(sessions.find(id, "CN=bob"));
    EXPECT_TRUE(sessions.open(request("CN=bob")));
    EXPECT_FALSE(sessions.open(request("CN=bob")));
    EXPECT_EQ(tables.accounts.open("CN=bob")->metrics.refused.value(), 2U);
    EXPECT_EQ(tables.accounts.open("CN=alice")->metrics.refused.value(), 0U);
}

// A subject has an account in each pool where it has a tenant.
TEST(SessionTable, RefusalsCountForTenantOfTheirPool) {
    admission::Allowances allowances;
    allowances.accounts["CN=alice"] = {{"a", "first"}, {"pool", "second"}};
    Tables tables({}, allowances);
    const auto first = tables.accounts.open("CN=alice", "a");
    const auto second = tables.accounts.open("CN=alice", "pool");
    const auto refuse = [&](std::string_view pool, uint64_t tenant) {
        tables.sessions.refused({.subject = "CN=alice",
                                 .peer = "",
                                 .session = 0U,
                                 .action = AuditAction::call,
                                 .object = AuditObject{.pool = pool},
                                 .decision = AuditDecision::refused,
                                 .reason = Error{.code = Code::busy},
                                 .text = ""},
                                tenant);
    };
    refuse("pool", 0);
    EXPECT_EQ(second->metrics.refused.value(), 1U);
    refuse("", second->number);
    EXPECT_EQ(second->metrics.refused.value(), 2U);
    EXPECT_EQ(first->metrics.refused.value(), 0U);
}

TEST(SessionTable, SessionsOfTenantAreLimited) {
    admission::Allowances allowances;
    for (const char* subject : {"CN=alice", "CN=alice-2"}) {
        allowances.accounts[subject] = {{"pool", "batch"}};
    }
    allowances.by_account["batch"].sessions = 2;
    Tables tables({}, allowances);
    SessionTable& sessions = tables.sessions;
    const auto limit = [&](uint32_t most) {
        allowances.by_account["batch"].sessions = most;
        tables.accounts.set(allowances);
    };
    const auto account = tables.accounts.open("CN=alice", "pool");
    EXPECT_TRUE(sessions.open(request()));
    EXPECT_TRUE(sessions.open(request("CN=alice-2")));
    std::string why;
    EXPECT_EQ(sessions.open(request(), &why).error().code, Code::busy);
    EXPECT_EQ(why,
              "'batch' has as many sessions as it may have, 2. Close some. An administrator sets "
              "this limit with `ros2store tenant set NAME --sessions`, or under 'limits' in the "
              "settings of this server");
    EXPECT_EQ(account->metrics.refused.value(), 1U);
    EXPECT_TRUE(sessions.open(request("CN=bob"))) << "of another tenant";
    // A lower limit ends no session.
    limit(1);
    EXPECT_EQ(account->metrics.sessions.value(), 2U);
    tables.world.run(sessions.close(sessions.all().front()->id));
    tables.world.run(sessions.close(sessions.all().front()->id));
    limit(3);
    while (account->metrics.sessions.value() < 3) ASSERT_TRUE(sessions.open(request()));
    EXPECT_FALSE(sessions.open(request()));
    limit(0);
    EXPECT_TRUE(sessions.open(request()));
    tables.world.run(sessions.close_all());
    EXPECT_EQ(account->metrics.sessions.value(), 0U);
}

// Sessions that a DPU opens for a tenant's hosts belong to the tenant. The DPU enforces the
// tenant's limit.
TEST(SessionTable, DelegatedSessionsAreNotLimitedByTenant) {
    admission::Allowances allowances;
    allowances.accounts["batch"] = allowances.accounts["CN=alice"] = {{"pool", "batch"}};
    allowances.by_account["batch"].sessions = 1;
    Tables tables({}, allowances);
    SessionTable& sessions = tables.sessions;
    for (int i = 0; i < 2; ++i) sessions.use_account(**sessions.open(request("CN=dpu")), "batch");
    EXPECT_EQ(tables.accounts.open("CN=dpu")->metrics.sessions.value(), 0U);
    EXPECT_EQ(tables.accounts.open("CN=alice", "pool")->metrics.sessions.value(), 2U);
    EXPECT_TRUE(sessions.open(request())) << "the tenant's own";
    EXPECT_FALSE(sessions.open(request()));
    tables.world.run(sessions.close_all());
    EXPECT_EQ(tables.accounts.open("CN=alice", "pool")->metrics.sessions.value(), 0U);
}

TEST(SessionTable, SessionsAreBounded) {
    Rig rig;
    for (int i = 0; i < 4; ++i) EXPECT_TRUE(rig.sessions.open(request()));
    EXPECT_EQ(rig.sessions.open(request()).error().code, Code::busy);
    for (int i = 0; i < 2; ++i) EXPECT_TRUE(rig.sessions.open(request("CN=bob")));
    EXPECT_EQ(rig.sessions.open(request("CN=bob")).error().code, Code::busy);
    EXPECT_TRUE(rig.sessions.open(request("CN=carol")));
    EXPECT_TRUE(rig.sessions.open(request("CN=dave")));
    EXPECT_EQ(rig.sessions.open(request("CN=eve")).error().code, Code::no_memory);
    rig.world.run(rig.sessions.close(rig.sessions.all().front()->id));
    EXPECT_TRUE(rig.sessions.open(request("CN=eve")));
    rig.world.run(rig.sessions.close_all());
    EXPECT_EQ(rig.sessions.open(request()).error().code, Code::closed);
}

// Closing one session may take long; others need not wait for it.
TEST(SessionTable, SessionsCloseInParallel) {
    Rig rig;
    for (int i = 0; i < 4; ++i) EXPECT_TRUE(rig.sessions.open(request()));
    const Time begun = rig.world.core().now();
    rig.world.run(rig.sessions.close_all());
    EXPECT_EQ(rig.recorder.ended.size(), 4U);
    EXPECT_EQ(rig.world.core().now() - begun, 1s);
}

TEST(SessionTable, TicketAdmitsConnectionUntilSessionEnds) {
    Rig rig;
    const SessionId id = (*rig.sessions.open(request()))->id;
    IssuedTicket issued;
    {
        const auto use = rig.sessions.find(id, "CN=alice");
        issued = *rig.sessions.issue_ticket(**use);
    }
    EXPECT_EQ(rig.sessions.attach({}, {.purpose = Purpose::link}, Uuid{{1}}).error().code,
              Code::denied);
    {
        const auto use = rig.sessions.attach(issued.ticket, {.purpose = Purpose::link}, Uuid{{1}});
        ASSERT_TRUE(use);
        EXPECT_EQ((*use)->id, id);
        EXPECT_EQ((*use)->connections, 1u);
    }
    EXPECT_EQ(
        rig.sessions.attach(issued.ticket, {.purpose = Purpose::link}, Uuid{{1}}).error().code,
        Code::denied);
    rig.sessions.detach(id);
    EXPECT_EQ(rig.sessions.all().front()->connections, 0u);

    issued = *rig.sessions.issue_ticket(*rig.sessions.all().front());
    rig.world.run(rig.sessions.close(id));
    EXPECT_EQ(
        rig.sessions.attach(issued.ticket, {.purpose = Purpose::link}, Uuid{{1}}).error().code,
        Code::denied);
}

// A call that began before the end may ask for a ticket after it.
CO_TEST(SessionTable, EndingSessionGetsNoTicket, Rig, rig) {
    const SessionId id = (*rig.sessions.open(request()))->id;
    Nursery nursery(rig.world.core(), 1);
    auto use = rig.sessions.find(id, "CN=alice");
    co_await nursery.spawn(rig.sessions.close(id));
    EXPECT_TRUE((*use)->ending);
    EXPECT_EQ(rig.sessions.issue_ticket(**use).error().code, Code::stale);
    use = fail(Code::stale);
    co_await nursery.join();
    EXPECT_EQ(rig.recorder.ended, std::vector<uint64_t>{id.value});
}

Task<> hold(Reactor& reactor, SessionTable& sessions, SessionId id, bool& done) {
    const auto use = sessions.find(id, "CN=alice");
    EXPECT_TRUE(use);
    co_await sleep_for(reactor, 5s);
    done = true;
}

CO_TEST(SessionTable, CloseWaitsForCalls, Rig, rig) {
    const SessionId id = (*rig.sessions.open(request()))->id;
    bool done = false;
    Nursery nursery(rig.world.core(), 4);
    co_await nursery.spawn(hold(rig.world.core(), rig.sessions, id, done));
    co_await nursery.spawn(rig.sessions.close(id));
    EXPECT_FALSE(rig.sessions.find(id, "CN=alice")) << "no new calls once it is ending";
    EXPECT_TRUE(rig.recorder.ended.empty());
    co_await rig.sessions.close(id);
    EXPECT_TRUE(done);
    EXPECT_EQ(rig.recorder.ended.size(), 1u) << "the second close waited for the first";
    co_await nursery.join();
}

CO_TEST(SessionTable, UnusedSessionsEnd, ReapingRig, rig) {
    const SessionId quiet = (*rig.sessions.open(request()))->id;
    const SessionId used = (*rig.sessions.open(request()))->id;
    const SessionId attached = (*rig.sessions.open(request()))->id;
    {
        const auto use = rig.sessions.find(attached, "CN=alice");
        const auto issued = rig.sessions.issue_ticket(**use);
        EXPECT_TRUE(rig.sessions.attach(issued->ticket, {.purpose = Purpose::link}, Uuid{{1}}));
    }
    for (int i = 0; i < 10; ++i) {
        co_await sleep_for(rig.world.core(), 10s);
        EXPECT_TRUE(rig.sessions.find(used, "CN=alice"));
    }
    EXPECT_EQ(rig.recorder.ended, std::vector<uint64_t>{quiet.value});
    EXPECT_EQ(rig.sessions.metrics().reaped.value(), 1u);
    rig.sessions.detach(attached);
    co_await sleep_for(rig.world.core(), 100s);
    EXPECT_EQ(rig.sessions.metrics().live.value(), 0u);
}

// A session ends with its certificate, even while it has a connection.
CO_TEST(SessionTable, SessionEndsWithItsCertificate, ReapingRig, rig) {
    const SessionId brief = (*rig.sessions.open(request()))->id;
    const SessionId renewed = (*rig.sessions.open(request()))->id;
    for (const SessionId each : {brief, renewed}) {
        auto use = rig.sessions.find(each, "CN=alice");
        const auto issued = rig.sessions.issue_ticket(**use);
        EXPECT_TRUE(rig.sessions.attach(issued->ticket, {.purpose = Purpose::link}, Uuid{{1}}));
        (*use)->credential = {.chain = "old", .until = rig.world.core().wall_time() + 20s};
    }
    const auto waiting = rig.sessions.issue_ticket(**rig.sessions.find(brief, "CN=alice"));
    (*rig.sessions.find(renewed, "CN=alice"))->credential = {.chain = "new"};
    co_await sleep_for(rig.world.core(), 15s);
    EXPECT_TRUE(rig.recorder.ended.empty());
    co_await sleep_for(rig.world.core(), 10s);
    EXPECT_EQ(rig.recorder.ended, std::vector<uint64_t>{brief.value});
    EXPECT_FALSE(rig.sessions.attach(waiting->ticket, {.purpose = Purpose::link}, Uuid{{1}}));
    rig.sessions.detach(renewed);
}

// The time is just after a pass of a reaper with a period of 1.25 s.
CO_TEST(SessionTable, ExpiryTakesEffectWithinASecond, ReapingRig, rig) {
    const WallTime until = rig.world.core().wall_time() + 1300ms;
    const SessionId certified = (*rig.sessions.open(request()))->id;
    const SessionId showing = (*rig.sessions.open(request()))->id;
    (*rig.sessions.find(certified, "CN=alice"))->credential = {.chain = "c", .until = until};
    auto shown = std::make_shared<rights::VerifiedCapability>();
    shown->last.expires = until;
    (*rig.sessions.find(showing, "CN=alice"))->shows = {
        .nonce = "n", .provider = "shm", .capability = shown};
    co_await sleep_for(rig.world.core(), 1200ms);
    for (const SessionId each : {certified, showing}) {
        EXPECT_TRUE(rig.sessions.find(each, "CN=alice"));
    }
    co_await sleep_for(rig.world.core(), 600ms);
    for (const SessionId each : {certified, showing}) {
        EXPECT_FALSE(rig.sessions.find(each, "CN=alice"));
    }
}

// Otherwise it would live for a day and five minutes.
CO_TEST(SessionTable, FutureCapabilityEndsAfterClockIsSetBack, ReapingRig, rig) {
    const SessionId showing = (*rig.sessions.open(request()))->id;
    auto shown = std::make_shared<rights::VerifiedCapability>();
    shown->last.not_before = rig.world.core().wall_time();
    shown->last.expires = shown->last.not_before + 5min;
    (*rig.sessions.find(showing, "CN=alice"))->shows = {
        .nonce = "n", .provider = "shm", .capability = shown};
    co_await sleep_for(rig.world.core(), 2s);
    EXPECT_TRUE(rig.sessions.find(showing, "CN=alice"));
    rig.world.step_clock(-24h);
    co_await sleep_for(rig.world.core(), 1s);
    EXPECT_FALSE(rig.sessions.find(showing, "CN=alice"));
}

// The session of a dead client ends within seconds. A living client that lost its connection keeps
// it by its calls to reconnect.
CO_TEST(SessionTable, SessionOfDeadClientEndsSoon, ReapingRig, rig) {
    const SessionId dead = (*rig.sessions.open(request()))->id;
    const SessionId alive = (*rig.sessions.open(request()))->id;
    const auto enter = [&](SessionId id) {
        const auto use = rig.sessions.find(id, "CN=alice");
        const auto issued = rig.sessions.issue_ticket(**use);
        EXPECT_TRUE(rig.sessions.attach(issued->ticket, {.purpose = Purpose::link}, Uuid{{1}}));
    };
    for (const SessionId each : {dead, alive}) {
        enter(each);
        enter(each);
    }
    for (const SessionId each : {dead, alive}) rig.sessions.detach(each);
    co_await sleep_for(rig.world.core(), 100s);
    EXPECT_TRUE(rig.recorder.ended.empty()) << "each has a connection left";
    for (const SessionId each : {dead, alive}) rig.sessions.detach(each);
    for (int i = 0; i < 5; ++i) {
        co_await sleep_for(rig.world.core(), 2s);
        EXPECT_TRUE(rig.sessions.find(alive, "CN=alice"));
    }
    EXPECT_EQ(rig.recorder.ended, std::vector<uint64_t>{dead.value});
    enter(alive);
    co_await sleep_for(rig.world.core(), 100s);
    EXPECT_EQ(rig.sessions.metrics().live.value(), 1u);
    rig.sessions.detach(alive);
}

// A process for some seconds, without its first thread.
pid_t fork_without_first_thread() {
    const pid_t pid = ::fork();
    if (pid == 0) {
        ::alarm(60);
        std::thread([] { ::pause(); }).detach();
        ::syscall(SYS_exit, 0);
    }
    while (!is_ending(pid)) ::sched_yield();
    return pid;
}

// One is behind a proxy that starts again, the process of another lives without its first thread.
CO_TEST(SessionTable, SessionOutlivesItsProcessByASecond, ReapingRig, rig) {
    const pid_t ended = ::fork();
    if (ended == 0) ::_exit(0);
    EXPECT_EQ(::waitpid(ended, nullptr, 0), ended);
    const pid_t lives = fork_without_first_thread();
    std::vector<SessionId> ids;
    for (const pid_t pid : {ended, lives}) {
        ids.push_back((*rig.sessions.open(request()))->id);
        const auto use = rig.sessions.find(ids.back(), "CN=alice");
        const auto issued = rig.sessions.issue_ticket(**use);
        EXPECT_TRUE(rig.sessions.attach(issued->ticket, {.purpose = Purpose::link}, Uuid{{1}}));
        (*use)->process = pid;
    }
    for (const SessionId each : ids) rig.sessions.detach(each);
    co_await sleep_for(rig.world.core(), 900ms);
    EXPECT_EQ(rig.sessions.metrics().reaped.value(), 0U);
    co_await sleep_for(rig.world.core(), 1s);
    EXPECT_EQ(rig.sessions.metrics().reaped.value(), 1U);
    EXPECT_NE(rig.sessions.look(ids[1]), nullptr);
    EXPECT_EQ(::kill(lives, SIGKILL), 0);
    EXPECT_EQ(::waitpid(lives, nullptr, 0), lives);
    co_await sleep_for(rig.world.core(), 3s);
    EXPECT_EQ(rig.sessions.metrics().live.value(), 0U);
}

}  // namespace
}  // namespace ros2s::session
