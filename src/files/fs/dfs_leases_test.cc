// Two mounts of one container, of which one keeps what it read under leases.
#include <gtest/gtest.h>

#include "dfs_mount.h"
#include "ros2s/object/leases.h"
#include "ros2s/object/test_support/memory_store.h"
#include "ros2s/runtime/sim/world.h"

namespace ros2s::fs {
namespace {

using namespace std::chrono_literals;

class SlowObserver final : public LeaseObserver {
  public:
    explicit SlowObserver(Reactor& reactor) : reactor_(reactor) {}
    Duration takes{};
    std::vector<NodeId> nodes;
    Task<> lost(std::span<const Leased> leases) override {
        for (const Leased& each : leases) nodes.push_back({each.node});
        co_await sleep_for(reactor_, takes);
    }
    Task<> lost_all() override { co_return; }

  private:
    Reactor& reactor_;
};

class DfsLeases : public testing::Test {
  protected:
    void SetUp() override {
        world_.run(make_container());
        a_ = mount();
        b_ = mount();
        world_.run(pause(10ms));
    }
    void TearDown() override {
        for (const auto& each : {a_.get(), b_.get()}) {
            if (each != nullptr) world_.run(each->close_all());
        }
    }
    Task<> make_container() {
        const auto made = co_await store_.create_container({}, {.label = "c"});
        container_ = made->id;
        Report report;
        EXPECT_TRUE(co_await Dfs::format({}, store_, container_, reactor_, {}, report));
    }
    std::unique_ptr<Dfs> mount() {
        Report report;
        auto mounted = world_.run(
            Dfs::mount({}, store_, container_, reactor_, {.takes_leases = true}, report));
        EXPECT_TRUE(mounted) << report.text();
        if (!mounted) return nullptr;
        (*mounted)->leases()->wanted().set();
        return std::move(*mounted);
    }
    Task<> pause(Duration time) { co_await sleep_for(reactor_, time); }
    // Attributes of the name, and what the reply came with.
    Result<Attributes> look_up(Dfs& fs, std::string_view name) {
        leases_.clear();
        const Call call{.leases = &leases_};
        return world_.run(fs.lookup(call, root_node, name));
    }
    uint64_t held(Dfs& fs, NodeId node) { return fs.leases()->held(leases_, node); }
    [[nodiscard]] WallTime changed(NodeId node) const {
        WallTime changed{};
        for (const Leased& each : leases_) {
            if (each.node == node.value) changed = std::max(changed, each.changed);
        }
        return changed;
    }
    NodeId make(Dfs& fs, std::string_view name) {
        const auto made = world_.run(fs.mknod({}, root_node, name, S_IFREG | 0644, 0, {}));
        EXPECT_TRUE(made);
        return made ? made->node : NodeId{};
    }
    Duration time_of(auto&& change) {
        const Time begun = reactor_.now();
        EXPECT_TRUE(change());
        return reactor_.now() - begun;
    }

    sim::World world_{1};
    Reactor& reactor_ = world_.core();
    object::MemoryStore store_{reactor_};
    object::ContainerId container_;
    std::unique_ptr<Dfs> a_, b_;
    std::vector<Leased> leases_;
};

TEST_F(DfsLeases, LookUpComesWithLeasesOfDirectoryAndNode) {
    const NodeId file = make(*a_, "file");
    world_.run(pause(300ms));
    ASSERT_TRUE(look_up(*a_, "file"));
    EXPECT_NE(held(*a_, root_node), 0U);
    EXPECT_NE(held(*a_, file), 0U);
    EXPECT_FALSE(look_up(*a_, "absent"));
    EXPECT_NE(held(*a_, root_node), 0U);
    ASSERT_TRUE(world_.run(a_->lookup({}, root_node, "file")));
}

TEST_F(DfsLeases, ChangeByAnotherMountEndsTheLeaseBeforeItIsDone) {
    const NodeId file = make(*a_, "file");
    world_.run(pause(300ms));
    ASSERT_TRUE(look_up(*a_, "file"));
    SlowObserver observer(reactor_);
    observer.takes = 50ms;
    a_->leases()->observe(observer);
    const Duration took = time_of(
        [&] { return world_.run(b_->set_attributes({}, file, {.mode = 0600})).has_value(); });
    EXPECT_EQ(observer.nodes, std::vector{file});
    EXPECT_GE(took, 50ms);
    EXPECT_LT(took, 150ms);
    EXPECT_EQ(held(*a_, file), 0U);
    EXPECT_NE(held(*a_, root_node), 0U);
    const auto found = look_up(*a_, "file");
    ASSERT_TRUE(found);
    EXPECT_EQ(found->mode & 0777, 0600U);
    a_->leases()->unobserve(observer);
}

TEST_F(DfsLeases, OwnChangeKeepsTheLease) {
    make(*a_, "file");
    world_.run(pause(300ms));
    const auto found = look_up(*a_, "file");
    ASSERT_TRUE(found);
    EXPECT_LT(time_of([&] { return world_.run(a_->unlink({}, root_node, "file")).has_value(); }),
              1ms);
    EXPECT_NE(held(*a_, root_node), 0U);
}

TEST_F(DfsLeases, CreationComesWithLeaseOfNodeAndTimeOfDirectory) {
    EXPECT_FALSE(look_up(*a_, "new"));
    leases_.clear();
    const Call call{.leases = &leases_};
    const auto made = world_.run(a_->mkdir(call, root_node, "new", 0755, {}));
    ASSERT_TRUE(made);
    EXPECT_NE(held(*a_, made->node), 0U);
    const auto root = world_.run(a_->get_attributes({}, root_node));
    ASSERT_TRUE(root);
    EXPECT_EQ(changed(root_node), root->modified);
    EXPECT_NE(changed(made->node), WallTime{});
    // Others change it only when the lease has been given back.
    const auto other = world_.run(b_->mkdir({}, made->node, "below", 0755, {}));
    ASSERT_TRUE(other);
    EXPECT_EQ(held(*a_, made->node), 0U);
    leases_.clear();
    EXPECT_TRUE(world_.run(a_->rename(call, root_node, "new", root_node, "old", {})));
    EXPECT_EQ(changed(root_node), world_.run(a_->get_attributes({}, root_node))->modified);
    leases_.clear();
    EXPECT_TRUE(world_.run(a_->rmdir(call, made->node, "below")));
    EXPECT_EQ(changed(made->node), WallTime{}) << "its lease is lost";
}

TEST_F(DfsLeases, CreationByAnotherMountEndsTheLeaseOfTheDirectory) {
    EXPECT_FALSE(look_up(*a_, "new"));
    ASSERT_NE(held(*a_, root_node), 0U);
    const NodeId made = make(*b_, "new");
    EXPECT_EQ(held(*a_, root_node), 0U);
    const auto found = look_up(*a_, "new");
    ASSERT_TRUE(found);
    EXPECT_EQ(found->node, made);
}

TEST_F(DfsLeases, EndedMountDelaysNobody) {
    make(*a_, "file");
    world_.run(pause(300ms));
    ASSERT_TRUE(look_up(*a_, "file"));
    world_.run(a_->close_all());
    a_.reset();
    EXPECT_LT(time_of([&] { return world_.run(b_->unlink({}, root_node, "file")).has_value(); }),
              5ms);
}

TEST_F(DfsLeases, ObserverThatHangsDelaysOthersByTheLeaseTime) {
    const NodeId file = make(*a_, "file");
    world_.run(pause(300ms));
    ASSERT_TRUE(look_up(*a_, "file"));
    SlowObserver observer(reactor_);
    observer.takes = 20s;
    a_->leases()->observe(observer);
    const Duration took = time_of(
        [&] { return world_.run(b_->set_attributes({}, file, {.mode = 0600})).has_value(); });
    EXPECT_LE(took, object::lease_time + 100ms);
    EXPECT_EQ(held(*a_, file), 0U);
    world_.run(pause(object::lease_time));
    EXPECT_EQ(held(*a_, root_node), 0U);
    a_->leases()->unobserve(observer);
}

}  // namespace
}  // namespace ros2s::fs
