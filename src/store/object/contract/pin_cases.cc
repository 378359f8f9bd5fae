// Pins: other holders cannot punch a pinned object under the condition `unpinned`. Only a holder
// that has pinned an object can write to it under `pinned`.
#include "probe.h"
#include "ros2s/object/test_support/batch.h"
#include "ros2s/runtime/nursery.h"

namespace ros2s::object::contract {
namespace {

const AkeyAddress inode{one, ".", "inode"};
const AkeyAddress data{one, "0", "data"};
const AkeyAddress other_inode{two, ".", "inode"};

Holder holder(uint8_t number, uint64_t session = 0) {
    Holder one;
    one.client.bytes[0] = number;
    one.session = session;
    return one;
}

Task<Result<>> pin(Probe& probe, Holder by, AkeyAddress address) {
    std::string bytes(8, '?');
    auto item = object::fetch_item(address.object, {address.dkey}, {address.akey}, 0,
                                   std::as_writable_bytes(std::span(bytes)));
    ROS2S_CO_TRY(co_await probe.store().pin(probe.call(), probe.container(), by, item));
    if (item.status) EXPECT_EQ(bytes.substr(0, item.size), "record");
    co_return item.status;
}
Task<> must_pin(Probe& probe, Holder by, AkeyAddress address) {
    EXPECT_TRUE(co_await pin(probe, by, address));
}
Task<> expect_unpin(Probe& probe, Holder by, ObjectId object, bool is_wanted) {
    const auto wanted = co_await probe.store().unpin(probe.call(), probe.container(), by, object);
    EXPECT_EQ(wanted, Result<bool>(is_wanted));
}
Batch punch_by(Holder by, ObjectId object) {
    return Batch()
        .by(by)
        .condition(Condition::Kind::unpinned, {object, "", ""})
        .punch_object(object);
}
// Removes the record alone, as the first step of a large removal does.
Batch punch_record_by(Holder by, ObjectId object) {
    return Batch()
        .by(by)
        .condition(Condition::Kind::unpinned, {object, "", ""})
        .punch_dkey(object, ".");
}
Batch write_by(Holder by, const AkeyAddress& address, std::string bytes) {
    return Batch()
        .by(by)
        .condition(Condition::Kind::pinned, {address.object, "", ""})
        .write(address, 0, std::move(bytes));
}

Task<> what_is_pinned_is_not_punched_by_others(Probe& probe) {
    co_await probe.must(
        Batch().put(inode, "record").put(other_inode, "record").write(data, 0, "abc"));
    co_await must_pin(probe, holder(1), inode);
    co_await must_pin(probe, holder(1), inode);  // the same as once
    co_await must_pin(probe, holder(2), inode);
    co_await probe.refused(punch_by(holder(3), one), Code::condition_failed);
    co_await probe.refused(punch_by(holder(1), one), Code::condition_failed);
    co_await probe.expect_array(data, "abc");
    co_await probe.must(punch_by(holder(3), two));
    co_await expect_unpin(probe, holder(1), one, false);  // not the last
    co_await expect_unpin(probe, holder(1), one, false);  // does not exist
    co_await probe.must(punch_by(holder(2), one));        // its own does not count
    co_await probe.expect_absent(data);
    co_await expect_unpin(probe, holder(2), one, true);
}

Task<> the_last_who_unpins_hears_that_it_is_wanted(Probe& probe) {
    co_await probe.must(Batch().put(inode, "record"));
    co_await must_pin(probe, holder(1), inode);
    co_await expect_unpin(probe, holder(1), one, false);
    co_await must_pin(probe, holder(1), inode);
    co_await probe.refused(punch_by(holder(2), one), Code::condition_failed);
    co_await expect_unpin(probe, holder(1), one, true);
    co_await probe.must(punch_by(holder(2), one));
}

Task<> what_is_not_there_is_not_pinned(Probe& probe) {
    EXPECT_EQ(co_await pin(probe, holder(1), inode), Result<>(fail(Code::not_found)));
    co_await probe.refused(write_by(holder(1), data, "abc"), Code::condition_failed);
    co_await probe.must(punch_by(holder(2), one));
}

Task<> who_has_pinned_writes(Probe& probe) {
    co_await probe.must(Batch().put(inode, "record"));
    co_await must_pin(probe, holder(1), inode);
    co_await probe.must(write_by(holder(1), data, "abc"));
    co_await probe.refused(write_by(holder(2), data, "xyz"), Code::condition_failed);
    // If two conditions fail, the error names the one that is not about pins.
    co_await probe.refused(write_by(holder(2), data, "xyz").absent(inode), Code::condition_failed,
                           1);
    co_await expect_unpin(probe, holder(1), one, false);
    co_await probe.refused(write_by(holder(1), data, "xyz"), Code::condition_failed);
    co_await probe.expect_array(data, "abc");
}

Task<> what_was_done_is_answered_without_the_pin(Probe& probe) {
    const UpdateName id{holder(1).client, 0, 1, {}, 77};
    co_await probe.must(Batch().put(inode, "record"));
    co_await must_pin(probe, holder(1), inode);
    co_await probe.must(write_by(holder(1), data, "abc").id(id));
    co_await expect_unpin(probe, holder(1), one, false);
    EXPECT_TRUE((co_await probe.must(write_by(holder(1), data, "abc").id(id))).replayed);
}

Task<> pin_into(Probe& probe, AkeyAddress address, Result<>& result) {
    result = co_await pin(probe, holder(1), std::move(address));
}
Task<> punch_into(Probe& probe, Batch punch, Result<Commit>& result) {
    result = co_await probe.update(std::move(punch));
}

// The first one wins, and the other one gets an error.
Task<> a_pin_and_a_punch_at_once(Probe& probe) {
    for (uint64_t i = 0; i < 120; ++i) {
        const AkeyAddress address{{7, i}, ".", "inode"};
        const auto punch = i < 60 ? punch_by : punch_record_by;
        co_await probe.must(Batch().put(address, "record"));
        Result<> pinned;
        Result<Commit> punched;
        // The second one begins at a random point of the first.
        const auto delay = std::chrono::microseconds(10 * (i % 60));
        Nursery nursery(probe.reactor(), 2);
        if (i % 2 == 0) co_await nursery.spawn(pin_into(probe, address, pinned));
        if (i % 2 == 0) co_await sleep_for(probe.reactor(), delay);
        co_await nursery.spawn(punch_into(probe, punch(holder(2), address.object), punched));
        if (i % 2 == 1) co_await sleep_for(probe.reactor(), delay);
        if (i % 2 == 1) co_await nursery.spawn(pin_into(probe, address, pinned));
        co_await nursery.join();
        EXPECT_NE(pinned.has_value(), punched.has_value()) << i;
        const Result<Commit> written = co_await probe.update(write_by(holder(1), address, "x"));
        if (!pinned) EXPECT_EQ(written, Result<Commit>(fail(Code::condition_failed)));
    }
}

// A transaction pins the objects that it creates before they become visible. A failed or repeated
// transaction pins nothing.
Task<> a_transaction_pins(Probe& probe) {
    const UpdateName id{holder(1).client, 0, 1, {}, 77};
    const auto make = [&] {
        return Batch()
            .by(holder(1))
            .absent(inode)
            .condition(Condition::Kind::pin, {one, "", ""})
            .put(inode, "record")
            .id(id);
    };
    // Only objects that it creates, and only a few.
    co_await probe.refused(Batch().by(holder(1)).condition(Condition::Kind::pin, {one, "", ""}),
                           Code::invalid);
    Batch many;
    many.by(holder(1)).put(inode, "record");
    for (size_t i = 0; i <= transaction_pins_max; ++i) {
        many.condition(Condition::Kind::pin, {one, "", ""});
    }
    co_await probe.refused(std::move(many), Code::too_large);
    co_await probe.must(make());
    co_await probe.refused(punch_by(holder(2), one), Code::condition_failed);
    co_await probe.must(write_by(holder(1), data, "abc"));
    co_await expect_unpin(probe, holder(1), one, true);
    EXPECT_TRUE((co_await probe.must(make())).replayed);
    co_await probe.refused(write_by(holder(1), data, "xyz"), Code::condition_failed);
    co_await probe.refused(make().id({}), Code::condition_failed);
    co_await probe.refused(write_by(holder(1), data, "xyz"), Code::condition_failed);
    co_await probe.must(punch_by(holder(2), one));
}

// In this process: a server's clients do not name their session.
Task<> a_session_takes_its_pins_with_it(Probe& probe) {
    if (probe.store().pins_era() != 0) co_return;
    co_await probe.must(Batch().put(inode, "record"));
    co_await must_pin(probe, holder(1, 5), inode);
    co_await must_pin(probe, holder(1, 6), inode);
    probe.store().session_ended(5);
    co_await probe.refused(write_by(holder(1, 5), data, "abc"), Code::condition_failed);
    co_await probe.refused(punch_by(holder(2), one), Code::condition_failed);
    probe.store().session_ended(6);
    co_await probe.must(punch_by(holder(2), one));
}

}  // namespace

std::vector<Case> pin_cases() {
    return {
        {"PinnedObjectIsNotPunchedByOthers",
         what_is_pinned_is_not_punched_by_others,
         {},
         has_conditions},
        {"LastUnpinReportsARefusedPunch",
         the_last_who_unpins_hears_that_it_is_wanted,
         {},
         has_conditions},
        {"AbsentObjectIsNotPinned", what_is_not_there_is_not_pinned, {}, has_conditions},
        {"OnlyAHolderOfAPinWrites", who_has_pinned_writes, {}, has_conditions},
        {"RepeatedWriteIsAnsweredWithoutThePin",
         what_was_done_is_answered_without_the_pin,
         {},
         has_replies},
        {"TransactionPinsItsNewObjects",
         a_transaction_pins,
         {},
         [](const Features& features) { return features.stored_replies && features.chains; }},
        {"ConcurrentPinAndPunchExcludeEachOther", a_pin_and_a_punch_at_once, {}, has_conditions},
        {"EndedSessionLosesItsPins", a_session_takes_its_pins_with_it, {}, has_conditions},
    };
}

}  // namespace ros2s::object::contract
