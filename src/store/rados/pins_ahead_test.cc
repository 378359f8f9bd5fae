#include "updater.h"

#include <gtest/gtest.h>

namespace ros2s::rados {
namespace {

using object::Condition;
using object::Holder;
using object::ObjectId;
using object::PinTable;

const object::ContainerId pinned_in{};
const Holder of_session{{}, 7, {}};

object::Transaction pinning(ObjectId object, const Holder& holder = of_session) {
    object::Transaction transaction{.holder = holder};
    transaction.conditions.push_back({.kind = Condition::Kind::pin, .object = object});
    return transaction;
}
bool is_pinned(PinTable& table, ObjectId object) {
    object::Transaction transaction{.holder = of_session};
    transaction.conditions.push_back({.kind = Condition::Kind::pinned, .object = object});
    return table.judge(pinned_in, transaction, {}).has_value();
}

// Earlier, the second of two that were published together found no room, although it was already
// done, and the process ended.
TEST(PinsAhead, LastPlaceGoesToOneTransaction) {
    PinTable table;
    for (uint64_t i = 1; i < PinTable::session_pins_max; ++i) {
        ASSERT_TRUE(table.add(pinned_in, {1, i}, of_session));
    }
    PinsAhead second(table);
    {
        PinsAhead first(table);
        EXPECT_TRUE(first.take(pinned_in, pinning({2, 1}), {}));
        EXPECT_EQ(second.take(pinned_in, pinning({2, 2}), {}),
                  Result<>(fail(Code::no_memory, PinTable::session_pins_max)));
    }
    EXPECT_TRUE(second.take(pinned_in, pinning({2, 2}), {}));
}

TEST(PinsAhead, FailedTransactionPinsNothing) {
    PinTable table;
    ASSERT_TRUE(table.add(pinned_in, {1, 1}, of_session));
    {
        PinsAhead failed(table);
        EXPECT_TRUE(failed.take(pinned_in, pinning({1, 1}), {}));
        EXPECT_TRUE(failed.take(pinned_in, pinning({1, 2}), {}));
        EXPECT_TRUE(is_pinned(table, {1, 2}));
    }
    EXPECT_TRUE(is_pinned(table, {1, 1})) << "it was pinned before";
    EXPECT_FALSE(is_pinned(table, {1, 2}));
    {
        PinsAhead done(table);
        EXPECT_TRUE(done.take(pinned_in, pinning({1, 2}), {}));
        done.keep();
    }
    EXPECT_TRUE(is_pinned(table, {1, 2}));
}

}  // namespace
}  // namespace ros2s::rados
