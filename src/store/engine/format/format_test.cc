// The bytes on the media: fixed by golden files, decoded, and refused if one bit differs.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>

#include "ros2s/base/crc32c.h"
#include "test_support/golden.h"
#include "test_support/samples.h"

namespace ros2s::engine {
namespace {

constexpr std::string_view superblock_golden =
#include "golden/superblock_v2.txt"
    ;
constexpr std::string_view checkpoint_golden =
#include "golden/checkpoint_v1.txt"
    ;
constexpr std::string_view checkpoint_incarnation_golden =
#include "golden/checkpoint_incarnation_v1.txt"
    ;
constexpr std::string_view record_golden =
#include "golden/record_v5.txt"
    ;
constexpr std::string_view record_caps_golden =
#include "golden/record_caps_v5.txt"
    ;
// Of earlier programs; still read.
constexpr std::string_view record_2_golden =
#include "golden/record_v2.txt"
    ;
constexpr std::string_view record_3_golden =
#include "golden/record_v3.txt"
    ;
constexpr std::string_view record_4_golden =
#include "golden/record_v4.txt"
    ;
constexpr std::string_view record_caps_4_golden =
#include "golden/record_caps_v4.txt"
    ;
constexpr std::string_view record_sealed_golden =
#include "golden/record_sealed_v5.txt"
    ;
constexpr std::string_view array_sealed_golden =
#include "golden/array_sealed_v1.txt"
    ;
constexpr std::string_view container_before_golden =
#include "golden/container_v1.txt"
    ;
constexpr std::string_view single_golden =
#include "golden/single_v1.txt"
    ;
constexpr std::string_view array_golden =
#include "golden/array_v1.txt"
    ;
constexpr std::string_view segment_golden =
#include "golden/segment_v1.txt"
    ;
constexpr std::string_view summary_golden =
#include "golden/summary_v1.txt"
    ;
constexpr std::string_view reply_golden =
#include "golden/reply_v2.txt"
    ;
constexpr std::string_view owner_golden =
#include "golden/owner_v2.txt"
    ;
constexpr std::string_view container_golden =
#include "golden/container_v2.txt"
    ;
constexpr std::string_view meta_golden =
#include "golden/meta_v2.txt"
    ;
constexpr std::string_view meta_before_golden =
#include "golden/meta_v1.txt"
    ;
constexpr std::string_view space_golden =
#include "golden/space_v1.txt"
    ;
constexpr std::string_view keys_golden =
#include "golden/keys_v2.txt"
    ;

std::string block_of(auto&& structure) {
    std::string block(block_bytes, '\0');
    encode(structure, std::as_writable_bytes(std::span(block)));
    return block;
}
std::string record_of(const RecordHeader& header, const TransactionRecord& transaction) {
    RecordBuilder record;
    record.add(transaction);
    return std::string(as_text(record.finish(header)));
}
std::string bytes_of(const TransactionRecord& transaction) {
    std::string memory(transaction.encoded_bytes_max(), '\0');
    FieldWriter<Encoder> encoder(std::as_writable_bytes(std::span(memory)));
    encode(encoder, transaction);
    memory.resize(encoder.size());
    return memory;
}
std::string all_keys() {
    const object::ContainerId container{samples::uuid(0x50)};
    const object::ObjectId object{0x0102030405060708, 0x090a0b0c0d0e0f10};
    std::string keys;
    for (const auto& key :
         {meta_key(), entry_key(container, object, std::string_view("d\0y", 3), "ak", 258),
          summary_key(container, object, "ak"),
          reply_key({samples::uuid(0x60), samples::uuid(0x40), container, 3}),
          container_key(container), space_key(1, 258), owner_key(samples::uuid(0x60))}) {
        keys += key.view();
    }
    return keys;
}

// A structure: its bytes today, its bytes in version 1, and its decoder (true: accepted).
struct Structure {
    std::string name;
    std::string bytes;
    std::string_view golden;
    std::function<Result<>(std::string_view)> read;
    size_t guarded = SIZE_MAX;  // bytes from the front that a checksum covers
};
template <class T>
Result<> outcome(const Result<T>& result) {
    if (!result) return fail(result.error());
    return {};
}
std::vector<Structure> structures() {
    const std::string record = record_of(samples::record_header(), samples::transaction());
    const std::string caps = record_of(samples::record_header(), samples::caps());
    const std::string sealed = record_of(samples::record_header(), samples::sealed());
    return {
        {"superblock", block_of(samples::superblock()), superblock_golden,
         [](auto b) { return outcome(decode_superblock(as_bytes(b))); }},
        {"checkpoint", block_of(samples::checkpoint_before()), checkpoint_golden,
         [](auto b) { return outcome(decode_checkpoint(as_bytes(b))); }, sizeof(CheckpointSlot)},
        {"checkpoint_incarnation", block_of(samples::checkpoint()), checkpoint_incarnation_golden,
         [](auto b) { return outcome(decode_checkpoint(as_bytes(b))); }, sizeof(CheckpointSlot)},
        {"record", record, record_golden,
         [](auto b) { return outcome(decode_record(as_bytes(b))); },
         sizeof(RecordHeader) + bytes_of(samples::transaction()).size()},
        {"record_caps", caps, record_caps_golden,
         [](auto b) { return outcome(decode_record(as_bytes(b))); },
         sizeof(RecordHeader) + bytes_of(samples::caps()).size()},
        {"record_sealed", sealed, record_sealed_golden,
         [](auto b) { return outcome(decode_record(as_bytes(b))); },
         sizeof(RecordHeader) + bytes_of(samples::sealed()).size()},
        {"array_sealed", encode(samples::array_sealed()), array_sealed_golden,
         [](auto b) { return outcome(decode_entry(b)); }},
        {"single", encode(samples::single()), single_golden,
         [](auto b) { return outcome(decode_entry(b)); }},
        {"array", encode(samples::array()), array_golden,
         [](auto b) { return outcome(decode_entry(b)); }},
        {"segment", encode(samples::segment()), segment_golden,
         [](auto b) { return outcome(decode_entry(b)); }},
        {"summary", encode(samples::summary()), summary_golden,
         [](auto b) { return outcome(decode_summary(b)); }},
        {"reply", encode(samples::reply()), reply_golden,
         [](auto b) { return outcome(decode_reply(b)); }},
        {"owner", encode(samples::owner()), owner_golden,
         [](auto b) { return outcome(decode_owner(b)); }},
        {"container", encode(samples::container()), container_golden,
         [](auto b) { return outcome(decode_container(b)); }},
        {"meta", encode(samples::meta()), meta_golden,
         [](auto b) { return outcome(decode_meta(b)); }},
        {"space", encode_space(std::string("\x0f\0\xff", 3)), space_golden,
         [](auto b) { return outcome(decode_space(b)); }},
    };
}

// A change of these bytes is a new format version: existing pools have the old ones. To write the
// files of a new version, set ROS2STORE_GOLDEN_DIR to the directory.
TEST(EngineFormat, BytesMatchTheGoldenFiles) {
    auto all = structures();
    all.push_back({"keys", all_keys(), keys_golden, {}});
    for (const auto& structure : all) {
        const std::string text = to_golden(as_bytes(structure.bytes));
        EXPECT_EQ(text, structure.golden) << structure.name;
        EXPECT_EQ(from_golden(text), structure.bytes) << structure.name;
        if (const char* directory = std::getenv("ROS2STORE_GOLDEN_DIR"))
            std::ofstream(std::string(directory) + "/" + structure.name + ".txt")
                << "R\"(" << text << ")\"\n";
    }
}

// record_fuzz and values_fuzz begin with the same bytes. They make the checksums themselves.
constexpr std::string_view record_seeds =
#include "engine_format_record_fuzz_seeds.txt"
    ;
constexpr std::string_view value_seeds =
#include "engine_format_values_fuzz_seeds.txt"
    ;
TEST(EngineFormat, FuzzerSeedsMatchTheGoldenFiles) {
    std::string records = "\n", values = "\n";
    const auto add = [](std::string& lines, std::string_view bytes) {
        for (const char c : bytes) lines += fmt::format("{:02x}", static_cast<uint8_t>(c));
        lines += '\n';
    };
    for (const auto& each : {samples::transaction(), samples::caps(), samples::sealed()}) {
        add(records, bytes_of(each));
    }
    for (const auto& each : structures()) {
        if (each.guarded != SIZE_MAX || each.name == "superblock") continue;
        add(values, std::string_view(each.bytes).substr(0, each.bytes.size() - 4));
    }
    EXPECT_EQ(records, record_seeds);
    EXPECT_EQ(values, value_seeds);
}

TEST(EngineFormat, GoldenFilesDecodeToTheirValues) {
    const auto superblock = decode_superblock(as_bytes(from_golden(superblock_golden)));
    ASSERT_TRUE(superblock);
    EXPECT_EQ(*superblock, samples::superblock());
    // Today's program may write more: identities of the media.
    Superblock identified = *superblock;
    identified.devices[1].identity[0] = 2;
    identified.devices[1].identity[8] = 0x42;
    AlignedBuffer block(block_bytes);
    encode(identified, block.bytes());
    EXPECT_EQ(decode_superblock(block.bytes()), identified);
    const auto checkpoint_before = decode_checkpoint(as_bytes(from_golden(checkpoint_golden)));
    ASSERT_TRUE(checkpoint_before);
    EXPECT_EQ(*checkpoint_before, samples::checkpoint_before());
    EXPECT_EQ(checkpoint_before->incarnation, 0U);
    const auto checkpoint = decode_checkpoint(as_bytes(from_golden(checkpoint_incarnation_golden)));
    ASSERT_TRUE(checkpoint);
    EXPECT_EQ(*checkpoint, samples::checkpoint());
    const auto record = decode_record(as_bytes(from_golden(record_golden)));
    ASSERT_TRUE(record);
    ASSERT_EQ(record->transactions.size(), 1u);
    EXPECT_EQ(bytes_of(record->transactions[0]), bytes_of(samples::transaction()));
    EXPECT_EQ(record->header.sequence, samples::record_header().sequence);
    EXPECT_EQ(record->header.next_id, samples::record_header().next_id);
    const auto array = decode_entry(from_golden(array_golden));
    ASSERT_TRUE(array);
    EXPECT_EQ(array->size, samples::array().size);
    EXPECT_EQ(array->map.used(), 7u);
    for (uint32_t i = 0; i < segment_blocks; ++i)
        EXPECT_EQ(array->map.at(i), samples::array().map.at(i)) << i;
    const auto sealed = decode_record(as_bytes(from_golden(record_sealed_golden)));
    ASSERT_TRUE(sealed);
    EXPECT_EQ(sealed->transactions[0].changes[0].value, samples::sealed().changes[0].value);
    const auto seals = decode_entry(from_golden(array_sealed_golden));
    ASSERT_TRUE(seals);
    for (uint32_t i = 0; i < 3; ++i) {
        EXPECT_EQ(seals->map.at(i), samples::array_sealed().map.at(i));
        EXPECT_EQ(seals->map.seal(i), samples::array_sealed().map.seal(i)) << i;
    }
    EXPECT_EQ(seals->map.seal(1), std::string(object::seal_bytes, '\0'));
    EXPECT_EQ(decode_entry(from_golden(single_golden))->single, samples::single().single);
    EXPECT_EQ(decode_entry_head(from_golden(array_golden))->epoch, samples::array().epoch);
    EXPECT_EQ(decode_summary(from_golden(summary_golden)), samples::summary());
    EXPECT_EQ(decode_reply(from_golden(reply_golden)), samples::reply());
    EXPECT_EQ(decode_meta(from_golden(meta_golden)), samples::meta());
    const auto container = decode_container(from_golden(container_golden));
    ASSERT_TRUE(container);
    EXPECT_EQ(container->properties, samples::container().properties);
    EXPECT_EQ(container->created, samples::container().created);
    EXPECT_TRUE(container->retired);
    EXPECT_EQ(container->used, samples::container().used);
    EXPECT_TRUE(container->counted);
}

TEST(EngineFormat, ValuesOfEarlierVersionsAreRead) {
    for (const std::string_view golden : {record_2_golden, record_3_golden}) {
        const auto record = decode_record(as_bytes(from_golden(golden)));
        ASSERT_TRUE(record);
        ASSERT_EQ(record->transactions.size(), 1u);
        EXPECT_EQ(bytes_of(record->transactions[0]), bytes_of(samples::transaction_before()));
    }
    for (const auto& [golden, before] : {std::pair(record_4_golden, samples::transaction()),
                                         std::pair(record_caps_4_golden, samples::caps())}) {
        const auto record = decode_record(as_bytes(from_golden(golden)));
        ASSERT_TRUE(record);
        EXPECT_EQ(record->header.version, 4U);
        EXPECT_EQ(bytes_of(record->transactions[0]), bytes_of(before));
    }
    const auto container = decode_container(from_golden(container_before_golden));
    ASSERT_TRUE(container);
    EXPECT_EQ(container->properties, (object::ContainerProperties{.label = "main"}));
    EXPECT_TRUE(container->retired);
    EXPECT_FALSE(container->counted);
    EXPECT_EQ(container->used, object::Amount{});
    const auto meta = decode_meta(from_golden(meta_before_golden));
    ASSERT_TRUE(meta);
    EXPECT_FALSE(meta->by_sender);
    EXPECT_EQ(meta->next_epoch, samples::meta().next_epoch);
}

// A move names the blocks of one segment, so that it needs one node.
TEST(EngineFormat, MoveAcrossSegmentsIsRefused) {
    const auto is_read = [](uint64_t first, uint32_t count) {
        TransactionRecord transaction = samples::transaction();
        Change& move = transaction.changes[transaction.changes.size() - 1];
        move.pieces[0] = {first, count};
        while (move.blocks.size() > count) move.blocks.truncate(count);
        return decode_record(as_bytes(record_of(samples::record_header(), transaction)))
            .has_value();
    };
    EXPECT_TRUE(is_read(2 * segment_blocks - 2, 2));
    EXPECT_TRUE(is_read(2 * segment_blocks - 1, 1));
    EXPECT_FALSE(is_read(2 * segment_blocks - 1, 2));
    EXPECT_FALSE(is_read(2 * segment_blocks - 1, 0));
}

TEST(EngineFormat, PartialSealsAreRefused) {
    for (const size_t bytes : {size_t{1}, object::seal_bytes, 3 * object::seal_bytes}) {
        TransactionRecord transaction = samples::sealed();
        transaction.changes[0].value.resize(bytes);
        EXPECT_FALSE(decode_record(as_bytes(record_of(samples::record_header(), transaction))));
    }
}

TEST(EngineFormat, FlippedBitIsRefused) {
    for (const auto& structure : structures()) {
        ASSERT_TRUE(structure.read(structure.bytes)) << structure.name;
        const size_t guarded = std::min(structure.guarded, structure.bytes.size());
        for (size_t bit = 0; bit < guarded * 8; ++bit) {
            std::string bytes = structure.bytes;
            bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << (bit % 8)));
            ASSERT_FALSE(structure.read(bytes)) << structure.name << ", bit " << bit;
        }
    }
}

TEST(EngineFormat, TruncatedValueIsRefused) {
    for (const auto& structure : structures()) {
        if (structure.name == "superblock" || structure.name.starts_with("checkpoint")) continue;
        const size_t guarded = std::min(structure.guarded, structure.bytes.size());
        for (size_t length = 0; length < guarded; ++length)
            ASSERT_FALSE(structure.read(std::string_view(structure.bytes).substr(0, length)))
                << structure.name << ", " << length << " bytes";
    }
}

// A pool of a later version: the version differs and the checksum is valid.
TEST(EngineFormat, UnknownVersionIsNamed) {
    for (auto& structure : structures()) {
        auto bytes = std::as_writable_bytes(std::span(structure.bytes));
        uint32_t version = 9;
        const auto set = [&](size_t at, uint32_t number) {
            std::memcpy(bytes.data() + at, &number, sizeof number);
        };
        if (structure.name.starts_with("record")) {
            set(8, version);
            set(12, 0);
            set(sizeof(RecordHeader) - 8, 0);
            RecordHeader header;
            std::memcpy(&header, bytes.data(), sizeof header);
            header.header_crc = crc32c(object_bytes(header));
            std::memcpy(bytes.data(), &header, sizeof header);
        } else if (structure.name == "superblock" || structure.name.starts_with("checkpoint")) {
            set(8, version);
            set(12, 0);
            set(12, crc32c(bytes.first(std::min(structure.guarded, bytes.size()))));
        } else {
            bytes[1] = std::byte{9};
            set(bytes.size() - 4, crc32c(bytes.first(bytes.size() - 4)));
        }
        const auto result = structure.read(structure.bytes);
        ASSERT_FALSE(result) << structure.name;
        EXPECT_EQ(result.error().code, Code::bad_version) << structure.name;
        EXPECT_EQ(result.error().detail, version) << structure.name;
    }
}

// Found by the fuzzer: an accepted superblock could not be encoded again.
TEST(EngineFormat, UnterminatedDirectoryNameIsRefused) {
    std::string block = from_golden(superblock_golden);
    constexpr size_t crc_at = 12, name_at = 104, name_bytes = 64;
    std::ranges::fill(std::span(block).subspan(name_at, name_bytes), 'x');
    uint32_t crc = 0;
    std::memcpy(block.data() + crc_at, &crc, sizeof crc);
    crc = crc32c(as_bytes(block));
    std::memcpy(block.data() + crc_at, &crc, sizeof crc);
    EXPECT_EQ(decode_superblock(as_bytes(block)).error().code, Code::corrupt);
}

// What follows has a valid checksum and could not be used.

TEST(EngineFormat, SuperblockAreaOutsideDeviceIsRefused) {
    const auto is_read = [](auto change) {
        Superblock superblock = samples::superblock();
        change(superblock);
        return decode_superblock(as_bytes(block_of(superblock))).has_value();
    };
    const uint64_t huge = UINT64_MAX;
    EXPECT_TRUE(is_read([](Superblock&) {}));
    EXPECT_FALSE(is_read([](Superblock& s) { s.checkpoint_first = 0; }));
    EXPECT_FALSE(is_read([](Superblock& s) { s.checkpoint_first = 2; }));
    EXPECT_FALSE(is_read([](Superblock& s) { s.checkpoint_first = huge; }));
    EXPECT_FALSE(is_read([](Superblock& s) { s.checkpoint_first = huge - 1; }));
    EXPECT_FALSE(is_read([](Superblock& s) { s.journal_first = huge; }));
    EXPECT_FALSE(is_read([](Superblock& s) { s.journal_blocks = huge; }));
    EXPECT_FALSE(is_read([](Superblock& s) { s.journal_blocks = journal_blocks_least - 1; }));
    const auto with_data = [](uint64_t blocks) {
        return [blocks](Superblock& s) {
            s.journal_blocks = s.devices[0].blocks - 1 - s.journal_first - blocks;
        };
    };
    EXPECT_TRUE(is_read(with_data(data_blocks_least)));
    EXPECT_FALSE(is_read(with_data(data_blocks_least - 1)));
    EXPECT_FALSE(is_read(with_data(0)));
    EXPECT_TRUE(is_read([](Superblock& s) { s.devices[1].blocks = 2 + data_blocks_least; }));
    EXPECT_FALSE(is_read([](Superblock& s) { s.devices[1].blocks = 1 + data_blocks_least; }));
    EXPECT_FALSE(is_read([](Superblock& s) { s.devices[1].blocks = 0; }));
}

TEST(EngineFormat, DirectoryNameOutsideThePoolIsRefused) {
    for (const std::string name : {"", ".", "..", "/etc", "../other/index", "index/", "a/b"}) {
        Superblock superblock = samples::superblock();
        superblock.index_directory = name;
        EXPECT_FALSE(decode_superblock(as_bytes(block_of(superblock)))) << name;
    }
}

// The next one is written, too: it must not be 0.
TEST(EngineFormat, CounterNearOverflowIsRefused) {
    const uint64_t last = UINT64_MAX;
    Superblock superblock = samples::superblock();
    superblock.generation = last;
    EXPECT_EQ(decode_superblock(as_bytes(block_of(superblock))).error().code, Code::corrupt);
    for (const auto member :
         {&CheckpointSlot::number, &CheckpointSlot::applied, &CheckpointSlot::next_epoch}) {
        CheckpointSlot slot = samples::checkpoint();
        slot.*member = last;
        EXPECT_EQ(decode_checkpoint(as_bytes(block_of(slot))).error().code, Code::corrupt);
    }
    for (const auto member :
         {&RecordHeader::sequence, &RecordHeader::durable_upto, &RecordHeader::first_epoch}) {
        RecordHeader header = samples::record_header();
        header.*member = last;
        const std::string record = record_of(header, samples::transaction());
        EXPECT_EQ(decode_record(as_bytes(record)).error().code, Code::corrupt);
    }
    for (const auto member : {&MetaValue::applied, &MetaValue::next_epoch}) {
        MetaValue meta = samples::meta();
        meta.*member = last;
        EXPECT_EQ(decode_meta(encode(meta)).error().code, Code::corrupt);
    }
}

TEST(EngineFormat, TooLongArrayIsRefused) {
    EntryValue array = samples::array();
    array.size = object::array_bytes_max;
    EXPECT_TRUE(decode_entry(encode(array)));
    array.size = object::array_bytes_max + 1;
    EXPECT_EQ(decode_entry(encode(array)).error().code, Code::corrupt);
    EXPECT_EQ(decode_entry_head(encode(array)).error().code, Code::corrupt);
}

TEST(EngineFormat, ChangeWithoutAkeyIsRefused) {
    using Kind = Change::Kind;
    const auto is_read = [](Kind kind) {
        TransactionRecord transaction;
        transaction.changes.push_back({.kind = kind, .object = {1, 2}, .dkey = "d"});
        return decode_record(as_bytes(record_of(samples::record_header(), transaction)))
            .has_value();
    };
    for (const auto kind : {Kind::array, Kind::put, Kind::punch_akey}) EXPECT_FALSE(is_read(kind));
    for (const auto kind : {Kind::punch_dkey, Kind::punch_object, Kind::remove_container}) {
        EXPECT_TRUE(is_read(kind));
    }
}

std::string random_text(Random& random, size_t most) {
    std::string text(random.below(most + 1), '\0');
    for (auto& c : text) c = static_cast<char>(random.below(3) == 0 ? 0 : random.next());
    return text;
}

// Of at least one byte.
std::string random_akey(Random& random, size_t most) {
    std::string akey = random_text(random, most);
    return akey.empty() ? std::string(1, '\0') : akey;
}

TEST(EngineFormat, RandomTransactionsRoundTrip) {
    Random random(1);
    for (int round = 0; round < 2000; ++round) {
        TransactionRecord transaction{.id = {Uuid::make(Secrets(random)), 1, random.next(),
                                             Uuid::make(Secrets(random)), random.next()},
                                      .container = {Uuid::make(Secrets(random))}};
        for (auto changes = random.below(4); changes > 0; --changes) {
            Change change;
            change.kind = static_cast<Change::Kind>(1 + random.below(10));
            change.object = {random.next(), random.next()};
            change.dkey = random_text(random, 255);
            change.akey = random_akey(random, 255);
            change.dkey_end = random_text(random, 255);
            if (change.kind != Change::Kind::array) change.value = random_text(random, 1000);
            change.size = random.below(1 << 30);
            if (change.kind == Change::Kind::array) {
                change.size_rule = static_cast<Change::SizeRule>(random.below(3));
                change.hole_count = random.below(100);
                change.piece_count = static_cast<uint8_t>(random.below(3));
                for (uint8_t i = 0; i < change.piece_count; ++i) {
                    change.pieces[i] = {random.below(1 << 20),
                                        static_cast<uint32_t>(random.below(300))};
                    uint64_t at = 0;
                    for (uint32_t n = 0; n < change.pieces[i].count; ++n) {
                        if (n == 0 || random.one_in(5)) at = 1 + random.below(1 << 30);
                        change.blocks.push_back(
                            {BlockAddress::make(0, at++), static_cast<uint32_t>(random.next())});
                    }
                }
            }
            if (change.kind == Change::Kind::array && random.one_in(2)) {
                change.value.resize(change.blocks.size() * object::seal_bytes);
                for (char& each : change.value) each = static_cast<char>(random.next());
            }
            transaction.changes.push_back(std::move(change));
        }
        const std::string bytes = bytes_of(transaction);
        FieldReader decoder(as_bytes(bytes));
        TransactionRecord back;
        ASSERT_TRUE(decode(decoder, back)) << round;
        ASSERT_TRUE(decoder.done());
        ASSERT_EQ(bytes_of(back), bytes) << round;
        ASSERT_EQ(back.changes.size(), transaction.changes.size());
        for (size_t i = 0; i < back.changes.size(); ++i)
            ASSERT_EQ(back.changes[i].blocks, transaction.changes[i].blocks);
    }
}

TEST(EngineFormat, RandomBlockMapsRoundTrip) {
    Random random(2);
    for (int round = 0; round < 2000; ++round) {
        EntryValue entry{.kind = EntryValue::Kind::segment};
        std::map<uint32_t, std::string> seals;  // the model
        for (auto n = random.below(300); n > 0; --n) {
            const auto block = static_cast<uint32_t>(random.below(segment_blocks));
            const BlockRef now{
                random.one_in(4) ? BlockAddress{} : BlockAddress{1 + random.below(20)},
                static_cast<uint32_t>(random.next())};
            entry.map.set(block, now);
            if (now.address.is_hole()) seals.erase(block);
            if (now.address.is_hole() || round % 2 == 0) continue;
            seals[block] = random.one_in(5) ? "" : samples::seal(static_cast<uint8_t>(block));
            entry.map.set_seal(block, seals[block]);
        }
        const auto back = decode_entry(encode(entry));
        ASSERT_TRUE(back) << round;
        ASSERT_EQ(back->map.used(), entry.map.used());
        for (uint32_t i = 0; i < segment_blocks; ++i) {
            ASSERT_EQ(back->map.at(i), entry.map.at(i));
            std::string seal(back->map.seal(i));
            if (seal == std::string(object::seal_bytes, '\0')) seal.clear();
            ASSERT_EQ(seal, seals[i]) << i;
        }
    }
}

constexpr auto segments_most =
    static_cast<uint32_t>(object::array_bytes_max / block_bytes / segment_blocks);

TEST(IndexKeys, OrderFollowsTheFields) {
    Random random(3);
    using Name = std::tuple<Uuid, uint64_t, uint64_t, std::string, std::string, uint32_t>;
    std::map<std::string, Name> by_key;
    for (int i = 0; i < 3000; ++i) {
        Uuid uuid;
        uuid.bytes[15] = static_cast<uint8_t>(random.below(2));
        const Name name{uuid,
                        random.below(2),
                        random.below(2) << random.below(64),
                        random_text(random, 3),
                        random_akey(random, 2),
                        static_cast<uint32_t>(random.below(2) << random.below(20))};
        const auto& [container, high, low, dkey, akey, segment] = name;
        by_key[entry_key({container}, {high, low}, dkey, akey, segment).take()] = name;
    }
    const Name* before = nullptr;
    for (const auto& [key, name] : by_key) {
        if (before != nullptr) {
            ASSERT_LT(*before, name);
        }
        before = &name;
        const auto parsed = parse_entry_key(key);
        ASSERT_TRUE(parsed);
        ASSERT_EQ(name, (Name{parsed->container.uuid, parsed->object.high, parsed->object.low,
                              parsed->dkey, parsed->akey, parsed->segment}));
        for (size_t length = 0; length < key.size(); ++length)
            ASSERT_FALSE(parse_entry_key(std::string_view(key).substr(0, length)));
        ASSERT_FALSE(parse_summary_key(key));
        ASSERT_FALSE(parse_entry_key(key + '\0'));
    }
}

TEST(IndexKeys, LongestKeyFits) {
    const std::string zeros(object::key_bytes_max, '\0');
    const auto key = entry_key({}, {}, zeros, zeros, segments_most - 1);
    EXPECT_EQ(key.view().size(), 1u + 16 + 16 + 2 * (2 * 255 + 2) + 4);
    EXPECT_EQ(parse_entry_key(key.view())->akey, zeros);
}

// A KeyBuilder has no room for longer strings. The engine writes nothing about such keys.
TEST(IndexKeys, ImpossibleKeyIsRejected) {
    const std::string most(object::key_bytes_max, 'a'), more = most + 'a';
    const auto is_entry = [](std::string_view dkey, std::string_view akey, uint32_t segment) {
        return parse_entry_key(entry_key({}, {}, dkey, akey, segment).view()).has_value();
    };
    EXPECT_TRUE(is_entry(most, most, segments_most - 1));
    EXPECT_TRUE(is_entry("", "a", 0));
    EXPECT_FALSE(is_entry(more, "a", 0));
    EXPECT_FALSE(is_entry("a", more, 0));
    EXPECT_FALSE(is_entry("a", "", 0));
    EXPECT_FALSE(is_entry("a", "a", segments_most));
    const auto is_summary = [](std::string_view akey) {
        return parse_summary_key(summary_key({}, {}, akey).view()).has_value();
    };
    EXPECT_TRUE(is_summary(most));
    EXPECT_FALSE(is_summary(more));
    EXPECT_FALSE(is_summary(""));
}

TEST(IndexKeys, PrefixEndPrecedesTheNextKey) {
    EXPECT_EQ(prefix_end("a"), "b");
    EXPECT_EQ(prefix_end(std::string("a\xff\xff", 3)), "b");
    EXPECT_EQ(prefix_end("\xff"), "");
    EXPECT_EQ(prefix_end(""), "");
}

}  // namespace
}  // namespace ros2s::engine
