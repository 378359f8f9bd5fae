// Conditions: the meaning of each. They see the state before the transaction, and a failed one
// leaves no effect.
#include "probe.h"

namespace ros2s::object::contract {
namespace {

const AkeyAddress given_array{one, "dkey", "array"};
const AkeyAddress given_value{one, "dkey", "value"};
const AkeyAddress absent_akey{one, "dkey", "absent"};
const AkeyAddress absent_dkey{one, "other", "array"};
const AkeyAddress result{two, "r", "r"};

AkeyAddress dkey_of(const AkeyAddress& address) { return {address.object, address.dkey, ""}; }

Task<> holds(Probe& probe, Batch batch) { co_await probe.must(std::move(batch)); }
Task<> fails(Probe& probe, Batch batch) {
    const Fetched before = co_await probe.fetch(result, {0, 100});
    batch.put(result, "changed");
    co_await probe.refused(std::move(batch), Code::condition_failed);
    const Fetched after = co_await probe.fetch(result, {0, 100});
    EXPECT_EQ(before.epoch, after.epoch);
    EXPECT_EQ(before.bytes, after.bytes);
}

Task<> exists_and_absent(Probe& probe) {
    co_await probe.must(Batch().write(given_array, 0, "a").put(given_value, ""));
    for (const AkeyAddress& there : {given_array, given_value, dkey_of(given_array)}) {
        co_await holds(probe, Batch().exists(there));
        co_await fails(probe, Batch().absent(there));
    }
    for (const AkeyAddress& not_there : {absent_akey, absent_dkey, dkey_of(absent_dkey),
                                         AkeyAddress{two, "x", ""}, AkeyAddress{two, "", "x"}}) {
        co_await holds(probe, Batch().absent(not_there));
        co_await fails(probe, Batch().exists(not_there));
    }
    co_await probe.must(Batch().punch_akey(given_array));
    co_await holds(probe, Batch().exists(dkey_of(given_array)).absent(given_array));
    co_await probe.must(Batch().punch_akey(given_value));
    co_await holds(probe, Batch().absent(dkey_of(given_array)));
}

Task<> epoch_equals(Probe& probe) {
    co_await holds(probe, Batch().epoch_equals(given_array, {0}));
    const Commit first = co_await probe.must(Batch().write(given_array, 0, "a"));
    co_await fails(probe, Batch().epoch_equals(given_array, {0}));
    co_await holds(probe, Batch().epoch_equals(given_array, first.epoch));
    // Changes of its neighbours do not change it.
    co_await probe.must(Batch().put(given_value, "v"));
    co_await holds(probe, Batch().epoch_equals(given_array, first.epoch));
    const Commit second = co_await probe.must(Batch().set_size(given_array, 1));
    co_await fails(probe, Batch().epoch_equals(given_array, first.epoch));
    co_await holds(probe, Batch().epoch_equals(given_array, second.epoch));
    co_await probe.must(Batch().punch_object(one));
    co_await holds(probe, Batch().epoch_equals(given_array, {0}));
}

Task<> size_equals(Probe& probe) {
    co_await holds(probe, Batch().size_equals(given_array, 0));
    co_await probe.must(Batch().set_size(given_array, 5000).put(given_value, "12345"));
    co_await holds(probe, Batch().size_equals(given_array, 5000).size_equals(given_value, 5));
    co_await fails(probe, Batch().size_equals(given_array, 4999));
    co_await fails(probe, Batch().size_equals(given_value, 0));
    co_await probe.must(Batch().punch_akey(given_array));
    co_await holds(probe, Batch().size_equals(given_array, 0));
}

Task<> no_dkeys(Probe& probe) {
    co_await holds(probe, Batch().no_dkeys(one, "array"));
    co_await probe.must(Batch().touch(given_array));
    co_await fails(probe, Batch().no_dkeys(one, "array"));
    co_await holds(probe, Batch().no_dkeys(one, "value").no_dkeys(two, "array"));
    co_await probe.must(Batch().touch({one, "", "array"}).touch({one, "z", "array"}));
    co_await probe.must(Batch().punch_akey(given_array).punch_dkey(one, "z"));
    co_await fails(probe, Batch().no_dkeys(one, "array"));
    co_await probe.must(Batch().punch_dkey(one, ""));
    co_await holds(probe, Batch().no_dkeys(one, "array"));
}

Task<> the_first_that_fails_is_named(Probe& probe) {
    co_await probe.must(Batch().touch(given_array));
    co_await probe.refused(Batch()
                               .exists(given_array)
                               .size_equals(given_array, 0)
                               .absent(given_array)
                               .exists(given_value)
                               .touch(result),
                           Code::condition_failed, 2);
    const auto first = co_await probe.update(Batch().absent(given_array).exists(given_value));
    EXPECT_EQ(first, Result<Commit>(fail(Code::condition_failed, 0)));
    co_await probe.expect_absent(result);
}

Task<> they_see_the_state_before(Probe& probe) {
    co_await probe.must(Batch()
                            .absent(given_array)
                            .absent(given_value)
                            .write(given_array, 0, "a")
                            .put(given_value, "v"));
    co_await probe.must(Batch().exists(given_array).punch_akey(given_array));
    co_await probe.must(
        Batch().absent(given_array).exists(given_value).punch_object(one).touch(given_array));
    co_await probe.expect_array(given_array, "");
}

Task<> a_chain_of_updates_by_epoch(Probe& probe) {
    Epoch epoch{};
    for (int i = 0; i < 50; ++i) {
        const Commit commit = co_await probe.must(
            Batch().epoch_equals(given_value, epoch).put(given_value, std::to_string(i)));
        EXPECT_GT(commit.epoch, epoch);
        epoch = commit.epoch;
    }
    co_await probe.expect_value(given_value, "49");
}

}  // namespace

std::vector<Case> condition_cases() {
    return {{"ExistsAndAbsentTestTheKeys", exists_and_absent, {}, has_conditions},
            {"EpochEqualsTestsTheLastChange", epoch_equals, {}, has_conditions},
            {"SizeEqualsTestsArraysAndValues", size_equals, {}, has_conditions},
            {"NoDkeysTestsOneAkey", no_dkeys, {}, has_conditions},
            {"FirstFailedConditionIsNamed", the_first_that_fails_is_named, {}, has_conditions},
            {"ConditionsTestTheStateBefore", they_see_the_state_before, {}, has_conditions},
            {"UpdatesChainedByEpochSucceed", a_chain_of_updates_by_epoch, {}, has_conditions}};
}

}  // namespace ros2s::object::contract
