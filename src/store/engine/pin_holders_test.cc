// After a start the store waits for the clients that may have files open, and for no others.
#include "pin_holders.h"

#include "ros2s/object/leases.h"
#include "test_support/engine.h"

namespace ros2s::engine {
namespace {

using object::Holder;
using Kind = object::Condition::Kind;

constexpr Duration grace = std::chrono::seconds(30);

Holder holder(uint8_t client, uint64_t session) {
    Holder made{.session = session, .owner = {{0xee}}};
    made.client.bytes[0] = client;
    return made;
}

// All holders of a list.
std::optional<std::vector<object::HolderName>> holders_in(std::string_view text) {
    auto list = decode_pin_list(text);
    if (!list) return {};
    list->holders.insert(list->holders.end(), list->ended.begin(), list->ended.end());
    return list->holders;
}

// A pool whose list is in memory. Objects 1 to 9 of two containers exist.
struct PinBench : Bench {
    PinBench() : Bench(1) {
        options.pin_grace = grace;
        options.pin_list.write = [this](std::string_view text) -> Result<> {
            ++writes;
            if (is_full) return fail(Code::no_space);
            written = text;
            return {};
        };
    }
    Task<Result<>> make() {
        ROS2S_CO_TRY(co_await create());
        ROS2S_CO_TRY(co_await open());
        for (object::ContainerId* each : {&container, &other}) {
            ROS2S_CO_TRY_ASSIGN(
                const auto made,
                co_await store->create_container(call, {.label = each == &container ? "c" : "d"}));
            *each = made.id;
            object::Transaction put;
            for (uint64_t number = 1; number < 10; ++number) {
                put.operations.push_back({.kind = object::Operation::Kind::put,
                                          .object = {1, number},
                                          .dkey = {"."},
                                          .akey = {"inode"}});
            }
            ROS2S_CO_TRY(co_await store->update(call, made.id, put));
        }
        co_return Result<>();
    }
    Task<Result<>> pin(object::ContainerId in, Holder by, uint64_t number) {
        object::FetchItem item{.object = {1, number}, .dkey = {"."}, .akey = {"inode"}};
        ROS2S_CO_TRY(co_await store->pin(call, in, by, item));
        co_return item.status;
    }
    // False: somebody may have it pinned.
    Task<bool> punch(object::ContainerId in, Holder by, uint64_t number) {
        object::Transaction transaction{.holder = by};
        transaction.conditions.push_back({.kind = Kind::unpinned, .object = {1, number}});
        transaction.operations.push_back(
            {.kind = object::Operation::Kind::punch_object, .object = {1, number}});
        const auto done = co_await store->update(call, in, transaction);
        if (!done) EXPECT_EQ(done.error().code, Code::condition_failed);
        co_return done.has_value();
    }
    using Locked = Result<std::optional<object::Lock>>;
    Task<Locked> lock(Holder by, object::LockMode mode,
                      object::LockRequest::How how = object::LockRequest::How::set) {
        const object::LockRequest request{
            .object = {1, 1}, .lock = {.mode = mode, .owner = by.client.bytes[0]}, .how = how};
        co_return co_await store->lock(call, container, by, request);
    }
    Task<bool> pinned_again(Holder by) {
        const auto said = co_await store->pinned_again(call, container, by);
        EXPECT_TRUE(said);
        co_return said && *said;
    }
    Task<Result<>> leave(Holder by) {
        ROS2S_CO_TRY(co_await store->listen(call, container, by, {.waits = false, .ends = true}));
        co_return Result<>();
    }
    // The process dies: nothing is written any more.
    Task<Result<>> die_and_open() {
        const auto at_its_death = written;
        (void)co_await close();
        options.pin_list.text = written = at_its_death;
        co_return co_await open();
    }
    Task<Result<>> end_and_open() {
        ROS2S_CO_TRY(co_await close());
        options.pin_list.text = written;
        co_return co_await open();
    }
    static Task<Result<>> with_pool(PinBench& self, Task<Result<>> (*test)(PinBench&)) {
        ROS2S_CO_TRY(co_await self.make());
        ROS2S_CO_TRY(co_await test(self));
        co_return co_await self.close();
    }

    std::optional<std::string> written;
    size_t writes = 0;
    bool is_full = false;
    object::ContainerId container, other;
};

void run_with_pool(Task<Result<>> (*test)(PinBench&)) {
    PinBench bench;
    const Result<> result = bench.world.run(PinBench::with_pool(bench, test));
    EXPECT_TRUE(result.has_value()) << describe(result.error()) << ": " << bench.report.text();
}

Task<Result<>> nobody_had_pins(PinBench& bench) {
    EXPECT_TRUE(co_await bench.punch(bench.container, holder(1, 1), 1));
    EXPECT_EQ(bench.writes, 0U);
    ROS2S_CO_TRY(co_await bench.die_and_open());
    EXPECT_TRUE(co_await bench.punch(bench.container, holder(1, 1), 2));
    co_return Result<>();
}
TEST(PinHolders, StartWithoutEarlierPinsDoesNotWait) { run_with_pool(nobody_had_pins); }

Task<Result<>> one_does_not_return(PinBench& bench) {
    ROS2S_CO_TRY(co_await bench.pin(bench.container, holder(1, 1), 1));
    EXPECT_EQ(bench.writes, 1U);
    for (uint64_t number = 2; number < 6; ++number) {
        ROS2S_CO_TRY(co_await bench.pin(bench.container, holder(1, 1), number));
    }
    EXPECT_EQ(bench.writes, 1U);  // once for a holder
    ROS2S_CO_TRY(co_await bench.die_and_open());
    EXPECT_FALSE(co_await bench.punch(bench.container, holder(2, 2), 1));
    EXPECT_FALSE(co_await bench.punch(bench.container, holder(2, 2), 9));
    // Others do not wait: the holder itself, and those of other containers.
    EXPECT_TRUE(co_await bench.punch(bench.container, holder(1, 3), 8));
    EXPECT_TRUE(co_await bench.punch(bench.other, holder(2, 2), 1));
    co_await sleep_for(bench.world.core(), grace - std::chrono::seconds(1));
    EXPECT_FALSE(co_await bench.punch(bench.container, holder(2, 2), 1));
    co_await sleep_for(bench.world.core(), std::chrono::seconds(1));
    EXPECT_TRUE(co_await bench.punch(bench.container, holder(2, 2), 1));
    // The next start does not know it any more.
    co_await sleep_for(bench.world.core(), std::chrono::seconds(3));
    ROS2S_CO_TRY(co_await bench.die_and_open());
    EXPECT_TRUE(co_await bench.punch(bench.container, holder(2, 2), 2));
    co_return Result<>();
}
TEST(PinHolders, StartWaitsForAbsentHolder) { run_with_pool(one_does_not_return); }

Task<Result<>> processes_have_ended(PinBench& bench) {
    Holder process = holder(1, 1), client = holder(2, 2);
    process.owner = {};
    ROS2S_CO_TRY(co_await bench.pin(bench.container, process, 1));
    ROS2S_CO_TRY(co_await bench.pin(bench.other, client, 1));
    bench.options.pin_list.processes_ended = true;
    ROS2S_CO_TRY(co_await bench.die_and_open());
    EXPECT_TRUE(co_await bench.punch(bench.container, holder(3, 0), 1));
    EXPECT_FALSE(co_await bench.punch(bench.other, holder(3, 0), 1));
    const auto left = holders_in(*bench.written);
    EXPECT_TRUE(left && left->size() == 1 && left->front().client == client.client);
    co_return Result<>();
}
TEST(PinHolders, ProcessesThatHaveEndedAreForgotten) { run_with_pool(processes_have_ended); }

Task<Result<>> one_returns(PinBench& bench) {
    ROS2S_CO_TRY(co_await bench.pin(bench.container, holder(1, 1), 1));
    ROS2S_CO_TRY(co_await bench.pin(bench.container, holder(1, 1), 2));
    ROS2S_CO_TRY(co_await bench.die_and_open());
    EXPECT_FALSE(co_await bench.punch(bench.container, holder(2, 5), 1));
    ROS2S_CO_TRY(co_await bench.pin(bench.container, holder(1, 6), 1));
    EXPECT_FALSE(co_await bench.punch(bench.container, holder(2, 5), 2));
    // Another client cannot say it.
    EXPECT_FALSE(co_await bench.pinned_again(holder(2, 5)));
    EXPECT_FALSE(co_await bench.punch(bench.container, holder(2, 5), 2));
    EXPECT_TRUE(co_await bench.pinned_again(holder(1, 6)));
    EXPECT_FALSE(co_await bench.pinned_again(holder(1, 6)));
    // It may still use leases that the store has forgotten.
    co_await sleep_for(bench.world.core(), object::lease_time);
    EXPECT_TRUE(co_await bench.punch(bench.container, holder(2, 5), 2));
    EXPECT_FALSE(co_await bench.punch(bench.container, holder(2, 5), 1));
    co_return Result<>();
}
TEST(PinHolders, ReturnedHolderEndsTheWait) { run_with_pool(one_returns); }

constexpr auto exclusive = object::LockMode::exclusive, none = object::LockMode::none;
constexpr auto claim = object::LockRequest::How::claim;

// Another holder had its lock, and the store that knew of it is gone.
Task<Result<>> lock_was_overtaken(PinBench& bench) {
    ROS2S_CO_TRY(co_await bench.pin(bench.container, holder(1, 1), 1));
    EXPECT_EQ(co_await bench.lock(holder(1, 1), exclusive), PinBench::Locked());
    bench.store->session_ended(1);
    co_await sleep_for(bench.world.core(), std::chrono::milliseconds(10));
    EXPECT_EQ(co_await bench.lock(holder(2, 2), exclusive), PinBench::Locked());
    EXPECT_EQ(co_await bench.lock(holder(2, 2), none), PinBench::Locked());
    ROS2S_CO_TRY(co_await bench.pin(bench.container, holder(1, 3), 1));
    ROS2S_CO_TRY(co_await bench.die_and_open());
    EXPECT_EQ(co_await bench.lock(holder(1, 4), exclusive, claim),
              PinBench::Locked(fail(Code::stale)));
    // It is awaited all the same, and from then on it claims as others do.
    EXPECT_FALSE(co_await bench.punch(bench.container, holder(2, 5), 1));
    ROS2S_CO_TRY(co_await bench.pin(bench.container, holder(1, 4), 1));
    (void)co_await bench.pinned_again(holder(1, 4));
    EXPECT_EQ(co_await bench.lock(holder(1, 4), exclusive), PinBench::Locked());
    co_await sleep_for(bench.world.core(), std::chrono::milliseconds(10));
    ROS2S_CO_TRY(co_await bench.die_and_open());
    EXPECT_EQ(co_await bench.lock(holder(1, 6), exclusive, claim), PinBench::Locked());
    co_return Result<>();
}
TEST(PinHolders, HolderWhoseSessionEndedClaimsNoLockAfterARestart) {
    run_with_pool(lock_was_overtaken);
}

// Until the list says that the session has ended, its lock excludes others.
Task<Result<>> lock_ends_with_the_list(PinBench& bench) {
    ROS2S_CO_TRY(co_await bench.pin(bench.container, holder(1, 1), 1));
    EXPECT_EQ(co_await bench.lock(holder(1, 1), exclusive), PinBench::Locked());
    bench.store->session_ended(1);
    const auto refused = co_await bench.lock(holder(2, 2), exclusive);
    EXPECT_TRUE(refused && refused->has_value());
    co_await sleep_for(bench.world.core(), std::chrono::milliseconds(10));
    EXPECT_EQ(co_await bench.lock(holder(2, 2), exclusive), PinBench::Locked());
    co_return Result<>();
}
TEST(PinHolders, LocksOfASessionEndWhenTheListHasItsEnd) { run_with_pool(lock_ends_with_the_list); }

// It did not come back while it was awaited. A start just after that does not know what others had.
Task<Result<>> absent_for_too_long(PinBench& bench) {
    ROS2S_CO_TRY(co_await bench.pin(bench.container, holder(1, 1), 1));
    ROS2S_CO_TRY(co_await bench.die_and_open());
    co_await sleep_for(bench.world.core(), grace);
    ROS2S_CO_TRY(co_await bench.die_and_open());
    EXPECT_EQ(co_await bench.lock(holder(1, 4), exclusive, claim),
              PinBench::Locked(fail(Code::stale)));
    co_return Result<>();
}
TEST(PinHolders, HolderThatWasAwaitedInVainClaimsNoLock) { run_with_pool(absent_for_too_long); }

Task<Result<>> it_died_between(PinBench& bench) {
    // The list is written, the pin never counted.
    bench.written = encode_pin_list({.holders = {name_of(bench.container, holder(1, 1))}});
    ROS2S_CO_TRY(co_await bench.die_and_open());
    EXPECT_FALSE(co_await bench.punch(bench.container, holder(2, 2), 1));
    EXPECT_TRUE(co_await bench.pinned_again(holder(1, 3)));
    co_await sleep_for(bench.world.core(), object::lease_time);
    EXPECT_TRUE(co_await bench.punch(bench.container, holder(2, 2), 1));
    co_return Result<>();
}
TEST(PinHolders, CrashBetweenListAndPinIsHarmless) { run_with_pool(it_died_between); }

Task<Result<>> sessions_end(PinBench& bench) {
    ROS2S_CO_TRY(co_await bench.pin(bench.container, holder(1, 1), 1));
    ROS2S_CO_TRY(co_await bench.pin(bench.container, holder(2, 2), 2));
    ROS2S_CO_TRY(co_await bench.store->unpin(bench.call, bench.container, holder(2, 2), {1, 2}));
    bench.store->session_ended(2);
    // It may have leases until then.
    co_await sleep_for(bench.world.core(), object::lease_time);
    ROS2S_CO_TRY(co_await bench.end_and_open());
    // The one that had pins is awaited.
    EXPECT_EQ(holders_in(*bench.written), std::vector{name_of(bench.container, holder(1, 1))});
    ROS2S_CO_TRY(co_await bench.pin(bench.container, holder(1, 3), 1));
    bench.store->session_ended(3);
    // A session's pins outlive it.
    co_await sleep_for(bench.world.core(), grace / 2);
    EXPECT_FALSE(co_await bench.punch(bench.container, holder(2, 2), 1));
    co_await sleep_for(bench.world.core(), grace / 2 + std::chrono::seconds(3));
    EXPECT_TRUE(co_await bench.punch(bench.container, holder(2, 2), 1));
    EXPECT_EQ(holders_in(*bench.written), std::vector<object::HolderName>{});
    co_return Result<>();
}
TEST(PinHolders, EndedSessionLeavesTheListWithItsPins) { run_with_pool(sessions_end); }

Task<Result<>> one_ends(PinBench& bench) {
    const auto end = [](PinBench& of, Holder which) -> Task<> {
        const object::Listening last{.ends = true};
        EXPECT_TRUE(co_await of.store->listen(of.call, of.container, which, last));
    };
    for (uint8_t client = 1; client <= 3; ++client) {
        ROS2S_CO_TRY(co_await bench.pin(bench.container, holder(client, client), client));
    }
    ROS2S_CO_TRY(co_await bench.store->unpin(bench.call, bench.container, holder(1, 1), {1, 1}));
    co_await end(bench, holder(1, 1));
    co_await end(bench, holder(2, 2));  // it has a pin
    co_await end(bench, holder(9, 9));  // it is not on the list
    ROS2S_CO_TRY(co_await bench.end_and_open());
    EXPECT_EQ(holders_in(*bench.written), (std::vector{name_of(bench.container, holder(2, 2)),
                                                       name_of(bench.container, holder(3, 3))}));
    co_return Result<>();
}
TEST(PinHolders, EndedHolderLeavesTheListAtOnce) { run_with_pool(one_ends); }

Task<Result<>> holders_end(PinBench& bench) {
    const auto listed = [&bench] { return holders_in(bench.written.value_or("")); };
    for (uint8_t number = 1; number < 4; ++number) {
        ROS2S_CO_TRY(co_await bench.store->listen(bench.call, bench.container, holder(number, 1),
                                                  {.begins = true, .waits = false}));
    }
    ROS2S_CO_TRY(co_await bench.pin(bench.container, holder(2, 1), 1));
    EXPECT_EQ(listed()->size(), 3U);
    ROS2S_CO_TRY(co_await bench.leave(holder(1, 1)));
    ROS2S_CO_TRY(co_await bench.leave(holder(2, 1)));
    ROS2S_CO_TRY(co_await bench.leave(holder(3, 2)));  // another session's
    co_await sleep_for(bench.world.core(), std::chrono::milliseconds(10));
    EXPECT_EQ(listed(), (std::vector{name_of(bench.container, holder(2, 1)),
                                     name_of(bench.container, holder(3, 1))}));
    ROS2S_CO_TRY(co_await bench.store->unpin(bench.call, bench.container, holder(2, 1), {1, 1}));
    co_await sleep_for(bench.world.core(), std::chrono::seconds(2));
    EXPECT_EQ(listed(), std::vector{name_of(bench.container, holder(3, 1))});
    // One that was not on the list is not put there.
    const size_t writes = bench.writes;
    ROS2S_CO_TRY(co_await bench.leave(holder(4, 1)));
    co_await sleep_for(bench.world.core(), std::chrono::seconds(2));
    EXPECT_EQ(bench.writes, writes);
    co_return Result<>();
}
TEST(PinHolders, HolderThatEndsLeavesTheListAtOnce) { run_with_pool(holders_end); }

Task<Result<>> creation_pins(PinBench& bench) {
    object::Transaction create{.holder = holder(1, 1)};
    create.conditions.push_back({.kind = Kind::pin, .object = {1, 20}});
    create.operations.push_back({.kind = object::Operation::Kind::put,
                                 .object = {1, 20},
                                 .dkey = {"."},
                                 .akey = {"inode"}});
    ROS2S_CO_TRY(co_await bench.store->update(bench.call, bench.container, create));
    EXPECT_EQ(holders_in(bench.written.value_or("")),
              std::vector{name_of(bench.container, holder(1, 1))});
    co_return Result<>();
}
TEST(PinHolders, PinningCreationListsItsHolder) { run_with_pool(creation_pins); }

Task<Result<>> cannot_be_written(PinBench& bench) {
    bench.is_full = true;
    ROS2S_CO_TRY(co_await bench.pin(bench.container, holder(1, 1), 1));
    bench.written = "";  // as the writer leaves it
    ROS2S_CO_TRY(co_await bench.die_and_open());
    bench.is_full = false;
    EXPECT_FALSE(co_await bench.punch(bench.other, holder(2, 2), 1));
    // As long as all are awaited there is no list.
    ROS2S_CO_TRY(co_await bench.pin(bench.container, holder(2, 2), 2));
    EXPECT_EQ(bench.written, "");
    co_await sleep_for(bench.world.core(), grace + std::chrono::seconds(2));
    EXPECT_TRUE(co_await bench.punch(bench.other, holder(2, 2), 1));
    EXPECT_EQ(holders_in(*bench.written), std::vector{name_of(bench.container, holder(2, 2))});
    co_return Result<>();
}
TEST(PinHolders, MissingListMakesStartWaitForAll) { run_with_pool(cannot_be_written); }

Task<Result<>> one_owner_takes_all(PinBench& bench) {
    bench.options.pin_list.write = [](std::string_view) { return Result<>(); };
    ROS2S_CO_TRY(co_await bench.reopen());
    constexpr size_t share = pin_list_holders_max / 2;
    size_t pinned = 0;
    const auto pin = [](PinBench& of, uint16_t number, size_t& count) -> Task<> {
        Holder greedy{.session = 1, .owner = {{1}}};
        std::memcpy(&greedy.client.bytes[1], &number, sizeof number);
        const auto done = co_await of.pin(of.container, greedy, 1);
        if (!done) EXPECT_EQ(done, Result<>(fail(Code::no_memory, share)));
        if (done) ++count;
    };
    Nursery nursery(bench.world.core(), share);
    for (uint16_t i = 0; i < share + 2; ++i) co_await nursery.spawn(pin(bench, i, pinned));
    co_await nursery.join();
    EXPECT_EQ(pinned, share);
    ROS2S_CO_TRY(co_await bench.pin(bench.container, holder(1, 2), 2));
    co_return Result<>();
}
TEST(PinHolders, OwnerCannotFillTheList) { run_with_pool(one_owner_takes_all); }

Task<PinBench::Locked> lock_container(PinBench& bench, object::LockRequest::How how) {
    const object::LockRequest request{
        .object = {},
        .lock = {.space = object::LockSpace::container, .mode = object::LockMode::exclusive},
        .how = how};
    co_return co_await bench.store->lock(bench.call, bench.container, holder(1, 1), request);
}
Task<Result<>> put(PinBench& bench, Holder by) {
    object::Transaction transaction{.holder = by};
    transaction.operations.push_back(
        {.kind = object::Operation::Kind::put, .object = {1, 1}, .dkey = {"."}, .akey = {"inode"}});
    ROS2S_CO_TRY(co_await bench.store->update(bench.call, bench.container, transaction));
    co_return Result<>();
}

Task<Result<>> it_was_exclusive(PinBench& bench) {
    using How = object::LockRequest::How;
    const Holder one = holder(1, 1), other = holder(2, 2);
    EXPECT_EQ(co_await lock_container(bench, How::set), PinBench::Locked());
    EXPECT_EQ(co_await put(bench, other), Result<>(fail(Code::busy)));
    EXPECT_EQ(co_await put(bench, one), Result<>());
    ROS2S_CO_TRY(co_await bench.die_and_open());
    EXPECT_EQ((co_await put(bench, other)).error().code, Code::busy) << "it may come back";
    EXPECT_EQ(co_await lock_container(bench, How::claim), PinBench::Locked());
    EXPECT_EQ((co_await put(bench, other)).error().code, Code::busy);
    ROS2S_CO_TRY(co_await bench.die_and_open());
    co_await sleep_for(bench.env.reactor, std::chrono::seconds(6));
    EXPECT_EQ(co_await put(bench, other), Result<>()) << "it did not come back";
    EXPECT_EQ(co_await lock_container(bench, How::claim), PinBench::Locked(fail(Code::stale)));
    co_return Result<>();
}
TEST(PinHolders, NobodyElseUsesTheContainerOfWhoHadItAlone) { run_with_pool(it_was_exclusive); }

TEST(PinList, TextRoundTripsAndDamageIsRejected) {
    const object::HolderName first{{{{1}}}, {{2}}, {{3}}}, second{{{{4}}}, {{5}}, {{6}}};
    const std::string text = encode_pin_list({.holders = {first, second}});
    EXPECT_EQ(holders_in(text), (std::vector{first, second}));
    EXPECT_EQ(text,
              "ros2store pins 1\n"
              "01000000-0000-0000-0000-000000000000 02000000-0000-0000-0000-000000000000 "
              "03000000-0000-0000-0000-000000000000\n"
              "04000000-0000-0000-0000-000000000000 05000000-0000-0000-0000-000000000000 "
              "06000000-0000-0000-0000-000000000000\n"
              "crc eddcafec\n");
    EXPECT_EQ(holders_in(encode_pin_list({})), std::vector<object::HolderName>{});
    const std::string with_ended = encode_pin_list({.holders = {second}, .ended = {first}});
    EXPECT_EQ(with_ended.substr(0, 17), "ros2store pins 2\n");
    EXPECT_EQ(with_ended.substr(17 + 111, 6), "ended\n");
    const std::string with_all = encode_pin_list(
        {.holders = {second}, .ended = {first}, .deferring = {second}, .exclusive = {second}});
    EXPECT_EQ(with_all.substr(0, 17), "ros2store pins 3\n");
    EXPECT_EQ(with_all.substr(17 + 111, 10), "deferring\n");
    EXPECT_EQ(with_all.substr(17 + 3 * 111 + 16, 6), "alone\n");
    for (const std::string& each : {with_ended, with_all}) {
        const auto list = decode_pin_list(each);
        ASSERT_TRUE(list);
        EXPECT_EQ(list->holders, std::vector{second});
        EXPECT_EQ(list->ended, std::vector{first});
        EXPECT_EQ(list->deferring.size(), each == with_all ? 1U : 0U);
        EXPECT_EQ(list->exclusive, list->deferring);
    }
    for (const std::string& each : {text, with_all}) {
        for (size_t i = 0; i < each.size(); ++i) {
            EXPECT_FALSE(decode_pin_list(std::string_view(each).substr(0, i))) << i;
            std::string damaged = each;
            damaged[i] ^= 1;
            EXPECT_FALSE(decode_pin_list(damaged)) << i;
        }
    }
}

}  // namespace
}  // namespace ros2s::engine
