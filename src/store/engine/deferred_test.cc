// Deferred transactions: acknowledged before their flush. What a loss of power takes back is judged
// by the crash suite.
#include "awaited_clients.h"
#include "ros2s/object/test_support/batch.h"
#include "ros2s/runtime/nursery.h"
#include "ros2s/runtime/sim/co_test.h"
#include "test_support/pool.h"

namespace ros2s::engine {
namespace {

struct Deferring : PoolBench {
    Deferring() : PoolBench(1, 1, 64 << 20) {}
    // Object 1 is the one that writing() changes.
    Task<Result<object::Commit>> write_deferred(uint64_t dkey, uint64_t blocks,
                                                uint64_t object = 1) {
        const AlignedBuffer buffer(blocks * block_bytes);
        std::memset(buffer.data(), 7, buffer.size());
        object::Transaction transaction{.holder = {.client = writer.id}, .deferred = true};
        transaction.operations.push_back(writing(dkey, buffer.bytes()));
        transaction.operations.back().object = {1, object};
        const Call from{.client = &writer};
        co_return co_await store->update(from, container, transaction);
    }
    const StoreClient writer{.id = {.bytes = {1}}}, other{.id = {.bytes = {2}}};
    const Call of_writer{.client = &writer}, of_other{.client = &other};
    static object::Holder holder_of(const Call& from) {
        return {.client = from.client == nullptr ? Uuid{} : from.client->id};
    }
    Task<Result<>> fetch(const Call& from, uint64_t object) {
        AlignedBuffer memory(block_bytes);
        object::FetchItem item =
            object::fetch_item({1, object}, object::Dkey::integer(1), {"a"}, 0, memory.bytes());
        co_return co_await store->fetch(from, container, {&item, 1});
    }
    Task<Result<>> list(const Call& from, object::ListRequest request) {
        ROS2S_CO_TRY(co_await store->list(from, container, request));
        co_return Result<>();
    }
    Task<Result<>> query(const Call& from, uint64_t object) {
        ROS2S_CO_TRY(co_await store->query(from, container, {1, object}, {"a"}));
        co_return Result<>();
    }
    uint64_t volatile_groups() { return metric("ros2store_engine_volatile_groups"); }
    uint64_t flushes = 0;
    void count_flushes() {
        disks[0]->set_hook([this](const device::SimOperation& operation) {
            if (operation.kind == device::SimKind::flush) ++flushes;
            return device::SimFault::none;
        });
    }
};

CO_TEST(Deferred, UpdateWaitsForNoFlushAndSyncForOne, Deferring, pool) {
    co_await pool.start();
    pool.count_flushes();
    for (uint64_t dkey = 1; dkey <= 3; ++dkey) EXPECT_OK(co_await pool.write_deferred(dkey, 1));
    EXPECT_EQ(pool.flushes, 0);
    EXPECT_EQ(pool.volatile_groups(), 3);
    EXPECT_OK(co_await pool.expect(3, 1, 7));
    EXPECT_OK(co_await pool.store->sync(pool.call, pool.container, {}, {}));
    EXPECT_EQ(pool.flushes, 1);
    EXPECT_EQ(pool.volatile_groups(), 0);
    EXPECT_OK(co_await pool.store->sync(pool.call, pool.container, {}, {}));
    EXPECT_EQ(pool.flushes, 1) << "there was nothing to flush";
    EXPECT_OK(co_await pool.close());
}

CO_TEST(Deferred, FlushComesWithinASecond, Deferring, pool) {
    co_await pool.start();
    EXPECT_OK(co_await pool.write_deferred(1, 1));
    co_await sleep_for(pool.env.reactor, std::chrono::milliseconds(500));
    EXPECT_OK(co_await pool.write_deferred(2, 1));
    EXPECT_EQ(pool.volatile_groups(), 2);
    co_await sleep_for(pool.env.reactor, std::chrono::milliseconds(510));
    EXPECT_EQ(pool.volatile_groups(), 0);
    EXPECT_OK(co_await pool.close());
}

CO_TEST(Deferred, MuchIsFlushedEarlier, Deferring, pool) {
    co_await pool.start();
    for (uint64_t i = 0; i < 24; ++i) EXPECT_OK(co_await pool.write_deferred(i % 3, 256));
    EXPECT_GE(pool.metric("ros2store_engine_deferred_flushes_total"), 1);
    EXPECT_LT(pool.volatile_groups(), 16);
    EXPECT_OK(co_await pool.close());
}

CO_TEST(Deferred, FlushOfLaterUpdateCoversEarlierOnes, Deferring, pool) {
    co_await pool.start();
    pool.count_flushes();
    EXPECT_OK(co_await pool.write_deferred(1, 1));
    EXPECT_OK(co_await pool.write(2, 1, 7));
    EXPECT_EQ(pool.volatile_groups(), 0);
    EXPECT_EQ(pool.flushes, 1);
    EXPECT_OK(co_await pool.close());
}

CO_TEST(Deferred, OrderlyEndMakesAllDurable, Deferring, pool) {
    co_await pool.start();
    EXPECT_OK(co_await pool.write_deferred(1, 1));
    EXPECT_OK(co_await pool.close());
    for (auto& disk : pool.disks) disk->power_loss();
    pool.index_medium.crash(pool.world.random());
    EXPECT_OK(co_await pool.open());
    EXPECT_OK(co_await pool.expect(1, 1, 7));
    EXPECT_OK(co_await pool.close());
}

// Each row: a request of another client about the object. The writer's own needs no flush.
using Ask = std::function<Task<Result<>>(Deferring&, const Call&)>;
const std::vector<Ask> requests = {
    [](Deferring& pool, const Call& from) { return pool.fetch(from, 1); },
    [](Deferring& pool, const Call& from) { return pool.query(from, 1); },
    [](Deferring& pool, const Call& from) {
        return pool.list(from, {.what = object::ListRequest::What::dkeys, .object = {1, 1}});
    },
    [](Deferring& pool, const Call& from) {
        return pool.list(from, {.what = object::ListRequest::What::objects});
    },
    [](Deferring& pool, const Call& from) -> Task<Result<>> {
        object::FetchItem item{.object = {1, 1}, .dkey = object::Dkey::integer(9), .akey = {"a"}};
        ROS2S_CO_TRY(co_await pool.store->pin(from, pool.container, pool.holder_of(from), item));
        co_return Result<>();
    },
    [](Deferring& pool, const Call& from) -> Task<Result<>> {
        std::vector<object::FetchItem> items{
            {.object = {1, 1}, .dkey = object::Dkey::integer(9), .akey = {"a"}}};
        std::vector<object::Link> links(1);
        co_return co_await pool.store->fetch_chain(from, pool.container, pool.holder_of(from),
                                                   items, links);
    },
    [](Deferring& pool, const Call& from) -> Task<Result<>> {
        ROS2S_CO_TRY(co_await pool.store->lock(from, pool.container, pool.holder_of(from),
                                               {.object = {1, 1}}));
        co_return Result<>();
    },
    [](Deferring& pool, const Call& from) -> Task<Result<>> {
        // The condition fails, which says something, too.
        object::Transaction transaction{.holder = pool.holder_of(from), .deferred = true};
        transaction.conditions.push_back({.kind = object::Condition::Kind::absent,
                                          .object = {1, 1},
                                          .dkey = object::Dkey::integer(1),
                                          .akey = {"a"}});
        const auto done = co_await pool.store->update(from, pool.container, transaction);
        EXPECT_EQ(done.error().code, Code::condition_failed);
        co_return Result<>();
    },
};
CO_TEST(Deferred, OtherClientLearnsOnlyWhatIsDurable, Deferring, pool) {
    co_await pool.start();
    for (const Ask& ask : requests) {
        EXPECT_OK(co_await pool.write_deferred(1, 1));
        EXPECT_OK(co_await ask(pool, pool.of_writer));
        EXPECT_TRUE(co_await ask(pool, pool.call)) << "the store's own process";
        EXPECT_EQ(pool.volatile_groups(), 1);
        EXPECT_OK(co_await ask(pool, pool.of_other));
        EXPECT_EQ(pool.volatile_groups(), 0) << &ask - requests.data();
        EXPECT_OK(co_await pool.write_deferred(1, 1));
        const StoreClient unknown{};
        const Call of_unknown{.client = &unknown};
        if (&ask != &requests.back()) EXPECT_OK(co_await ask(pool, of_unknown));
        EXPECT_OK(co_await pool.store->sync(pool.call, pool.container, {}, {}));
    }
    EXPECT_OK(co_await pool.close());
}

CO_TEST(Deferred, RequestForAnotherObjectWaitsForNoFlush, Deferring, pool) {
    co_await pool.start();
    EXPECT_OK(co_await pool.write_deferred(1, 1));
    EXPECT_OK(co_await pool.fetch(pool.of_other, 2));
    EXPECT_EQ(pool.volatile_groups(), 1);
    EXPECT_OK(co_await pool.close());
}

// The writer's own view is not its own any more.
CO_TEST(Deferred, ChangeOfAnotherClientsObjectMakesBothDurable, Deferring, pool) {
    co_await pool.start();
    EXPECT_OK(co_await pool.write_deferred(1, 1));
    object::Transaction transaction{.holder = {.client = pool.other.id}, .deferred = true};
    transaction.operations.push_back({.kind = object::Operation::Kind::touch,
                                      .object = {1, 1},
                                      .dkey = object::Dkey::integer(2),
                                      .akey = {"a"}});
    EXPECT_OK(co_await pool.store->update(pool.of_other, pool.container, transaction));
    EXPECT_EQ(pool.volatile_groups(), 0) << "it was told of the first one";
    EXPECT_OK(co_await pool.close());
}

Task<Result<uint64_t>> sync_knowing(Deferring& pool, uint64_t incarnation, object::Epoch last) {
    const object::Acknowledged known{incarnation, last};
    co_return co_await pool.store->sync(pool.call, pool.container, {}, known);
}

CO_TEST(Deferred, SyncAfterLossOfPowerTellsWhatIsLost, Deferring, pool) {
    co_await pool.start();
    const auto first = co_await pool.store->sync(pool.call, pool.container, {}, {});
    EXPECT_OK(first);
    const auto kept = co_await pool.write_deferred(1, 1);
    EXPECT_OK(co_await pool.store->sync(pool.call, pool.container, {}, {*first, kept->epoch}));
    const auto lost = co_await pool.write_deferred(2, 1);
    EXPECT_OK(co_await pool.crash_and_open());
    EXPECT_OK(co_await sync_knowing(pool, *first, kept->epoch));
    const auto told = co_await sync_knowing(pool, *first, lost->epoch);
    EXPECT_EQ(told ? Code{} : told.error().code, Code::expired);
    const uint64_t second = told.error().detail;
    EXPECT_EQ(*co_await sync_knowing(pool, second, {}), second);
    const StoreClient of_before{.id = pool.writer.id, .incarnation = *first};
    object::Transaction late{.holder = {.client = of_before.id}, .deferred = true};
    late.operations.push_back({.kind = object::Operation::Kind::touch,
                               .object = {1, 1},
                               .dkey = object::Dkey::integer(9),
                               .akey = {"a"}});
    const auto refused = co_await pool.store->update({.client = &of_before}, pool.container, late);
    EXPECT_TRUE(!refused && refused.error().code == Code::expired &&
                refused.error().detail == second)
        << "made before the client knows of the loss";
    const auto after = co_await pool.write_deferred(3, 1);
    EXPECT_GT(after->epoch, lost->epoch) << "its epoch was given again";
    EXPECT_OK(co_await sync_knowing(pool, second, after->epoch));
    EXPECT_OK(co_await pool.crash_and_open());
    EXPECT_TRUE(co_await sync_knowing(pool, second, after->epoch)) << "it was durable";
    const auto unknown = co_await sync_knowing(pool, *first, kept->epoch);
    EXPECT_EQ(unknown ? Code{} : unknown.error().code, Code::expired)
        << "what the second incarnation lost is not known";
    EXPECT_OK(co_await pool.close());
}

// ---- what a loss of power took back is repeated ----------------------------------------------

struct Repeating : Deferring {
    Repeating() {
        options.pin_grace = std::chrono::seconds(30);
        options.pin_list.write = [this](std::string_view text) -> Result<> {
            written = text;
            return {};
        };
    }
    // A named change of the writer in its session.
    Task<Result<object::Commit>> change(uint64_t sequence, uint64_t incarnation, bool was_lost) {
        const AlignedBuffer buffer(block_bytes);
        std::memset(buffer.data(), static_cast<int>(sequence), buffer.size());
        object::Transaction transaction{.id = {.client = writer.id, .sequence = sequence},
                                        .is_new = !was_lost,
                                        .holder = holder,
                                        .deferred = true,
                                        .was_lost = was_lost};
        transaction.operations.push_back(writing(1, buffer.bytes()));
        const StoreClient asking{.id = writer.id, .incarnation = incarnation};
        co_return co_await store->update({.client = &asking}, container, transaction);
    }
    Task<Result<uint64_t>> sync(uint64_t incarnation, object::Epoch last) {
        co_return co_await store->sync(call, container, holder, {incarnation, last});
    }
    // Changes 1 (durable) and 2 (lost). The mark is of a client that was given up, or not.
    Task<Result<>> lose_one() {
        ROS2S_CO_TRY_ASSIGN(first, co_await sync(0, {}));
        ROS2S_CO_TRY(co_await change(1, first, false));
        ROS2S_CO_TRY(co_await sync(first, {}));
        ROS2S_CO_TRY_ASSIGN(const object::Commit lost, co_await change(2, first, false));
        last = lost.epoch;
        options.pin_list.text = written;
        co_return co_await crash_and_open();
    }
    static Task<> fetch_as_other(Repeating& self, Result<>& done) {
        done = co_await self.fetch(self.of_other, 1);
    }
    object::Holder holder{.client = writer.id, .session = 5};
    uint64_t first = 0;  // the first incarnation
    object::Epoch last{};
    std::optional<std::string> written;
};

CO_TEST(Deferred, OthersWaitUntilTheClientHasRepeatedWhatIsLost, Repeating, pool) {
    co_await pool.start();
    EXPECT_OK(co_await pool.lose_one());
    Result<> fetched = fail(Code::busy);
    Nursery asking(pool.env.reactor, 1);
    co_await asking.spawn(Repeating::fetch_as_other(pool, fetched));
    co_await sleep_for(pool.env.reactor, std::chrono::seconds(2));
    EXPECT_EQ(fetched, Result<>(fail(Code::busy)));
    const auto told = co_await pool.sync(pool.first, pool.last);
    EXPECT_EQ(told ? Code{} : told.error().code, Code::busy);
    const uint64_t second = told.error().detail;
    EXPECT_EQ((co_await pool.change(3, pool.first, false)).error().code, Code::expired)
        << "new before what is lost";
    const StoreClient knowing{.id = pool.other.id, .incarnation = second};
    EXPECT_EQ(co_await pool.fetch({.client = &knowing}, 1), Result<>(fail(Code::leased)))
        << "it waits by itself";
    EXPECT_EQ((co_await pool.change(1, second, true))->replayed, true) << "it survived";
    EXPECT_EQ((co_await pool.change(2, second, true))->replayed, false);
    EXPECT_EQ(fetched, Result<>(fail(Code::busy))) << "there may be more";
    EXPECT_EQ(pool.metric("ros2store_engine_awaited_clients"), 1);
    EXPECT_EQ(*co_await pool.sync(second, {}), second);
    co_await asking.join();
    EXPECT_TRUE(fetched);
    EXPECT_OK(co_await pool.expect(1, 1, 2));
    EXPECT_EQ((co_await pool.change(2, second, true)).error().code, Code::expired)
        << "others have seen a state without it";
    EXPECT_OK(co_await pool.close());
}

CO_TEST(Deferred, ClientThatDoesNotReturnIsGivenUpAfterSeconds, Repeating, pool) {
    co_await pool.start();
    EXPECT_OK(co_await pool.lose_one());
    const Time begun = pool.env.reactor.now();
    EXPECT_OK(co_await pool.fetch(pool.of_other, 1));
    const Duration waited = pool.env.reactor.now() - begun;
    EXPECT_GE(waited, AwaitedClients::patience);
    EXPECT_LT(waited, AwaitedClients::patience + std::chrono::seconds(2));
    const auto told = co_await pool.sync(pool.first, pool.last);
    EXPECT_EQ(told ? Code{} : told.error().code, Code::expired);
    EXPECT_EQ((co_await pool.change(2, told.error().detail, true)).error().code, Code::expired);
    // Others may have changed what it would repeat: it may not after the next start, either.
    pool.options.pin_list.text = pool.written;
    EXPECT_OK(co_await pool.crash_and_open());
    EXPECT_EQ(pool.metric("ros2store_engine_awaited_clients"), 0);
    EXPECT_OK(co_await pool.close());
}

CO_TEST(Deferred, ClientIsAwaitedLongerWhileItRepeats, Repeating, pool) {
    co_await pool.start();
    EXPECT_OK(co_await pool.lose_one());
    Result<> fetched = fail(Code::busy);
    Nursery asking(pool.env.reactor, 1);
    co_await asking.spawn(Repeating::fetch_as_other(pool, fetched));
    const uint64_t second = (co_await pool.sync(pool.first, pool.last)).error().detail;
    co_await sleep_for(pool.env.reactor,
                       AwaitedClients::patience - std::chrono::milliseconds(1500));
    EXPECT_OK(co_await pool.change(2, second, true));
    co_await sleep_for(pool.env.reactor, std::chrono::seconds(2));
    EXPECT_OK(co_await pool.change(3, second, true));
    EXPECT_EQ(fetched, Result<>(fail(Code::busy)));
    co_await asking.join();
    EXPECT_TRUE(fetched) << "it does not return";
    EXPECT_EQ((co_await pool.change(4, second, true)).error().code, Code::expired);
    EXPECT_OK(co_await pool.close());
}

// A client that lies about what it was acknowledged.
CO_TEST(Deferred, EndlessRepetitionIsEnded, Repeating, pool) {
    co_await pool.start();
    EXPECT_OK(co_await pool.lose_one());
    Result<> fetched = fail(Code::busy);
    Nursery asking(pool.env.reactor, 1);
    co_await asking.spawn(Repeating::fetch_as_other(pool, fetched));
    const uint64_t second = (co_await pool.sync(pool.first, pool.last)).error().detail;
    const Time begun = pool.env.reactor.now();
    uint64_t sequence = 2;
    while (co_await pool.change(sequence, second, true)) {
        ++sequence;
        co_await sleep_for(pool.env.reactor, std::chrono::milliseconds(500));
    }
    co_await asking.join();
    EXPECT_TRUE(fetched);
    EXPECT_GE(pool.env.reactor.now() - begun, AwaitedClients::patience);
    EXPECT_LT(pool.env.reactor.now() - begun,
              AwaitedClients::patience_most + std::chrono::seconds(3));
    EXPECT_EQ((co_await pool.change(sequence, second, true)).error().code, Code::expired);
    EXPECT_OK(co_await pool.close());
}

CO_TEST(Deferred, RepetitionOfAnothersChangesIsRefused, Repeating, pool) {
    co_await pool.start();
    EXPECT_OK(co_await pool.lose_one());
    const uint64_t second = (co_await pool.sync(pool.first, pool.last)).error().detail;
    const object::Holder own = std::exchange(
        pool.holder, {.client = pool.writer.id, .session = 9, .owner = {.bytes = {66}}});
    EXPECT_EQ((co_await pool.change(2, second, true)).error().code, Code::expired);
    pool.holder = own;
    EXPECT_OK(co_await pool.change(2, second, true));
    EXPECT_OK(co_await pool.expect(1, 1, 2));
    EXPECT_OK(co_await pool.close());
}

CO_TEST(Deferred, ClientThatHasRepeatedWaitsForOthersThatAreAwaited, Repeating, pool) {
    co_await pool.start();
    const auto first = co_await pool.sync(0, {});
    object::Transaction others{.id = {.client = pool.other.id, .sequence = 1},
                               .is_new = true,
                               .holder = {.client = pool.other.id, .session = 6},
                               .deferred = true};
    others.operations.push_back({.kind = object::Operation::Kind::touch,
                                 .object = {1, 7},
                                 .dkey = object::Dkey::integer(2),
                                 .akey = {"a"}});
    EXPECT_OK(co_await pool.store->update(pool.of_other, pool.container, others));
    EXPECT_OK(co_await pool.change(2, *first, false));
    pool.options.pin_list.text = pool.written;
    EXPECT_OK(co_await pool.crash_and_open());
    EXPECT_EQ(pool.metric("ros2store_engine_awaited_clients"), 2);
    const uint64_t second = *co_await pool.store->sync(pool.call, pool.container, {}, {});
    EXPECT_OK(co_await pool.change(2, second, true));
    const StoreClient writer{.id = pool.writer.id, .incarnation = second};
    EXPECT_OK(co_await pool.fetch({.client = &writer}, 1));  // what it repeats
    EXPECT_EQ(co_await pool.list({.client = &writer}, {.object = {1, 1}}),
              Result<>(fail(Code::leased)));
    others.was_lost = true;
    others.is_new = false;
    EXPECT_OK(co_await pool.store->update(pool.of_other, pool.container, others));
    EXPECT_OK(co_await pool.sync(second, {}));
    EXPECT_EQ(co_await pool.fetch({.client = &writer}, 1), Result<>(fail(Code::leased)));
    EXPECT_OK(co_await pool.store->sync(pool.call, pool.container, others.holder, {second, {}}));
    EXPECT_OK(co_await pool.fetch({.client = &writer}, 1));
    EXPECT_OK(co_await pool.close());
}

CO_TEST(Deferred, RequestThatWaitsForAnotherClientEndsAtItsDeadline, Repeating, pool) {
    co_await pool.start();
    EXPECT_OK(co_await pool.lose_one());
    const Call hurried{.deadline = pool.env.reactor.now() + std::chrono::seconds(3),
                       .client = &pool.other};
    EXPECT_EQ(co_await pool.fetch(hurried, 1), Result<>(fail(Code::deadline)));
    EXPECT_OK(co_await pool.close());
}

CO_TEST(Deferred, ClientThatLostNothingLetsOthersGoOn, Repeating, pool) {
    co_await pool.start();
    EXPECT_OK(co_await pool.lose_one());
    EXPECT_OK(co_await pool.sync(pool.first, {}));
    EXPECT_OK(co_await pool.fetch(pool.of_other, 1));
    EXPECT_EQ(pool.metric("ros2store_engine_awaited_clients"), 0);
    EXPECT_OK(co_await pool.close());
}

CO_TEST(Deferred, ChangesOfASessionAreCountedUntilTheyAreDurable, Repeating, pool) {
    co_await pool.start();
    const auto first = co_await pool.sync(0, {});
    EXPECT_EQ(pool.store->deferred_of(5).changes, 0U);
    EXPECT_OK(co_await pool.change(1, *first, false));
    co_await sleep_for(pool.env.reactor, std::chrono::milliseconds(50));
    EXPECT_OK(co_await pool.change(2, *first, false));
    const auto deferred = pool.store->deferred_of(5);
    EXPECT_EQ(deferred.changes, 2U);
    EXPECT_EQ(deferred.bytes, 2 * block_bytes);
    EXPECT_GE(deferred.age, std::chrono::milliseconds(50));
    EXPECT_EQ(pool.store->deferred_of(6).changes, 0U) << "another session's";
    EXPECT_OK(co_await pool.sync(*first, {}));
    EXPECT_EQ(pool.store->deferred_of(5).changes, 0U);
    EXPECT_OK(co_await pool.close());
}

// Space that the repetition needs is free meanwhile. Others do not take the last of it.
CO_TEST(Deferred, OtherContainersLeaveRoomForWhatIsRepeated, Repeating, pool) {
    co_await pool.start();
    const auto second_container = co_await pool.store->create_container(pool.call, {.label = "d"});
    EXPECT_OK(second_container);
    EXPECT_OK(co_await pool.lose_one());
    const AlignedBuffer buffer(256 * block_bytes);
    Result<> refused;
    uint64_t dkey = 0;
    for (; refused && dkey < 100; ++dkey) {
        object::Transaction transaction;
        transaction.operations.push_back(pool.writing(dkey, buffer.bytes()));
        const Call hurried{.deadline = pool.env.reactor.now() + std::chrono::milliseconds(100)};
        const auto done = co_await pool.store->update(hurried, second_container->id, transaction);
        refused = done ? Result<>() : fail(done.error());
    }
    EXPECT_EQ(refused, Result<>(fail(Code::deadline))) << dkey;
    EXPECT_GT(dkey, 10U) << "there is much more room than what is repeated needs";
    const uint64_t second = (co_await pool.sync(pool.first, pool.last)).error().detail;
    EXPECT_OK(co_await pool.change(2, second, true));
    EXPECT_OK(co_await pool.sync(second, {}));
    object::Transaction transaction;
    transaction.operations.push_back(pool.writing(dkey, buffer.bytes()));
    EXPECT_OK(co_await pool.store->update(pool.call, second_container->id, transaction));
    EXPECT_OK(co_await pool.close());
}

CO_TEST(Deferred, ClientCanRepeatWhenAReadOnlyPoolWasRepaired, Repeating, pool) {
    co_await pool.start();
    EXPECT_OK(co_await pool.lose_one());
    pool.disks[0]->set_hook([](const device::SimOperation& operation) {
        return operation.kind == device::SimKind::write ? device::SimFault::error
                                                        : device::SimFault::none;
    });
    const uint64_t second = (co_await pool.sync(pool.first, pool.last)).error().detail;
    EXPECT_FALSE(co_await pool.change(2, second, true));
    EXPECT_NE(pool.store->read_only_reason(), "");
    // Others are not kept waiting for ever, and change nothing.
    EXPECT_OK(co_await pool.fetch(pool.of_other, 2));
    co_await sleep_for(pool.env.reactor, std::chrono::minutes(1));
    EXPECT_EQ((co_await pool.sync(pool.first, pool.last)).error().code, Code::read_only);
    pool.disks[0]->set_hook({});
    pool.options.pin_list.text = pool.written;
    EXPECT_OK(co_await pool.crash_and_open());
    const auto told = co_await pool.sync(pool.first, pool.last);
    EXPECT_EQ(told ? Code{} : told.error().code, Code::busy);
    EXPECT_OK(co_await pool.change(2, told.error().detail, true));
    EXPECT_OK(co_await pool.expect(1, 1, 2));
    EXPECT_OK(co_await pool.close());
}

struct ForgetfulRepeating : Repeating {
    ForgetfulRepeating() {
        options.replies_per_owner = 1;
        options.reply_lease = std::chrono::milliseconds(1);
    }
    // Another client of the owner takes its only slot.
    Task<Result<>> forget_all() {
        co_await sleep_for(env.reactor, std::chrono::seconds(1));
        object::Transaction transaction{.id = {.client = other.id, .sequence = 1},
                                        .is_new = true,
                                        .holder = {.client = other.id}};
        transaction.operations.push_back({.kind = object::Operation::Kind::touch,
                                          .object = {1, 2},
                                          .dkey = object::Dkey::integer(2),
                                          .akey = {"a"}});
        ROS2S_CO_TRY(co_await store->update(of_other, container, transaction));
        co_return Result<>();
    }
};
CO_TEST(Deferred, RepeatedChangeOfAClientThatTheStoreHasForgottenIsMade, ForgetfulRepeating, pool) {
    co_await pool.start();
    EXPECT_OK(co_await pool.change(1, 0, false));
    EXPECT_OK(co_await pool.forget_all());
    const auto first = co_await pool.sync(0, {});
    pool.options.pin_list.text = pool.written;
    co_await sleep_for(pool.env.reactor, std::chrono::seconds(1));
    const auto lost = co_await pool.change(3, *first, false);
    EXPECT_OK(lost);
    EXPECT_OK(co_await pool.crash_and_open());
    const auto told = co_await pool.sync(*first, lost->epoch);
    EXPECT_EQ(told ? Code{} : told.error().code, Code::busy);
    EXPECT_OK(co_await pool.change(3, told.error().detail, true));
    EXPECT_OK(co_await pool.expect(1, 1, 3));
    EXPECT_OK(co_await pool.close());
}

CO_TEST(Deferred, RequestsThatNameAnEarlierIncarnationAreRefused, Repeating, pool) {
    co_await pool.start();
    EXPECT_OK(co_await pool.lose_one());
    const StoreClient before{.id = pool.writer.id, .incarnation = pool.first};
    const Call from{.client = &before};
    for (const Ask& ask : requests) {
        if (&ask == &requests.back()) continue;  // it expects another error
        const Result<> asked = co_await ask(pool, from);
        EXPECT_EQ(asked ? Code{} : asked.error().code, Code::expired) << &ask - requests.data();
    }
    EXPECT_OK(co_await pool.close());
}

CO_TEST(Deferred, FailedFlushFailsSyncAndEndsUpdates, Deferring, pool) {
    co_await pool.start();
    EXPECT_OK(co_await pool.write_deferred(1, 1));
    pool.disks[0]->set_hook([](const device::SimOperation& operation) {
        return operation.kind == device::SimKind::flush ? device::SimFault::error
                                                        : device::SimFault::none;
    });
    EXPECT_EQ((co_await pool.store->sync(pool.call, pool.container, {}, {})).error().code,
              Code::io);
    EXPECT_NE(pool.store->read_only_reason(), "");
    EXPECT_EQ((co_await pool.write_deferred(2, 1)).error().code, Code::read_only);
    // What was acknowledged can be read, by this process only.
    EXPECT_OK(co_await pool.expect(1, 1, 7));
    EXPECT_EQ((co_await pool.query(pool.of_other, 1)).error().code, Code::io);
    EXPECT_EQ((co_await pool.store->sync(pool.call, pool.container, {}, {})).error().code,
              Code::io);
    pool.disks[0]->set_hook({});
    // It may be lost, and nobody has to sync before the end.
    EXPECT_EQ((co_await pool.close()).error().code, Code::io);
}

}  // namespace
}  // namespace ros2s::engine
