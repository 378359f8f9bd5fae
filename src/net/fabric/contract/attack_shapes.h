// Messages that the attack tests of several providers send, and checks that the session has ended.
#pragma once
#include <functional>
#include <vector>

#include "ros2s/base/random.h"
#include "ros2s/fabric/contract/stage.h"
#include "ros2s/fabric/packet/packet.h"

namespace ros2s::fabric::contract {

// The header, and `bytes` bytes after it.
[[nodiscard]] std::vector<std::byte> packet(const Packet& header, size_t bytes);
// A valid packet.
[[nodiscard]] std::vector<std::byte> good_packet();

// A packet that ends the session of the peer that sends it.
struct BadPacket {
    const char* what;
    std::vector<std::byte> data;
    End end = End::violation;
};
[[nodiscard]] std::vector<BadPacket> bad_packets();

// Up to 4000 random bytes. If they are enough for a header, it is valid at first sight.
[[nodiscard]] std::vector<std::byte> garbage_packet(Random& random);
// The ends that a session may have after garbage.
void expect_end_by_garbage(uint64_t seed, End end);

// Waits until the connection has ended, for at most a minute. `look` is called meanwhile: it makes
// the attacker's library progress.
Task<End> how_it_ended(Stage& stage, Endpoint& victim, std::function<void()> look = [] {});

}  // namespace ros2s::fabric::contract
