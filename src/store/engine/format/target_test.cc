// The map from dkeys to targets never changes: clients and servers of any version must agree.
#include "target.h"

#include <gtest/gtest.h>

#include <vector>

namespace ros2s::engine {
namespace {

object::ContainerId container() {
    object::ContainerId id;
    for (uint8_t i = 0; i < 16; ++i) id.uuid.bytes[i] = static_cast<uint8_t>(0x50 + i);
    return id;
}
constexpr object::ObjectId object_id{0x0102030405060708, 0x090a0b0c0d0e0f10};

// Computed by an independent program (Python) from docs/formats/targets.md.
TEST(TargetMap, GoldenValuesMatch) {
    struct Golden {
        std::string dkey;
        uint32_t of_16, of_4096, of_7;
    };
    const std::string long_name(255, 'x');
    const Golden golden[] = {
        {"", 9, 1305, 5},
        {"a", 6, 3206, 5},
        {"file-name", 9, 1593, 6},
        {std::string("d\0y", 3), 5, 2101, 4},
        {object::Dkey::integer(0).bytes, 10, 3146, 0},
        {object::Dkey::integer(1).bytes, 6, 22, 6},
        {object::Dkey::integer(1023).bytes, 5, 21, 2},
        {long_name, 11, 971, 6},
    };
    for (const Golden& one : golden) {
        EXPECT_EQ(target_of(container(), object_id, one.dkey, 16), one.of_16) << one.dkey;
        EXPECT_EQ(target_of(container(), object_id, one.dkey, 4096), one.of_4096) << one.dkey;
        EXPECT_EQ(target_of(container(), object_id, one.dkey, 7), one.of_7) << one.dkey;
        EXPECT_EQ(target_of(container(), object_id, one.dkey, 1), 0U);
    }
}

TEST(TargetMap, ChunksAndNamesSpreadEvenly) {
    std::vector<int> chunks(16), names(16), objects(16);
    for (uint64_t i = 0; i < 16000; ++i) {
        ++chunks[target_of(container(), object_id, object::Dkey::integer(i).bytes, 16)];
        ++names[target_of(container(), object_id, "file-" + std::to_string(i), 16)];
        ++objects[target_of(container(), {1, i}, object::Dkey::integer(0).bytes, 16)];
    }
    for (int t = 0; t < 16; ++t) {
        EXPECT_NEAR(chunks[t], 1000, 150);
        EXPECT_NEAR(names[t], 1000, 150);
        EXPECT_NEAR(objects[t], 1000, 150);
    }
}

}  // namespace
}  // namespace ros2s::engine
