// CachedFileSystem and listings of directories.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "test_support/caches.h"

namespace ros2s::cache {
namespace {

using testing::ElementsAre;

class CachedListings : public Caches {
  protected:
    enum class With : uint8_t { names, attributes };
    using Entries = std::vector<fs::ListedEntry>;

    Task<Result<Entries>> page(CacheClient& client, NodeId directory, fs::FileHandle handle,
                               uint64_t cookie, With with) {
        constexpr size_t limit = 2;
        if (with == With::attributes) {
            auto listed =
                co_await client.cached->readdir_many(call, directory, handle, cookie, limit);
            if (!listed) co_return listed;
            for (const fs::ListedEntry& each : *listed) {
                EXPECT_EQ(code(each.attributes), fine);
                if (!each.attributes) continue;
                EXPECT_EQ(each.attributes->node, each.entry.node);
                EXPECT_EQ(each.attributes->mode & S_IFMT, each.entry.type);
                client.cached->forget(each.attributes->node, 1);
            }
            co_return listed;
        }
        const auto names = co_await client.cached->readdir(call, handle, cookie, limit);
        if (!names) co_return fail(names.error());
        Entries listed;
        for (const fs::DirectoryEntry& each : *names) listed.push_back({.entry = each});
        co_return listed;
    }
    // The names, sorted; "/" behind those of directories. `between`: after the first page.
    template <class Between>
    Task<std::vector<std::string>> list(CacheClient& client, NodeId directory, With with,
                                        Between between) {
        std::vector<std::string> names;
        // As a kernel does: its attributes are known when it is opened.
        EXPECT_EQ(code(co_await client.cached->get_attributes(call, directory)), fine);
        const auto opened = co_await client.cached->open(call, directory, {});
        EXPECT_TRUE(opened);
        if (!opened) co_return names;
        for (uint64_t cookie = 0;;) {
            const auto listed = co_await page(client, directory, opened->handle, cookie, with);
            EXPECT_TRUE(listed);
            if (!listed || listed->empty()) break;
            for (const auto& [entry, attributes] : *listed) {
                names.push_back(entry.name + (S_ISDIR(entry.type) ? "/" : ""));
            }
            if (cookie == 0) co_await between();
            cookie = listed->back().entry.cookie;
        }
        EXPECT_EQ(code(co_await client.cached->close(call, opened->handle)), fine);
        std::ranges::sort(names);
        co_return names;
    }
    Task<std::vector<std::string>> list(CacheClient& client, NodeId directory,
                                        With with = With::attributes) {
        const auto nothing = []() -> Task<> { co_return; };
        co_return co_await list(client, directory, with, nothing);
    }
    Task<NodeId> make_tree() {
        const NodeId top = co_await directory(a, root_node, "top");
        for (const char* name : {"a", "b", "c"}) co_await file(a, top, name);
        co_await directory(a, top, "d");
        co_return top;
    }
    Task<> lists_again(With with);
    Task<> sees_changes();
    Task<> change_between_pages();
    Task<> change_of_others_between_pages();
    Task<> lists_much(CacheClient& small);
};

Task<> CachedListings::lists_again(With with) {
    const NodeId top = co_await make_tree();
    EXPECT_THAT(co_await list(b, top, with), ElementsAre("a", "b", "c", "d/"));
    b.lending.requests = 0;
    EXPECT_THAT(co_await list(b, top, with), ElementsAre("a", "b", "c", "d/"));
    EXPECT_THAT(co_await list(b, top, With::names), ElementsAre("a", "b", "c", "d/"));
    EXPECT_EQ(code(co_await b.cached->lookup(call, top, "e")), Code::not_found);
    EXPECT_EQ(b.lending.requests, 0U);
    // Attributes of all names that are not known are one request.
    EXPECT_THAT(co_await list(b, top, With::attributes), ElementsAre("a", "b", "c", "d/"));
    EXPECT_LE(b.lending.requests, with == With::names ? 2U : 0U);
}
TEST_F(CachedListings, WarmListingNeedsNoRequest) { world.run(lists_again(With::attributes)); }
TEST_F(CachedListings, WarmNamesNeedNoRequest) { world.run(lists_again(With::names)); }

Task<> CachedListings::sees_changes() {
    const NodeId top = co_await make_tree();
    for (const auto& [client, name] : {std::pair{&a, "a"}, std::pair{&b, "b"}}) {
        fs::FileSystem& files = *client->cached;
        EXPECT_EQ((co_await list(b, top)).size(), 4U);
        co_await file(*client, top, "e");
        EXPECT_EQ((co_await list(b, top)).size(), 5U);
        EXPECT_EQ(code(co_await files.rename(call, top, "d", top, "f", {})), fine);
        EXPECT_THAT(co_await list(b, top), ElementsAre("a", "b", "c", "e", "f/"));
        EXPECT_EQ(code(co_await files.rename(call, top, "c", top, "e", {})), fine);
        EXPECT_THAT(co_await list(b, top), ElementsAre("a", "b", "e", "f/"));
        EXPECT_EQ(code(co_await files.rename(call, top, "f", top, "d", {})), fine);
        EXPECT_EQ(code(co_await files.rename(call, top, "e", top, "c", {})), fine);
        EXPECT_EQ(code(co_await files.unlink(call, top, name)), fine);
        EXPECT_EQ((co_await list(b, top)).size(), 3U);
        const std::vector<std::string_view> many{name};
        EXPECT_EQ(code((co_await files.create_many(call, top, many, 0644, {}))[0]), fine);
        EXPECT_THAT(co_await list(b, top), ElementsAre("a", "b", "c", "d/"));
    }
    // Its own changes keep what it knows.
    EXPECT_EQ(code(co_await b.cached->unlink(call, top, "a")), fine);
    b.lending.requests = 0;
    EXPECT_THAT(co_await list(b, top), ElementsAre("b", "c", "d/"));
    EXPECT_EQ(b.lending.requests, 0U);
}
TEST_F(CachedListings, ChangesAreSeen) { world.run(sees_changes()); }

// A handle lists what there was, or what there is; the next one what there is.
Task<> CachedListings::change_between_pages() {
    const NodeId top = co_await make_tree();
    const auto make = [this, top]() -> Task<> {  // NOLINT: awaited in this frame
        co_await file(b, top, "aa");
        EXPECT_EQ(code(co_await b.cached->unlink(call, top, "d")), Code::is_directory);
        EXPECT_EQ(code(co_await b.cached->rmdir(call, top, "d")), fine);
    };
    (void)co_await list(b, top, With::names, make);
    EXPECT_THAT(co_await list(b, top), ElementsAre("a", "aa", "b", "c"));
    const auto remove = [this, top]() -> Task<> {  // NOLINT: awaited in this frame
        EXPECT_EQ(code(co_await b.cached->unlink(call, top, "aa")), fine);
    };
    EXPECT_THAT(co_await list(b, top, With::names, remove), ElementsAre("a", "aa", "b", "c"));
    EXPECT_THAT(co_await list(b, top), ElementsAre("a", "b", "c"));
}
TEST_F(CachedListings, OwnChangeBetweenPagesIsSeen) { world.run(change_between_pages()); }

Task<> CachedListings::change_of_others_between_pages() {
    const NodeId top = co_await make_tree();
    const auto make = [this, top]() -> Task<> {  // NOLINT: awaited in this frame
        co_await file(a, top, "aa");
    };
    (void)co_await list(b, top, With::attributes, make);
    EXPECT_THAT(co_await list(b, top), ElementsAre("a", "aa", "b", "c", "d/"));
    const auto remove = [this, top]() -> Task<> {  // NOLINT: awaited in this frame
        EXPECT_EQ(code(co_await a.cached->unlink(call, top, "aa")), fine);
    };
    (void)co_await list(b, top, With::names, remove);
    EXPECT_THAT(co_await list(b, top), ElementsAre("a", "b", "c", "d/"));
    EXPECT_EQ(code(co_await b.cached->lookup(call, top, "aa")), Code::not_found);
}
TEST_F(CachedListings, ChangeOfOthersBetweenPagesIsSeen) {
    world.run(change_of_others_between_pages());
}

Task<> CachedListings::lists_much(CacheClient& small) {
    const NodeId top = co_await directory(a, root_node, "top");
    for (int i = 0; i < 60; ++i) co_await file(a, top, fmt::format("f{}", i));
    for (int i = 0; i < 2; ++i) {
        const auto found = co_await small.cached->lookup(call, root_node, "top");
        EXPECT_EQ(code(found), fine);
        EXPECT_EQ((co_await list(small, top, With::names)).size(), 60U);
        EXPECT_EQ((co_await list(small, top)).size(), 60U);
        EXPECT_LE(small.cached->names(), 50U);
        small.cached->forget(top, 1);
    }
    co_await small.cached->close_all();
    std::erase(table.clients, &small.lending);
}
TEST_F(CachedListings, LargeDirectoryIsListedBelow) {
    CacheClient small(world, table, *dfs.checked, {.nodes_max = 100, .names_max = 50});
    world.run(lists_much(small));
}

}  // namespace
}  // namespace ros2s::cache
