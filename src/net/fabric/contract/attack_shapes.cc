#include "attack_shapes.h"

#include <gtest/gtest.h>

#include <cstring>

namespace ros2s::fabric::contract {

using Type = Packet::Type;

std::vector<std::byte> packet(const Packet& header, size_t bytes) {
    std::vector<std::byte> frame(sizeof header + bytes, std::byte{0x42});
    std::memcpy(frame.data(), &header, sizeof header);
    return frame;
}

std::vector<std::byte> good_packet() {
    return packet({.type = Type::message, .length = 4, .operation = 4}, 4);
}

std::vector<BadPacket> bad_packets() {
    return {
        {"no type", packet({}, 0)},
        {"unknown type", packet({.type = static_cast<Type>(99)}, 0)},
        {"less than a header", std::vector<std::byte>(sizeof(Packet) - 1)},
        {"longer than its frame",
         packet({.type = Type::message, .length = 100, .operation = 100}, 99)},
        {"length of 4 GiB", packet({.type = Type::message, .length = ~0U, .operation = ~0U}, 8)},
        {"beyond the message",
         packet({.type = Type::message, .length = 4, .operation = 8, .offset = 6}, 4)},
        {"without its beginning",
         packet({.type = Type::message, .length = 4, .operation = 8, .offset = 4}, 4)},
        {"put by the side that does not initiate",
         packet({.type = Type::put, .length = sizeof(RemoteKey) + 8, .count = 8},
                sizeof(RemoteKey) + 8)},
        {"get by the side that does not initiate",
         packet({.type = Type::get, .length = sizeof(RemoteKey), .count = 8}, sizeof(RemoteKey))},
        {"an answer to nothing", packet({.type = Type::got, .length = 8}, 8)},
        {"credit that was not used", packet({.type = Type::credit, .count = 1}, 0)},
        {"message over the budget",
         packet({.type = Type::message, .length = 32, .operation = uint64_t{1} << 40}, 32),
         End::over_budget},
    };
}

std::vector<std::byte> garbage_packet(Random& random) {
    std::vector<std::byte> data(1 + random.below(4000));
    for (std::byte& each : data) each = static_cast<std::byte>(random.next());
    const Packet header{.type = static_cast<Type>(1 + random.below(10)),
                        .length = static_cast<uint32_t>(random.below(data.size())),
                        .operation = random.below(2 * data.size())};
    if (data.size() >= sizeof header) std::memcpy(data.data(), &header, sizeof header);
    return data;
}

void expect_end_by_garbage(uint64_t seed, End end) {
    EXPECT_TRUE(end == End::violation || end == End::closed_there || end == End::over_budget)
        << seed << ": " << describe(end);
}

Task<End> how_it_ended(Stage& stage, Endpoint& victim, std::function<void()> look) {
    const Time until = stage.core().now() + std::chrono::minutes(1);
    while (victim.alive() && stage.core().now() < until) {
        look();
        co_await yield(stage.core());
    }
    co_return victim.ended();
}

}  // namespace ros2s::fabric::contract
