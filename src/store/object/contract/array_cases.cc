// Arrays: extents over the borders of blocks and of the engine's 1 MiB segments, holes, sizes and
// the punches.
#include <algorithm>

#include "probe.h"

namespace ros2s::object::contract {
namespace {

constexpr ObjectId file{1, 2};
constexpr uint64_t mib = 1 << 20;

AkeyAddress chunk(const std::string& name) { return {file, name, "data"}; }

Task<> what_is_not_there_reads_as_zeros(Probe& probe) {
    co_await probe.expect_absent(chunk("a"));
    co_await probe.must(Batch().write(chunk("a"), 0, "x"));
    co_await probe.expect_absent(chunk("b"));
    co_await probe.expect_absent({file, "a", "other"});
    co_await probe.expect_absent({{1, 3}, "a", "data"});
}

Task<> reads_what_was_written(Probe& probe) {
    const Commit commit = co_await probe.must(Batch().write(chunk("a"), 0, "hello"));
    EXPECT_GT(commit.epoch.value, 0U);
    EXPECT_FALSE(commit.replayed);
    co_await probe.expect_array(chunk("a"), "hello");
    const Fetched got = co_await probe.fetch(chunk("a"), {1, 3});
    EXPECT_EQ(got.bytes, "ell");
    EXPECT_EQ(got.epoch, commit.epoch);
}

Task<> extents_of_any_alignment(Probe& probe) {
    const Extent extents[] = {{0, 1},
                              {1, 4095},
                              {4095, 2},
                              {4096, 4096},
                              {1, 8192},
                              {4000, 200},
                              {mib - 1, 2},
                              {mib - 4096, 8192},
                              {mib, 4096},
                              {mib + 123, 300'000},
                              {0, 3 * mib + 17},
                              {2 * mib - 5000, 10'000}};
    uint64_t seed = 1;
    for (const Extent extent : extents) {
        SCOPED_TRACE(testing::Message() << "[" << extent.offset << ", +" << extent.length << ")");
        const AkeyAddress address = chunk("d" + std::to_string(seed));
        std::string model;
        // First over nothing, then over it, then a middle part of it.
        for (const Extent part :
             {extent, extent, Extent{extent.offset + extent.length / 3, extent.length / 2}}) {
            const std::string bytes = pattern(++seed, part.length);
            overlay(model, part.offset, bytes);
            co_await probe.must(Batch().write(address, part.offset, bytes));
        }
        co_await probe.expect_array(address, model);
        const Fetched middle = co_await probe.fetch(address, extent);
        EXPECT_TRUE(middle.bytes == model.substr(extent.offset)) << "the extent alone";
        co_await probe.must(Batch().punch_akey(address));
    }
}

Task<> many_small_writes_make_one_array(Probe& probe) {
    std::string model;
    Random random(7);
    for (uint64_t i = 0; i < 200; ++i) {
        const uint64_t offset = random.below(20'000);
        const std::string bytes = pattern(i, 1 + random.below(3000));
        overlay(model, offset, bytes);
        co_await probe.must(Batch().write(chunk("a"), offset, bytes));
    }
    co_await probe.expect_array(chunk("a"), model);
}

Task<> holes_and_what_lies_beyond_the_end_are_zeros(Probe& probe) {
    const uint64_t far = 10 * mib + 5;
    co_await probe.must(Batch().write(chunk("a"), 3, "abc"));
    co_await probe.must(Batch().write(chunk("a"), far, "xyz"));
    const Fetched start = co_await probe.fetch(chunk("a"), {0, 8192});
    EXPECT_EQ(start.size, far + 3);
    std::string expected(8192, '\0');
    overlay(expected, 3, "abc");
    EXPECT_TRUE(start.bytes == expected);
    const Fetched hole = co_await probe.fetch(chunk("a"), {5 * mib - 1, 2 * mib});
    EXPECT_TRUE(hole.bytes == std::string(2 * mib, '\0'));
    const Fetched end = co_await probe.fetch(chunk("a"), {far - 1, 6});
    EXPECT_EQ(end.bytes, std::string("\0xyz\0\0", 6));
    const Fetched beyond = co_await probe.fetch(chunk("a"), {20 * mib, 5000});
    EXPECT_TRUE(beyond.status.has_value());
    EXPECT_TRUE(beyond.bytes == std::string(5000, '\0'));
    const QueryReply query = co_await probe.query(file, "data");
    EXPECT_EQ(query.bytes_used, 2 * block_bytes);
}

Task<> the_last_byte_of_the_largest_array(Probe& probe) {
    co_await probe.must(Batch().write(chunk("a"), array_bytes_max - 1, "z"));
    const Fetched got = co_await probe.fetch(chunk("a"), {array_bytes_max - 3, 3});
    EXPECT_EQ(got.size, array_bytes_max);
    EXPECT_EQ(got.bytes, std::string("\0\0z", 3));
    co_await probe.must(Batch().set_size(chunk("a"), 1));
    co_await probe.must(Batch().set_size(chunk("a"), array_bytes_max));
    const Fetched gone = co_await probe.fetch(chunk("a"), {array_bytes_max - 3, 3});
    EXPECT_EQ(gone.bytes, std::string(3, '\0'));
    co_await probe.must(Batch().punch_extent(chunk("a"), {0, array_bytes_max}));
    const QueryReply query = co_await probe.query(file, "data");
    EXPECT_EQ(query.bytes_used, 0U);
    EXPECT_EQ(query.size, array_bytes_max);
}

Task<> empty_requests(Probe& probe) {
    co_await probe.must(Batch().write(chunk("a"), 12345, ""));
    co_await probe.expect_array(chunk("a"), "");  // it exists, and its size is 0
    co_await probe.must(Batch().write(chunk("a"), 0, "abc"));
    co_await probe.must(Batch().write(chunk("a"), 100, ""));
    co_await probe.must(Batch().punch_extent(chunk("a"), {1, 0}));
    co_await probe.expect_array(chunk("a"), "abc");
    const Fetched nothing = co_await probe.fetch(chunk("a"), {1, 0});
    EXPECT_TRUE(nothing.status.has_value());
    EXPECT_EQ(nothing.size, 3U);
    const auto no_items = co_await probe.store().fetch(probe.call(), probe.container(), {});
    EXPECT_TRUE(no_items.has_value());
    const Commit empty = co_await probe.must(Batch());
    const Commit next = co_await probe.must(Batch().touch(chunk("a")));
    EXPECT_GT(next.epoch, empty.epoch);
}

Task<> punched_extents_are_holes(Probe& probe) {
    const Extent extents[] = {{0, 4096},      {4096, 8192},     {100, 50},   {4000, 200},
                              {1, 20'000},    {0, 100'000},     {99'999, 1}, {200'000, 4096},
                              {98'304, 4096}, {50'000, 500'000}};
    const std::string bytes = pattern(1, 100'000);
    for (const Extent extent : extents) {
        SCOPED_TRACE(testing::Message() << "[" << extent.offset << ", +" << extent.length << ")");
        std::string model = bytes;
        for (uint64_t i = extent.offset; i < std::min<uint64_t>(extent.end(), model.size()); ++i) {
            model[i] = '\0';
        }
        co_await probe.must(Batch().write(chunk("a"), 0, bytes));
        const Commit commit = co_await probe.must(Batch().punch_extent(chunk("a"), extent));
        co_await probe.expect_array(chunk("a"), model);
        const Fetched got = co_await probe.fetch(chunk("a"), {0, 1});
        EXPECT_EQ(got.epoch, commit.epoch);
    }
    co_await probe.must(Batch().punch_extent(chunk("absent"), {0, 4096}));
    co_await probe.expect_absent(chunk("absent"));
}

Task<> sizes_shrink_and_grow(Probe& probe) {
    const std::string bytes = pattern(2, 2 * mib + 100'000);
    for (const uint64_t size : {uint64_t{0}, uint64_t{1}, uint64_t{4096}, uint64_t{4097},
                                uint64_t{99'999}, mib, mib + 1, 2 * mib, 3 * mib}) {
        SCOPED_TRACE(size);
        std::string model = bytes;
        co_await probe.must(Batch().write(chunk("a"), 0, bytes));
        co_await probe.must(Batch().set_size(chunk("a"), size));
        model.resize(size, '\0');
        co_await probe.expect_array(chunk("a"), model);
        co_await probe.must(Batch().set_size(chunk("a"), bytes.size()));
        model.resize(bytes.size(), '\0');
        co_await probe.expect_array(chunk("a"), model);
        co_await probe.must(Batch().punch_akey(chunk("a")));
    }
    co_await probe.must(Batch().set_size(chunk("new"), 5000));
    co_await probe.expect_array(chunk("new"), std::string(5000, '\0'));
}

Task<> touch_makes_an_array_and_keeps_one(Probe& probe) {
    co_await probe.must(Batch().touch(chunk("a")));
    co_await probe.expect_array(chunk("a"), "");
    co_await probe.must(Batch().write(chunk("a"), 0, "abc"));
    const Commit commit = co_await probe.must(Batch().touch(chunk("a")));
    co_await probe.expect_array(chunk("a"), "abc");
    const Fetched got = co_await probe.fetch(chunk("a"), {0, 1});
    EXPECT_EQ(got.epoch, commit.epoch);
}

Task<> punches_take_what_they_name(Probe& probe) {
    const ObjectId other{9, 9};
    const auto fill = [&] {
        Batch batch;
        for (const ObjectId object : {file, other}) {
            for (const char* dkey : {"", "a", "b", "c"}) {
                for (const char* akey : {"x", "y"}) batch.write({object, dkey, akey}, 0, "1");
            }
        }
        return batch;
    };
    struct {
        Batch punch;
        std::vector<AkeyAddress> gone;
    } table[] = {
        {Batch().punch_akey({file, "a", "x"}), {{file, "a", "x"}}},
        {Batch().punch_dkey(file, "b"), {{file, "b", "x"}, {file, "b", "y"}}},
        {Batch().punch_dkey(file, ""), {{file, "", "x"}, {file, "", "y"}}},
        {Batch().punch_dkeys(file, "a", "c"),
         {{file, "a", "x"}, {file, "a", "y"}, {file, "b", "x"}, {file, "b", "y"}}},
        {Batch().punch_dkeys(file, "aa", ""),
         {{file, "b", "x"}, {file, "b", "y"}, {file, "c", "x"}, {file, "c", "y"}}},
        {Batch().punch_dkeys(file, "b", "b"), {}},
        {Batch().punch_akey({file, "nothing", "x"}), {}},
        {Batch().punch_dkey(file, "nothing"), {}},
        {Batch().punch_object({77, 77}), {}},
        {Batch().punch_object(file),
         {{file, "", "x"},
          {file, "", "y"},
          {file, "a", "x"},
          {file, "a", "y"},
          {file, "b", "x"},
          {file, "b", "y"},
          {file, "c", "x"},
          {file, "c", "y"}}},
    };
    int row = 0;
    for (auto& [punch, gone] : table) {
        SCOPED_TRACE(row++);
        co_await probe.must(fill());
        co_await probe.must(std::move(punch));
        for (const ObjectId object : {file, other}) {
            for (const char* dkey : {"", "a", "b", "c"}) {
                for (const char* akey : {"x", "y"}) {
                    const AkeyAddress address{object, dkey, akey};
                    const bool absent = std::ranges::find(gone, address) != gone.end();
                    if (absent) {
                        co_await probe.expect_absent(address);
                    } else {
                        co_await probe.expect_array(address, "1");
                    }
                }
            }
        }
    }
}

Task<> a_batch_of_items_has_a_status_each(Probe& probe) {
    co_await probe.must(Batch().write(chunk("a"), 0, "array").put({file, "a", "value"}, "value"));
    std::string into(7 * 16, '?');
    const auto window = [&](size_t i) {
        return Window::local(std::as_writable_bytes(std::span(into)).subspan(i * 16, 16));
    };
    FetchItem items[] = {
        {.object = file, .dkey = {"a"}, .akey = {"data"}, .extent = {0, 5}, .window = window(0)},
        {.object = file, .dkey = {"b"}, .akey = {"data"}, .extent = {0, 5}, .window = window(1)},
        {.object = file, .dkey = {"a"}, .akey = {"value"}, .extent = {0, 16}, .window = window(2)},
        {.object = file, .dkey = {"a"}, .akey = {"value"}, .extent = {0, 4}, .window = window(3)},
        {.object = file, .dkey = {"a"}, .akey = {"value"}, .extent = {1, 15}, .window = window(4)},
        {.object = file, .dkey = {"a"}, .akey = {"data"}, .extent = {0, 17}, .window = window(5)},
        {.object = file, .dkey = {"a"}, .akey = {"data"}, .extent = {2, 5}, .window = window(6)},
    };
    const auto fetched = co_await probe.store().fetch(probe.call(), probe.container(), items);
    EXPECT_TRUE(fetched.has_value());
    EXPECT_TRUE(items[0].status.has_value());
    EXPECT_EQ(items[1].status, Result<>(fail(Code::not_found)));
    EXPECT_TRUE(items[2].status.has_value());
    EXPECT_EQ(items[2].size, 5U);
    EXPECT_EQ(items[3].status, Result<>(fail(Code::too_small, 5)));
    EXPECT_EQ(items[4].status, Result<>(fail(Code::invalid)));
    EXPECT_EQ(items[5].status, Result<>(fail(Code::invalid)));
    EXPECT_TRUE(items[6].status.has_value());
    std::string expected(7 * 16, '?');
    overlay(expected, 0, "array");
    overlay(expected, 16, std::string(5, '\0'));
    overlay(expected, 32, "value");
    overlay(expected, 96, std::string("ray\0\0", 5));
    EXPECT_EQ(into, expected);
    // The items are reused, as a client does: nothing of the last request remains.
    items[1].dkey = {"a"};
    items[0].dkey = {"b"};
    const auto again = co_await probe.store().fetch(probe.call(), probe.container(), items);
    EXPECT_TRUE(again.has_value());
    EXPECT_EQ(items[0].status, Result<>(fail(Code::not_found)));
    EXPECT_EQ(items[0].size, 0U);
    EXPECT_TRUE(items[0].checksums.empty());
    EXPECT_TRUE(items[1].status.has_value());
    EXPECT_EQ(items[1].size, 5U);
}

Task<> the_most_items_in_one_fetch(Probe& probe) {
    std::string into(fetch_items_max, '?');
    std::vector<FetchItem> items(fetch_items_max);
    co_await probe.must(Batch().write(chunk("a"), 0, pattern(3, fetch_items_max)));
    for (size_t i = 0; i < items.size(); ++i) {
        items[i] = {.object = file, .dkey = {"a"}, .akey = {"data"}, .extent = {i, 1}};
        items[i].window = Window::local(std::as_writable_bytes(std::span(into)).subspan(i, 1));
    }
    const auto fetched = co_await probe.store().fetch(probe.call(), probe.container(), items);
    EXPECT_TRUE(fetched.has_value());
    EXPECT_TRUE(into == pattern(3, fetch_items_max));
}

}  // namespace

std::vector<Case> array_cases() {
    return {{"AbsentArrayReadsAsZeros", what_is_not_there_reads_as_zeros},
            {"WrittenBytesAreReadBack", reads_what_was_written},
            {"ExtentOfAnyAlignmentIsReadBack", extents_of_any_alignment},
            {"ManySmallWritesMakeOneArray", many_small_writes_make_one_array},
            {"HolesAndBytesBeyondTheEndAreZeros", holes_and_what_lies_beyond_the_end_are_zeros},
            {"LastByteOfTheLargestArrayIsReadBack", the_last_byte_of_the_largest_array},
            {"EmptyRequestChangesNoBytes", empty_requests},
            {"PunchedExtentsAreHoles", punched_extents_are_holes},
            {"SizeShrinksAndGrows", sizes_shrink_and_grow},
            {"TouchCreatesAnArrayAndKeepsItsBytes", touch_makes_an_array_and_keeps_one},
            {"PunchRemovesOnlyItsKeys", punches_take_what_they_name},
            {"EachItemOfABatchHasAStatus", a_batch_of_items_has_a_status_each},
            {"LargestNumberOfItemsIsFetched", the_most_items_in_one_fetch}};
}

}  // namespace ros2s::object::contract
