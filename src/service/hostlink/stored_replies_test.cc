// Bounds of stored replies.
#include "stored_replies.h"

#include <gtest/gtest.h>

#include "ros2s/runtime/nursery.h"
#include "ros2s/runtime/sim/co_test.h"

namespace ros2s::hostlink {
namespace {

constexpr uint64_t alice = 1, bob = 2, carol = 3, dave = 4;
constexpr session::SessionId hers{11}, hers_too{12}, his{21};

Task<Result<>> update(StoredReplies& replies, session::SessionId session, uint64_t tenant,
                      uint32_t slot, uint64_t sequence = 1) {
    const UpdateName id{.slot = slot, .sequence = sequence};
    ROS2S_CO_TRY_ASSIGN(const auto* const stored,
                        co_await replies.begin({}, session, tenant, id, 7));
    if (stored == nullptr) replies.end(session, id, {});
    co_return Result<>{};
}

CO_TEST(StoredReplies, RepliesAreBoundedPerTenantAndInTotal, sim::World, world, 1) {
    StoredReplies replies(world.core(), {.per_tenant = 5, .in_all = 12, .sure = 2});
    // Five for each, twelve in all, of which nobody takes what is left for the others, and two for
    // whoever comes late.
    for (uint32_t slot = 0; slot < 3; ++slot) {
        EXPECT_TRUE(co_await update(replies, hers, alice, slot));
        if (slot < 2) EXPECT_TRUE(co_await update(replies, hers_too, alice, slot));
    }
    EXPECT_EQ(co_await update(replies, hers_too, alice, 9), Result<>(fail(Code::busy, 5)));
    // What has a slot goes on, and repetitions get their reply.
    EXPECT_TRUE(co_await update(replies, hers, alice, 2, 2));
    EXPECT_TRUE(co_await update(replies, hers, alice, 2, 2));
    EXPECT_EQ(replies.returned().value(), 1U);
    for (uint32_t slot = 0; slot < 4; ++slot) {
        EXPECT_TRUE(co_await update(replies, his, bob, slot));
    }
    EXPECT_EQ(co_await update(replies, his, bob, 4), Result<>(fail(Code::busy, 4)));
    for (const uint64_t tenant : {carol, dave}) {
        const session::SessionId theirs{10 * tenant};
        for (uint32_t slot = 0; slot < 2; ++slot) {
            EXPECT_TRUE(co_await update(replies, theirs, tenant, slot));
        }
        EXPECT_EQ(co_await update(replies, theirs, tenant, 2), Result<>(fail(Code::busy, 2)));
        replies.forget(theirs);
    }
    // The end of a session frees its slots.
    replies.forget(hers_too);
    EXPECT_EQ(replies.slots(), 7U);
    EXPECT_TRUE(co_await update(replies, his, bob, 4));
    replies.forget(hers);
    replies.forget(his);
    replies.forget(his);
    EXPECT_EQ(replies.slots(), 0U);
}

// The update before it in its slot hangs.
Task<> wait_for(StoredReplies& replies, Call call, Result<>& outcome) {
    const UpdateName second{.slot = 1, .sequence = 2};
    const auto begun = co_await replies.begin(call, hers, alice, second, 8);
    outcome = begun ? Result<>() : fail(begun.error());
}
CO_TEST(StoredReplies, WaitingUpdateCanBeCancelled, sim::World, world, 1) {
    StoredReplies replies(world.core());
    Reactor& core = world.core();
    const UpdateName first{.slot = 1, .sequence = 1};
    EXPECT_TRUE(co_await replies.begin({}, hers, alice, first, 7));
    StopSource stop;
    Result<> outcome;
    Nursery nursery(core, 1);
    co_await nursery.spawn(wait_for(replies, {.stop = stop.token()}, outcome));
    stop.request_stop();
    co_await nursery.join();
    EXPECT_EQ(outcome, Result<>(fail(Code::cancelled)));
    replies.end(hers, first, {});
}

}  // namespace
}  // namespace ros2s::hostlink
