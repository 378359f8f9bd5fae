// What requests count for their tenant's rates.
#include "link_test_support.h"

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
    // The request itself counts as a read: its body is in a window.
    co_await stage.expect_names(read_many_items_max - 1);
    items.resize(10);
    for (fs::ReadManyItem& item : items) item.name = "a/../a/../a/f";
    stage.limit_names();
    EXPECT_TRUE(co_await stage.host.link->read_many({}, fs::root_node, items));
    co_await stage.expect_names(60);
}
TEST(LinkLimits, EachNameOfFilesReadTogetherCounts) { LimitedStage().run(read_nothing_of_many); }

}  // namespace
}  // namespace ros2s::hostlink
