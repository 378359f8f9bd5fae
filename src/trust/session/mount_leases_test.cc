#include "mount_leases.h"

#include <gtest/gtest.h>

#include <optional>

#include "ros2s/runtime/nursery.h"
#include "ros2s/runtime/sim/world.h"

namespace ros2s::session {
namespace {

using namespace std::chrono_literals;

constexpr uint64_t tenant = 7;

class MountLeasesTest : public testing::Test {
  public:
    void SetUp() override {
        world_.run(held_.begin(1));
        extend(1600ms);
    }
    void TearDown() override {
        world_.run(leases_->end());
        world_.run(pass(2s));
        world_.run(recalls_.join());
    }
    void extend(Duration time) { held_.extend(1, now() + time); }
    [[nodiscard]] Time now() { return world_.core().now(); }
    Task<> pass(Duration time) { co_await sleep_for(world_.core(), time); }
    LeaseNews listen(Listening listening) {
        extend(1600ms);
        return world_.run(leases_->listen({}, listening));
    }
    LeaseNews begin() { return listen({.begins = true}); }
    static Task<> recall_in(MountLeasesTest& self, Leased lease) {
        const Time begun = self.now();
        co_await self.held_.recall({lease});
        self.took_ = self.now() - begun;
    }
    // Begins a recall, as the store does. `took_` is set at its end.
    void recall(Leased lease) {
        took_ = {};
        world_.run(recalls_.spawn(recall_in(*this, lease)));
    }

    sim::World world_{1};
    fs::LeaseSet held_{world_.core()};
    TenantAnswers answers_;
    std::unique_ptr<MountLeases> leases_ =
        std::make_unique<MountLeases>(world_.core(), held_, answers_, tenant);
    Nursery recalls_{world_.core(), 4};
    std::optional<Duration> took_;
};

TEST_F(MountLeasesTest, RepliesHaveNoLeasesBeforeTheClientListens) {
    EXPECT_FALSE(leases_->is_lending());
    EXPECT_TRUE(listen({.heard = 0}).lost);
    EXPECT_FALSE(begin().lost);
    EXPECT_TRUE(leases_->is_lending());
}

TEST_F(MountLeasesTest, TimeOfANewsEndsWithTheFileSystemsOwn) {
    EXPECT_EQ(begin().held_for, MountLeases::held_most);
    held_.extend(1, now() + 1600ms);
    world_.run(pass(1400ms));
    const auto news = world_.run(leases_->listen({}, {.begins = true}));
    EXPECT_EQ(news.held_for, 200ms);
}

TEST_F(MountLeasesTest, RecallEndsWithTheAnswerOfTheClient) {
    const auto first = begin();
    recall({5, 10});
    EXPECT_FALSE(took_.has_value());
    const auto news = listen({.heard = first.number});
    EXPECT_EQ(news.recalled, (std::vector<Leased>{{5, 10}}));
    EXPECT_FALSE(took_.has_value());
    const auto last = listen({.heard = news.number});
    EXPECT_TRUE(took_.has_value());
    EXPECT_TRUE(last.recalled.empty());
    EXPECT_FALSE(last.lost);
}

TEST_F(MountLeasesTest, RecallIsToldAtOnceToAClientThatListens) {
    const auto first = begin();
    const Time begun = now();
    LeaseNews news;
    world_.run([](MountLeasesTest& self, uint64_t heard, LeaseNews& into) -> Task<> {
        Nursery store(self.world_.core(), 1);
        co_await store.spawn([](MountLeasesTest& test) -> Task<> {
            co_await test.pass(10ms);
            co_await test.held_.recall({{5, 10}});
        }(self));
        into = co_await self.leases_->listen({}, {.heard = heard});
        (void)co_await self.leases_->listen({}, {.ends = true});
        co_await store.join();
    }(*this, first.number, news));
    EXPECT_EQ(news.recalled.size(), 1U);
    EXPECT_EQ(now() - begun, 10ms);
}

TEST_F(MountLeasesTest, AnswerToAnOlderNewsIsNoAnswer) {
    const auto first = begin();
    recall({5, 10});
    (void)listen({.heard = first.number});
    (void)listen({.heard = first.number});
    EXPECT_FALSE(took_.has_value());
}

TEST_F(MountLeasesTest, SilentClientLosesAllWhenItsTimeIsOver) {
    const auto first = begin();
    recall({5, 10});
    world_.run(pass(MountLeases::held_most));
    EXPECT_EQ(took_, MountLeases::held_most);
    EXPECT_FALSE(leases_->is_lending());
    EXPECT_TRUE(listen({.heard = first.number}).lost);
}

TEST_F(MountLeasesTest, TenantThatLetsOthersWaitGetsNoLeasesForAMinute) {
    (void)begin();
    recall({5, 10});
    world_.run(pass(MountLeases::held_most));
    EXPECT_TRUE(begin().lost);
    world_.run(pass(59s));
    EXPECT_TRUE(begin().lost);
    world_.run(pass(2s));
    EXPECT_FALSE(begin().lost);
}

TEST_F(MountLeasesTest, OtherTenantsGetLeasesBesideASlowOne) {
    MountLeases other(world_.core(), held_, answers_, tenant + 1);
    (void)begin();
    recall({5, 10});
    world_.run(pass(MountLeases::held_most));
    extend(1600ms);
    EXPECT_FALSE(world_.run(other.listen({}, {.begins = true})).lost);
    EXPECT_FALSE(world_.run(other.listen({}, {.ends = true})).number != 0);
}

TEST_F(MountLeasesTest, LostStoreIsTold) {
    const auto first = begin();
    world_.run(recalls_.spawn(held_.lose_all()));
    EXPECT_TRUE(listen({.heard = first.number}).lost);
    world_.run(held_.begin(2));
    EXPECT_TRUE(world_.run(leases_->listen({}, {.heard = first.number})).lost);
}

TEST_F(MountLeasesTest, ClientThatOwesAnAnswerGetsNoMoreTime) {
    const auto first = begin();
    recall({5, 10});
    for (int i = 0; i < 6; ++i) (void)listen({.heard = first.number});
    ASSERT_TRUE(took_.has_value());
    EXPECT_LE(*took_, MountLeases::held_most);
}

TEST_F(MountLeasesTest, EndReturnsAfterTheRecallsThatWait) {
    const auto first = begin();
    recall({5, 10});
    world_.run(pass(100ms));
    (void)listen({.heard = first.number});
    world_.run(leases_->end());
    EXPECT_TRUE(took_.has_value());
}

TEST_F(MountLeasesTest, EndOfASlowClientBansNobody) {
    (void)begin();
    world_.run(leases_->end());
    EXPECT_FALSE(begin().lost);
}

TEST_F(MountLeasesTest, EvictedClientBeginsAgain) {
    const auto first = begin();
    recall({5, 10});
    EXPECT_EQ(leases_->recalls(), 1U);
    leases_->evict();
    EXPECT_FALSE(leases_->is_lending());
    EXPECT_FALSE(took_.has_value()) << "it may not have heard of it";
    EXPECT_TRUE(listen({.heard = first.number}).lost);
    world_.run(pass(10ms));
    EXPECT_FALSE(begin().lost);
    EXPECT_EQ(leases_->since(), now());
    world_.run(pass(1ms));
    EXPECT_TRUE(took_.has_value());
    EXPECT_EQ(answers_.counters.evictions.value(), 1U);
}

TEST_F(MountLeasesTest, SilentClientIsReported) {
    std::vector<Duration> silences;
    leases_->on_silence = [&](Duration waited) { silences.push_back(waited); };
    (void)begin();
    world_.run(pass(200ms));
    recall({5, 10});
    EXPECT_EQ(leases_->recalled(), now());
    world_.run(pass(MountLeases::held_most));
    EXPECT_EQ(silences, (std::vector<Duration>{MountLeases::held_most - 200ms}));
    EXPECT_EQ(answers_.counters.expired.value(), 1U);
    EXPECT_EQ(answers_.counters.recalls.value(), 1U);
    EXPECT_EQ(answers_.barred(now()).size(), 1U);
    (void)begin();
    world_.run(leases_->end());
    EXPECT_EQ(silences.size(), 1U) << "nobody waited for it";
}

TEST_F(MountLeasesTest, EndWaitsForAClientThatMayStillUseLeases) {
    (void)begin();
    const Time begun = now();
    world_.run(leases_->end());
    EXPECT_EQ(now() - begun, MountLeases::held_most);
}

TEST_F(MountLeasesTest, EndAfterTheClientsOwnTakesNoTime) {
    (void)begin();
    EXPECT_TRUE(listen({.ends = true}).lost);
    const Time begun = now();
    world_.run(leases_->end());
    EXPECT_EQ(now(), begun);
}

}  // namespace
}  // namespace ros2s::session
