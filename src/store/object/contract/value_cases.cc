// Single values; an akey is either a single value or an array.
#include "probe.h"

namespace ros2s::object::contract {
namespace {

constexpr ObjectId directory{5, 6};
const AkeyAddress address{directory, "name", "inode"};

Task<> values_of_all_sizes(Probe& probe) {
    for (const size_t size : {size_t{0}, size_t{1}, size_t{100}, size_t{4095}, size_t{4096},
                              size_t{4097}, value_bytes_max - 1, value_bytes_max}) {
        SCOPED_TRACE(size);
        const Commit commit = co_await probe.must(Batch().put(address, pattern(size, size)));
        co_await probe.expect_value(address, pattern(size, size));
        const Fetched got = co_await probe.fetch(address, {0, size});
        EXPECT_EQ(got.epoch, commit.epoch);
    }
}

Task<> a_value_is_replaced_whole(Probe& probe) {
    co_await probe.must(Batch().put(address, "a long one"));
    co_await probe.must(Batch().put(address, "short"));
    co_await probe.expect_value(address, "short");
    const QueryReply query = co_await probe.query(directory, "inode");
    EXPECT_EQ(query.size, 5U);
    EXPECT_EQ(query.bytes_used, 0U);
}

Task<> too_small_a_window_gets_nothing(Probe& probe) {
    co_await probe.must(Batch().put(address, "0123456789"));
    const Fetched got = co_await probe.fetch(address, {0, 9});
    EXPECT_EQ(got.status, Result<>(fail(Code::too_small, 10)));
    EXPECT_EQ(got.bytes, std::string(9, '\xee'));
    EXPECT_EQ(got.size, 10U);
}

Task<> values_are_read_from_their_start(Probe& probe) {
    co_await probe.must(Batch().put(address, "0123456789"));
    const Fetched got = co_await probe.fetch(address, {1, 20});
    EXPECT_EQ(got.status, Result<>(fail(Code::invalid)));
}

Task<> an_akey_is_an_array_or_a_value(Probe& probe) {
    const AkeyAddress array{directory, "name", "data"};
    co_await probe.must(Batch().put(address, "value").write(array, 0, "array"));
    co_await probe.refused(Batch().put(array, "x"), Code::invalid);
    co_await probe.refused(Batch().write(address, 0, "x"), Code::invalid);
    co_await probe.refused(Batch().set_size(address, 1), Code::invalid);
    co_await probe.refused(Batch().touch(address), Code::invalid);
    co_await probe.refused(Batch().punch_extent(address, {0, 1}), Code::invalid);
    co_await probe.expect_value(address, "value");
    co_await probe.expect_array(array, "array");
    co_await probe.must(Batch().punch_akey(address).write(address, 0, "now an array"));
    co_await probe.must(Batch().punch_dkey(directory, "name").put(array, "now a value"));
    co_await probe.expect_absent(address);
    co_await probe.expect_value(array, "now a value");
}

}  // namespace

std::vector<Case> value_cases() {
    return {{"ValueOfAnySizeIsReadBack", values_of_all_sizes},
            {"ValueIsReplacedAsAWhole", a_value_is_replaced_whole},
            {"TooSmallWindowReceivesNothing", too_small_a_window_gets_nothing},
            {"ReadInsideAValueIsRefused", values_are_read_from_their_start},
            {"AkeyIsEitherAnArrayOrAValue", an_akey_is_an_array_or_a_value}};
}

}  // namespace ros2s::object::contract
