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

// As many pins as it gets in sessions of its own, from `first` on.
size_t fill(PinTable& pins, uint8_t owner, uint64_t first) {
    size_t got = 0;
    for (uint64_t session = first; session < first + 8; ++session) {
        const Holder holder{named(1), session, named(owner)};
        for (uint64_t i = 0; pins.add(container, {session, i}, holder); ++i) ++got;
    }
    return got;
}

// Clients name themselves. With a search through all of them this took a minute.
TEST(Pins, VeryManyClientsOfOneObject) {
    PinTable pins;
    Holder holder{{}, 1, named(1)};
    for (uint64_t i = 0; i < PinTable::session_pins_max; ++i) {
        std::memcpy(holder.client.bytes.data(), &i, sizeof i);
        ASSERT_TRUE(pins.add(container, {1, 1}, holder));
    }
    pins.session_ended(1, {}, {});
    pins.session_ended(1, {}, {});
    EXPECT_EQ(pins.count(), 0U);
}

TEST(Pins, AnOwnerWithManySessionsLeavesAsManyFree) {
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
    // A session that ends gives back what its owner has in it, and nothing else.
    for (uint64_t session = 1; session < 9; ++session) pins.session_ended(session, {}, {});
    EXPECT_EQ(pins.count(), PinTable::pins_max / 4);
    EXPECT_EQ(fill(pins, 1, 21), PinTable::pins_max * 3 / 8);
    // This process is not bounded but by all.
    size_t own = 0;
    for (uint64_t i = 0; pins.add(container, {99, i}, {named(1), 0, {}}); ++i) ++own;
    EXPECT_EQ(own, PinTable::pins_max * 3 / 8);
    EXPECT_EQ(pins.count(), PinTable::pins_max);
}

}  // namespace
}  // namespace ros2s::object
