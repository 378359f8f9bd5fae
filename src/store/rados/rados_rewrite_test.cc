// A segment of many parts is rewritten while other clients write to it and punch holes into it:
// their changes are kept. Also updates that are too large for one change, objects with too many
// bytes in their omap, and values that grow after they were read.
#include <gtest/gtest.h>

#include <algorithm>

#include "ros2s/object/test_support/batch.h"
#include "ros2s/rados/rados_store.h"
#include "ros2s/rados/records.h"
#include "ros2s/rados/sim/forwarding_pool.h"
#include "ros2s/rados/sim/sim_rados.h"
#include "ros2s/runtime/sim/world.h"
#include "segment.h"
#include "test_support/open_store.h"

namespace ros2s::rados {
namespace {

using object::AkeyAddress;
using object::Batch;
using object::ContainerId;

constexpr uint64_t pieces = 150, piece_bytes = 2048;
const AkeyAddress place{{1, 1}, "0", "data"};

Task<> update(RadosStore& store, ContainerId container, Batch batch, Reactor& reactor,
              Duration delay) {
    co_await sleep_for(reactor, delay);
    EXPECT_TRUE(co_await store.update({}, container, batch.transaction()));
}

Task<std::string> content(RadosStore& store, ContainerId container) {
    std::string bytes(pieces * 4096, 'x');
    auto item = object::fetch_item(place.object, {place.dkey}, {place.akey}, 0,
                                   std::as_writable_bytes(std::span(bytes)));
    EXPECT_TRUE(co_await store.fetch({}, container, {&item, 1}));
    EXPECT_TRUE(item.status);
    co_return bytes;
}

// How many parts the segment has.
size_t parts_of(SimRados& cluster) {
    size_t parts = 0;
    for (const auto& [name, object] : cluster.objects()) {
        for (const auto& [key, value] : object.omap) {
            const auto entry = parse_entry_key(key);
            Segment segment;
            if (!entry || !entry->segment || !decode(value, segment)) continue;
            parts += segment.visible.size();
        }
    }
    return parts;
}

// Returns whether the segment was rewritten. The rewrite is given up if its bytes are removed
// before they are read.
Task<bool> trial(Reactor& reactor, SimRados& cluster, uint64_t seed) {
    SimPool pool(cluster, {.delay_max = std::chrono::milliseconds(2), .dies_at = {}});
    const auto store = co_await open_store(reactor, pool, without_replies());
    const auto other = co_await open_store(reactor, pool, without_replies());
    const auto container = co_await store->create_container({}, {.label = "c"});
    std::string expected(pieces * 4096, '\0');
    Batch many;
    for (uint64_t i = 0; i < pieces; ++i) {
        const std::string piece(piece_bytes, static_cast<char>('a' + i % 20));
        many.write(place, i * 4096, piece);
        expected.replace(i * 4096, piece_bytes, piece);
    }
    // The batch starts the rewrite. The other changes happen before, during or after it.
    EXPECT_TRUE(co_await store->update({}, container->id, many.transaction()));
    {
        Nursery nursery(reactor, 8);
        for (uint64_t i = 0; i < 8; ++i) {
            const uint64_t offset = (10 + 15 * i) * 4096 + 100 * (seed % 40);
            Batch batch;
            if (i % 2 == 0) {
                batch.punch_extent(place, {offset, 10000});
                expected.replace(offset, 10000, 10000, '\0');
            } else {
                const std::string bytes(i % 4 == 1 ? 20000 : 3000, 'Z');
                batch.write(place, offset, bytes);
                expected.replace(offset, bytes.size(), bytes);
            }
            const auto delay = std::chrono::microseconds(reactor.random().below(12000));
            co_await nursery.spawn(
                update(i < 6 ? *store : *other, container->id, std::move(batch), reactor, delay));
        }
        co_await nursery.join();
    }
    co_await store->close();
    const bool is_anew = parts_of(cluster) < 40;
    const std::string found = co_await content(*other, container->id);
    EXPECT_TRUE(found == expected)
        << "differs at " << std::ranges::mismatch(found, expected).in1 - found.begin();
    co_await other->close();
    co_await cluster.close();
    co_return is_anew;
}

TEST(RadosRewrite, ConcurrentChangesArePreserved) {
    size_t anew = 0;
    for (uint64_t seed = 1; seed <= 200; ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        sim::World world(seed);
        SimRados cluster(world.core());
        if (world.run(trial(world.core(), cluster, seed))) ++anew;
        if (HasFailure()) return;
    }
    EXPECT_GT(anew, 150U);
}

Batch values(uint64_t first, uint64_t count) {
    Batch batch;
    const std::string value(object::value_bytes_max, 'v');
    for (uint64_t i = first; i < first + count; ++i) {
        batch.put({{1, 1}, std::to_string(i), "value"}, value);
    }
    return batch;
}

CO_TEST(RadosGroup, TooLargeUpdateIsMadeAlone, RadosWorld, rig) {
    auto& [world, reactor, cluster] = rig;
    SimPool pool(cluster, {.delay_max = std::chrono::milliseconds(2), .dies_at = {}});
    const auto store = co_await open_store(reactor, pool, without_replies());
    const auto container = co_await store->create_container({}, {.label = "c"});
    // While the first is in flight the other two become a group.
    Nursery nursery(reactor, 3);
    co_await nursery.spawn(update(*store, container->id, values(0, 1), reactor, {}));
    co_await nursery.spawn(update(*store, container->id, values(1, 20), reactor, {}));
    co_await nursery.spawn(update(*store, container->id, values(21, 1005), reactor, {}));
    co_await nursery.join();
    const auto listed = co_await store->list(
        {}, container->id,
        {.what = object::ListRequest::What::dkeys, .object = {1, 1}, .limit = 2000});
    EXPECT_TRUE(listed);
    EXPECT_EQ(listed->entries.size(), 1026U);
    co_await store->close();
    co_await cluster.close();
}

// The keys of bytes in the omap.
size_t inline_runs(SimRados& cluster) {
    size_t runs = 0;
    for (const auto& [name, object] : cluster.objects()) {
        for (const auto& [key, value] : object.omap) {
            if (key.starts_with('b') && key != inline_key) ++runs;
        }
    }
    return runs;
}

CO_TEST(RadosInlineBytes, PunchedObjectHasRoomAgain, RadosWorld, rig) {
    auto& [world, reactor, cluster] = rig;
    SimPool pool(cluster, {.delay_max = {}, .dies_at = {}});
    const auto store = co_await open_store(reactor, pool, without_replies());
    const auto container = co_await store->create_container({}, {.label = "c"});
    const auto write = [&](uint64_t first, uint64_t count) {
        Batch batch;
        const std::string bytes(inline_bytes_max, 'b');
        for (uint64_t i = first; i < first + count; ++i) {
            batch.write({{1, 1}, std::to_string(i), "data"}, 0, bytes);
        }
        return update(*store, container->id, std::move(batch), reactor, {});
    };
    constexpr uint64_t full = inline_bytes_in_all / inline_bytes_max, step = 512;
    for (uint64_t i = 0; i < full; i += step) co_await write(i, step);
    EXPECT_EQ(inline_runs(cluster), full);
    co_await write(full, 1);
    EXPECT_EQ(inline_runs(cluster), full) << "it has no room";
    co_await update(*store, container->id, Batch().punch_object({1, 1}), reactor, {});
    EXPECT_EQ(inline_runs(cluster), 0U);
    co_await write(0, 1);
    EXPECT_EQ(inline_runs(cluster), 1U) << "it has room again";
    co_await store->close();
    co_await cluster.close();
}

// Counts the reads that ask for the head alone: the rest is known.
class CountingPool final : public ForwardingPool {
  public:
    using ForwardingPool::ForwardingPool;
    size_t heads = 0;

    Task<Result<ReadReply>> read(const Read& read) override {
        if (read.keys == std::vector<std::string>{head_key} && read.range.limit == 0) ++heads;
        return below().read(read);
    }
};

// Whether the object has the value of that number.
Task<bool> read_value(RadosStore& store, ContainerId container, uint64_t number,
                      std::string& into) {
    auto item = object::fetch_item({1, 1}, {"d"}, {"a" + std::to_string(number)}, 0,
                                   std::as_writable_bytes(std::span(into)));
    EXPECT_TRUE(co_await store.fetch({}, container, {&item, 1}));
    co_return item.status.has_value();
}

CO_TEST(RadosCache, GrownValuesAreCountedAtTheirSize, RadosWorld, rig) {
    auto& [world, reactor, cluster] = rig;
    SimPool pool(cluster, {.delay_max = {}, .dies_at = {}});
    CountingPool counting(pool);
    const auto store = co_await open_store(reactor, counting, without_replies());
    const auto container = co_await store->create_container({}, {.label = "c"});
    co_await update(*store, container->id, Batch().put({{1, 1}, "d", "first"}, "v"), reactor, {});
    constexpr uint64_t count = 600, known_max = (32U << 20) / object::value_bytes_max;
    std::string bytes(object::value_bytes_max, '\0');
    const auto read = [&](uint64_t i) { return read_value(*store, container->id, i, bytes); };
    for (uint64_t i = 0; i < count; ++i) EXPECT_FALSE(co_await read(i));
    counting.heads = 0;
    EXPECT_FALSE(co_await read(0));
    EXPECT_EQ(counting.heads, 1U) << "what is absent is known as well";
    for (uint64_t i = 0; i < count; ++i) {
        Batch batch;
        batch.put({{1, 1}, "d", "a" + std::to_string(i)}, std::string(bytes.size(), 'v'));
        co_await update(*store, container->id, std::move(batch), reactor, {});
    }
    counting.heads = 0;
    for (uint64_t i = 0; i < count; ++i) EXPECT_TRUE(co_await read(i));
    EXPECT_LE(counting.heads, known_max);
    co_await store->close();
    co_await cluster.close();
}

}  // namespace
}  // namespace ros2s::rados
