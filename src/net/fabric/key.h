// RemoteKey: the descriptor by which one side lets its peer put into, or get from, a range of its
// memory. It is 96 plain bytes, the same for every provider, carried inside requests
// (docs/formats/fabric.md). A key gives no right by itself: the grantor's table decides at each
// use.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "ros2s/base/bytes.h"
#include "ros2s/base/result.h"

namespace ros2s::fabric {

// The transfers that the peer may make with a region.
enum class Rights : uint8_t { read = 1, write = 2, read_write = 3 };
[[nodiscard]] constexpr bool allows(Rights held, Rights asked) noexcept {
    return (static_cast<uint8_t>(held) & static_cast<uint8_t>(asked)) ==
           static_cast<uint8_t>(asked);
}

enum class MemoryKind : uint8_t { host = 0, gpu = 1 };

struct RemoteKey {
    static constexpr uint32_t magic_value = 0x4b4d3252;  // "R2MK"
    static constexpr uint8_t current_version = 1;

    uint32_t magic = magic_value;
    uint8_t version = current_version;
    Rights rights = Rights::read;
    MemoryKind memory = MemoryKind::host;
    uint8_t reserved = 0;
    uint64_t domain = 0;      // of the grantor: random, made when the domain is opened
    uint64_t session = 0;     // the connection over which alone it may be used
    uint64_t lease = 0;       // the generation of the lease under which it was granted; 0: none
    uint32_t slot = 0;        // in the grantor's table
    uint32_t generation = 0;  // of the slot; a revoked key's is never used again
    uint64_t address = 0;     // where the range begins, in the provider's terms
    uint64_t length = 0;      // bytes
    uint16_t device = 0;      // for memory that is not the host's
    uint16_t native_bytes = 0;
    std::array<std::byte, 32> native{};  // a key of the hardware, native_bytes long
    uint32_t crc = 0;                    // CRC32C of what precedes it

    // Computes crc; the last step of making one.
    void seal() noexcept;
    // Decodes any 96 bytes. Errors: corrupt (magic, CRC), bad_version, invalid (a field makes no
    // sense).
    [[nodiscard]] static Result<RemoteKey> decode(ConstBytes bytes);
    // Checks a decoded key. Errors: those of decode().
    [[nodiscard]] Result<> check() const;
    friend bool operator==(const RemoteKey&, const RemoteKey&) = default;
};
static_assert(sizeof(RemoteKey) == 96 && std::is_trivially_copyable_v<RemoteKey>);
static_assert(std::has_unique_object_representations_v<RemoteKey>);

}  // namespace ros2s::fabric
