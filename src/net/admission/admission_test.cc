// Admission on simulated time: which requests are admitted, in which order, and how many.
#include "ros2s/admission/admission.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "ros2s/runtime/nursery.h"
#include "ros2s/runtime/sim/world.h"
#include "ros2s/runtime/sync.h"

namespace ros2s::admission {
namespace {

using namespace std::chrono_literals;

constexpr Limits small{.all = {.requests = 8, .bytes = 1000},
                       .one = {.requests = 6, .bytes = 800},
                       .shared = 8 * 16us,
                       .least = {.requests = 2, .bytes = 100},
                       .line_bytes = 500,
                       .asked_least = 1};

struct Stage {
    explicit Stage(Limits limits = small) : admission(world.core(), limits) {}
    void run(Task<> (*body)(Stage&)) { world.run(whole(*this, body)); }
    static Task<> whole(Stage& self, Task<> (*body)(Stage&)) {
        co_await body(self);
        self.places.clear();
        co_await self.nursery.join();
        self.places.clear();
    }
    // Asks at once. `name` is recorded when the request is admitted, and -name when it is refused.
    Task<> ask(Line& line, int name, uint64_t bytes = 0, StopToken stop = {}) {
        co_await nursery.spawn(enter(*this, line, name, bytes, stop));
    }
    static Task<> enter(Stage& self, Line& line, int name, uint64_t bytes, StopToken stop) {
        Permit place = co_await line.enter(bytes, stop);
        self.entered.push_back(place ? name : -name);
        if (place) self.places.emplace_back(name, std::move(place));
    }
    // Ends the earliest request of that name, and lets others have their turn.
    Task<> leave(int name) {
        const auto found = std::ranges::find(places, name, &std::pair<int, Permit>::first);
        EXPECT_NE(found, places.end()) << name;
        if (found != places.end()) places.erase(found);
        co_await sleep_for(world.core(), 1us);
    }
    sim::World world{1};
    Admission admission;
    Nursery nursery{world.core(), 10'000};
    std::vector<std::pair<int, Permit>> places;
    std::vector<int> entered;
};

Task<> in_turn(Stage& stage) {
    Line first(stage.admission, 1), second(stage.admission, 1), other(stage.admission, 2);
    // A tenant alone can use the maximum of one tenant.
    for (int i = 0; i < 20; ++i) co_await stage.ask(first, 1);
    for (int i = 0; i < 3; ++i) co_await stage.ask(second, 2);
    EXPECT_EQ(stage.entered, std::vector<int>(6, 1));
    EXPECT_EQ(stage.admission.metrics().waiting.value(), 17U);
    // Another tenant finds room.
    co_await stage.ask(other, 3);
    EXPECT_EQ(stage.entered.back(), 3);
    // It wants one, so the first tenant is reduced to the minimum. Its second line had none, and
    // begins one.
    stage.entered.clear();
    for (int i = 0; i < 4; ++i) co_await stage.leave(1);
    EXPECT_TRUE(stage.entered.empty());
    for (int i = 0; i < 2; ++i) co_await stage.leave(1);
    co_await stage.leave(2);
    EXPECT_EQ(stage.entered, std::vector<int>({2, 1, 2}));
    EXPECT_EQ(stage.admission.inside().requests, 3U);
    // It wants more, so the limit of both grows. It has used less, so it gets the room.
    for (int i = 0; i < 5; ++i) co_await stage.ask(other, 3);
    EXPECT_EQ(stage.entered, std::vector<int>({2, 1, 2, 3, 3, 3, 3, 3}));
    co_await stage.leave(1);
    EXPECT_EQ(stage.entered, std::vector<int>({2, 1, 2, 3, 3, 3, 3, 3, 1}));
    EXPECT_EQ(stage.admission.inside().requests, 8U);
    // After the other has been idle long enough, the first can use the maximum again.
    for (int i = 0; i < 6; ++i) co_await stage.leave(3);
    co_await sleep_for(stage.world.core(), 60ms);
    co_await stage.leave(1);
    co_await sleep_for(stage.world.core(), 60ms);
    co_await stage.ask(first, 1);
    co_await stage.leave(2);
    EXPECT_EQ(stage.admission.inside().requests, 6U);
    while (!first.is_idle()) co_await stage.leave(stage.places.front().first);
    EXPECT_EQ(stage.admission.metrics().waiting.value(), 0U);
    stage.places.clear();
}
TEST(Admission, TenantsAndTheirLinesTakeTurns) { Stage().run(in_turn); }

Task<> bytes(Stage& stage) {
    Line first(stage.admission, 1), second(stage.admission, 1);
    co_await stage.ask(first, 1, 400);
    co_await stage.ask(first, 2, 200);   // more than one line may have
    co_await stage.ask(second, 3, 400);  // in another line, which has room
    EXPECT_EQ(stage.entered, std::vector<int>({1, 3}));
    co_await stage.ask(second, 4, 1);  // more than one tenant may have
    Line other(stage.admission, 2);
    co_await stage.ask(other, 5, 90);
    co_await stage.ask(other, 6, 70);  // there is room, but not for this tenant alone
    EXPECT_EQ(stage.entered, std::vector<int>({1, 3, 5}));
    co_await stage.leave(5);
    EXPECT_EQ(stage.entered, std::vector<int>({1, 3, 5, 6}));
    co_await stage.leave(1);
    // The first in turn needs more bytes than are free; the second one fits.
    EXPECT_EQ(stage.entered, std::vector<int>({1, 3, 5, 6, 4}));
    co_await stage.leave(3);
    EXPECT_EQ(stage.entered, std::vector<int>({1, 3, 5, 6, 4, 2}));
    co_await stage.leave(4);
    EXPECT_EQ(stage.entered.back(), 2);
    co_await stage.leave(2);
    co_await stage.leave(6);
    // A request larger than any limit is admitted alone.
    co_await stage.ask(first, 7, 5000);
    co_await stage.ask(second, 8, 1);
    EXPECT_EQ(stage.entered.back(), 7);
    co_await stage.leave(7);
    EXPECT_EQ(stage.entered.back(), 8);
    co_await stage.leave(8);
}
TEST(Admission, BytesAreBoundedPerLineTenantAndTotal) { Stage().run(bytes); }

Task<> reply(Stage& stage) {
    Line line(stage.admission, 1);
    Demand list(Work::look, 0);
    list.reply_bytes = 400;
    Permit listing = co_await line.enter(list, {});
    EXPECT_EQ(stage.admission.inside().bytes, 400U);
    co_await stage.ask(line, 1, 200);  // more than one line may have
    EXPECT_TRUE(stage.entered.empty());
    listing.release();
    EXPECT_EQ(stage.admission.inside().bytes, 200U);
    co_await sleep_for(stage.world.core(), 1us);
    EXPECT_EQ(stage.entered, std::vector<int>({1}));
    co_await stage.leave(1);
    EXPECT_EQ(line.metrics().names.value(), 1U);
    EXPECT_EQ(line.metrics().requests.value(), 1U);
    EXPECT_EQ(line.metrics().bytes.value(), 200U);
}
TEST(Admission, ReplyMemoryIsBoundedButIsNotPayload) { Stage().run(reply); }

// Tenants that take as much as they can, and keep it.
Task<> conspire(Stage& stage) {
    std::vector<std::unique_ptr<Line>> lines;
    for (const uint64_t tenant : {1, 1, 2, 3, 4, 5}) {
        lines.push_back(std::make_unique<Line>(stage.admission, tenant));
        for (int i = 0; i < 500; ++i) co_await stage.ask(*lines.back(), 1, 1);
    }
    EXPECT_LT(stage.admission.inside().bytes, 1000U);
    Line honest(stage.admission, 6);
    co_await stage.ask(honest, 2, 2);
    EXPECT_EQ(stage.entered.back(), 2);
    for (const auto& line : lines) line->turn_away();
    co_await sleep_for(stage.world.core(), 1us);
    stage.places.clear();
}
TEST(Admission, TenantHoldingRequestsLeavesRoomForAnother) {
    Limits limits = small;
    limits.all.requests = limits.one.requests = 10'000;
    limits.shared = 1s;
    Stage(limits).run(conspire);
}

// Tenants with one large write each, whose bytes never arrive. It costs more than the whole shared
// capacity.
template <uint64_t stalling>
Task<> stall(Stage& stage) {
    std::vector<std::unique_ptr<Line>> lines;
    std::vector<Permit> stalled;
    for (uint64_t i = 0; i < stalling; ++i) {
        lines.push_back(std::make_unique<Line>(stage.admission, 10 + i));
        stalled.push_back(co_await lines.back()->enter({Work::write, uint64_t{64} << 20}, {}));
        EXPECT_TRUE(stalled.back());
    }
    Line first(stage.admission, 1), second(stage.admission, 2);
    for (int span = 0; span < 3; ++span) {
        for (Line* const line : {&first, &second}) {
            const Permit place = co_await line->enter(4096, {});
            EXPECT_TRUE(place);
        }
        co_await sleep_for(stage.world.core(), 60ms);
    }
    for (int i = 0; i < 256; ++i) {
        co_await stage.ask(first, 1, 4096);
        co_await stage.ask(second, 2, 4096);
    }
    // Each has nearly half of its share.
    const auto part = static_cast<uint64_t>(Limits().shared.count()) / (stalling + 3) / 2;
    for (const int name : {1, 2}) {
        const auto inside = static_cast<uint64_t>(std::ranges::count(stage.entered, name));
        EXPECT_EQ(inside, part / Demand(4096).cost_ns) << stalling;
    }
    // Requests that end make room for as many requests of the same tenant.
    stage.entered.clear();
    for (int i = 0; i < 5; ++i) co_await stage.leave(1);
    EXPECT_EQ(stage.entered, std::vector<int>(5, 1));
    first.turn_away();
    second.turn_away();
    co_await sleep_for(stage.world.core(), 1us);
    stage.places.clear();
}
TEST(Admission, StalledRequestsTakeNoShareOfOtherTenants) {
    Stage(Limits{.asked_least = 1}).run(stall<1>);
    Stage(Limits{.asked_least = 1}).run(stall<6>);
}

Task<> looks_in(Stage& stage) {
    Line first(stage.admission, 1), other(stage.admission, 2);
    for (int i = 0; i < 20; ++i) co_await stage.ask(first, 1);
    for (int i = 0; i < 5; ++i) {
        co_await stage.ask(other, 2);
        co_await stage.leave(2);
        co_await stage.leave(1);
        EXPECT_EQ(stage.admission.inside().requests, 6U);
        co_await sleep_for(stage.world.core(), 20ms);
    }
    while (!first.is_idle()) co_await stage.leave(1);
}
TEST(Admission, RareRequestsOfAnotherTenantReduceNoLimit) {
    Limits limits = small;
    limits.asked_least = 8;
    Stage(limits).run(looks_in);
}

Task<> stopped(Stage& stage) {
    Line line(stage.admission, 1), other(stage.admission, 2);
    StopSource stop;
    for (int i = 0; i < 6; ++i) co_await stage.ask(line, 1);
    co_await stage.ask(line, 2, 0, stop.token());
    co_await stage.ask(line, 3);
    stop.request_stop();
    co_await stage.ask(line, 4, 0, stop.token());
    co_await sleep_for(stage.world.core(), 1us);
    EXPECT_EQ(stage.entered, std::vector<int>({1, 1, 1, 1, 1, 1, -4, -2}));
    line.turn_away();
    co_await sleep_for(stage.world.core(), 1us);
    EXPECT_EQ(stage.entered.back(), -3);
    co_await stage.ask(line, 5);
    EXPECT_EQ(stage.entered.back(), -5);
    co_await stage.ask(other, 6);
    EXPECT_EQ(stage.entered.back(), 6);
    stage.places.clear();
}
TEST(Admission, StoppedRequestLeavesTheQueue) { Stage().run(stopped); }

// It passes nobody who waits.
Task<> at_once_or_not(Stage& stage) {
    Line line(stage.admission, 1);
    std::vector<Permit> inside;
    for (int i = 0; i < 6; ++i) inside.push_back(line.try_enter(0));
    EXPECT_TRUE(std::ranges::all_of(inside, [](const Permit& each) { return bool(each); }));
    EXPECT_FALSE(line.try_enter(0));
    co_await stage.ask(line, 1);
    inside.pop_back();
    co_await sleep_for(stage.world.core(), 1us);
    EXPECT_EQ(stage.entered, std::vector{1});
    EXPECT_FALSE(line.try_enter(0));
    inside.clear();
    EXPECT_EQ(stage.admission.inside().requests, 1U);
    EXPECT_TRUE(line.try_enter(0));
    co_await stage.leave(1);
    EXPECT_EQ(stage.admission.inside().requests, 0U);
}
TEST(Admission, TryEnterTakesRoomOrNothing) { Stage().run(at_once_or_not); }

}  // namespace
}  // namespace ros2s::admission
