// Sessions and mounts, on the simulated clock over the oracle.
#include "sessions.h"

#include <gtest/gtest.h>

#include "mount_names.h"
#include "mounts.h"
#include "ros2s/foreign/local_fs.h"
#include "ros2s/fs/dfs.h"
#include "ros2s/object/memory_store.h"
#include "ros2s/runtime/nursery.h"
#include "ros2s/runtime/sim/world.h"

namespace ros2s::session {
namespace {

using namespace std::chrono_literals;

SessionRequest request(std::string subject = "CN=alice") {
    return {.subject = std::move(subject),
            .client = Uuid{{1}},
            .purpose = Purpose::link,
            .pool = "pool",
            .program = "test"};
}

// One container, "c", one that does not answer, and "shared", a directory whose calls are on
// threads that tenants share; counts the openings.
class OneContainer final : public FileSystemSource {
    Reactor& reactor_;

  public:
    OneContainer(Reactor& reactor, object::ObjectStore& store) : reactor_(reactor), store_(store) {}
    Task<Result<>> prepare() {
        Report report;
        const Call call;
        ROS2S_CO_TRY_ASSIGN(const auto made,
                            co_await store_.create_container(call, {.label = "c"}));
        container_ = made.id;
        co_return co_await fs::Dfs::format(call, store_, container_, reactor_, {}, report);
    }
    Task<Result<std::unique_ptr<fs::FileSystem>>> open(const Call& call, const std::string&,
                                                       const std::string& container,
                                                       Report& report) override {
        ++opens;
        if (container == "silent") {
            (void)co_await sleep_for(reactor_, 1h, call.stop);
            co_return report.fail(Code::deadline, "nobody answers");
        }
        if (container == "shared") {
            co_return co_await foreign::open_local_fs(directory, reactor_, *blocking, report,
                                                      {.turns = &turns}, call);
        }
        if (container != "c") co_return report.fail(Code::not_found, "there is no such container");
        co_return co_await fs::Dfs::mount(call, store_, container_, reactor_, {}, report);
    }
    int opens = 0;
    std::string directory = ::testing::TempDir();
    BlockingPool* blocking = nullptr;
    ThreadTurns turns{reactor_, 2};

  private:
    object::ObjectStore& store_;
    object::ContainerId container_;
};

class Recorder final : public SessionWatcher {
  public:
    explicit Recorder(Reactor& reactor) : reactor_(reactor) {}
    Task<> session_ending(Session& session) override {
        co_await sleep_for(reactor_, 1s);
        ended.push_back(session.id.value);
    }
    std::vector<uint64_t> ended;

  private:
    Reactor& reactor_;
};

struct Rig {
    explicit Rig(uint64_t seed = 1,
                 Mounts::Options bounds = {.per_session_max = 3, .handles_max = 4, .nodes_max = 5})
        : world(seed),
          store(world.core(), {.delay_max = 50us}),
          source(world.core(), store),
          tickets(world.core(), {.entropy = [this] { return world.random().next(); }}),
          sessions(world.core(), tickets, {.sessions_max = 6, .per_subject_max = 4}),
          recorder(world.core()),
          mounts(world.core(), sessions, source, bounds) {
        sessions.watch(recorder);
        source.blocking = &world.blocking();
        EXPECT_TRUE(world.run(source.prepare()));
    }
    ~Rig() { world.run(sessions.close_all()); }
    Rig(const Rig&) = delete;
    Rig& operator=(const Rig&) = delete;

    sim::World world;
    object::MemoryStore store;
    OneContainer source;
    TicketTable tickets;
    SessionTable sessions;
    Recorder recorder;
    Mounts mounts;
};

TEST(Sessions, AreTheirSubjectsAlone) {
    Rig rig;
    const SessionId id = (*rig.sessions.open(request()))->id;
    EXPECT_TRUE(rig.sessions.find(id, "CN=alice"));
    EXPECT_EQ(rig.sessions.find(id, "CN=bob").error().code, Code::stale);
    EXPECT_EQ(rig.sessions.find({99}, "CN=alice").error().code, Code::stale);
    rig.world.run(rig.sessions.close(id));
    EXPECT_EQ(rig.sessions.find(id, "CN=alice").error().code, Code::stale);
    EXPECT_EQ(rig.recorder.ended, std::vector<uint64_t>{id.value});
}

// From its own numbers a tenant learns neither another's nor how many were opened.
TEST(Sessions, NumbersTellNothingOfOthers) {
    Rig rig;
    std::vector<uint64_t> sessions, mounts;
    for (int i = 0; i < 3; ++i) {
        const auto session = rig.sessions.open(request());
        ASSERT_TRUE(session);
        sessions.push_back((*session)->id.value);
        Report report;
        const auto mount = rig.world.run(rig.mounts.mount(Call{}, **session, "c", {}, report));
        ASSERT_TRUE(mount) << report.text();
        mounts.push_back(mount->value);
    }
    for (const auto& numbers : {sessions, mounts}) {
        for (size_t i = 1; i < numbers.size(); ++i) {
            EXPECT_GT(std::max(numbers[i], numbers[i - 1]) - std::min(numbers[i], numbers[i - 1]),
                      1'000'000U);
        }
    }
}

TEST(Sessions, OfOneSubjectShareATenant) {
    Rig rig;
    const uint64_t first = (*rig.sessions.open(request()))->tenant;
    EXPECT_EQ((*rig.sessions.open(request()))->tenant, first);
    EXPECT_NE((*rig.sessions.open(request("CN=bob")))->tenant, first);
}

TEST(Sessions, RefusalsAreCountedForTheirTenant) {
    sim::World world(1);
    TicketTable tickets(world.core(), {.entropy = [&world] { return world.random().next(); }});
    admission::Accounts accounts(world.core());
    SessionTable sessions(world.core(), tickets, {.per_subject_max = 2, .accounts = &accounts});
    const SessionId id = (*sessions.open(request()))->id;
    EXPECT_FALSE(sessions.find(id, "CN=bob")) << "who has no account";
    EXPECT_TRUE(sessions.open(request("CN=bob")));
    EXPECT_FALSE(sessions.find(id, "CN=bob"));
    EXPECT_TRUE(sessions.open(request("CN=bob")));
    EXPECT_FALSE(sessions.open(request("CN=bob")));
    EXPECT_EQ(accounts.open("CN=bob")->metrics.refused.value(), 2U);
    EXPECT_EQ(accounts.open("CN=alice")->metrics.refused.value(), 0U);
    world.run(sessions.close_all());
}

TEST(Sessions, AreBounded) {
    Rig rig;
    for (int i = 0; i < 4; ++i) EXPECT_TRUE(rig.sessions.open(request()));
    EXPECT_EQ(rig.sessions.open(request()).error().code, Code::busy);
    for (int i = 0; i < 2; ++i) EXPECT_TRUE(rig.sessions.open(request("CN=bob")));
    EXPECT_EQ(rig.sessions.open(request("CN=bob")).error().code, Code::no_memory);
    rig.world.run(rig.sessions.close(rig.sessions.all().front()->id));
    EXPECT_TRUE(rig.sessions.open(request("CN=bob")));
    rig.world.run(rig.sessions.close_all());
    EXPECT_EQ(rig.sessions.open(request()).error().code, Code::closed);
}

// Closing one session may take long; others need not wait for it.
TEST(Sessions, EndTogether) {
    Rig rig;
    for (int i = 0; i < 4; ++i) EXPECT_TRUE(rig.sessions.open(request()));
    const Time begun = rig.world.core().now();
    rig.world.run(rig.sessions.close_all());
    EXPECT_EQ(rig.recorder.ended.size(), 4U);
    EXPECT_EQ(rig.world.core().now() - begun, 1s);
}

TEST(Sessions, AConnectionComesInByTicketAndGoes) {
    Rig rig;
    const SessionId id = (*rig.sessions.open(request()))->id;
    IssuedTicket issued;
    {
        const auto use = rig.sessions.find(id, "CN=alice");
        issued = *rig.sessions.issue_ticket(**use);
    }
    EXPECT_EQ(rig.sessions.attach({}, Purpose::link, Uuid{{1}}).error().code, Code::denied);
    {
        const auto use = rig.sessions.attach(issued.ticket, Purpose::link, Uuid{{1}});
        ASSERT_TRUE(use);
        EXPECT_EQ((*use)->id, id);
        EXPECT_EQ((*use)->connections, 1u);
    }
    EXPECT_EQ(rig.sessions.attach(issued.ticket, Purpose::link, Uuid{{1}}).error().code,
              Code::denied);
    rig.sessions.detach(id);
    EXPECT_EQ(rig.sessions.all().front()->connections, 0u);

    issued = *rig.sessions.issue_ticket(*rig.sessions.all().front());
    rig.world.run(rig.sessions.close(id));
    EXPECT_EQ(rig.sessions.attach(issued.ticket, Purpose::link, Uuid{{1}}).error().code,
              Code::denied);
}

Task<> hold(Reactor& reactor, SessionTable& sessions, SessionId id, bool& done) {
    const auto use = sessions.find(id, "CN=alice");
    EXPECT_TRUE(use);
    co_await sleep_for(reactor, 5s);
    done = true;
}

Task<> close_while_in_use(Rig& rig, SessionId id) {
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

TEST(Sessions, EndingWaitsForCalls) {
    Rig rig;
    const SessionId id = (*rig.sessions.open(request()))->id;
    rig.world.run(close_while_in_use(rig, id));
}

Task<> reap_a_while(Rig& rig) {
    StopSource stop;
    Nursery nursery(rig.world.core(), 1);
    co_await nursery.spawn(rig.sessions.reap(stop.token()));
    const SessionId quiet = (*rig.sessions.open(request()))->id;
    const SessionId used = (*rig.sessions.open(request()))->id;
    const SessionId attached = (*rig.sessions.open(request()))->id;
    {
        const auto use = rig.sessions.find(attached, "CN=alice");
        const auto issued = rig.sessions.issue_ticket(**use);
        EXPECT_TRUE(rig.sessions.attach(issued->ticket, Purpose::link, Uuid{{1}}));
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
    stop.request_stop();
    co_await nursery.join();
}

TEST(Sessions, ThatNobodyUsesEndByThemselves) {
    Rig rig;
    rig.world.run(reap_a_while(rig));
}

// A session ends with its certificate, even while it has a connection.
Task<> outlive_a_certificate(Rig& rig) {
    StopSource stop;
    Nursery nursery(rig.world.core(), 1);
    co_await nursery.spawn(rig.sessions.reap(stop.token()));
    const SessionId brief = (*rig.sessions.open(request()))->id;
    const SessionId renewed = (*rig.sessions.open(request()))->id;
    for (const SessionId each : {brief, renewed}) {
        auto use = rig.sessions.find(each, "CN=alice");
        const auto issued = rig.sessions.issue_ticket(**use);
        EXPECT_TRUE(rig.sessions.attach(issued->ticket, Purpose::link, Uuid{{1}}));
        (*use)->credential = {.chain = "old", .until = rig.world.core().wall_time() + 20s};
    }
    const auto waiting = rig.sessions.issue_ticket(**rig.sessions.find(brief, "CN=alice"));
    (*rig.sessions.find(renewed, "CN=alice"))->credential = {.chain = "new"};
    co_await sleep_for(rig.world.core(), 15s);
    EXPECT_TRUE(rig.recorder.ended.empty());
    co_await sleep_for(rig.world.core(), 10s);
    EXPECT_EQ(rig.recorder.ended, std::vector<uint64_t>{brief.value});
    EXPECT_FALSE(rig.sessions.attach(waiting->ticket, Purpose::link, Uuid{{1}}));
    stop.request_stop();
    co_await nursery.join();
    rig.sessions.detach(renewed);
    co_await rig.sessions.close_all();
}

TEST(Sessions, EndWithTheirCertificatesTime) {
    Rig rig;
    rig.world.run(outlive_a_certificate(rig));
}

// The session of a dead client ends within seconds. A living client that lost its connection keeps
// it by its calls to reconnect.
Task<> desert(Rig& rig) {
    StopSource stop;
    Nursery nursery(rig.world.core(), 1);
    co_await nursery.spawn(rig.sessions.reap(stop.token()));
    const SessionId dead = (*rig.sessions.open(request()))->id;
    const SessionId alive = (*rig.sessions.open(request()))->id;
    const auto enter = [&](SessionId id) {
        const auto use = rig.sessions.find(id, "CN=alice");
        const auto issued = rig.sessions.issue_ticket(**use);
        EXPECT_TRUE(rig.sessions.attach(issued->ticket, Purpose::link, Uuid{{1}}));
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
    stop.request_stop();
    co_await nursery.join();
    rig.sessions.detach(alive);
}

TEST(Sessions, OfADeadClientEndSoon) {
    Rig rig;
    rig.world.run(desert(rig));
}

// ---- mounts --------------------------------------------------------------------------------

Task<> share_a_container(Rig& rig) {
    const Call call;
    Report report;
    auto alice = *rig.sessions.open(request());
    auto bob = *rig.sessions.open(request("CN=bob"));
    const auto first = co_await rig.mounts.mount(call, *alice, "c", {}, report);
    const auto second = co_await rig.mounts.mount(call, *bob, "c", {.read_only = true}, report);
    EXPECT_TRUE(first && second) << report.text();
    EXPECT_EQ(rig.source.opens, 1);
    EXPECT_TRUE(rig.mounts.in_use("pool", "c"));
    EXPECT_EQ(rig.mounts.find(*bob, *first).error().code, Code::stale);
    {
        auto mount = *rig.mounts.find(*alice, *first);
        EXPECT_FALSE(mount->read_only());
        const auto file = co_await mount->file_system().create(call, fs::root_node, "f", 0644,
                                                               {.write = true}, {});
        EXPECT_TRUE(file.has_value());
        mount->opened(file->handle);
        EXPECT_TRUE(mount->check(file->handle));
        auto other = *rig.mounts.find(*bob, *second);
        EXPECT_TRUE(other->read_only());
        EXPECT_EQ(other->check(file->handle).error().code, Code::stale);
        EXPECT_EQ(other->closing(file->handle).error().code, Code::stale);
    }
    EXPECT_TRUE(co_await rig.mounts.unmount(*alice, *first));
    EXPECT_EQ((co_await rig.mounts.unmount(*alice, *first)).error().code, Code::stale);
    EXPECT_TRUE(rig.mounts.in_use("pool", "c")) << "bob has it still";
    EXPECT_TRUE(co_await rig.mounts.unmount(*bob, *second));
    EXPECT_FALSE(rig.mounts.in_use("pool", "c"));
    EXPECT_EQ((co_await rig.mounts.mount(call, *alice, "none", {}, report)).error().code,
              Code::not_found);
}

TEST(Mounts, ShareAContainerAndNothingElse) {
    for (uint64_t seed = 1; seed < 10; ++seed) {
        Rig rig(seed);
        rig.world.run(share_a_container(rig));
    }
}

Task<> end_session(Rig& rig, SessionId id, bool& ended) {
    co_await rig.sessions.close(id);
    ended = true;
}

Task<> end_beside_hung_calls(Rig& rig) {
    Report report;
    SessionId id{};
    {
        auto session = *rig.sessions.open(request());
        id = session->id;
        const Call call{.tenant = session->tenant};
        const auto mounted = co_await rig.mounts.mount(call, *session, "shared", {}, report);
        EXPECT_TRUE(mounted) << report.text();
        if (!mounted) co_return;
        auto mount = *rig.mounts.find(*session, *mounted);
        const auto root = co_await mount->file_system().open(call, fs::root_node, {.read = true});
        EXPECT_TRUE(root);
        if (root) mount->opened(root->handle);
    }
    // Calls for no tenant have their share of the threads, and wait; those of the session have not.
    bool ended = false;
    Nursery closing(rig.world.core(), 1);
    {
        const ThreadTurns::Permit hung = co_await rig.source.turns.enter(0);
        co_await closing.spawn(end_session(rig, id, ended));
        (void)co_await sleep_for(rig.world.core(), 10s);
        EXPECT_TRUE(ended) << "its files were closed as those of no tenant";
    }
    co_await closing.join();
}

TEST(Mounts, FilesAreClosedOnThreadsOfTheSessionsTenant) {
    Rig rig;
    rig.world.run(end_beside_hung_calls(rig));
}

Task<> leave_everything_open(Rig& rig, uint64_t& id) {
    const Call call;
    Report report;
    auto session = *rig.sessions.open(request());
    id = session->id.value;
    for (int i = 0; i < 3; ++i) {
        const auto mounted = co_await rig.mounts.mount(call, *session, "c", {}, report);
        auto mount = *rig.mounts.find(*session, *mounted);
        for (int j = 0; j < 4; ++j) {
            EXPECT_TRUE(mount->check_room());
            const auto file = co_await mount->file_system().create(
                call, fs::root_node, std::to_string(i * 10 + j), 0644, {.write = true}, {});
            mount->opened(file->handle);
            mount->refer(file->attributes.node);
        }
        EXPECT_EQ(mount->check_room().error().code, Code::busy);
        mount->refer(fs::NodeId{1000});
        EXPECT_EQ(mount->nodes(), 5U);
        mount->refer(fs::NodeId{1001});
        EXPECT_EQ(mount->nodes(), 5U);
        mount->forget(fs::NodeId{1001}, 5);
    }
    EXPECT_EQ((co_await rig.mounts.mount(call, *session, "c", {}, report)).error().code,
              Code::busy);
}

TEST(Mounts, EndWithTheSession) {
    Rig rig;
    uint64_t id = 0;
    rig.world.run(leave_everything_open(rig, id));
    rig.world.run(rig.sessions.close({id}));
    EXPECT_FALSE(rig.mounts.in_use("pool", "c"));
}

Task<> use_a_while(Reactor& reactor, MountUse use, bool& done) {
    co_await sleep_for(reactor, 2s);
    EXPECT_TRUE(co_await use->file_system().get_attributes({}, fs::root_node));
    done = true;
}

Task<> unmount_while_in_use(Rig& rig) {
    const Call call;
    Report report;
    auto session = *rig.sessions.open(request());
    const auto mounted = co_await rig.mounts.mount(call, *session, "c", {}, report);
    bool done = false;
    Nursery nursery(rig.world.core(), 1);
    co_await nursery.spawn(
        use_a_while(rig.world.core(), *rig.mounts.find(*session, *mounted), done));
    EXPECT_TRUE(co_await rig.mounts.unmount(*session, *mounted));
    EXPECT_TRUE(done);
    co_await nursery.join();
}

Task<> mount_the_silent(Rig& rig, bool& failed) {
    const Call call;
    Report report;
    auto session = *rig.sessions.open(request("CN=mallory"));
    failed = !co_await rig.mounts.mount(call, *session, "silent", {}, report);
}

Task<> mount_beside_the_silent(Rig& rig) {
    bool failed = false;
    Nursery nursery(rig.world.core(), 1);
    co_await nursery.spawn(mount_the_silent(rig, failed));
    co_await sleep_for(rig.world.core(), 1ms);
    EXPECT_TRUE(rig.mounts.in_use("pool", "silent"));

    const Call call;
    Report report;
    auto session = *rig.sessions.open(request());
    const Time begun = rig.world.core().now();
    for (int i = 0; i < 3; ++i) {
        const auto mounted = co_await rig.mounts.mount(call, *session, "c", {}, report);
        EXPECT_TRUE(mounted);
        if (mounted) EXPECT_TRUE(co_await rig.mounts.unmount(*session, *mounted));
    }
    EXPECT_LT(rig.world.core().now() - begun, 1s);
    EXPECT_FALSE(failed);
    co_await nursery.join();
    EXPECT_TRUE(failed);
    EXPECT_FALSE(rig.mounts.in_use("pool", "silent"));
}

// One tenant's absent engine used to delay every tenant.
TEST(Mounts, OneThatDoesNotAnswerHoldsUpNobodyElse) {
    Rig rig;
    rig.world.run(mount_beside_the_silent(rig));
}

// A caller that waits for another caller's opening of a container waits only until its own
// deadline.
Task<> wait_beside_the_silent(Rig& rig) {
    bool failed = false;
    Nursery nursery(rig.world.core(), 1);
    co_await nursery.spawn(mount_the_silent(rig, failed));
    co_await sleep_for(rig.world.core(), 1ms);

    auto session = *rig.sessions.open(request());
    Reactor& core = rig.world.core();
    const Time begun = core.now();
    StopSource stop;
    stop.request_stop();
    for (const Call& call : {Call{.deadline = begun + 1s}, Call{.stop = stop.token()}}) {
        Report report;
        const auto mounted = co_await rig.mounts.mount(call, *session, "silent", {}, report);
        EXPECT_FALSE(mounted);
        const Code wanted = call.stop.stop_requested() ? Code::cancelled : Code::deadline;
        if (!mounted) EXPECT_EQ(mounted.error().code, wanted);
        EXPECT_NE(report.text().find("try again later"), std::string::npos) << report.text();
    }
    EXPECT_EQ(core.now() - begun, 1s);
    EXPECT_FALSE(failed);
    EXPECT_TRUE(rig.mounts.in_use("pool", "silent"));
    co_await nursery.join();
    EXPECT_FALSE(rig.mounts.in_use("pool", "silent"));
}
TEST(Mounts, ATurnIsWaitedForUntilTheDeadline) {
    Rig rig;
    rig.world.run(wait_beside_the_silent(rig));
}

Task<> mount_and_release(Rig& rig, bool& mounted) {
    const Call call;
    Report report;
    auto session = *rig.sessions.open(request());
    const auto id = co_await rig.mounts.mount(call, *session, "c", {}, report);
    mounted = id.has_value();
    if (mounted) EXPECT_TRUE(co_await rig.mounts.unmount(*session, *id));
}

Task<> mount_at_once(Rig& rig) {
    bool mounted[4] = {};
    Nursery nursery(rig.world.core(), 4);
    for (bool& each : mounted) co_await nursery.spawn(mount_and_release(rig, each));
    co_await nursery.join();
    for (const bool each : mounted) EXPECT_TRUE(each);
    EXPECT_FALSE(rig.mounts.in_use("pool", "c"));
}

TEST(Mounts, OfOneContainerTakeTurns) {
    for (const uint64_t seed : {1, 2, 3, 4, 5}) {
        Rig rig(seed);
        rig.world.run(mount_at_once(rig));
        EXPECT_GE(rig.source.opens, 1);
    }
}

Task<> hold_handles(Rig& rig) {
    const Call call;
    Report report;
    auto alice = *rig.sessions.open(request());
    auto also = *rig.sessions.open(request());
    auto bob = *rig.sessions.open(request("CN=bob"));
    const auto first = co_await rig.mounts.mount(call, *alice, "c", {}, report);
    const auto second = co_await rig.mounts.mount(call, *also, "c", {}, report);
    const auto others = co_await rig.mounts.mount(call, *bob, "c", {}, report);
    auto in_first = *rig.mounts.find(*alice, *first);
    auto in_second = *rig.mounts.find(*also, *second);
    auto in_others = *rig.mounts.find(*bob, *others);
    fs::FileHandle last{};
    for (int i = 0; i < 6; ++i) {
        auto& use = i < 3 ? in_first : in_second;
        EXPECT_TRUE(use->check_room()) << i;
        const auto file = co_await use->file_system().create(call, fs::root_node, std::to_string(i),
                                                             0644, {.read = true}, {});
        use->opened(last = file->handle);
        use->refer(fs::NodeId{100 + static_cast<uint64_t>(i)});
    }
    EXPECT_EQ(in_second->check_room().error().code, Code::busy) << "six of the tenant's";
    in_first->refer(fs::NodeId{1});
    EXPECT_EQ(in_first->nodes(), 3U) << "it forgot one";
    EXPECT_EQ(in_second->nodes(), 3U);
    EXPECT_TRUE(in_others->check_room());
    in_others->refer(fs::NodeId{1});
    in_others->refer(fs::NodeId{2});
    EXPECT_EQ(in_others->nodes(), 2U);
    EXPECT_TRUE(in_second->closing(last));
    in_second->forget(fs::NodeId{105}, 1);
    EXPECT_TRUE(in_first->check_room());
    in_first->refer(fs::NodeId{3});
    EXPECT_EQ(in_first->nodes(), 4U);
    EXPECT_TRUE(co_await in_second->file_system().close(call, last));
}

TEST(Mounts, OfOneTenantAreBoundedTogether) {
    Rig rig(1, {.nodes_sure = 1, .tenant = {8, 6, 6, 100}});
    rig.world.run(hold_handles(rig));
}

// Two of the three mounts, two handles and two nodes are alice's, none is hers alone at a limit.
Task<> share_the_server(Rig& rig) {
    const Call call;
    Report report;
    auto alice = *rig.sessions.open(request());
    auto bob = *rig.sessions.open(request("CN=bob"));
    std::vector<MountUse> uses;
    for (auto* session : {&alice, &alice, &bob}) {
        const auto mounted = co_await rig.mounts.mount(call, **session, "c", {}, report);
        EXPECT_TRUE(mounted) << report.text();
        uses.push_back(std::move(*rig.mounts.find(**session, *mounted)));
    }
    auto carol = *rig.sessions.open(request("CN=carol"));
    EXPECT_EQ((co_await rig.mounts.mount(call, *carol, "c", {}, report)).error().code, Code::busy);
    EXPECT_NE(report.text().find("the server has too many mounts"), std::string::npos);
    fs::FileHandle last{};
    for (size_t i = 0; i < uses.size(); ++i) {
        EXPECT_TRUE(uses[i]->check_room());
        const auto file = co_await uses[i]->file_system().create(
            call, fs::root_node, std::to_string(i), 0644, {.read = true}, {});
        uses[i]->opened(last = file->handle);
        uses[i]->refer(fs::NodeId{100 + i});
    }
    EXPECT_EQ(uses[2]->check_room().error().code, Code::busy);
    uses[2]->refer(fs::NodeId{1});
    EXPECT_EQ(uses[2]->nodes(), 1U) << "it forgot one";
    EXPECT_EQ(uses[0]->nodes(), 1U) << "not of another tenant";
    EXPECT_TRUE(uses[2]->closing(last));
    uses[0]->forget(fs::NodeId{100}, 1);
    EXPECT_TRUE(uses[2]->check_room());
    uses[2]->refer(fs::NodeId{2});
    EXPECT_EQ(uses[2]->nodes(), 2U);
    EXPECT_TRUE(co_await uses[2]->file_system().close(call, last));
}

TEST(Mounts, OfAllTenantsAreBoundedTogether) {
    Rig rig(1, {.nodes_sure = 1, .tenant = {8, 8, 8, 100}, .all = {3, 3, 3, 100}});
    rig.world.run(share_the_server(rig));
}

Task<> stop_a_walk(Rig& rig) {
    const Call call;
    Report report;
    auto session = *rig.sessions.open(request());
    const auto mounted = co_await rig.mounts.mount(call, *session, "c", {}, report);
    auto mount = *rig.mounts.find(*session, *mounted);
    MountNames names(*mount, report);
    const auto directory = co_await names.mkdir(call, fs::root_node, "d", 0755, {});
    const auto file = co_await names.mkdir(call, directory->node, "e", 0755, {});
    names.forget(directory->node, 1);
    names.forget(file->node, 1);
    StopSource stop;
    stop.request_stop();
    EXPECT_FALSE(co_await names.walk(Call{.stop = stop.token()}, "d/e", fs::LastLink::keep));
    EXPECT_EQ(mount->nodes(), 0U);
    EXPECT_TRUE(co_await names.walk(call, "d/e", fs::LastLink::keep));
    EXPECT_EQ(mount->nodes(), 2U);
}

TEST(Mounts, AWalkGivesBothNodesOrNone) {
    Rig rig;
    rig.world.run(stop_a_walk(rig));
}

// A host's kernel keeps what it looked up until it needs the memory. It may go on using all of it.
Task<> look_up_more_than_are_kept(Rig& rig) {
    const Call call;
    Report report;
    auto session = *rig.sessions.open(request());
    const auto mounted = co_await rig.mounts.mount(call, *session, "c", {}, report);
    auto mount = *rig.mounts.find(*session, *mounted);
    MountNames names(*mount, report);
    std::vector<fs::NodeId> nodes;
    for (int i = 0; i < 20; ++i) {
        const auto made = co_await names.mkdir(call, fs::root_node, std::to_string(i), 0755, {});
        EXPECT_TRUE(made) << i;
        nodes.push_back(made->node);
        // In use all the time, so it stays.
        EXPECT_TRUE(co_await names.lookup(call, fs::root_node, "0"));
        EXPECT_LE(mount->nodes(), 5U);
    }
    for (const fs::NodeId node : nodes) {
        EXPECT_TRUE(co_await names.get_attributes(call, node));
        EXPECT_TRUE(co_await names.mkdir(call, node, "in it", 0755, {}));
    }
    for (const fs::NodeId node : nodes) names.forget(node, 100);
    EXPECT_LE(mount->nodes(), 5U);
}

TEST(Mounts, ForgetNodesAboveTheirBound) {
    Rig rig;
    rig.world.run(look_up_more_than_are_kept(rig));
}

TEST(Mounts, UnmountingWaitsForCalls) {
    Rig rig;
    rig.world.run(unmount_while_in_use(rig));
}

}  // namespace
}  // namespace ros2s::session
