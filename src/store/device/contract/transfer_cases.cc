// Reading, writing, flushing and discarding.
#include "cases.h"
#include "ros2s/runtime/nursery.h"
#include "ros2s/runtime/ring.h"

namespace ros2s::device::contract {
namespace {

Task<> tells_what_it_is(Probe& probe) {
    EXPECT_FALSE(probe.device->name().empty());
    EXPECT_FALSE(probe.device->path().empty());
    EXPECT_GE(probe.device->size(), Setup::least_size);
    EXPECT_EQ(probe.device->size() % block_bytes, 0U);
    co_return;
}

Task<> reads_what_was_written(Probe& probe) {
    uint64_t at = 3;
    for (const uint64_t count : {1, 2, 3, 16, 256, 1024}) {
        co_await write_blocks(probe, at, count, 1);
        co_await expect_blocks(probe, at, count, 1);
        at += count;
    }
    // Also in other pieces than it was written in.
    co_await expect_blocks(probe, 3, at - 3, 1);
    co_await expect_blocks(probe, 5, 7, 1);
}

Task<> overwrites(Probe& probe) {
    co_await write_blocks(probe, 10, 8, 1);
    co_await write_blocks(probe, 12, 3, 2);
    co_await expect_blocks(probe, 10, 2, 1);
    co_await expect_blocks(probe, 12, 3, 2);
    co_await expect_blocks(probe, 15, 3, 1);
}

Task<> caches_blocks(Probe& probe) {
    co_await write_blocks(probe, 10, 8, 1);
    co_await cache_blocks(probe, 12, 3, 2);
    co_await expect_blocks(probe, 10, 2, 1);
    co_await expect_blocks(probe, 12, 3, 2);
    co_await cache_blocks(probe, 12, 4, 3);
    co_await write_blocks(probe, 13, 1, 4);
    co_await expect_blocks(probe, 12, 1, 3);
    co_await expect_blocks(probe, 13, 1, 4);
    co_await expect_blocks(probe, 14, 2, 3);
    co_await cache_blocks(probe, 100, 512, 5);
    co_await expect_blocks(probe, 100, 512, 5);
}

Task<> reaches_both_ends(Probe& probe) {
    const uint64_t blocks = probe.device->size() / block_bytes;
    co_await write_blocks(probe, 0, 1, 1);
    co_await write_blocks(probe, blocks - 2, 2, 1);
    co_await expect_blocks(probe, 0, 1, 1);
    co_await expect_blocks(probe, blocks - 2, 2, 1);
}

Task<> moves_all_of_it_at_once(Probe& probe) {
    const uint64_t blocks = probe.device->size() / block_bytes;
    co_await write_blocks(probe, 0, blocks, 3);
    co_await expect_blocks(probe, 0, blocks, 3);
}

Task<> many_in_flight(Probe& probe) {
    Nursery nursery(probe.reactor, 128);
    for (uint64_t i = 0; i < 1000; ++i) co_await nursery.spawn(write_blocks(probe, i, 1, i));
    co_await nursery.join();
    for (uint64_t i = 0; i < 1000; ++i) co_await nursery.spawn(expect_blocks(probe, i, 1, i));
    co_await nursery.join();
}

Task<> flush_now(Probe& probe) {
    const auto flushed = co_await probe.device->flush();
    EXPECT_TRUE(flushed) << describe(flushed.error());
}

Task<> flushes_beside_transfers(Probe& probe) {
    Nursery nursery(probe.reactor, 16);
    for (uint64_t i = 0; i < 60; ++i) {
        co_await nursery.spawn(i % 10 == 9 ? flush_now(probe) : write_blocks(probe, i, 1, 5));
    }
    co_await nursery.join();
    co_await flush_now(probe);
    for (uint64_t i = 0; i < 60; ++i) {
        if (i % 10 != 9) co_await expect_blocks(probe, i, 1, 5);
    }
}

Task<> discards_only_the_range(Probe& probe) {
    co_await write_blocks(probe, 20, 12, 1);
    EXPECT_TRUE(co_await probe.device->discard(24 * block_bytes, 4 * block_bytes));
    co_await expect_blocks(probe, 20, 4, 1);
    co_await expect_blocks(probe, 28, 4, 1);
    co_await write_blocks(probe, 24, 4, 2);
    co_await expect_blocks(probe, 24, 4, 2);
}

Task<> counts(Probe& probe) {
    co_await write_blocks(probe, 0, 4, 1);
    co_await expect_blocks(probe, 0, 2, 1);
    co_await expect_blocks(probe, 2, 2, 1);
    co_await flush_now(probe);
    EXPECT_TRUE(co_await probe.device->discard(0, block_bytes));
    const auto& counters = probe.device->counters();
    EXPECT_EQ(counters.writes.value(), 1U);
    EXPECT_EQ(counters.written_bytes.value(), 4 * block_bytes);
    EXPECT_EQ(counters.reads.value(), 2U);
    EXPECT_EQ(counters.read_bytes.value(), 4 * block_bytes);
    EXPECT_EQ(counters.flushes.value(), 1U);
    EXPECT_EQ(counters.discards.value(), 1U);
    EXPECT_EQ(counters.errors.value(), 0U);
}

Task<> uses_registered_memory(Probe& probe) {
    Ring* ring = probe.reactor.ring();
    AlignedBuffer memory(64 * block_bytes);
    // False without a ring, or if registration gains nothing. The transfers work in any case.
    const bool registered = ring != nullptr && ring->register_memory(memory.bytes());
    for (uint64_t i = 0; i < 64; ++i) {
        const auto block = memory.bytes().subspan(i * block_bytes, block_bytes);
        fill_blocks(block, 63 - i, 9);
        EXPECT_TRUE(co_await probe.device->write((63 - i) * block_bytes, block));
    }
    EXPECT_TRUE(co_await probe.device->read(0, memory.bytes()));
    EXPECT_TRUE(holds_blocks(memory.bytes(), 0, 9));
    if (registered) ring->unregister_memory(memory.bytes());
}

// Random transfers over a range of its own, compared with a list of the expected blocks.
Task<> work_at_random(Probe& probe, uint64_t first, uint64_t blocks, uint64_t seed) {
    Random random(seed);
    std::vector<uint64_t> stamps(blocks);
    for (uint64_t i = 0; i < blocks; ++i) {
        stamps[i] = random.next();
        co_await write_blocks(probe, first + i, 1, stamps[i]);
    }
    for (int step = 0; step < 150; ++step) {
        const uint64_t at = random.below(blocks);
        const uint64_t count = 1 + random.below(std::min<uint64_t>(8, blocks - at));
        if (random.one_in(20)) {
            co_await flush_now(probe);
        } else if (random.one_in(2)) {
            const uint64_t stamp = random.next();
            co_await (random.one_in(2) ? cache_blocks : write_blocks)(probe, first + at, count,
                                                                      stamp);
            for (uint64_t i = at; i < at + count; ++i) stamps[i] = stamp;
        } else {
            AlignedBuffer buffer(count * block_bytes);
            EXPECT_TRUE(co_await probe.device->read((first + at) * block_bytes, buffer.bytes()));
            for (uint64_t i = 0; i < count; ++i) {
                EXPECT_TRUE(holds_blocks(buffer.bytes().subspan(i * block_bytes, block_bytes),
                                         first + at + i, stamps[at + i]))
                    << "seed " << seed << " block " << first + at + i;
            }
        }
    }
}
Task<> agrees_with_a_model(Probe& probe) {
    Nursery nursery(probe.reactor, 8);
    for (uint64_t i = 0; i < 8; ++i) {
        co_await nursery.spawn(work_at_random(probe, i * 100, 100, i + 1));
    }
    co_await nursery.join();
}

}  // namespace

std::vector<Case> transfer_cases() {
    return {{"NamePathAndSizeAreReported", tells_what_it_is},
            {"WrittenBytesAreReadBack", reads_what_was_written},
            {"OverwriteReplacesItsBlocksOnly", overwrites},
            {"CachedWriteIsReadBackAndReplaced", caches_blocks},
            {"FirstAndLastBlockAreAccessible", reaches_both_ends},
            {"WholeDeviceIsMovedInOneRequest", moves_all_of_it_at_once},
            {"ManyConcurrentTransfersComplete", many_in_flight},
            {"FlushBesideTransfersSucceeds", flushes_beside_transfers},
            {"DiscardAffectsOnlyItsRange", discards_only_the_range},
            {"OperationsAreCounted", counts},
            {"RegisteredMemoryIsUsed", uses_registered_memory},
            {"RandomUseAgreesWithAModel", agrees_with_a_model}};
}

}  // namespace ros2s::device::contract
