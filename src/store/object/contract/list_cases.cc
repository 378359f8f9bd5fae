// list and query: order, pages, filters, and the conditions that hold during concurrent writes.
#include <algorithm>

#include "probe.h"
#include "ros2s/runtime/nursery.h"

namespace ros2s::object::contract {
namespace {

constexpr ObjectId listed{3, 4};
using What = ListRequest::What;

std::vector<std::string> keys_of(const std::vector<ListEntry>& entries) {
    std::vector<std::string> keys;
    for (const ListEntry& entry : entries) keys.push_back(entry.key);
    return keys;
}

Task<> dkeys_come_as_unsigned_bytes(Probe& probe) {
    std::vector<std::string> keys = {"",
                                     std::string(1, '\0'),
                                     std::string(2, '\0'),
                                     "a",
                                     std::string("a\0", 2),
                                     std::string("a\0\xff", 3),
                                     "a\1",
                                     "ab",
                                     "a\xff",
                                     "b",
                                     Dkey::integer(1).bytes,
                                     Dkey::integer(256).bytes,
                                     "\x7f",
                                     "\x80",
                                     "\xff",
                                     "\xff\xff",
                                     std::string(255, '\xff')};
    Batch batch;
    for (const std::string& key : keys) batch.put({listed, key, "inode"}, "v" + key);
    co_await probe.must(std::move(batch));
    std::ranges::sort(keys, [](const std::string& a, const std::string& b) {
        return std::ranges::lexicographical_compare(
            a, b, {}, [](char c) { return static_cast<uint8_t>(c); },
            [](char c) { return static_cast<uint8_t>(c); });
    });
    for (const uint32_t limit : {1, 2, 5, 17, 18, 1024}) {
        SCOPED_TRACE(limit);
        const std::vector<ListEntry> all = co_await probe.list_all(
            {.what = What::dkeys, .object = listed, .akey = {"inode"}, .limit = limit});
        EXPECT_EQ(keys_of(all), keys);
        for (const ListEntry& entry : all) EXPECT_EQ(entry.value, "v" + entry.key);
    }
    const QueryReply query = co_await probe.query(listed, "inode");
    EXPECT_EQ(query.highest_dkey.bytes, keys.back());
}

Task<> pages_start_behind_a_key(Probe& probe) {
    Batch batch;
    for (const char* key : {"b", "d", "f"}) batch.touch({listed, key, "a"});
    co_await probe.must(std::move(batch));
    const struct {
        std::optional<std::string> after;
        uint32_t limit;
        std::vector<std::string> keys;
        bool more;
    } table[] = {{std::nullopt, 2, {"b", "d"}, true},
                 {std::nullopt, 3, {"b", "d", "f"}, false},
                 {"", 9, {"b", "d", "f"}, false},
                 {"b", 1, {"d"}, true},
                 {"c", 9, {"d", "f"}, false},
                 {"e", 1, {"f"}, false},
                 {"f", 9, {}, false},
                 {"zz", 9, {}, false}};
    for (const auto& [after, limit, keys, more] : table) {
        for (const char* akey : {"", "a"}) {
            const ListReply reply = co_await probe.list({.what = What::dkeys,
                                                         .object = listed,
                                                         .akey = {akey},
                                                         .after = after,
                                                         .limit = limit});
            EXPECT_EQ(keys_of(reply.entries), keys);
            EXPECT_EQ(reply.more, more);
        }
    }
}

Task<> dkeys_by_akey(Probe& probe) {
    const Commit first = co_await probe.must(
        Batch().put({listed, "both", "inode"}, "1").put({listed, "inode", "inode"}, "2"));
    const Commit second = co_await probe.must(
        Batch().write({listed, "both", "data"}, 0, "x").touch({listed, "data", "data"}));
    std::vector<ListEntry> all = co_await probe.list_all({.what = What::dkeys, .object = listed});
    EXPECT_EQ(keys_of(all), (std::vector<std::string>{"both", "data", "inode"}));
    EXPECT_EQ(all[0].epoch, second.epoch);
    EXPECT_EQ(all[2].epoch, first.epoch);
    EXPECT_EQ(all[2].value, "");
    all = co_await probe.list_all({.what = What::dkeys, .object = listed, .akey = {"inode"}});
    EXPECT_EQ(keys_of(all), (std::vector<std::string>{"both", "inode"}));
    EXPECT_EQ(all[0].value, "1");
    EXPECT_EQ(all[0].epoch, first.epoch);
    all = co_await probe.list_all({.what = What::dkeys, .object = listed, .akey = {"data"}});
    EXPECT_EQ(keys_of(all), (std::vector<std::string>{"both", "data"}));
    EXPECT_EQ(all[0].value, "");
    all = co_await probe.list_all({.what = What::dkeys, .object = listed, .akey = {"none"}});
    EXPECT_TRUE(all.empty());
    co_await probe.must(Batch().punch_dkey(listed, "both"));
    all = co_await probe.list_all({.what = What::dkeys, .object = listed});
    EXPECT_EQ(keys_of(all), (std::vector<std::string>{"data", "inode"}));
}

Task<> akeys_and_objects(Probe& probe) {
    Batch batch;
    for (const char* akey : {"c", "a", "b"}) batch.put({listed, "d", akey}, "v");
    batch.put({listed, "e", "z"}, "v");
    batch.touch({{0, 7}, "", "a"}).touch({{0, 256}, "", "a"}).touch({{1, 0}, "", "a"});
    batch.touch({{~uint64_t{0}, 1}, "", "a"});
    const Commit commit = co_await probe.must(std::move(batch));
    for (const uint32_t limit : {1, 2, 3, 1024}) {
        const auto akeys = co_await probe.list_all(
            {.what = What::akeys, .object = listed, .dkey = {"d"}, .limit = limit});
        EXPECT_EQ(keys_of(akeys), (std::vector<std::string>{"a", "b", "c"}));
        EXPECT_EQ(akeys[0].epoch, commit.epoch);
        const auto objects = co_await probe.list_all({.what = What::objects, .limit = limit});
        std::vector<ObjectId> ids;
        for (const ListEntry& entry : objects) ids.push_back(parse_object_key(entry.key));
        EXPECT_EQ(ids,
                  (std::vector<ObjectId>{{0, 7}, {0, 256}, {1, 0}, listed, {~uint64_t{0}, 1}}));
    }
    co_await probe.must(Batch().punch_akey({{0, 7}, "", "a"}).punch_object({1, 0}));
    const auto objects = co_await probe.list_all({.what = What::objects});
    EXPECT_EQ(objects.size(), 3U);
    const auto none = co_await probe.list_all({.what = What::akeys, .object = {8, 8}});
    EXPECT_TRUE(none.empty());
}

Task<> a_large_directory(Probe& probe) {
    constexpr uint64_t count = 3000;
    for (uint64_t base = 0; base < count; base += 500) {
        Batch batch;
        for (uint64_t i = base; i < base + 500; ++i) {
            batch.put({listed, "name-" + std::to_string(100'000 + i * 7 % count), "inode"},
                      std::to_string(i));
        }
        co_await probe.must(std::move(batch));
    }
    const auto all = co_await probe.list_all(
        {.what = What::dkeys, .object = listed, .akey = {"inode"}, .limit = 100});
    EXPECT_EQ(all.size(), count);
    EXPECT_TRUE(std::ranges::is_sorted(all, std::less<>{}, &ListEntry::key));
    const QueryReply query = co_await probe.query(listed, "inode");
    EXPECT_EQ(query.highest_dkey.bytes, "name-102999");
}

Task<> query_follows_every_change(Probe& probe) {
    const auto address = [](uint64_t n) {
        return AkeyAddress{listed, Dkey::integer(n).bytes, "data"};
    };
    QueryReply query = co_await probe.query(listed, "data");
    EXPECT_FALSE(query.exists);
    EXPECT_EQ(query.last_epoch, Epoch{});
    Commit commit = co_await probe.must(Batch().write(address(3), 0, pattern(1, 5000)));
    query = co_await probe.query(listed, "data");
    EXPECT_TRUE(query.exists);
    EXPECT_EQ(query.highest_dkey, Dkey::integer(3));
    EXPECT_EQ(query.size, 5000U);
    EXPECT_EQ(query.last_epoch, commit.epoch);
    EXPECT_EQ(query.last_time, commit.time);
    EXPECT_EQ(query.bytes_used, 2 * block_bytes);
    commit = co_await probe.must(Batch().write(address(1), 0, pattern(2, 4096)));
    query = co_await probe.query(listed, "data");
    EXPECT_EQ(query.highest_dkey, Dkey::integer(3));
    EXPECT_EQ(query.last_epoch, commit.epoch);
    EXPECT_EQ(query.bytes_used, 3 * block_bytes);
    commit = co_await probe.must(Batch().set_size(address(9), 77));
    query = co_await probe.query(listed, "data");
    EXPECT_EQ(query.highest_dkey, Dkey::integer(9));
    EXPECT_EQ(query.size, 77U);
    commit = co_await probe.must(Batch().punch_akey(address(9)));
    query = co_await probe.query(listed, "data");
    EXPECT_EQ(query.highest_dkey, Dkey::integer(3));
    EXPECT_EQ(query.size, 5000U);
    EXPECT_EQ(query.last_epoch, commit.epoch);
    // Operations without effect, and those on another akey, leave no trace.
    co_await probe.must(Batch().punch_akey(address(9)).punch_dkey(listed, "nothing"));
    co_await probe.must(Batch().put({listed, Dkey::integer(3).bytes, "other"}, "x"));
    co_await probe.must(Batch().punch_extent(address(9), {0, 10}));
    query = co_await probe.query(listed, "data");
    EXPECT_EQ(query.last_epoch, commit.epoch);
    commit = co_await probe.must(Batch().punch_dkeys(listed, Dkey::integer(2).bytes, ""));
    query = co_await probe.query(listed, "data");
    EXPECT_EQ(query.highest_dkey, Dkey::integer(1));
    EXPECT_EQ(query.bytes_used, block_bytes);
    EXPECT_EQ(query.last_epoch, commit.epoch);
    commit = co_await probe.must(Batch().punch_dkey(listed, Dkey::integer(1).bytes));
    query = co_await probe.query(listed, "data");
    EXPECT_FALSE(query.exists);
    EXPECT_EQ(query.size, 0U);
    EXPECT_EQ(query.last_epoch, commit.epoch);
    EXPECT_EQ(query.bytes_used, 0U);
    co_await probe.must(Batch().touch(address(1)));
    co_await probe.must(Batch().punch_object(listed));
    query = co_await probe.query(listed, "data");
    EXPECT_FALSE(query.exists);
    EXPECT_EQ(query.last_epoch, Epoch{});
    EXPECT_EQ(query.last_time, WallTime{});
}

// The object has no entries any more, and the transaction only checks this. Remains of the object
// may be removed a little later.
Task<> a_condition_forgets_nothing(Probe& probe) {
    const AkeyAddress gone{listed, "d", "data"};
    co_await probe.must(Batch().put(gone, "x"));
    const Commit commit = co_await probe.must(Batch().punch_akey(gone));
    co_await probe.must(Batch().absent(gone).put({one, "d", "data"}, "y"));
    for (int i = 0; i < 20; ++i) {
        const QueryReply query = co_await probe.query(listed, "data");
        EXPECT_FALSE(query.exists);
        EXPECT_EQ(query.last_epoch, commit.epoch);
        EXPECT_EQ(query.last_time, commit.time);
        co_await yield(probe.reactor());
    }
}

Task<> come_and_go(Probe& probe, uint64_t seed, const bool& stop) {
    Random random(seed);
    while (!stop) {
        const AkeyAddress address{listed, "m" + std::to_string(random.below(1000)), "inode"};
        if (random.one_in(2)) {
            co_await probe.must(Batch().put(address, "x"));
        } else {
            co_await probe.must(Batch().punch_akey(address));
        }
        co_await yield(probe.reactor());
    }
}
Task<> lists_are_whole_under_change(Probe& probe) {
    Batch batch;
    for (uint64_t i = 0; i < 300; ++i) {
        batch.put({listed, "m" + std::to_string(i * 3) + "-stays", "inode"}, "v");
    }
    co_await probe.must(std::move(batch));
    bool stop = false;
    Nursery nursery(probe.reactor(), 4);
    for (uint64_t i = 0; i < 4; ++i) co_await nursery.spawn(come_and_go(probe, i, stop));
    for (int round = 0; round < 5; ++round) {
        const auto all = co_await probe.list_all(
            {.what = What::dkeys, .object = listed, .akey = {"inode"}, .limit = 7});
        EXPECT_TRUE(std::ranges::is_sorted(all, std::less<>{}, &ListEntry::key));
        EXPECT_TRUE(std::ranges::adjacent_find(all, {}, &ListEntry::key) == all.end());
        EXPECT_EQ(std::ranges::count_if(
                      all, [](const ListEntry& e) { return e.key.ends_with("-stays"); }),
                  300);
        const QueryReply query = co_await probe.query(listed, "inode");
        EXPECT_TRUE(query.exists);
    }
    stop = true;
    co_await nursery.join();
}

}  // namespace

std::vector<Case> list_cases() {
    return {{"DkeysAreOrderedAsUnsignedBytes", dkeys_come_as_unsigned_bytes},
            {"PageStartsAfterTheGivenKey", pages_start_behind_a_key},
            {"DkeysAreListedByAkey", dkeys_by_akey},
            {"AkeysAndObjectsAreListed", akeys_and_objects},
            {"LargeDirectoryIsListedInPages", a_large_directory},
            {"QueryReflectsEveryChange", query_follows_every_change},
            {"ConditionKeepsTheLastEpoch", a_condition_forgets_nothing, {}, has_transactions},
            {"ListDuringChangesIsComplete", lists_are_whole_under_change}};
}

}  // namespace ros2s::object::contract
