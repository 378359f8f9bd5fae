#include "ros2s/object/pins.h"

#include <gtest/gtest.h>

#include <cstring>

namespace ros2s::object {
namespace {

const ContainerId container{};

Uuid named(uint8_t number) {
    Uuid name;
    name.bytes[0] = number;
    return name;
}

// Takes as many pins as possible, each in its own session, from `first` on.
size_t fill(PinTable& pins, uint8_t owner, uint64_t first) {
    size_t got = 0;
    for (uint64_t session = first; session < first + 8; ++session) {
        const Holder holder{named(1), session, named(owner)};
        for (uint64_t i = 0; pins.add(container, {session, i}, holder); ++i) ++got;
    }
    return got;
}

// Until nothing is left to drop.
void drop_all(PinTable& pins) {
    for (size_t before = SIZE_MAX; pins.count() < before;) {
        before = pins.count();
        pins.session_ended(0, {}, {});
    }
}

Transaction punch_by(const Holder& holder, ObjectId object) {
    Transaction punch{.holder = holder};
    punch.conditions.push_back({.kind = Condition::Kind::unpinned, .object = object});
    return punch;
}

// Takes as many pins of one object as session 1 may have. Returns the last holder.
Holder fill_object(PinTable& pins) {
    Holder holder{{}, 1, named(1)};
    for (uint64_t i = 0; i < PinTable::session_pins_max; ++i) {
        std::memcpy(holder.client.bytes.data(), &i, sizeof i);
        if (!pins.add(container, {1, 1}, holder)) ADD_FAILURE() << i;
    }
    return holder;
}

// Clients choose the names of holders. With a linear search this took a minute.
TEST(PinTable, ManyClientsOfOneObjectAreRemovedQuickly) {
    PinTable pins;
    fill_object(pins);
    pins.session_ended(1, {}, {});
    drop_all(pins);
    EXPECT_EQ(pins.count(), 0U);
}

// The owner's core serves others in between.
TEST(PinTable, EndedSessionIsDroppedInSlices) {
    using std::chrono::seconds;
    constexpr size_t all = PinTable::session_pins_max, slice = PinTable::slice_of_pins;
    const Holder other{named(1), 2, named(2)};
    PinTable pins;
    const Holder last = fill_object(pins);
    const Time end{seconds(100)}, over = end + seconds(30);
    pins.session_ended(1, end, over);
    EXPECT_EQ(pins.count(), all);
    EXPECT_FALSE(pins.judge(container, punch_by(other, {1, 1}), over - seconds(1)));
    EXPECT_EQ(pins.count(), all);
    // They have no effect as soon as the session is over.
    EXPECT_TRUE(pins.judge(container, punch_by(other, {1, 1}), over));
    EXPECT_EQ(pins.count(), all - slice);
    Transaction late{.holder = last};
    late.conditions.push_back({.kind = Condition::Kind::pinned, .object = {1, 1}});
    EXPECT_FALSE(pins.judge(container, late, over));
    EXPECT_EQ(pins.count(), all - 2 * slice);
    // Sessions that continue are found after them.
    EXPECT_TRUE(pins.add(container, {1, 1}, {named(1), 3, named(3)}));
    EXPECT_EQ(pins.count(), all - 3 * slice + 1);
    EXPECT_FALSE(pins.judge(container, punch_by(other, {1, 1}), over));
    pins.session_ended(9, over, over);
    EXPECT_EQ(pins.count(), all - 5 * slice + 1);
    drop_all(pins);
    EXPECT_EQ(pins.count(), 1U);
}

TEST(PinTable, ObjectIsFreeWhenAllItsSessionsEnd) {
    PinTable pins;
    const Holder own{named(2), 4, named(9)};
    for (const uint64_t session : {uint64_t{3}, uint64_t{4}, UINT64_MAX}) {
        for (uint8_t client = 1; client < 4; ++client) {
            EXPECT_TRUE(pins.add(container, {1, 1}, {named(client), session, named(9)}));
        }
    }
    const Time now{std::chrono::seconds(1)}, later = now + std::chrono::seconds(1);
    const auto is_refused = [&] { return !pins.judge(container, punch_by(own, {1, 1}), now); };
    EXPECT_TRUE(is_refused());
    pins.session_ended(3, now, now);
    EXPECT_TRUE(is_refused());
    pins.session_ended(UINT64_MAX, now, later);
    EXPECT_TRUE(is_refused());
    pins.session_ended(UINT64_MAX, now, now);
    EXPECT_TRUE(is_refused()) << "two other clients of its session";
    pins.remove(container, {1, 1}, {named(1), 4, named(9)});
    pins.remove(container, {1, 1}, {named(3), 4, named(9)});
    EXPECT_FALSE(is_refused());
    EXPECT_EQ(pins.count(), 1U);
}

// Its number may be given again.
TEST(PinTable, ReusedSessionNumberKeepsItsPins) {
    PinTable pins;
    const Holder holder{named(1), 1, named(1)};
    const Time now{std::chrono::seconds(1)}, later = now + std::chrono::seconds(1);
    EXPECT_TRUE(pins.add(container, {1, 1}, holder));
    pins.session_ended(1, now, later);
    pins.remove(container, {1, 1}, holder);
    EXPECT_TRUE(pins.add(container, {1, 1}, holder));
    pins.session_ended(2, later, later);
    EXPECT_EQ(pins.count(), 1U);
}

TEST(PinTable, OwnerWithManySessionsLeavesHalfFree) {
    PinTable pins;
    EXPECT_EQ(fill(pins, 1, 1), PinTable::pins_max / 2);
    EXPECT_EQ(fill(pins, 2, 11), PinTable::pins_max / 4);
    // Transactions are asked the same.
    Transaction creation;
    creation.holder = {named(1), 1, named(1)};
    creation.conditions.push_back({.kind = Condition::Kind::pin, .object = {1000, 1}});
    EXPECT_EQ(pins.judge(container, creation, {}),
              Result<>(fail(Code::no_memory, PinTable::session_pins_max)));
    creation.holder = {named(1), 8, named(1)};
    EXPECT_EQ(pins.judge(container, creation, {}),
              Result<>(fail(Code::no_memory, PinTable::pins_max * 3 / 8)));
    creation.holder = {named(1), 20, named(3)};
    EXPECT_TRUE(pins.judge(container, creation, {}));
    // The end of a session frees its owner's pins in it, and no others.
    for (uint64_t session = 1; session < 9; ++session) pins.session_ended(session, {}, {});
    drop_all(pins);
    EXPECT_EQ(pins.count(), PinTable::pins_max / 4);
    EXPECT_EQ(fill(pins, 1, 21), PinTable::pins_max * 3 / 8);
    // This process has only the bound on all pins.
    size_t own = 0;
    for (uint64_t i = 0; pins.add(container, {99, i}, {named(1), 0, {}}); ++i) ++own;
    EXPECT_EQ(own, PinTable::pins_max * 3 / 8);
    EXPECT_EQ(pins.count(), PinTable::pins_max);
}

}  // namespace
}  // namespace ros2s::object
