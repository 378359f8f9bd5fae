// Hello: the first bytes on every connection, in both directions, with every provider: the sender's
// provider, version and budgets. It has 128 bytes. A credential follows the client's hello, a
// verdict the listener's (docs/formats/fabric.md). A peer with another protocol, provider or
// version, or with a credential that is not accepted, gets an answer with that reason. Nothing is
// set up for it.
#pragma once
#include <array>
#include <cstdint>
#include <string>

#include "ros2s/base/bytes.h"
#include "ros2s/base/result.h"

namespace ros2s::fabric {

// The listener's answer to a hello.
enum class Answer : uint16_t {
    welcome = 0,
    other_provider = 1,  // the hello with this answer names the listener's
    other_version = 2,
    busy = 3,     // too many handshakes
    refused = 4,  // not accepted here (its credential, its numbers)
    no_memory = 5,
};

struct Hello {
    static constexpr uint32_t magic_value = 0x48463252;  // "R2FH"
    static constexpr uint16_t current_version = 2;

    uint32_t magic = magic_value;
    uint16_t version = current_version;
    Answer answer = Answer::welcome;
    std::array<char, 32> provider{};  // padded with zeros
    uint64_t domain = 0;
    uint64_t session = 0;  // given by the listener
    uint64_t message_bytes_max = 0;
    uint64_t incoming_bytes_max = 0;
    uint64_t memory_bytes = 0;  // shm: requested, then granted
    uint32_t operations_max = 0;
    uint32_t appended_bytes = 0;  // that follow: the provider's own (ucx: its worker's address)
    uint32_t passed_bytes = 0;    // that follow before them: the credential, or the verdict on it
    // shm: of memory_bytes, what is requested at once, in blocks of 4 KiB. 0: all of it.
    uint32_t memory_first_blocks = 0;
    std::array<uint32_t, 6> reserved{};
    uint32_t zero = 0;
    uint32_t crc = 0;  // CRC32C of what precedes it

    void set_provider(std::string_view name) noexcept;
    [[nodiscard]] std::string_view provider_name() const noexcept;
    void seal() noexcept;
    // Decodes any 128 bytes. Errors: corrupt (not our hello), bad_version (detail = the version).
    [[nodiscard]] static Result<Hello> decode(ConstBytes bytes);
};
static_assert(sizeof(Hello) == 128 && std::has_unique_object_representations_v<Hello>);

// Returns the answer of a listener of `provider` to a hello.
[[nodiscard]] Answer answer_to(const Result<Hello>& hello, std::string_view provider) noexcept;

// For the side that connects: turns any answer except a welcome into an error and a sentence.
// Errors: unsupported, busy, denied, no_memory.
[[nodiscard]] Result<> check_answer(const Result<Hello>& answer, std::string_view address,
                                    std::string_view provider, Report& report);

}  // namespace ros2s::fabric
