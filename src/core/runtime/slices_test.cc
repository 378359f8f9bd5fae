// Long work lets other work run between its slices, and ends at its deadline.
#include "ros2s/runtime/slices.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "ros2s/runtime/nursery.h"
#include "ros2s/runtime/sim/world.h"

namespace ros2s {
namespace {

struct Stage {
    sim::World world{1};
    Reactor& core = world.core();
    SliceTurns slices{core};
    size_t turns = 0;
    bool done = false;

    // Counts how often it had the core while `work` ran.
    size_t turns_during(Task<> (*work)(Stage&)) {
        world.run([](Stage& self, Task<> (*body)(Stage&)) -> Task<> {
            Nursery nursery(self.core, 1);
            co_await nursery.spawn(count(self));
            co_await body(self);
            self.done = true;
            co_await nursery.join();
        }(*this, work));
        return turns;
    }
    static Task<> count(Stage& self) {
        while (!self.done) {
            ++self.turns;
            co_await yield(self.core);
        }
    }
};

constexpr size_t size = 100 * slice_bytes + 1;

TEST(Slices, OtherWorkRunsBetweenSlices) {
    EXPECT_GE(Stage().turns_during([](Stage& stage) -> Task<> {
        size_t end = 0;
        EXPECT_TRUE(co_await in_slices(stage.slices, {}, size, [&end](size_t at, size_t count) {
            EXPECT_EQ(at, end);
            EXPECT_LE(count, slice_bytes);
            end = at + count;
        }));
        EXPECT_EQ(end, size);
    }),
              100U);
    EXPECT_GE(Stage().turns_during([](Stage& stage) -> Task<> {
        SliceCount slices(stage.core);
        for (int i = 0; i < 1000; ++i) co_await slices.add(slice_bytes / 10);
    }),
              99U);
    EXPECT_GE(Stage().turns_during([](Stage& stage) -> Task<> {
        std::vector<std::byte> from(size), to(2 * size);
        for (size_t i = 0; i < size; ++i) from[i] = static_cast<std::byte>(i >> 10 ^ i);
        SlicedCopies copies;
        copies.add(from, Bytes(to).first(size));
        copies.add(from, Bytes(to).subspan(size));
        EXPECT_FALSE(copies.done());
        co_await copies.finish(stage.slices);
        EXPECT_TRUE(std::equal(from.begin(), from.end(), to.begin()));
        EXPECT_TRUE(std::equal(from.begin(), from.end(), to.begin() + size));
    }),
              200U);
}

TEST(Slices, StoppedWorkEndsAtTheNextSlice) {
    Stage stage;
    stage.world.run([](Stage& self) -> Task<> {
        StopSource stop;
        const Call call{.stop = stop.token()};
        size_t slices = 0;
        EXPECT_EQ(co_await in_slices(self.slices, call, size,
                                     [&](size_t, size_t) {
                                         if (++slices == 3) stop.request_stop();
                                     }),
                  Result<>(fail(Code::cancelled)));
        EXPECT_EQ(slices, 3U);
        const Call late{.deadline = self.core.now()};
        EXPECT_EQ(co_await in_slices(self.slices, late, 1, [&](size_t, size_t) { ++slices; }),
                  Result<>(fail(Code::deadline)));
        EXPECT_EQ(slices, 3U);
    }(stage));
}

Task<> do_job(Stage& stage, size_t bytes, char name, std::string& ended) {
    EXPECT_TRUE(co_await in_slices(stage.slices, {}, bytes, [](size_t, size_t) {}));
    ended += name;
}

TEST(Slices, LongJobLetsShorterJobsGoFirst) {
    Stage stage;
    stage.world.run([](Stage& self) -> Task<> {
        constexpr size_t turn = SliceTurns::turn_bytes;
        std::string ended;
        Nursery nursery(self.core, 4);
        co_await nursery.spawn(do_job(self, turn, 'a', ended));
        co_await nursery.spawn(do_job(self, 3 * turn, 'b', ended));
        co_await nursery.spawn(do_job(self, slice_bytes, 'c', ended));
        co_await nursery.spawn(do_job(self, 2 * turn, 'd', ended));
        co_await nursery.join();
        EXPECT_EQ(ended, "acdb") << "a long one lets the others go first after each turn";
    }(stage));
}

}  // namespace
}  // namespace ros2s
