#include "ros2s/runtime/serial_jobs.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "ros2s/runtime/sim/world.h"

namespace ros2s {
namespace {

using namespace std::chrono_literals;

// In a simulation a job takes up to a millisecond.
class Note final : public SerialJob {
  public:
    Note(std::string& into, char what) : into_(into), what_(what) {}

  private:
    void perform() noexcept override { into_ += what_; }
    std::string& into_;
    const char what_;
};

class SerialJobsTest : public testing::Test {
  public:
    std::shared_ptr<Note> submit(char what, Time begin_by = Time::max()) {
        auto note = std::make_shared<Note>(done_, what);
        jobs_.submit(note, begin_by);
        return note;
    }
    sim::World world_{1};
    std::string done_;
    SerialJobs jobs_{world_.core(), world_.blocking()};
};

TEST_F(SerialJobsTest, JobsRunInOrder) {
    world_.run([](SerialJobsTest& self) -> Task<> {
        const auto a = self.submit('a'), b = self.submit('b'), c = self.submit('c');
        EXPECT_TRUE(co_await self.jobs_.wait({}, c));
        EXPECT_TRUE(a->is_done() && b->is_done());
        EXPECT_TRUE(co_await self.jobs_.wait({}, a));
        EXPECT_EQ(self.done_, "abc");
        EXPECT_GE(c->ended_at(), a->ended_at());
    }(*this));
}

TEST_F(SerialJobsTest, AbandonedJobIsNotStarted) {
    world_.run([](SerialJobsTest& self) -> Task<> {
        const auto a = self.submit('a');
        (void)self.submit('b');
        const auto c = self.submit('c', self.world_.now());  // 'a' takes longer
        const auto d = self.submit('d');
        EXPECT_TRUE(co_await self.jobs_.wait({}, d));
        EXPECT_EQ(self.done_, "ad");
        EXPECT_TRUE(c->has_ended() && !c->is_done());
        const auto waited = co_await self.jobs_.wait({}, c);
        EXPECT_EQ(waited.error().code, Code::deadline);
    }(*this));
}

TEST_F(SerialJobsTest, WaitEndsAtDeadlineOrStop) {
    world_.run([](SerialJobsTest& self) -> Task<> {
        const auto a = self.submit('a');
        const Call now{.deadline = self.world_.now()};
        EXPECT_EQ((co_await self.jobs_.wait(now, a)).error().code, Code::deadline);
        StopSource stop;
        stop.request_stop();
        const Call stopped{.stop = stop.token()};
        EXPECT_EQ((co_await self.jobs_.wait(stopped, a)).error().code, Code::cancelled);
        EXPECT_TRUE(co_await self.jobs_.wait({}, a));
        EXPECT_EQ(self.done_, "a");
    }(*this));
}

}  // namespace
}  // namespace ros2s
