// What requests count for their tenant's rates and for the server's memory.
#include <fmt/format.h>

#include "ros2s/runtime/nursery.h"
#include "test_support/link.h"

namespace ros2s::hostlink {
namespace {

using namespace std::chrono_literals;
using fs::LastLink;

struct LimitedStage {
    void run(Task<> (*body)(LimitedStage&)) { world.run(whole(*this, body)); }
    static Task<> whole(LimitedStage& self, Task<> (*body)(LimitedStage&)) {
        co_await self.dpu.start();
        co_await self.host.start();
        co_await body(self);
        self.dpu.accounts.set({});
        co_await self.host.stop();
        co_await self.dpu.stop();
    }
    [[nodiscard]] WireToStore& wire() { return dynamic_cast<DfsSource&>(*dpu.source).wire(); }
    // Directory `a`, whose link `round` is a long way to itself, and the file `a/f`.
    Task<> make_names() {
        session::MountNames& names = *host.names;
        const auto a = co_await names.mkdir({}, fs::root_node, "a", 0755, {});
        EXPECT_TRUE(a);
        EXPECT_TRUE(
            co_await names.symlink({}, a->node, "round", "/" + to_and_fro() + "a/round", {}));
        EXPECT_TRUE(co_await names.create({}, a->node, "f", 0644, {.write = true}, {}));
    }
    // 1,600 names.
    static std::string to_and_fro() {
        std::string path;
        for (int i = 0; i < 800; ++i) path += "a/../";
        return path;
    }
    // 1,000 names a second, of which the tenant has used none.
    void limit_names() {
        dpu.accounts.set({});
        dpu.accounts.set({.others = {.names = 1000, .burst = 10ms}});
        names_before = names_used();
    }
    uint64_t names_used() { return dpu.accounts.open(host.subject)->metrics.names.value(); }
    // Of what was done since limit_names(). The tenant's next request waits for it.
    Task<> expect_names(uint64_t count) {
        EXPECT_EQ(names_used() - names_before, count);
        const Time begun = world.core().now();
        EXPECT_TRUE(co_await host.link->get_attributes({}, fs::root_node));
        EXPECT_GE(world.core().now() - begun, (count - 50) * 1ms);
    }

    sim::World world{1};
    fabric::sim::Network network{world.random()};
    Dpu dpu{world, network, uint64_t{1} << 20};
    Host host{dpu, 1};
    uint64_t names_before = 0;
};

Task<> walk_far(LimitedStage& stage) {
    co_await stage.make_names();
    fs::FileSystem& link = *stage.host.link;
    stage.limit_names();
    EXPECT_TRUE(co_await link.walk({}, LimitedStage::to_and_fro(), LastLink::follow));
    co_await stage.expect_names(1600);
    // It fails at the bound of a walk, in the third round.
    stage.limit_names();
    EXPECT_EQ((co_await link.walk({}, "a/round", LastLink::follow)).error().code, Code::loop);
    co_await stage.expect_names(2 + 2 * 1602);
    stage.limit_names();
    EXPECT_TRUE(
        co_await link.open_path({}, LimitedStage::to_and_fro() + "a/f", {.flags = {.read = true}}));
    co_await stage.expect_names(1602);
    stage.limit_names();
    EXPECT_FALSE(co_await link.open_path({}, "a/round", {.flags = {.read = true}}));
    co_await stage.expect_names(2 + 2 * 1602);
}
TEST(LinkLimits, EachNameOfAPathCounts) { LimitedStage().run(walk_far); }

Task<> read_nothing_of_many(LimitedStage& stage) {
    co_await stage.make_names();
    std::vector<fs::ReadManyItem> items(read_many_items_max);
    for (fs::ReadManyItem& item : items) item.name = "f";
    stage.limit_names();
    EXPECT_TRUE(co_await stage.host.link->read_many({}, fs::root_node, items));
    co_await stage.expect_names(read_many_items_max);
    items.resize(10);
    for (fs::ReadManyItem& item : items) item.name = "a/../a/../a/f";
    stage.limit_names();
    EXPECT_TRUE(co_await stage.host.link->read_many({}, fs::root_node, items));
    co_await stage.expect_names(60);
}
TEST(LinkLimits, EachNameOfReadManyCounts) { LimitedStage().run(read_nothing_of_many); }

Task<> open_too_many(LimitedStage& stage) {
    fs::FileSystem& link = *stage.host.link;
    const Call call;
    const auto open = [&] { return link.open(call, fs::root_node, {.read = true}); };
    stage.dpu.accounts.set({.others = {.handles = 2}});
    const auto first = co_await open();
    EXPECT_TRUE(first && co_await open());
    const auto refused = co_await open();
    EXPECT_FALSE(refused);
    EXPECT_EQ(to_errno(refused.error()), EBUSY);
    // What is open stays, and a lower limit lets nothing in until there is less.
    stage.dpu.accounts.set({.others = {.handles = 1}});
    EXPECT_TRUE(co_await link.readdir({}, first->handle, 0, 10));
    EXPECT_TRUE(co_await link.close({}, first->handle));
    EXPECT_FALSE(co_await open());
    stage.dpu.accounts.set({.others = {.handles = 2}});
    EXPECT_TRUE(co_await open());
}
TEST(LinkLimits, HandlesOverTenantLimitAreRefused) { LimitedStage().run(open_too_many); }

Task<> list_slowly(LinkClient& link, fs::FileHandle handle) {
    EXPECT_TRUE(co_await link.readdir({}, handle, 0, readdir_entries_max));
}
Task<> list_over_a_limit(LimitedStage& stage) {
    const auto root = co_await stage.host.link->open({}, fs::root_node, {.read = true});
    EXPECT_TRUE(root);
    stage.dpu.accounts.set({.others = {.requests_in_flight = 2}});
    const admission::Admission& admission = stage.dpu.group.admission;
    const uint64_t before = admission.metrics().waited.value();
    stage.wire().held_on = &stage.world.core();
    Nursery listing(stage.world.core(), 16);
    for (int i = 0; i < 16; ++i) {
        co_await listing.spawn(list_slowly(*stage.host.link, root->handle));
    }
    (void)co_await sleep_for(stage.world.core(), 1s);
    EXPECT_EQ(admission.inside().requests, 2U);
    EXPECT_EQ(admission.metrics().waited.value() - before, 14U) << "none was refused";
    stage.wire().held_on = nullptr;
    co_await listing.join();
}
TEST(LinkLimits, RequestsOverTenantLimitWait) { LimitedStage().run(list_over_a_limit); }

// A directory's names may have 255 bytes, so the longest list takes more than a megabyte. Before it
// begins, nobody knows how long it is.
Task<> list_at_once(LimitedStage& stage) {
    const size_t hosts = 8, credits = 64;
    std::vector<std::unique_ptr<Host>> others;
    std::vector<fs::FileHandle> roots;
    for (uint8_t i = 0; i < hosts; ++i) {
        others.push_back(std::make_unique<Host>(stage.dpu, i + 2));
        co_await others.back()->start();
        const auto root = co_await others.back()->link->open({}, fs::root_node, {.read = true});
        EXPECT_TRUE(root);
        roots.push_back(root->handle);
    }
    stage.wire().held_on = &stage.world.core();
    Nursery listing(stage.world.core(), hosts * credits);
    for (size_t i = 0; i < hosts * credits; ++i) {
        co_await listing.spawn(list_slowly(*others[i % hosts]->link, roots[i % hosts]));
    }
    (void)co_await sleep_for(stage.world.core(), 10s);
    const admission::Admission& admission = stage.dpu.group.admission;
    EXPECT_GE(stage.wire().lists, 100U);
    EXPECT_GE(admission.inside().bytes,
              stage.wire().lists * readdir_entries_max * fs::name_bytes_max);
    EXPECT_LE(admission.inside().bytes, admission.limits().one.bytes);
    // They are no payload.
    const auto& metrics = stage.dpu.accounts.open(stage.host.subject)->metrics;
    EXPECT_EQ(metrics.requests.value(), 0U);
    EXPECT_EQ(metrics.bytes.value(), 0U);
    stage.wire().held_on = nullptr;
    co_await listing.join();
    for (const auto& each : others) co_await each->stop();
    EXPECT_EQ(admission.inside().bytes, 0U);
}
TEST(LinkLimits, ListsAreAdmittedWithReplyMemory) { LimitedStage().run(list_at_once); }

// What a large request needed is not kept for later ones.
Task<> need_much(LimitedStage& stage) {
    fs::FileSystem& link = *stage.host.link;
    std::vector<fs::ReadManyItem> items(300);
    for (fs::ReadManyItem& item : items) item.name = std::string(read_many_name_bytes_max, 'x');
    EXPECT_TRUE(co_await link.read_many({}, fs::root_node, items));
    EXPECT_LE(stage.dpu.service.kept_bytes(), 65536U);
    items.assign(read_many_items_max, {.name = "x"});
    EXPECT_TRUE(co_await link.read_many({}, fs::root_node, items));
    EXPECT_LE(stage.dpu.service.kept_bytes(), 65536U);
    for (int i = 0; i < 300; ++i) {
        EXPECT_TRUE(co_await stage.host.names->mknod({}, fs::root_node, fmt::format("{:0255}", i),
                                                     S_IFREG | 0644, 0, {}));
    }
    const auto root = co_await link.open({}, fs::root_node, {.read = true});
    EXPECT_TRUE(root);
    const auto listed = co_await link.readdir({}, root->handle, 0, readdir_entries_max);
    EXPECT_EQ(listed->size(), 300U);
    EXPECT_LE(stage.dpu.service.kept_bytes(), 65536U);
    EXPECT_TRUE(co_await link.get_attributes({}, fs::root_node));
    EXPECT_GT(stage.dpu.service.kept_bytes(), 0U) << "small memory is used again";
}
TEST(LinkLimits, MemoryOfLargeRequestsIsNotKept) { LimitedStage().run(need_much); }

}  // namespace
}  // namespace ros2s::hostlink
