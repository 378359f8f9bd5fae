// The terms of the object model, as in DAOS: a pool has containers, a container has objects, an
// object is addressed by dkey and akey, and an akey has a single value or an array of bytes.
#pragma once
#include <compare>
#include <cstdint>
#include <string>
#include <vector>

#include "ros2s/base/bytes.h"
#include "ros2s/base/inline_vector.h"
#include "ros2s/base/update_name.h"
#include "ros2s/runtime/time.h"

namespace ros2s::object {

struct PoolId {
    Uuid uuid;
    friend auto operator<=>(const PoolId&, const PoolId&) = default;
};
struct ContainerId {
    Uuid uuid;
    friend auto operator<=>(const ContainerId&, const ContainerId&) = default;
};

// Chosen by the user of the store (DFS), unique within a container.
struct ObjectId {
    uint64_t high = 0;
    uint64_t low = 0;
    friend auto operator<=>(const ObjectId&, const ObjectId&) = default;
};

// The pool's commit sequence: the position of a transaction in the order of all. 0 means never.
struct Epoch {
    uint64_t value = 0;
    friend auto operator<=>(const Epoch&, const Epoch&) = default;
};

inline constexpr size_t key_bytes_max = 255;
inline constexpr size_t label_bytes_max = 127;  // of a container
inline constexpr size_t owner_bytes_max = 511;  // of a container's owner
// A single value is stored in the journal record and the index, not in data blocks.
inline constexpr size_t value_bytes_max = 64 * 1024;
inline constexpr uint64_t array_bytes_max = uint64_t{1} << 40;
// Bytes that a store keeps with a block of an array, and does not interpret. All zeros: none.
inline constexpr size_t seal_bytes = 48;

// The distribution key: all akeys under one dkey are on one target. 0 to 255 bytes, compared as
// unsigned bytes. Integer dkeys are 8 bytes big-endian, so that they compare as numbers.
struct Dkey {
    std::string bytes;
    friend auto operator<=>(const Dkey&, const Dkey&) = default;
    [[nodiscard]] static Dkey integer(uint64_t number) {
        std::string bytes(8, '\0');
        for (int i = 0; i < 8; ++i) bytes[i] = static_cast<char>(number >> (56 - 8 * i));
        return {std::move(bytes)};
    }
    // The number of an 8-byte dkey; 0 for others.
    [[nodiscard]] uint64_t number() const {
        if (bytes.size() != 8) return 0;
        uint64_t number = 0;
        for (const char c : bytes) number = number << 8 | static_cast<uint8_t>(c);
        return number;
    }
};

// The attribute key. 1 to 255 bytes.
struct Akey {
    std::string bytes;
    friend auto operator<=>(const Akey&, const Akey&) = default;
};

// Bytes [offset, offset + length) of an array.
struct Extent {
    uint64_t offset = 0;
    uint64_t length = 0;
    friend auto operator<=>(const Extent&, const Extent&) = default;
    [[nodiscard]] uint64_t end() const { return offset + length; }
};

// CRC32Cs of payload, one per piece (checksum.h). A block has at most two, which need no
// allocation.
using Checksums = InlineVector<uint32_t, 2>;

enum class MemoryKind : uint8_t { host = 0, dpu = 1, gpu = 2 };

// A range of memory that payload moves to or from. It consists of plain numbers, so this module
// does not depend on the network. peer 0 is this process and `address` is a pointer. Otherwise
// `peer` names an endpoint and `key` is the remote key under which it granted access.
struct Window {
    uint64_t address = 0;
    uint64_t length = 0;
    uint32_t peer = 0;
    MemoryKind memory = MemoryKind::host;
    // Another process may change the bytes at any time. A checksum mismatch is therefore reliable
    // only if it was found in private memory.
    bool shared = false;
    uint64_t key = 0;

    [[nodiscard]] static Window local(Bytes bytes) {
        return {.address = reinterpret_cast<uint64_t>(bytes.data()), .length = bytes.size()};
    }
    // For sources: the store only reads the memory.
    [[nodiscard]] static Window local(ConstBytes bytes) {
        return {.address = reinterpret_cast<uint64_t>(bytes.data()), .length = bytes.size()};
    }
    [[nodiscard]] bool is_local() const { return peer == 0 && memory == MemoryKind::host; }
    // For a local window.
    [[nodiscard]] Bytes bytes() const { return {reinterpret_cast<std::byte*>(address), length}; }
    [[nodiscard]] Window slice(uint64_t offset, uint64_t count) const {
        Window part = *this;
        part.address += offset;
        part.length = count;
        return part;
    }
};

// The owners that one sender names, for the clients that it serves (UpdateName::owner), begin with
// the same bytes as its own.
inline constexpr size_t sender_bytes = 8;

// The holder of pins: a user of the store, within its session. The servers on the path set the
// session (0: this process's own) and its owner, as in UpdateName.
struct Holder {
    Uuid client;
    uint64_t session = 0;
    Uuid owner{};
    friend bool operator==(const Holder&, const Holder&) = default;
};
// A holder of pins in a container, as it is known again in another session.
struct HolderName {
    ContainerId container;
    Uuid owner;
    Uuid client;
    friend auto operator<=>(const HolderName&, const HolderName&) = default;
};
[[nodiscard]] inline HolderName name_of(ContainerId container, const Holder& holder) {
    return {container, holder.owner, holder.client};
}

// Locks of an object (locks.h). `range`: of bytes, as by fcntl(2). `flock`: of the whole. These are
// advisory. `container`: of all objects, with the nil object's id. Whoever has it uses the
// container alone.
enum class LockSpace : uint8_t { range = 0, flock = 1, container = 2 };
enum class LockMode : uint8_t { none = 0, shared = 1, exclusive = 2 };  // none: nothing is locked
struct Lock {
    LockSpace space{};
    LockMode mode{};
    uint64_t first = 0, last = UINT64_MAX;  // the bytes, both included
    uint64_t mount = 0;                     // for a holder that serves others: whose of them it is
    uint64_t owner = 0;                     // a number that the holder, or that one, chose
    uint32_t pid = 0;                       // for F_GETLK
    std::string holder{};                   // of a container: who has it, for people
    friend bool operator==(const Lock&, const Lock&) = default;
};
inline constexpr size_t lock_holder_bytes_max = 255;
struct LockRequest {
    // test: changes nothing. set: locks, changes or unlocks. claim: the holder had this lock in an
    // earlier session, or before the store was restarted.
    enum class How : uint8_t { test = 0, set = 1, claim = 2 };
    ObjectId object{};
    Lock lock;
    How how{};
    // If a lock is in the way, the owner, a process, waits until its next request for the object.
    bool waits = false;
};

// A lease of an object (leases.h), as recalls name it.
struct Lease {
    ObjectId object{};
    uint64_t number = 0;
    friend bool operator==(const Lease&, const Lease&) = default;
};
struct Listening {
    bool begins = false;  // the holder has no leases, and begins or begins again
    bool waits = true;    // for news, for a while
    bool ends = false;    // it has nothing any more, and does not come again
    std::vector<Lease> given_back{};
};
struct LeaseNews {
    std::vector<Lease> recalled;  // to be given back
    bool lost = false;            // the holder has no leases any more: it should begin again
    friend bool operator==(const LeaseNews&, const LeaseNews&) = default;
};

}  // namespace ros2s::object
