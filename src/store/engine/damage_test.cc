// Devices that are missing, foreign, truncated or damaged: a sentence that names the device and the
// remedy, never wrong data, never a crash. If data in use are damaged, that item fails and the rest
// continues.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <set>

#include "ros2s/base/crc32c.h"
#include "ros2s/engine/format/checkpoint.h"
#include "ros2s/engine/format/keys.h"
#include "ros2s/engine/format/record.h"
#include "ros2s/engine/format/superblock.h"
#include "ros2s/object/test_support/batch.h"
#include "ros2s/runtime/sim/co_test.h"
#include "test_support/engine.h"

namespace ros2s::engine {
namespace {

using testing::HasSubstr;

constexpr uint64_t journal_first = 3;

// A pool with a container, an array of four blocks and a value.
struct SmallPool : Bench {
    explicit SmallPool(uint64_t seed, size_t devices = 1, uint64_t device_bytes = 4 << 20)
        : Bench(seed, devices, device_bytes) {}

    Task<Result<>> fill() {
        ROS2S_CO_TRY(co_await create());
        ROS2S_CO_TRY(co_await open());
        ROS2S_CO_TRY_ASSIGN(const auto made,
                            co_await store->create_container(call, {.label = "c"}));
        container = made.id;
        for (uint64_t block = 0; block < 4; ++block) ROS2S_CO_TRY(co_await write(block, 7));
        co_return co_await put("value");
    }
    Task<Result<>> update(object::Operation operation) {
        operation.object = {1, 1};
        operation.dkey = object::Dkey::integer(0);
        object::Transaction transaction;
        transaction.operations.push_back(std::move(operation));
        const auto commit = co_await store->update(call, container, transaction);
        if (!commit) co_return fail(commit.error());
        co_return Result<>();
    }
    Task<Result<>> write(uint64_t block, uint8_t fill, uint64_t bytes = block_bytes) {
        const AlignedBuffer buffer(bytes);
        std::memset(buffer.data(), fill, bytes);
        co_return co_await update({.kind = object::Operation::Kind::write,
                                   .akey = {"array"},
                                   .extent = {block * block_bytes, bytes},
                                   .window = object::Window::local(buffer.bytes())});
    }
    Task<Result<>> put(std::string_view text) {
        co_return co_await update({.kind = object::Operation::Kind::put,
                                   .akey = {"value"},
                                   .window = object::Window::local(as_bytes(text))});
    }
    // The first byte of a block; the item's Code if it fails.
    Task<Result<uint8_t>> first_byte(uint64_t block) {
        const AlignedBuffer buffer(block_bytes);
        auto item = object::fetch_item({1, 1}, object::Dkey::integer(0), {"array"},
                                       block * block_bytes, buffer.bytes());
        ROS2S_CO_TRY(co_await store->fetch(call, container, {&item, 1}));
        if (!item.status) co_return fail(item.status.error());
        co_return static_cast<uint8_t>(buffer.data()[0]);
    }
    // Crashes without a checkpoint and leaves the pool closed.
    Task<> crash() {
        for (auto& disk : disks) disk->power_loss();
        index_medium.crash(world.random());
        EXPECT_FALSE(co_await close());
    }
    AlignedBuffer peek(size_t disk, uint64_t block) {
        AlignedBuffer buffer(block_bytes);
        disks[disk]->peek(block * block_bytes, buffer.bytes());
        return buffer;
    }
    void poke(size_t disk, uint64_t block, ConstBytes bytes) {
        disks[disk]->poke(block * block_bytes, bytes);
    }
    [[nodiscard]] uint64_t last_block(size_t disk) const {
        return disks[disk]->size() / block_bytes - 1;
    }
    object::ContainerId container{};
};

Task<> expect_refused(SmallPool& pool, Code code, std::string_view sentence) {
    pool.report = {};
    const Result<> opened = co_await pool.open();
    EXPECT_FALSE(opened.has_value());
    if (opened) {
        EXPECT_OK(co_await pool.close());
        co_return;
    }
    EXPECT_EQ(describe(opened.error().code), describe(code));
    EXPECT_THAT(pool.report.text(), HasSubstr(sentence));
}

// ---- devices -------------------------------------------------------------------------------

CO_TEST(DamagedPool, MissingDeviceIsReported, SmallPool, pool, 1, 2) {
    EXPECT_OK(co_await pool.fill());
    EXPECT_OK(co_await pool.close());
    std::swap(pool.disks[0], pool.disks[1]);
    EXPECT_OK(co_await pool.open());  // any order will do
    EXPECT_EQ((co_await pool.first_byte(0)).value_or(0), 7);
    EXPECT_OK(co_await pool.close());
    pool.disks.pop_back();
    const std::string present = pool.disks[0]->name();
    co_await expect_refused(pool, Code::invalid, "has 2 devices; missing: device-0 (");
    EXPECT_THAT(pool.report.text(), HasSubstr("here: " + present + ". Mount the disk"));
}

Task<> foreign_device(SmallPool& pool, SmallPool& other) {
    EXPECT_OK(co_await pool.fill());
    EXPECT_OK(co_await pool.close());
    const auto block = other.peek(1, 0);
    pool.poke(1, 0, block.bytes());
    pool.poke(1, pool.last_block(1), block.bytes());
    co_await expect_refused(pool, Code::invalid, "Name the devices of one pool");
    // A copy of device 0 in place of device 1.
    const auto first = pool.peek(0, 0);
    pool.poke(1, 0, first.bytes());
    pool.poke(1, pool.last_block(1), first.bytes());
    co_await expect_refused(pool, Code::invalid, "one is a copy");
    const AlignedBuffer zeros(block_bytes);
    std::memset(zeros.data(), 0, block_bytes);
    pool.poke(1, 0, zeros.bytes());
    pool.poke(1, pool.last_block(1), zeros.bytes());
    co_await expect_refused(pool, Code::not_found, "not a device of a ros2store pool");
}
TEST(DamagedPool, ForeignCopiedAndEmptyDevicesAreRefused) {
    SmallPool pool(1, 2);
    SmallPool other(2, 2);
    EXPECT_OK(other.world.run(other.create()));
    pool.world.run(foreign_device(pool, other));
}

CO_TEST(DamagedPool, TruncatedDeviceIsRefused, SmallPool, pool, 1) {
    EXPECT_OK(co_await pool.fill());
    EXPECT_OK(co_await pool.close());
    auto half = std::make_unique<device::SimDisk>(
        pool.world.random(), device::SimDiskOptions{.size = pool.disks[0]->size() / 2}, "short");
    AlignedBuffer bytes(half->size());
    pool.disks[0]->peek(0, bytes.bytes());
    half->poke(0, bytes.bytes());
    pool.disks[0] = std::move(half);
    co_await expect_refused(pool, Code::corrupt, "it was truncated");
}

CO_TEST(DamagedPool, DamagedSuperblockIsRepairedOrRefused, SmallPool, pool, 1) {
    EXPECT_OK(co_await pool.fill());
    EXPECT_OK(co_await pool.close());
    const AlignedBuffer good = pool.peek(0, 0);
    // One copy is enough, either one.
    pool.disks[0]->rot(100);
    EXPECT_OK(co_await pool.open());
    EXPECT_EQ((co_await pool.first_byte(0)).value_or(0), 7);
    EXPECT_OK(co_await pool.close());
    // The opening has written the damaged copy again.
    pool.disks[0]->rot(pool.last_block(0) * block_bytes + 200);
    EXPECT_OK(co_await pool.open());
    EXPECT_OK(co_await pool.close());
    pool.disks[0]->rot(100);
    pool.disks[0]->rot(pool.last_block(0) * block_bytes + 200);
    co_await expect_refused(pool, Code::corrupt, "both copies of its superblock are damaged");
    // A later version, complete and valid.
    const AlignedBuffer future(block_bytes);
    std::ranges::copy(good.bytes(), future.bytes().begin());
    const uint32_t version = 99, no_crc = 0;
    std::memcpy(future.data() + 8, &version, sizeof version);
    std::memcpy(future.data() + 12, &no_crc, sizeof no_crc);
    const uint32_t crc = crc32c(future.bytes());
    std::memcpy(future.data() + 12, &crc, sizeof crc);
    pool.poke(0, 0, future.bytes());
    pool.poke(0, pool.last_block(0), future.bytes());
    co_await expect_refused(pool, Code::bad_version, "version 99");
}

CO_TEST(DamagedPool, UnknownReadOnlyFeatureMakesPoolReadOnly, SmallPool, pool, 1) {
    EXPECT_OK(co_await pool.fill());
    EXPECT_OK(co_await pool.close());
    const AlignedBuffer block = pool.peek(0, 0);
    auto superblock = decode_superblock(block.bytes());
    EXPECT_OK(superblock);
    superblock->read_only_features = 2;
    encode(*superblock, block.bytes());
    pool.poke(0, 0, block.bytes());
    pool.poke(0, pool.last_block(0), block.bytes());
    EXPECT_OK(co_await pool.open());
    EXPECT_NE(pool.store->read_only_reason().find("bits 0x2"), std::string::npos);
    EXPECT_EQ((co_await pool.first_byte(0)).value_or(0), 7);
    const auto refused = co_await pool.write(0, 8);
    EXPECT_TRUE(!refused && refused.error().code == Code::read_only);
    EXPECT_OK(co_await pool.close());
}

// ---- checkpoint, journal, index ------------------------------------------------------------

CO_TEST(DamagedPool, OneDamagedCheckpointSlotIsTolerated, SmallPool, pool, 1) {
    EXPECT_OK(co_await pool.fill());
    EXPECT_OK(co_await pool.store->checkpoint());
    EXPECT_OK(co_await pool.write(1, 9));
    EXPECT_OK(co_await pool.close());
    const auto number = [&](uint64_t slot) {
        const auto decoded = decode_checkpoint(pool.peek(0, 1 + slot).bytes());
        return decoded ? decoded->number : 0;
    };
    const uint64_t newest = number(0) > number(1) ? 0 : 1;
    pool.disks[0]->rot((1 + newest) * block_bytes + 30);
    EXPECT_OK(co_await pool.open());  // the older one leads to the same records
    EXPECT_EQ(pool.store->read_only_reason(), "");
    EXPECT_EQ((co_await pool.first_byte(1)).value_or(0), 9);
    EXPECT_OK(co_await pool.close());
    pool.disks[0]->rot(1 * block_bytes + 30);
    pool.disks[0]->rot(2 * block_bytes + 30);
    co_await expect_refused(pool, Code::corrupt, "both checkpoint slots are damaged");
}

// Damages records of the journal one after the other.
void rot_records(SmallPool& pool, uint64_t first, uint64_t count, uint64_t byte = 40) {
    for (uint64_t record = first; record < first + count; ++record) {
        pool.disks[0]->rot((journal_first + record) * block_bytes + byte);
    }
}
Task<> expect_read_only_before_damage(SmallPool& pool) {
    EXPECT_OK(co_await pool.open());
    EXPECT_THAT(pool.store->read_only_reason(), HasSubstr("damaged"));
    EXPECT_THAT(pool.store->read_only_reason(), HasSubstr("Copy out what you need"));
    const Result<> refused = co_await pool.write(0, 1);
    EXPECT_EQ(refused.error().code, Code::read_only);
    EXPECT_EQ((co_await pool.first_byte(0)).value_or(0), 7);
    EXPECT_OK(co_await pool.close());
}

Task<> journal_record(SmallPool& pool, uint64_t first, uint64_t count, bool header) {
    EXPECT_OK(co_await pool.fill());
    EXPECT_OK(co_await pool.write(1, 8));
    co_await pool.crash();
    rot_records(pool, first, count, header ? 40 : 150);
    co_await expect_read_only_before_damage(pool);
}
TEST(DamagedPool, DamageInsideTheJournalIsNotATornTail) {
    // Records: restart, container, four blocks, value, one block.
    for (const bool header : {true, false}) {
        for (const uint64_t first : {3, 4, 5}) {
            for (const uint64_t count : {1, 2, 3}) {
                if (first + count > 7) continue;
                SmallPool pool(1);
                pool.world.run(journal_record(pool, first, count, header));
            }
        }
    }
}

CO_TEST(DamagedPool, DamageAfterCheckpointIsNotATornTail, SmallPool, pool, 1) {
    EXPECT_OK(co_await pool.fill());
    EXPECT_OK(co_await pool.store->checkpoint());
    for (uint64_t block = 1; block < 4; ++block) EXPECT_OK(co_await pool.write(block, 8));
    co_await pool.crash();
    rot_records(pool, 7, 2);
    co_await expect_read_only_before_damage(pool);
}

CO_TEST(DamagedPool, DamagedRestartRecordsAreNotATornTail, SmallPool, pool, 1) {
    EXPECT_OK(co_await pool.fill());
    EXPECT_OK(co_await pool.crash_and_open());
    EXPECT_OK(co_await pool.crash_and_open());
    for (uint64_t block = 1; block < 4; ++block) EXPECT_OK(co_await pool.write(block, 8));
    co_await pool.crash();
    rot_records(pool, 7, 2);  // the restart records of both openings
    co_await expect_read_only_before_damage(pool);
}

// More of them than the longest record has blocks.
CO_TEST(DamagedPool, ManyDamagedRecordsAreNotATornTail, SmallPool, pool, 1) {
    pool.create_options.journal_bytes = 2 << 20;
    EXPECT_OK(co_await pool.fill());
    for (uint8_t i = 0; i < 200; ++i) EXPECT_OK(co_await pool.write(1, 8));
    co_await pool.crash();
    rot_records(pool, 5, 190);
    co_await expect_read_only_before_damage(pool);
}

// An idle pool commits one empty group, and then writes nothing.
CO_TEST(DamagedPool, DamageBeforeIdlenessIsNotATornTail, SmallPool, pool, 1) {
    pool.options.rest_after = std::chrono::seconds(5);
    EXPECT_OK(co_await pool.fill());
    co_await sleep_for(pool.env.reactor, std::chrono::seconds(11));
    uint64_t operations = 0;
    pool.disks[0]->set_hook([&](const device::SimOperation&) {
        ++operations;
        return device::SimFault::none;
    });
    co_await sleep_for(pool.env.reactor, std::chrono::minutes(10));
    EXPECT_EQ(operations, 0U);
    pool.disks[0]->set_hook(nullptr);
    co_await pool.crash();
    rot_records(pool, 6, 1);  // of the last update
    co_await expect_read_only_before_damage(pool);
}

CO_TEST(DamagedPool, DroppedGroupIsLogged, SmallPool, pool, 1) {
    std::string lines;
    pool.env.log = Log([&](LogLevel, std::string_view line) { lines += line; });
    EXPECT_OK(co_await pool.fill());
    EXPECT_OK(co_await pool.write(1, 8));
    co_await pool.crash();
    const auto last = decode_record(pool.peek(0, journal_first + 7).bytes());
    EXPECT_OK(last);
    const BlockRef block = last->transactions[0].changes[0].blocks[0];
    pool.disks[0]->rot(block.address.block() * block_bytes + 77);
    EXPECT_OK(co_await pool.open());
    EXPECT_EQ((co_await pool.first_byte(1)).value_or(0), 7);
    EXPECT_OK(co_await pool.close());
    EXPECT_THAT(lines, HasSubstr("journal group 8, written at "));
    EXPECT_THAT(lines, HasSubstr("was dropped"));
}

// A record that a tenant could write: everything is correct except the secret.
CO_TEST(DamagedPool, RecordWithWrongIncarnationIsIgnored, SmallPool, pool, 1) {
    EXPECT_OK(co_await pool.fill());
    co_await pool.crash();
    const auto last = decode_record_header(pool.peek(0, journal_first + 6).bytes());
    EXPECT_OK(last);
    RecordHeader forged = *last;
    forged.id = forged.previous_id = forged.next_id = 1;
    forged.incarnation -= 1;
    forged.sequence += 1000;
    forged.durable_upto = forged.sequence - 1;
    RecordBuilder record;
    pool.poke(0, journal_first + 20, record.finish(forged));
    EXPECT_OK(co_await pool.open());
    EXPECT_EQ(pool.store->read_only_reason(), "");
    EXPECT_OK(co_await pool.close());
}

// The ring far behind the end is read only to prove the end. The longest record of this ring has
// 512 blocks, and 1,024 are read in pieces of 256: the last piece cannot be read.
CO_TEST(DamagedPool, UnreadableBlockOfOldLapIsTolerated, SmallPool, pool, 1, 1, 16 << 20) {
    pool.create_options.journal_bytes = 8 << 20;
    EXPECT_OK(co_await pool.fill());
    co_await pool.crash();
    uint64_t unreadable = 0;
    pool.disks[0]->set_hook([&](const device::SimOperation& operation) {
        const bool bad = operation.offset > (journal_first + 600) * block_bytes &&
                         operation.offset < (journal_first + 1000) * block_bytes;
        if (!bad || operation.kind != device::SimKind::read) return device::SimFault::none;
        ++unreadable;
        return device::SimFault::error;
    });
    EXPECT_OK(co_await pool.open());
    EXPECT_EQ(pool.store->read_only_reason(), "");
    EXPECT_GT(unreadable, 0U);
    pool.disks[0]->set_hook(nullptr);
    EXPECT_EQ((co_await pool.first_byte(3)).value_or(0), 7);
    EXPECT_OK(co_await pool.close());
}

CO_TEST(DamagedPool, CorruptDataBlockFailsUntilOverwritten, SmallPool, pool, 1) {
    EXPECT_OK(co_await pool.fill());
    EXPECT_OK(co_await pool.reopen());
    // Blocks were written one after the other after the journal.
    const uint64_t journal_blocks = (1 << 20) / block_bytes;
    pool.disks[0]->rot((journal_first + journal_blocks + 2) * block_bytes + 77);
    EXPECT_EQ((co_await pool.first_byte(1)).value_or(0), 7);
    EXPECT_EQ((co_await pool.first_byte(2)).error().code, Code::corrupt);
    // A partial write must not give corrupt bytes a new checksum ...
    const Result<> merged = co_await pool.write(2, 9, 100);
    EXPECT_EQ(merged.error().code, Code::corrupt);
    EXPECT_EQ((co_await pool.first_byte(2)).error().code, Code::corrupt);
    // ... and a whole one repairs the block.
    EXPECT_OK(co_await pool.write(2, 9));
    EXPECT_EQ((co_await pool.first_byte(2)).value_or(0), 9);
    EXPECT_OK(co_await pool.close());
}

Result<> flip(OrderedMapMedium& medium, const std::string& key) {
    const auto index = medium.open();
    ROS2S_TRY_ASSIGN(auto value, index->get(key));
    if (!value) return fail(Code::not_found);
    (*value)[value->size() / 2] ^= 1;
    IndexBatch batch;
    batch.put(key, *value);
    ROS2S_TRY(index->apply(std::move(batch)));
    ROS2S_TRY(index->flush());
    return index->close();
}

CO_TEST(DamagedPool, CorruptIndexValueIsReported, SmallPool, pool, 1) {
    EXPECT_OK(co_await pool.fill());
    EXPECT_OK(co_await pool.close());
    const std::string dkey = object::Dkey::integer(0).bytes;
    EXPECT_OK(flip(pool.index_medium, entry_key(pool.container, {1, 1}, dkey, "array", 0).take()));
    EXPECT_OK(co_await pool.open());
    EXPECT_EQ((co_await pool.first_byte(0)).error().code, Code::corrupt);
    EXPECT_EQ((co_await pool.write(0, 3)).error().code, Code::corrupt);
    EXPECT_OK(co_await pool.put("other"));
    EXPECT_OK(co_await pool.close());
    EXPECT_OK(flip(pool.index_medium, meta_key().take()));
    co_await expect_refused(pool, Code::corrupt, "Restore it together with the devices");
}

CO_TEST(DamagedPool, OldOrEmptyIndexIsRefused, SmallPool, pool, 1) {
    EXPECT_OK(co_await pool.create());
    OrderedMapMedium old;
    {
        const auto from = pool.index_medium.open();
        const auto to = old.open();
        IndexBatch batch;
        batch.put(meta_key().view(), *from->get(meta_key().view()).value());
        EXPECT_OK(to->apply(std::move(batch)));
        EXPECT_OK(to->flush());
    }
    EXPECT_OK(co_await pool.open());
    EXPECT_TRUE(co_await pool.store->create_container(pool.call, {.label = "c"}));
    EXPECT_OK(co_await pool.close());
    pool.index_source = &old;
    co_await expect_refused(pool, Code::corrupt, "older than the devices");
    OrderedMapMedium empty;
    pool.index_source = &empty;
    co_await expect_refused(pool, Code::corrupt, "is empty or another program's");
}

// The blocks that only the last record of the journal needs.
std::set<uint64_t> blocks_of_last_record(SmallPool& pool) {
    std::set<uint64_t> blocks;
    uint64_t last = 0;
    for (uint64_t block = journal_first; block < journal_first + 256; ++block) {
        const auto record = decode_record(pool.peek(0, block).bytes());
        if (!record || record->header.sequence <= last) continue;
        last = record->header.sequence;
        blocks = {block};
        for (const TransactionRecord& transaction : record->transactions) {
            for (const Change& change : transaction.changes) {
                for (size_t i = 0; i < change.blocks.size(); ++i) {
                    blocks.insert(change.blocks[i].address.block());
                }
            }
        }
    }
    return blocks;
}

// Random damage anywhere: a read returns the bytes that were written last, or an error. They may be
// earlier ones only if the pool says so, or if the last record was hit.
Task<> random_damage(SmallPool& pool) {
    Random& random = pool.world.random();
    EXPECT_OK(co_await pool.fill());
    std::array<std::set<uint8_t>, 4> written;
    for (auto& values : written) values = {7};
    std::array<uint8_t, 4> newest{7, 7, 7, 7};
    for (uint8_t fill = 10; fill < 40; ++fill) {
        const uint64_t block = random.below(4);
        EXPECT_OK(co_await pool.write(block, fill));
        written[block].insert(fill);
        newest[block] = fill;
        if (random.one_in(10)) EXPECT_OK(co_await pool.store->checkpoint());
    }
    if (random.one_in(2)) {
        EXPECT_OK(co_await pool.close());
    } else {
        co_await pool.crash();
    }
    const uint64_t used = (journal_first + 256 + 64) * block_bytes;
    const std::set<uint64_t> last = blocks_of_last_record(pool);
    bool last_is_hit = false;
    for (uint64_t i = 1 + random.below(6); i > 0; --i) {
        // Half of the damage in the areas in which every byte matters.
        const uint64_t journal = journal_first * block_bytes;
        const uint64_t at = random.one_in(2)
                                ? random.below(used)
                                : journal + random.below(48) * block_bytes + random.below(400);
        pool.disks[0]->rot(at);
        last_is_hit |= last.contains(at / block_bytes);
    }
    pool.report = {};
    if (!co_await pool.open()) {
        EXPECT_FALSE(pool.report.empty());
        co_return;
    }
    // A pool that reports a state from before the damage may be from before the first write.
    const bool earlier = !pool.store->read_only_reason().empty();
    for (uint64_t block = 0; block < 4; ++block) {
        if (earlier) written[block].insert(0);
        const auto found = co_await pool.first_byte(block);
        if (!found) continue;
        EXPECT_TRUE(written[block].contains(*found)) << int{*found};
        if (!earlier && !last_is_hit) EXPECT_EQ(*found, newest[block]);
    }
    static_cast<void>(co_await pool.write(1, 99, 100));
    static_cast<void>(co_await pool.close());
}
TEST(DamagedPool, RandomDamageIsAnErrorOrHarmless) {
#ifdef ROS2S_SANITIZED
    constexpr uint64_t seeds = 250;
#else
    constexpr uint64_t seeds = 1000;
#endif
    for (uint64_t seed = 1; seed <= seeds; ++seed) {
        SCOPED_TRACE(seed);
        SmallPool pool(seed);
        pool.world.run(random_damage(pool));
    }
}

// ---- errors while running ------------------------------------------------------------------

Task<> write_error(SmallPool& pool, device::SimKind kind) {
    EXPECT_OK(co_await pool.fill());
    bool failing = true;
    pool.disks[0]->set_hook([&](const device::SimOperation& operation) {
        const bool fail = failing && operation.kind == kind;
        return fail ? device::SimFault::error : device::SimFault::none;
    });
    EXPECT_EQ((co_await pool.write(0, 1)).error().code, Code::io);
    failing = false;  // a write would succeed again; none is tried
    EXPECT_EQ((co_await pool.write(0, 1)).error().code, Code::read_only);
    EXPECT_THAT(pool.store->read_only_reason(), HasSubstr("a write or flush failed"));
    EXPECT_EQ((co_await pool.first_byte(0)).value_or(0), 7);
    EXPECT_OK(co_await pool.close());
    EXPECT_OK(co_await pool.open());
    EXPECT_EQ(pool.store->read_only_reason(), "");
    EXPECT_OK(co_await pool.write(0, 5));
    EXPECT_OK(co_await pool.close());
}
TEST(DamagedPool, FailedWriteOrFlushMakesPoolReadOnly) {
    for (const auto kind : {device::SimKind::write, device::SimKind::flush}) {
        SmallPool pool(1);
        pool.world.run(write_error(pool, kind));
    }
}

// The blocks that it released can still be read from the cache. The next opening uses them, so
// neither they nor data that depends on them may be lost later.
Task<> failed_flush_and_power_loss(SmallPool& pool) {
    EXPECT_OK(co_await pool.fill());
    bool failing = true;
    pool.disks[0]->set_hook([&](const device::SimOperation& operation) {
        const bool fail = failing && operation.kind == device::SimKind::flush;
        return fail ? device::SimFault::error : device::SimFault::none;
    });
    EXPECT_EQ((co_await pool.write(0, 1)).error().code, Code::io);
    failing = false;
    EXPECT_OK(co_await pool.close());
    EXPECT_OK(co_await pool.open());
    const uint8_t kept = (co_await pool.first_byte(0)).value_or(0);
    EXPECT_THAT(kept, testing::AnyOf(1, 7));
    EXPECT_OK(co_await pool.write(1, 5));
    co_await pool.crash();
    EXPECT_OK(co_await pool.open());
    EXPECT_EQ(pool.store->read_only_reason(), "");
    EXPECT_EQ((co_await pool.first_byte(0)).value_or(0), kept);
    EXPECT_EQ((co_await pool.first_byte(1)).value_or(0), 5);
    EXPECT_EQ((co_await pool.first_byte(3)).value_or(0), 7);
    EXPECT_OK(co_await pool.close());
}
TEST(DamagedPool, DataOfFailedFlushIsWrittenAgain) {
    for (uint64_t seed = 1; seed <= 20; ++seed) {
        SCOPED_TRACE(seed);
        SmallPool pool(seed);
        pool.world.run(failed_flush_and_power_loss(pool));
    }
}

CO_TEST(DamagedPool, ReadErrorInRecoveryIsNotATornTail, SmallPool, pool, 1) {
    EXPECT_OK(co_await pool.fill());
    co_await pool.crash();
    pool.disks[0]->set_hook([&](const device::SimOperation& operation) {
        const bool journal = operation.offset >= (journal_first + 3) * block_bytes &&
                             operation.offset < (journal_first + 256) * block_bytes;
        return journal ? device::SimFault::error : device::SimFault::none;
    });
    co_await expect_refused(pool, Code::io, "Nothing was changed");
    pool.disks[0]->set_hook(nullptr);
    EXPECT_OK(co_await pool.open());
    EXPECT_EQ((co_await pool.first_byte(3)).value_or(0), 7);
    EXPECT_OK(co_await pool.close());
}

CO_TEST(DamagedPool, DeviceTooSmallForJournalIsRefused, SmallPool, pool, 1) {
    pool.create_options.journal_bytes = 4 << 20;
    const Result<> made = co_await pool.create();
    EXPECT_EQ(made.error().code, Code::invalid);
    EXPECT_THAT(pool.report.text(), HasSubstr("are too few"));
}

}  // namespace
}  // namespace ros2s::engine
