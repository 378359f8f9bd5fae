// Parts that the cases share: an open device, and blocks whose content depends on their position.
#pragma once
#include <gtest/gtest.h>

#include <vector>

#include "contract.h"

namespace ros2s::device::contract {

struct Probe {
    Setup& setup;
    Reactor& reactor;
    std::unique_ptr<BlockDevice> device;

    // If one of these fails, the test fails.
    Task<bool> open();
    Task<> close();
};

struct Case {
    const char* name;
    Task<> (*body)(Probe&);
};
[[nodiscard]] std::vector<Case> transfer_cases();
[[nodiscard]] std::vector<Case> lifetime_cases();

// Content that differs for each (block, stamp).
void fill_blocks(Bytes bytes, uint64_t first_block, uint64_t stamp);
[[nodiscard]] bool holds_blocks(ConstBytes bytes, uint64_t first_block, uint64_t stamp);

Task<> write_blocks(Probe& probe, uint64_t first_block, uint64_t count, uint64_t stamp);
// By write_cached().
Task<> cache_blocks(Probe& probe, uint64_t first_block, uint64_t count, uint64_t stamp);
Task<> expect_blocks(Probe& probe, uint64_t first_block, uint64_t count, uint64_t stamp);

}  // namespace ros2s::device::contract
