// CachedPages: what is written of a page, and the order of operations.
#include "cached_pages.h"

#include <gtest/gtest.h>

#include <string>

#include "ros2s/runtime/nursery.h"
#include "ros2s/runtime/sim/co_test.h"

namespace ros2s::fuse {
namespace {

using Kind = CachedPages::Kind;
using Ranges = std::vector<CachedPages::Range>;

constexpr fs::NodeId file{7};
constexpr uint64_t page = block_bytes;

std::string with(std::string text, size_t at, std::string_view stored) {
    return text.replace(at, stored.size(), stored);
}

// The kernel gets `text` as the pages from `offset` on.
Task<> fill(CachedPages& pages, fs::NodeId node, uint64_t offset, std::string text) {
    const uint64_t length = round_up<uint64_t>(text.size(), page);
    const auto turn = co_await pages.begin(node, Kind::paged, {offset, length});
    EXPECT_TRUE(turn);
    pages.filled(node, offset, as_bytes(text), length);
}

Task<> write_directly(CachedPages& pages, CachedPages::Range range) {
    const auto turn = co_await pages.begin(file, Kind::direct, range);
    EXPECT_TRUE(turn);
}

CO_TEST(CachedPages, OnlyStoredBytesAreWritten, sim::World, world, 1) {
    Reactor& reactor = world.core();
    CachedPages pages(reactor, 16 * page);
    pages.opened(file);
    const std::string old(2 * page, 'a');
    co_await fill(pages, file, page, old);
    const auto turn = co_await pages.begin(file, Kind::paged, {page, 2 * page});
    EXPECT_EQ(pages.stored(file, page, as_bytes(old)), Ranges{});
    // Two pages; a number of which one byte stays as it was.
    std::string now = with(with(old, 10, "b"), page + 100, "baaabbbb");
    now = with(now, page + 200, "baaaab");
    EXPECT_EQ(
        pages.stored(file, page, as_bytes(now)),
        (Ranges{{page + 10, 1}, {2 * page + 100, 8}, {2 * page + 200, 1}, {2 * page + 205, 1}}));
    pages.written(file, page + 10, as_bytes("b"));
    EXPECT_EQ(pages.stored(file, page, as_bytes(now)),
              (Ranges{{2 * page + 100, 8}, {2 * page + 200, 1}, {2 * page + 205, 1}}));
    // A store across the border of two pages is one range.
    now = with(old, page - 2, "bbbb");
    EXPECT_EQ(pages.stored(file, page, as_bytes(with(now, 10, "b"))), (Ranges{{2 * page - 2, 4}}));
    // A page that was not given is written whole, also one that ends with the file.
    const std::string more(page + 5, 'a');
    EXPECT_EQ(pages.stored(file, 3 * page, as_bytes(more)), (Ranges{{3 * page, page + 5}}));
}

CO_TEST(CachedPages, PageIsZeroBehindEndOfFile, sim::World, world, 1) {
    Reactor& reactor = world.core();
    CachedPages pages(reactor, 16 * page);
    pages.opened(file);
    co_await fill(pages, file, 0, "abc");
    const auto turn = co_await pages.begin(file, Kind::paged, {0, page});
    const std::string now = with("abc" + std::string(page - 3, '\0'), 50, "x");
    EXPECT_EQ(pages.stored(file, 0, as_bytes(now)), (Ranges{{50, 1}}));
}

CO_TEST(CachedPages, DirectlyWrittenGapIsOmitted, sim::World, world, 1) {
    Reactor& reactor = world.core();
    CachedPages pages(reactor, 16 * page);
    pages.opened(file);
    const std::string old(page, 'a');
    co_await fill(pages, file, 0, old);
    // The kernel's page lacks this write. Its bytes are equal to the copy's.
    co_await write_directly(pages, {101, 1});
    const auto turn = co_await pages.begin(file, Kind::paged, {0, page});
    EXPECT_EQ(pages.stored(file, 0, as_bytes(with(old, 100, "bab"))), (Ranges{{100, 1}, {102, 1}}));
}

CO_TEST(CachedPages, OldestCopiesAreDropped, sim::World, world, 1) {
    Reactor& reactor = world.core();
    constexpr fs::NodeId other{8};
    CachedPages pages(reactor, 2 * page);
    pages.opened(file);
    pages.opened(other);
    const std::string text(page, 'a');
    co_await fill(pages, file, 0, text);
    co_await fill(pages, other, 0, text);
    co_await fill(pages, file, 0, text);  // again: it is no longer the oldest
    co_await fill(pages, file, page, text);
    EXPECT_EQ(pages.copies(), 2u);
    const std::string now = with(text, 5, "b");
    {
        const auto first = co_await pages.begin(file, Kind::paged, {0, page});
        EXPECT_EQ(pages.stored(file, 0, as_bytes(now)), (Ranges{{5, 1}}));
        const auto second = co_await pages.begin(other, Kind::paged, {0, page});
        EXPECT_EQ(pages.stored(other, 0, as_bytes(now)), (Ranges{{0, page}}));
    }
    pages.closed(file);
    EXPECT_EQ(pages.copies(), 0u);
    EXPECT_FALSE(co_await pages.begin(file, Kind::paged, {0, page}));
    EXPECT_TRUE(co_await pages.begin(other, Kind::paged, {0, page}));
}

Task<> take_a_turn(CachedPages& pages, Kind kind, CachedPages::Range range, Duration duration,
                   Reactor& reactor, std::string name, std::string& log) {
    const auto turn = co_await pages.begin(file, kind, range);
    log += name;
    co_await sleep_for(reactor, duration);
    log += name;
}

CO_TEST(CachedPages, PagesAndDirectWritesWaitForEachOther, sim::World, world, 1) {
    Reactor& reactor = world.core();
    using std::chrono::milliseconds;
    CachedPages pages(reactor, 16 * page);
    pages.opened(file);
    std::string log;
    Nursery nursery(reactor, 8);
    const auto start = [&](Kind kind, CachedPages::Range range, int duration, const char* name) {
        return nursery.spawn(
            take_a_turn(pages, kind, range, milliseconds(duration), reactor, name, log));
    };
    co_await start(Kind::direct, {100, 8}, 50, "1");
    co_await start(Kind::direct, {104, 8}, 10, "2");    // beside the first
    co_await start(Kind::paged, {0, page}, 5, "3");     // after both
    co_await start(Kind::direct, {50, 1}, 1, "4");      // after the page
    co_await start(Kind::paged, {page, page}, 1, "5");  // at once
    pages.closed(file);
    co_await nursery.join();
    EXPECT_EQ(log, "1255213344");
    EXPECT_FALSE(co_await pages.begin(file, Kind::paged, {0, page}));
}

}  // namespace
}  // namespace ros2s::fuse
