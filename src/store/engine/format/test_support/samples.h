// One fixed sample of each structure on the media, for the tests that check their bytes.
#pragma once
#include <string>

#include "change.h"
#include "checkpoint.h"
#include "keys.h"
#include "record.h"
#include "ros2s/base/random.h"
#include "superblock.h"
#include "values.h"

namespace ros2s::engine::samples {

inline Uuid uuid(uint8_t first) {
    Uuid uuid;
    for (uint8_t i = 0; i < 16; ++i) uuid.bytes[i] = static_cast<uint8_t>(first + i);
    return uuid;
}
inline WallTime time() { return WallTime{Duration{1'700'000'000'123'456'789}}; }

inline Superblock superblock() {
    return {.pool = uuid(0x10),
            .generation = 3,
            .reached_generation = 2,
            .device_number = 1,
            .devices = {{uuid(0x20), 16384}, {uuid(0x30), 32768}},
            .checkpoint_first = 1,
            .journal_first = 3,
            .journal_blocks = 4096,
            .created_ns = 1'700'000'000'000'000'000,
            .targets = 16,
            .index_directory = "index"};
}

// As earlier programs wrote it: without an incarnation.
inline CheckpointSlot checkpoint_before() {
    return {.pool = uuid(0x10),
            .number = 7,
            .applied = 1234,
            .position = 99,
            .next_id = 0x1122334455667788,
            .previous_id = 0x99aabbccddeeff00,
            .next_epoch = 5678};
}
inline CheckpointSlot checkpoint() {
    CheckpointSlot slot = checkpoint_before();
    slot.incarnation = 0xfedcba9876543210;
    return slot;
}

// An array write of two pieces (the second of two runs) after a hole, and a punch. Without a move,
// which earlier versions do not have.
inline TransactionRecord transaction_before() {
    Change array;
    array.kind = Change::Kind::array;
    array.size_rule = Change::SizeRule::at_least;
    array.piece_count = 2;
    array.object = {0x0102030405060708, 0x090a0b0c0d0e0f10};
    array.dkey = object::Dkey::integer(5).bytes;
    array.akey = "data";
    array.size = 40'000;
    array.hole_first = 1;
    array.hole_count = 2;
    array.pieces = {{{0, 1}, {3, 3}}};
    array.blocks = {{BlockAddress::make(0, 5000), 0xa0a1a2a3},
                    {BlockAddress::make(1, 70), 0xb0b1b2b3},
                    {BlockAddress::make(1, 71), 0xc0c1c2c3},
                    {BlockAddress::make(0, 9), 0xd0d1d2d3}};
    Change punch;
    punch.kind = Change::Kind::punch_dkeys;
    punch.object = {1, 2};
    punch.dkey = std::string("a\0b", 3);
    punch.dkey_end = "b";
    Change put;
    put.kind = Change::Kind::put;
    put.object = {1, 2};
    put.dkey = "name";
    put.akey = "inode";
    put.value = "a single value";
    return {.id = {uuid(0x40), 3, 77, uuid(0x60), 0x5152535455565758},
            .container = {uuid(0x50)},
            .changes = {array, punch, put}};
}
inline TransactionRecord transaction() {
    Change move;
    move.kind = Change::Kind::move;
    move.object = {1, 2};
    move.dkey = "name";
    move.akey = "data";
    move.size = BlockAddress::make(2, 77).value;
    move.piece_count = 1;
    move.pieces[0] = {258, 2};
    move.blocks = {{BlockAddress::make(2, 600), 0xe0e1e2e3},
                   {BlockAddress::make(2, 601), 0xf0f1f2f3}};
    TransactionRecord all = transaction_before();
    all.changes.push_back(move);
    return all;
}

inline ContainerValue container() {
    return {.properties = {.label = "main",
                           .chunk_bytes = 1 << 20,
                           .owner = "CN=alice",
                           .caps = {.bytes = uint64_t{1} << 40, .values = 20'000'000}},
            .created = time(),
            .retired = true,
            .used = {.bytes = 123'456'789, .values = 4321}};
}
// A container's owner and caps are set.
inline TransactionRecord caps() {
    Change set;
    set.kind = Change::Kind::set_container;
    set.value = encode(container());
    return {.id = {uuid(0x40), 3, 78, uuid(0x60), 0x5152535455565758},
            .container = {uuid(0x50)},
            .changes = {set}};
}

// A write of two blocks with seals.
inline std::string seal(uint8_t first) {
    std::string seal(object::seal_bytes, '\0');
    for (char& each : seal) each = static_cast<char>(first++);
    return seal;
}
inline TransactionRecord sealed() {
    Change array;
    array.kind = Change::Kind::array;
    array.size_rule = Change::SizeRule::at_least;
    array.object = {1, 2};
    array.dkey = object::Dkey::integer(0).bytes;
    array.akey = "data";
    array.value = seal(0x10) + seal(0x80);
    array.size = 8000;
    array.piece_count = 1;
    array.pieces[0] = {0, 2};
    array.blocks = {{BlockAddress::make(0, 5000), 0xa0a1a2a3},
                    {BlockAddress::make(0, 5001), 0xb0b1b2b3}};
    return {.id = {uuid(0x40), 3, 79, uuid(0x60), 0x5152535455565758},
            .container = {uuid(0x50)},
            .changes = {array}};
}

inline RecordHeader record_header() {
    RecordHeader header;
    header.pool = uuid(0x10);
    header.incarnation = 0xfedcba9876543210;
    header.id = 0x1122334455667788;
    header.previous_id = 0x99aabbccddeeff00;
    header.next_id = 0x0123456789abcdef;
    header.sequence = 1235;
    header.durable_upto = 1233;
    header.first_epoch = 5678;
    header.wall_time_ns = 1'700'000'000'123'456'789;
    return header;
}

inline EntryValue single() {
    EntryValue entry{.kind = EntryValue::Kind::single, .size = 3, .epoch = {9}, .time = time()};
    entry.single = std::string("a\0z", 3);
    return entry;
}
inline EntryValue array() {
    EntryValue entry{
        .kind = EntryValue::Kind::array, .size = 1 << 20, .epoch = {9}, .time = time()};
    for (uint32_t i = 0; i < 5; ++i)
        entry.map.set(i, {BlockAddress::make(0, 100 + i), 0x01010101 * (i + 1)});
    entry.map.set(7, {BlockAddress::make(2, 8), 0xdeadbeef});
    entry.map.set(255, {BlockAddress::make(0, 105), 0xfeedface});
    return entry;
}
// The middle one of three blocks has no seal.
inline EntryValue array_sealed() {
    EntryValue entry{.kind = EntryValue::Kind::array, .size = 9000, .epoch = {9}, .time = time()};
    for (uint32_t i = 0; i < 3; ++i) {
        entry.map.set(i, {BlockAddress::make(0, 100 + i), 0x01010101 * (i + 1)});
        if (i != 1) entry.map.set_seal(i, seal(static_cast<uint8_t>(0x20 * i)));
    }
    return entry;
}
inline EntryValue segment() {
    EntryValue entry{.kind = EntryValue::Kind::segment};
    entry.map.set(17, {BlockAddress::make(1, 1), 0x12345678});
    return entry;
}
inline SummaryValue summary() {
    return {.entries = 12,
            .blocks = 345,
            .last_epoch = {678},
            .last_time = time(),
            .highest_known = true,
            .highest = object::Dkey::integer(11).bytes};
}
inline ReplyValue reply() {
    return {.sequence = 77,
            .epoch = {5678},
            .time = time(),
            .digest = 0x5152535455565758,
            .whole = true};
}
inline OwnerValue owner() { return {.dropped_upto = 4321}; }
inline MetaValue meta() {
    return {.pool = uuid(0x10),
            .applied = 1234,
            .next_epoch = 5678,
            .wall_time_ns = 1'700'000'000'123'456'789,
            .replies_dropped_upto = 42};
}

}  // namespace ros2s::engine::samples
