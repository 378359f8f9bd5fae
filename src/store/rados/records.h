// The values in an object's omap (docs/formats/rados.md). Each has a tag, a version and a CRC32C,
// so that a damaged value is an error and never data. The bytes are untrusted: decode() accepts
// any.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ros2s/base/fields.h"
#include "ros2s/object/object_store.h"
#include "ros2s/rados/keys.h"

namespace ros2s::rados {

// The lock of a transaction, with the location of its record. The coordinator is a log, replies, or
// one of the transaction's objects with a decision_key().
struct Lock {
    Uuid transaction;  // nil: none
    std::string coordinator, key;
    // The transaction created the object. If it is aborted, the object is removed.
    bool created = false;
};
// Every object has a head. Each change gives it other bytes, so an unchanged head means an
// unchanged object.
struct Head {
    static constexpr char tag = 'H';
    uint64_t epoch = 0;    // of the last change
    uint64_t change = 0;   // random
    uint64_t entries = 0;  // of all akeys; 0: the next sweep may remove the object
    Lock lock;
};

// One akey name over all dkeys of an object.
struct Column {
    static constexpr char tag = 'C';
    uint64_t entries = 0;
    uint64_t blocks = 0;
    uint64_t last_epoch = 0;
    WallTime last_time{};
};

// The bytes of arrays that an object's omap has.
struct InlineBytes {
    static constexpr char tag = 'B';
    uint64_t bytes = 0;
};
// The space that bytes in the omap are counted as. Their keys take space as well.
[[nodiscard]] constexpr uint64_t inline_cost(uint64_t bytes) { return bytes < 512 ? 512 : bytes; }

struct Entry {
    static constexpr char tag = 'E';
    bool is_array = false;
    uint64_t epoch = 0;
    uint64_t size = 0;    // of the array or value
    uint64_t blocks = 0;  // of the array
    std::string value;    // of a single value
};

// Bytes of an array from `offset` on that were written at once, with checksums as in
// object/checksum.h.
struct Run {
    DataId data;
    uint64_t offset = 0;
    uint64_t length = 0;
    object::Checksums checksums;
};
// The part of a run that is visible.
struct Visible {
    uint64_t offset = 0;
    uint64_t length = 0;
    uint32_t run = 0;
};
// The bytes of one 4 MiB segment of an array.
struct Segment {
    static constexpr char tag = 'S';
    std::vector<Run> runs;
    std::vector<Visible> visible;  // ascending, disjoint
};

// The changes that a transaction makes to one object if it commits.
struct Pending {
    static constexpr char tag = 'P';
    struct Set {
        std::string key, value;
    };
    struct Key {
        std::string key;
    };
    std::vector<Set> set;
    std::vector<Key> remove;
};

// The state of a transaction, and later the reply to it.
struct Coordination {
    static constexpr char tag = 'T';
    enum class State : uint8_t { pending, committed };
    struct Participant {
        std::string name;
    };
    State state{};
    Uuid transaction;
    uint64_t sequence = 0;
    uint64_t digest = 0;
    uint64_t epoch = 0;
    WallTime time{};
    std::vector<Participant> participants;
    std::string before;  // the slot's previous record; an abort puts it back
};

// The record of the pool.
struct PoolRecord {
    static constexpr char tag = 'R';
    Uuid id;
    std::string data;  // the name of its RADOS pool for data
};
// The greatest epoch of a closed store. The next store's epochs are greater, even if its clock is
// behind.
struct ClockRecord {
    static constexpr char tag = 'K';
    uint64_t epoch = 0;
};
struct ContainerValue {
    static constexpr char tag = 'N';
    Uuid id;
    uint64_t chunk_bytes = 0;
    WallTime created{};
    std::string owner;
};

// For each of these types that has a tag.
template <class Record>
[[nodiscard]] std::string encode(const Record& record);
// Errors: corrupt, bad_version (detail = the version).
template <class Record>
[[nodiscard]] Result<> decode(std::string_view value, Record& record);

}  // namespace ros2s::rados
