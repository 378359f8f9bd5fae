// The writer and the verifier of the kill test. The writer overwrites random blocks of one file,
// with many writes in flight, while a second thread creates, renames and unlinks small files. It
// writes each acknowledgement of the library to standard output, a pipe to another process. That
// process survives when the writer is killed by SIGKILL, and runs the verifier, which checks that
// everything acknowledged is there. If writer and reader can use the container at the same time, a
// watch reads back while the writer works.
#pragma once
#include <array>
#include <cstdint>
#include <cstring>
#include <string>

#include "ros2store/ros2store.h"

namespace ros2s::kill_test {

// One acknowledgement. A pipe passes it whole or not at all (it is shorter than PIPE_BUF).
struct Acknowledged {
    enum Kind : uint32_t { written = 1, created = 2, renamed = 3, unlinked = 4 };
    uint32_t kind = 0;
    uint32_t reserved = 0;
    uint64_t sequence = 0;  // rises over all writes, or names, of all rounds
    uint64_t block = 0;     // written: which one
};
static_assert(sizeof(Acknowledged) == 24);

inline constexpr size_t block_size = 4096;
// A file is unlinked when this many younger ones have been renamed.
inline constexpr uint64_t names_kept = 20;
inline constexpr const char* data_name = "blocks";

// The contents of a block: its sequence, its position, and bytes that are derived from both.
struct alignas(block_size) Block {
    std::array<uint64_t, block_size / sizeof(uint64_t)> words;

    void fill(uint64_t sequence, uint64_t block) {
        words[0] = sequence;
        words[1] = block;
        uint64_t state = sequence * 0x9e3779b97f4a7c15U + block;
        for (size_t i = 2; i < words.size(); ++i) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            words[i] = state;
        }
    }
    [[nodiscard]] bool is_whole(uint64_t block) const {
        Block expected;
        expected.fill(words[0], block);
        return words == expected.words;
    }
};
static_assert(sizeof(Block) == block_size);

inline std::string new_name(uint64_t sequence) { return "new-" + std::to_string(sequence); }
inline std::string kept_name(uint64_t sequence) { return "kept-" + std::to_string(sequence); }

// Runs until it is killed. `first_sequence` is greater than any of earlier rounds.
int write_until_killed(ros2s_fs* fs, uint64_t blocks, uint32_t depth, uint64_t first_sequence);
// Reads acknowledgements from standard input, and checks them against the container.
int verify(ros2s_fs* fs);
// The same while the writer works, until the end of standard input. It reads acknowledged data
// again and again, and prints lines "KNOWN READ LOST": the number of acknowledged blocks and names,
// how many of them it has read, and how many were wrong. For names it checks only final states: a
// renamed name no longer exists, and an unlinked file is gone. The writer itself notices a missing
// name.
int watch(ros2s_fs* fs);

}  // namespace ros2s::kill_test
