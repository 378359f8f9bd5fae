// Mounts of sessions: shared, bounded, and ended with their session.
#include "mounts.h"

#include <gmock/gmock.h>

#include "mount_names.h"
#include "ros2s/runtime/nursery.h"
#include "ros2s/runtime/sim/co_test.h"
#include "test_support/session.h"

namespace ros2s::session {
namespace {

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
    EXPECT_EQ(rig.mounts.containers_of(alice->id), std::vector<std::string>{"c"});
    EXPECT_EQ(rig.mounts.look(*bob, *first), nullptr);
    EXPECT_NE(rig.mounts.look(*alice, *first), nullptr);
    EXPECT_EQ(rig.sessions.metrics().foreign.value(), 0U) << "looking is no request";
    EXPECT_EQ(rig.mounts.find(*bob, *first).error().code, Code::stale);
    {
        auto mount = *rig.mounts.find(*alice, *first);
        EXPECT_FALSE(mount->read_only());
        const auto file = co_await mount->file_system().create(call, fs::root_node, "f", 0644,
                                                               {.write = true}, {});
        EXPECT_TRUE(file.has_value());
        mount->opened(file->handle, HandleRoom(*mount));
        EXPECT_TRUE(mount->check(file->handle));
        auto other = *rig.mounts.find(*bob, *second);
        EXPECT_TRUE(other->read_only());
        EXPECT_EQ(other->check(file->handle).error().code, Code::stale);
        EXPECT_EQ(other->closing(file->handle).error().code, Code::stale);
    }
    EXPECT_TRUE(co_await rig.mounts.unmount(*alice, *first));
    EXPECT_EQ((co_await rig.mounts.unmount(*alice, *first)).error().code, Code::stale);
    EXPECT_TRUE(rig.mounts.in_use("pool", "c")) << "bob has it still";
    EXPECT_TRUE(rig.mounts.containers_of(alice->id).empty());
    EXPECT_TRUE(co_await rig.mounts.unmount(*bob, *second));
    EXPECT_FALSE(rig.mounts.in_use("pool", "c"));
    EXPECT_EQ((co_await rig.mounts.mount(call, *alice, "none", {}, report)).error().code,
              Code::not_found);
}

TEST(SessionMounts, MountsShareOnlyTheContainer) {
    for (uint64_t seed = 1; seed < 10; ++seed) {
        Rig rig(seed);
        rig.world.run(share_a_container(rig));
    }
}

CO_TEST(SessionMounts, BlockWhoseWriterHasGoneDoesNotAppear, Rig, rig) {
    const Call call;
    Report report;
    object::ContainerRecord record = (co_await rig.store.list_containers(call))->front();
    record.properties.caps.bytes = 1 << 20;
    EXPECT_TRUE(co_await fs::make_cache(call, rig.store, record, {}, report)) << report.text();
    const auto alice = *rig.sessions.open(request());
    const auto watching = co_await rig.mounts.mount(call, *alice, "c", {}, report);
    const auto writing = co_await rig.mounts.mount(call, *alice, "c", {}, report);
    const auto watcher = *rig.mounts.find(*alice, *watching);
    {
        const auto writer = *rig.mounts.find(*alice, *writing);
        const auto file = co_await writer->file_system().create(call, fs::root_node, "half", 0644,
                                                                {.write = true}, {});
        writer->opened(file->handle, HandleRoom(*writer));
        const ConstBytes half = as_bytes(std::string_view("half a bl"));
        EXPECT_TRUE(
            co_await writer->file_system().pwrite(call, file->handle, fs::Window::local(half), 0));
    }
    EXPECT_TRUE(co_await rig.mounts.unmount(*alice, *writing));
    const auto found = co_await watcher->file_system().lookup(call, fs::root_node, "half");
    EXPECT_EQ(found.error().code, Code::not_found);
}

Task<> end_session(Rig& rig, SessionId id, bool& ended) {
    co_await rig.sessions.close(id);
    ended = true;
}

CO_TEST(SessionMounts, FilesAreClosedOnThreadsOfTheirTenant, Rig, rig) {
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
        if (root) mount->opened(root->handle, HandleRoom(*mount));
    }
    // Calls without a tenant have a share of the threads, and wait. Calls of the session do not.
    bool ended = false;
    Nursery closing(rig.world.core(), 1);
    {
        const auto hung = co_await rig.source.turns.enter({}, 0);
        co_await closing.spawn(end_session(rig, id, ended));
        (void)co_await sleep_for(rig.world.core(), 10s);
        EXPECT_TRUE(ended) << "its files were closed as those of no tenant";
    }
    co_await closing.join();
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
            EXPECT_TRUE(mount->reserve_handle());
            const auto file = co_await mount->file_system().create(
                call, fs::root_node, std::to_string(i * 10 + j), 0644, {.write = true}, {});
            mount->opened(file->handle, HandleRoom(*mount));
            mount->refer(file->attributes.node);
        }
        EXPECT_EQ(mount->reserve_handle().error().code, Code::busy);
        mount->refer(fs::NodeId{1000});
        EXPECT_EQ(mount->nodes(), 5U);
        mount->refer(fs::NodeId{1001});
        EXPECT_EQ(mount->nodes(), 5U);
        mount->forget(fs::NodeId{1001}, 5);
    }
    EXPECT_EQ((co_await rig.mounts.mount(call, *session, "c", {}, report)).error().code,
              Code::busy);
}

TEST(SessionMounts, MountsEndWithTheirSession) {
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

CO_TEST(SessionMounts, UnmountWaitsForCalls, Rig, rig) {
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

// Earlier, one tenant's absent engine delayed every tenant.
CO_TEST(SessionMounts, SilentMountDelaysNobodyElse, Rig, rig) {
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

// A caller that waits for another caller's opening of a container waits only until its own
// deadline.
CO_TEST(SessionMounts, WaitForTurnEndsAtDeadline, Rig, rig) {
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

TEST(SessionMounts, MountsOfOneContainerTakeTurns) {
    for (const uint64_t seed : {1, 2, 3, 4, 5}) {
        Rig rig(seed);
        rig.world.run(mount_at_once(rig));
        EXPECT_GE(rig.source.opens, 1);
    }
}

CO_TEST(SessionMounts, ResourcesOfOneTenantAreBounded, Rig, rig, 1,
        {.nodes_sure = 1, .tenant = {8, 6, 6, 100}}) {
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
        EXPECT_TRUE(use->reserve_handle()) << i;
        const auto file = co_await use->file_system().create(call, fs::root_node, std::to_string(i),
                                                             0644, {.read = true}, {});
        use->opened(last = file->handle, HandleRoom(*use));
        use->refer(fs::NodeId{100 + static_cast<uint64_t>(i)});
    }
    EXPECT_EQ(in_second->reserve_handle().error().code, Code::busy) << "six of the tenant's";
    in_first->refer(fs::NodeId{1});
    EXPECT_EQ(in_first->nodes(), 3U) << "it forgot one";
    EXPECT_EQ(in_second->nodes(), 3U);
    EXPECT_TRUE(in_others->reserve_handle());
    in_others->refer(fs::NodeId{1});
    in_others->refer(fs::NodeId{2});
    EXPECT_EQ(in_others->nodes(), 2U);
    EXPECT_TRUE(in_second->closing(last));
    in_second->forget(fs::NodeId{105}, 1);
    EXPECT_TRUE(in_first->reserve_handle());
    in_first->refer(fs::NodeId{3});
    EXPECT_EQ(in_first->nodes(), 4U);
    EXPECT_TRUE(co_await in_second->file_system().close(call, last));
}

Task<> limit_handles(Rig& rig) {
    const Call call;
    Report report;
    const auto alice = *rig.sessions.open(request());
    const auto mounted = co_await rig.mounts.mount(call, *alice, "c", {}, report);
    const auto use = *rig.mounts.find(*alice, *mounted);
    MountNames names(*use, report);
    const auto make = [&](std::string_view name) -> Task<Result<fs::Opened>> {
        return names.create(call, fs::root_node, name, 0644, {.read = true}, {});
    };
    const Counter& open = alice->account().metrics.handles;
    rig.accounts.set({.others = {.handles = 2}});
    const auto first = co_await make("1");
    EXPECT_TRUE(co_await make("2"));
    EXPECT_EQ((co_await make("3")).error().code, Code::busy);
    EXPECT_THAT(report.text(), testing::HasSubstr("'CN=alice' has as many handles as it may have, "
                                                  "2. Close some."));
    EXPECT_THAT(report.text(), testing::HasSubstr("tenant set NAME --handles"));
    EXPECT_EQ((co_await names.lookup(call, fs::root_node, "3")).error().code, Code::not_found);
    EXPECT_EQ(open.value(), 2U);
    // A lower limit closes nothing.
    rig.accounts.set({.others = {.handles = 1}});
    EXPECT_TRUE(use->check(first->handle));
    EXPECT_TRUE(co_await names.close(call, first->handle));
    EXPECT_EQ((co_await make("3")).error().code, Code::busy);
    rig.accounts.set({});
    EXPECT_TRUE(co_await make("3"));
    EXPECT_EQ(open.value(), 2U);
    // Files that are being opened count.
    rig.accounts.set({.others = {.handles = 4}});
    {
        const auto one = use->reserve_handle(), other = use->reserve_handle();
        EXPECT_TRUE(one && other);
        EXPECT_FALSE(use->reserve_handle());
    }
    // One that was opened counts once.
    auto room = use->reserve_handle();
    EXPECT_EQ(open.value(), 3U);
    use->opened(fs::FileHandle{1000}, std::move(*room));
    EXPECT_EQ(open.value(), 3U);
    EXPECT_TRUE(use->reserve_handle());
    EXPECT_TRUE(use->closing(fs::FileHandle{1000}));
    EXPECT_EQ(open.value(), 2U);
}
TEST(SessionMounts, HandlesOfOneTenantAreLimited) {
    Rig rig(1, {});
    rig.world.run(limit_handles(rig));
    rig.world.run(rig.sessions.close_all());
    EXPECT_EQ(rig.accounts.open("CN=alice")->metrics.handles.value(), 0U);
}

// Alice has two of the three mounts, two handles and two nodes. No client alone is at a limit.
CO_TEST(SessionMounts, ResourcesOfAllTenantsAreBounded, Rig, rig, 1,
        {.nodes_sure = 1, .tenant = {8, 8, 8, 100}, .all = {3, 3, 4, 100}}) {
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
        EXPECT_TRUE(uses[i]->reserve_handle());
        const auto file = co_await uses[i]->file_system().create(
            call, fs::root_node, std::to_string(i), 0644, {.read = true}, {});
        uses[i]->opened(last = file->handle, HandleRoom(*uses[i]));
        uses[i]->refer(fs::NodeId{100 + i});
    }
    EXPECT_EQ(uses[2]->reserve_handle().error().code, Code::busy);
    uses[2]->refer(fs::NodeId{1});
    EXPECT_EQ(uses[2]->nodes(), 1U) << "it forgot one";
    EXPECT_EQ(uses[0]->nodes(), 1U) << "not of another tenant";
    EXPECT_TRUE(uses[2]->closing(last));
    uses[0]->forget(fs::NodeId{100}, 1);
    EXPECT_TRUE(uses[2]->reserve_handle());
    uses[2]->refer(fs::NodeId{2});
    EXPECT_EQ(uses[2]->nodes(), 2U);
    EXPECT_TRUE(co_await uses[2]->file_system().close(call, last));
}

CO_TEST(SessionMounts, StoppedWalkGivesBothNodesOrNone, Rig, rig) {
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

// A host's kernel keeps what it looked up until it needs the memory. It may go on using all of it.
CO_TEST(SessionMounts, NodesOverLimitAreForgotten, Rig, rig) {
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

Task<> count_turns(Reactor& core, StopToken until, uint64_t& turns) {
    while (!until.stop_requested()) {
        ++turns;
        co_await yield(core);
    }
}

CO_TEST(SessionMounts, LargeUnmountYieldsTheCore, Rig, rig, 1, {}) {
    constexpr uint64_t nodes = 200'000, handles = 10'000;
    const Call call;
    Report report;
    auto session = *rig.sessions.open(request());
    const auto mounted = co_await rig.mounts.mount(call, *session, "c", {}, report);
    {
        auto mount = *rig.mounts.find(*session, *mounted);
        for (uint64_t i = 0; i < nodes; ++i) mount->refer(fs::NodeId{1000 + i});
        for (uint64_t i = 0; i < handles; ++i) {
            mount->opened(fs::FileHandle{1000 + i}, HandleRoom(*mount));
        }
        EXPECT_EQ(mount->nodes(), nodes);
    }
    StopSource unmounted;
    uint64_t turns = 0;
    Nursery nursery(rig.world.core(), 1);
    co_await nursery.spawn(count_turns(rig.world.core(), unmounted.token(), turns));
    EXPECT_TRUE(co_await rig.mounts.unmount(*session, *mounted));
    unmounted.request_stop();
    co_await nursery.join();
    EXPECT_GE(turns, (nodes + handles) / 100);
}

// Otherwise it would examine all nodes, up to a million, if all are recent.
CO_TEST(SessionMounts, ForgetVisitsFewNodes, Rig, rig, 1, {.nodes_max = 1000}) {
    const Call call;
    Report report;
    auto session = *rig.sessions.open(request());
    const auto mounted = co_await rig.mounts.mount(call, *session, "c", {}, report);
    auto mount = *rig.mounts.find(*session, *mounted);
    for (uint64_t i = 1; i <= 1001; ++i) mount->refer(fs::NodeId{1000 + i});
    EXPECT_EQ(mount->nodes(), 1000U);
    mount->forget(fs::NodeId{1064}, 1);
    EXPECT_EQ(mount->nodes(), 1000U) << "the last of the 64 at which it looked is gone";
    // It continues there. The earlier ones are no longer recent, the later ones are.
    mount->refer(fs::NodeId{3000});
    mount->forget(fs::NodeId{1128}, 1);
    EXPECT_EQ(mount->nodes(), 1000U);
}

}  // namespace
}  // namespace ros2s::session
