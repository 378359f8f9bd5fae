// Calls for locks that overtake each other on the way to a store that is far away.
#include <gtest/gtest.h>

#include "dfs.h"
#include "ros2s/object/forwarding_store.h"
#include "ros2s/object/test_support/memory_store.h"
#include "ros2s/runtime/nursery.h"
#include "ros2s/runtime/sim/world.h"

namespace ros2s::fs {
namespace {

using object::Lock;
using object::LockMode;
using Answer = Result<std::optional<Lock>>;

constexpr Duration answer_after = std::chrono::milliseconds(10);
const Lock exclusive{.mode = LockMode::exclusive, .owner = 1};
const Lock shared{.mode = LockMode::shared, .owner = 1};
const Lock none{.owner = 1};

class SlowStore final : public object::ForwardingStore {
  public:
    SlowStore(Reactor& reactor, ObjectStore& below) : ForwardingStore(below), reactor_(reactor) {}
    Task<Answer> lock(const Call& call, object::ContainerId container, const object::Holder& holder,
                      const object::LockRequest& request) override {
        co_await sleep_for(reactor_, answer_after);
        if (refuses && request.lock.mode != LockMode::none) co_return fail(*refuses);
        co_return co_await below().lock(call, container, holder, request);
    }
    // What opens a file, and claims it again in a new era.
    Task<Result<>> fetch_chain(const Call& call, object::ContainerId container,
                               const object::Holder& holder, std::span<object::FetchItem> items,
                               std::span<object::Link> links) override {
        co_await sleep_for(reactor_, answer_after);
        if (is_away) co_return fail(Code::disconnected);
        co_return co_await below().fetch_chain(call, container, holder, items, links);
    }
    uint64_t pins_era() const override { return era; }
    uint64_t era = 1;
    bool is_away = false;         // for fetch_chain()
    std::optional<Code> refuses;  // to lock, with this error

  private:
    Reactor& reactor_;
};

class LocksUnderWay : public testing::Test {
  protected:
    Task<std::unique_ptr<Dfs>> mount() {
        co_return std::move(
            *co_await Dfs::mount({}, store_, container_, world_.core(), {}, report_));
    }
    static Task<> ask(Dfs& files, FileHandle handle, Lock lock, Answer& answer) {
        answer = co_await files.lock({}, handle, lock, LockHow::now);
    }
    // The first call is sent, and the second one soon after it. Returns the first answer.
    Task<Answer> lock_and_unlock(bool in_new_era) {
        container_ = (co_await store_.create_container({}, {.label = "c"}))->id;
        EXPECT_TRUE(co_await Dfs::format({}, store_, container_, world_.core(), {}, report_));
        const auto one = co_await mount(), other = co_await mount();
        const auto made = co_await one->create({}, root_node, "f", 0644, {.write = true}, {});
        if (in_new_era) ++store_.era;
        Answer locked, unlocked;
        Nursery calls(world_.core(), 2);
        co_await calls.spawn(ask(*one, made->handle, exclusive, locked));
        co_await sleep_for(world_.core(), answer_after / 4);
        co_await calls.spawn(ask(*one, made->handle, none, unlocked));
        co_await calls.join();
        EXPECT_EQ(unlocked, Answer());
        const auto opened = co_await other->open({}, made->attributes.node, {.write = true});
        EXPECT_EQ(co_await other->lock({}, opened->handle, exclusive, LockHow::now), Answer())
            << "a lock that its owner has unlocked";
        co_await one->close_all();
        co_await other->close_all();
        co_return locked;
    }

    enum class End : uint8_t { unlock, close, close_while_away };
    // The store was restarted while a lock was changed, and then awaits other mounts. Or it is
    // away.
    Task<> end_beside_an_unknown(End end) {
        container_ = (co_await store_.create_container({}, {.label = "c"}))->id;
        EXPECT_TRUE(co_await Dfs::format({}, store_, container_, world_.core(), {}, report_));
        const auto one = co_await mount(), other = co_await mount();
        const auto made = co_await one->create({}, root_node, "f", 0644, {.write = true}, {});
        const auto opened = co_await other->open({}, made->attributes.node, {.write = true});
        // The node stays in use.
        EXPECT_TRUE(co_await one->open({}, made->attributes.node, {.write = true}));
        Answer answer;
        co_await ask(*one, made->handle, shared, answer);
        store_.refuses = Code::disconnected;
        co_await ask(*one, made->handle, exclusive, answer);
        EXPECT_EQ(answer, Answer(fail(Code::disconnected)));
        store_.refuses = Code::busy;
        store_.is_away = end == End::close_while_away;
        if (store_.is_away) ++store_.era;
        if (end == End::unlock) {
            co_await ask(*one, made->handle, none, answer);
            EXPECT_EQ(answer, Answer());
        } else {
            EXPECT_TRUE(co_await one->close({}, made->handle));
        }
        store_.refuses = {};
        store_.is_away = false;
        co_await sleep_for(world_.core(), std::chrono::seconds(1));
        EXPECT_EQ(co_await other->lock({}, opened->handle, exclusive, LockHow::now), Answer());
        co_await one->close_all();
        co_await other->close_all();
    }

    Task<uint64_t> first_in_the_way() {
        container_ = (co_await store_.create_container({}, {.label = "c"}))->id;
        EXPECT_TRUE(co_await Dfs::format({}, store_, container_, world_.core(), {}, report_));
        const auto one = co_await mount();
        const auto made = co_await one->create({}, root_node, "f", 0644, {.write = true}, {});
        Answer answer;
        for (const uint64_t at : {50, 10, 30}) {
            Lock lock = exclusive;
            lock.first = lock.last = at;
            co_await ask(*one, made->handle, lock, answer);
        }
        answer = co_await one->lock({}, made->handle, {.mode = LockMode::shared, .owner = 2},
                                    LockHow::test);
        co_await one->close_all();
        co_return answer && *answer ? (*answer)->first : 0;
    }

    Task<Duration> close_beside_a_lock() {
        container_ = (co_await store_.create_container({}, {.label = "c"}))->id;
        EXPECT_TRUE(co_await Dfs::format({}, store_, container_, world_.core(), {}, report_));
        const auto one = co_await mount();
        const auto made = co_await one->create({}, root_node, "f", 0644, {.write = true}, {});
        Answer locked, unlocked;
        Nursery calls(world_.core(), 1);
        co_await calls.spawn(ask(*one, made->handle, exclusive, locked));
        co_await sleep_for(world_.core(), answer_after / 4);
        const Time begun = world_.core().now();
        co_await ask(*one, made->handle, {.owner = 2}, unlocked);
        const Duration took = world_.core().now() - begun;
        EXPECT_EQ(unlocked, Answer());
        co_await calls.join();
        EXPECT_EQ(locked, Answer());
        co_await one->close_all();
        co_return took;
    }

    sim::World world_{1};
    object::MemoryStore memory_{world_.core(), {}};
    SlowStore store_{world_.core(), memory_};
    object::ContainerId container_;
    Report report_;
};

TEST_F(LocksUnderWay, UnlockEndsTheLock) {
    EXPECT_EQ(world_.run(lock_and_unlock(false)), Answer());
}
TEST_F(LocksUnderWay, TestOfALockFindsTheFirstInTheWay) {
    EXPECT_EQ(world_.run(first_in_the_way()), 10U);
}
// A program that inherited the file closes it.
TEST_F(LocksUnderWay, UnlockOfAnotherOwnerDoesNotWait) {
    EXPECT_EQ(world_.run(close_beside_a_lock()), Duration{});
}
TEST_F(LocksUnderWay, UnlockBesideAnUnknownChangeEndsTheLock) {
    world_.run(end_beside_an_unknown(End::unlock));
}
TEST_F(LocksUnderWay, CloseBesideAnUnknownChangeEndsTheLock) {
    world_.run(end_beside_an_unknown(End::close));
}
TEST_F(LocksUnderWay, CloseWhileTheStoreIsAwayEndsTheLock) {
    world_.run(end_beside_an_unknown(End::close_while_away));
}
// The lock waits until the file is claimed.
TEST_F(LocksUnderWay, UnlockInANewEraEndsTheLock) {
    EXPECT_EQ(world_.run(lock_and_unlock(true)), Answer(fail(Code::busy)));
}

}  // namespace
}  // namespace ros2s::fs
