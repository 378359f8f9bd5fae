#include "block_pins.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>

#include "ros2s/base/random.h"
#include "ros2s/runtime/time.h"

namespace ros2s::engine {
namespace {

Uuid client(uint64_t number) {
    Uuid uuid;
    uuid.bytes[0] = static_cast<uint8_t>(number);
    return uuid;
}

// All pins in one list.
struct Model {
    struct Pin {
        std::string key;
        uint64_t client, session;
        uint32_t until_s;
    };
    template <class IsOver>
    BlockPins::Keys remove_if(IsOver is_over) {
        BlockPins::Keys removed;
        for (const Pin& pin : pins) {
            if (is_over(pin)) removed.push_back(pin.key);
        }
        std::erase_if(pins, is_over);
        std::ranges::sort(removed);
        removed.erase(std::ranges::unique(removed).begin(), removed.end());
        std::erase_if(removed, [&](const std::string& key) { return has(key); });
        return removed;
    }
    [[nodiscard]] bool has(const std::string& key) const {
        return std::ranges::find(pins, key, &Pin::key) != pins.end();
    }
    std::vector<Pin> pins;
};

TEST(BlockPins, AreThoseOfAModel) {
    const uint64_t seed = random_seed();
    SCOPED_TRACE(seed);
    Random random(seed);
    BlockPins pins;
    Model model;
    for (int step = 0; step < 20'000; ++step) {
        const std::string key = "k" + std::to_string(random.below(12));
        const uint64_t who = random.below(4), session = random.below(5);
        const auto now = static_cast<uint32_t>(random.below(100));
        const auto is_same = [&](const Model::Pin& pin) {
            return pin.key == key && pin.client == who;
        };
        BlockPins::Keys got, expected;
        switch (random.below(20)) {
            case 0:
                got = pins.remove_all(client(who));
                expected = model.remove_if([&](const auto& pin) { return pin.client == who; });
                break;
            case 1:
                got = pins.session_ended(session);
                expected = model.remove_if([&](const auto& pin) { return pin.session == session; });
                break;
            case 2:
                got = pins.end_until(now / 4);
                expected = model.remove_if([&](const auto& pin) { return pin.until_s <= now / 4; });
                break;
            case 3:
                pins.erase(key);
                model.remove_if([&](const auto& pin) { return pin.key == key; });
                break;
            case 4:
            case 5:
                got = pins.remove(key, client(who));
                expected = model.remove_if(is_same);
                break;
            default:
                std::erase_if(model.pins, is_same);
                model.pins.push_back({key, who, session, now});
                pins.add(key, client(who), session, now);
        }
        ASSERT_EQ(got, expected) << step;
        ASSERT_EQ(pins.size(), model.pins.size()) << step;
        ASSERT_EQ(pins.is_pinned(key), model.has(key)) << step;
        ASSERT_EQ(pins.has(key, client(who)), std::ranges::any_of(model.pins, is_same)) << step;
    }
}

// The least time of several rounds.
Duration time_of_ends(BlockPins& pins) {
    Duration least = Duration::max();
    for (int round = 0; round < 5; ++round) {
        const auto begin = std::chrono::steady_clock::now();
        for (uint64_t i = 0; i < 1000; ++i) {
            EXPECT_TRUE(pins.session_ended(1000 + i).empty());
            EXPECT_TRUE(pins.remove_all(client(2)).empty());
        }
        least = std::min<Duration>(least, std::chrono::steady_clock::now() - begin);
    }
    return least;
}
TEST(BlockPins, EndOfOthersDoesNotWalkAllPins) {
    BlockPins pins;
    const auto add = [&](uint64_t count) {
        for (uint64_t i = 0; i < count; ++i) pins.add(std::to_string(i), client(1), i % 100, 1);
    };
    add(10);
    const Duration few = time_of_ends(pins);
    add(20'000);
    EXPECT_LT(time_of_ends(pins), 100 * few);
}

}  // namespace
}  // namespace ros2s::engine
