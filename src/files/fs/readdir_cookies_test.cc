// The names that open directories keep: seeks find them, and their memory is bounded.
#include "readdir_cookies.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <memory>

#include "dfs.h"
#include "ros2s/object/test_support/memory_store.h"
#include "ros2s/runtime/sim/co_test.h"

namespace ros2s::fs {
namespace {

std::string name_of(uint64_t number) { return fmt::format("a name that is long: {:08}", number); }

// A call that continues after the last name; returns the last cookie.
uint64_t read_on(ReaddirCookies& cookies, uint64_t from, size_t count, uint64_t tenant = 1) {
    cookies.begin(from, tenant);
    uint64_t last = from;
    for (size_t i = 1; i <= count; ++i) last = cookies.add(name_of(from + i));
    cookies.end();
    return last;
}

TEST(ReaddirCookies, CookieFindsItsName) {
    ListingMemory memory;
    ReaddirCookies cookies(memory);
    EXPECT_FALSE(cookies.find(1));
    uint64_t last = 0;
    for (const size_t count : {1, 1000, 1, 0, 3}) {
        last = count == 0 ? last : read_on(cookies, last, count);
    }
    EXPECT_EQ(last, 1005u);
    for (uint64_t cookie = 1; cookie <= last; ++cookie) {
        EXPECT_EQ(cookies.find(cookie), name_of(cookie));
    }
    EXPECT_FALSE(cookies.find(0));
    EXPECT_FALSE(cookies.find(last + 1));
    EXPECT_FALSE(cookies.find(UINT64_MAX));
}

// As telldir and seekdir use them: positions stay good however often there is a seek.
TEST(ReaddirCookies, NameReadAgainKeepsItsCookie) {
    ListingMemory memory;
    ReaddirCookies cookies(memory);
    uint64_t last = 0;
    while (last < 10'000) last = read_on(cookies, last, 100);
    cookies.reached_end();
    const size_t bytes = memory.bytes();
    for (uint64_t from = 0; from < 9'000; from += 7) {
        EXPECT_EQ(read_on(cookies, from, 1'000), from + 1'000);
    }
    EXPECT_EQ(memory.bytes(), bytes);
    EXPECT_EQ(cookies.find(1), name_of(1));
    EXPECT_EQ(cookies.last(), 10'000u);
}

// Names that were removed are skipped. A new one gets a new cookie.
TEST(ReaddirCookies, NameReadAgainAfterChangesKeepsItsCookie) {
    ListingMemory memory;
    ReaddirCookies cookies(memory);
    read_on(cookies, 0, 100);
    cookies.begin(10, 1);
    EXPECT_EQ(cookies.add(name_of(11)), 11u);
    EXPECT_EQ(cookies.add("new"), 101u);
    EXPECT_EQ(cookies.add(name_of(15)), 15u);
    EXPECT_EQ(cookies.add("newer"), 102u);
    EXPECT_EQ(cookies.add(name_of(100)), 103u) << "too many were removed";
    cookies.end();
    EXPECT_EQ(cookies.find(101), "new");
    EXPECT_EQ(cookies.find(103), name_of(100));
    EXPECT_EQ(cookies.find(100), name_of(100));
}

TEST(ReaddirCookies, OldestNamesOfHandleAreEvicted) {
    ListingMemory memory;
    ReaddirCookies cookies(memory);
    uint64_t last = 0;
    for (int i = 0; i < 1000; ++i) last = read_on(cookies, last, 100);
    EXPECT_FALSE(cookies.find(1));
    for (uint64_t cookie = last - 10'000; cookie <= last; ++cookie) {
        EXPECT_EQ(cookies.find(cookie), name_of(cookie));
    }
    EXPECT_LE(memory.bytes(), ReaddirCookies::bytes_max);
}

TEST(ReaddirCookies, ManyHandlesKeepOnlyTheirLastCalls) {
    ListingMemory memory;
    std::vector<std::unique_ptr<ReaddirCookies>> handles;
    for (int i = 0; i < 100; ++i) {
        ReaddirCookies& cookies = *handles.emplace_back(std::make_unique<ReaddirCookies>(memory));
        uint64_t last = 0;
        for (int call = 0; call < 100; ++call) last = read_on(cookies, last, 100);
        EXPECT_LE(memory.bytes(), memory.bytes_max());
    }
    // A reader that is within its last call, or repeats it, can continue.
    for (const auto& cookies : handles) {
        for (uint64_t cookie = 9'900; cookie <= 10'000; ++cookie) {
            EXPECT_EQ(cookies->find(cookie), name_of(cookie));
        }
    }
    EXPECT_FALSE(handles.front()->find(9'000));
    EXPECT_EQ(handles.back()->find(9'000), name_of(9'000)) << "who reads now keeps more";
    handles.clear();
    EXPECT_EQ(memory.bytes(), 0u);
}

TEST(ReaddirCookies, LastNameOfEachHandleStays) {
    ListingMemory memory;
    std::vector<std::unique_ptr<ReaddirCookies>> handles;
    for (int i = 0; i < 1000; ++i) {
        read_on(*handles.emplace_back(std::make_unique<ReaddirCookies>(memory)), 0, 1000);
        EXPECT_LE(memory.bytes(), memory.bytes_max());
    }
    for (const auto& cookies : handles) EXPECT_EQ(cookies->find(1000), name_of(1000));
    EXPECT_EQ(read_on(*handles.front(), 1000, 10), 1010u);
    EXPECT_EQ(handles.front()->find(1000), name_of(1000));
}

TEST(ReaddirCookies, LargeTenantEvictsOnlyItsOwnNames) {
    constexpr uint64_t alice = 1, bob = 2;
    ListingMemory memory;
    ReaddirCookies bobs(memory);
    const uint64_t last = read_on(bobs, read_on(bobs, 0, 1000, bob), 1000, bob);
    std::vector<std::unique_ptr<ReaddirCookies>> alices;
    for (int i = 0; i < 2000; ++i) {
        read_on(*alices.emplace_back(std::make_unique<ReaddirCookies>(memory)), 0, 1000, alice);
        EXPECT_LE(memory.bytes(), memory.bytes_max());
    }
    for (uint64_t cookie = 1; cookie <= last; ++cookie) {
        ASSERT_EQ(bobs.find(cookie), name_of(cookie));
    }
    EXPECT_FALSE(alices.front()->find(1));
    alices.clear();
    EXPECT_LT(memory.bytes(), ReaddirCookies::bytes_max);
}

Task<> walk(FileSystem& fs, FileHandle handle, size_t& names) {
    uint64_t cookie = 0;
    for (;;) {
        const auto entries = co_await fs.readdir({}, handle, cookie, 1000);
        EXPECT_TRUE(entries);
        if (!entries || entries->empty()) co_return;
        names += entries->size();
        cookie = entries->back().cookie;
    }
}

// A file system whose root has that many files.
Task<object::ContainerId> container_of_names(sim::World& world, object::MemoryStore& store,
                                             size_t names) {
    const Call call;
    Report report;
    const auto made = co_await store.create_container(call, {.label = "c"});
    EXPECT_TRUE(co_await Dfs::format(call, store, made->id, world.core(), {}, report));
    const auto fs = *co_await Dfs::mount(call, store, made->id, world.core(), {}, report);
    for (size_t i = 0; i < names; ++i) {
        EXPECT_TRUE(co_await fs->mknod(call, root_node, name_of(i), S_IFREG | 0644, 0, {}));
    }
    co_await fs->close_all();
    co_return made->id;
}

// They used to take 10.6 MiB each.
CO_TEST(ReaddirCookies, OpenDirectoriesUseLittleMemory, sim::World, world, 1) {
    object::MemoryStore store(world.core());
    constexpr size_t names = 40'000;
    constexpr size_t handles = 20;
    const Call call;
    Report report;
    const object::ContainerId container = co_await container_of_names(world, store, names);
    const auto fs = *co_await Dfs::mount(call, store, container, world.core(), {}, report);
    const size_t before = mallinfo2().uordblks;
    for (size_t i = 0; i < handles; ++i) {
        const auto opened = co_await fs->open(call, root_node, {.read = true});
        size_t seen = 0;
        co_await walk(*fs, opened->handle, seen);
        EXPECT_EQ(seen, names);
    }
    EXPECT_LT(mallinfo2().uordblks - before, size_t{24} << 20);
    co_await fs->close_all();
}

// The seeks failed where a directory had more than 65,536 names.
CO_TEST(ReaddirCookies, SeekBehindLargeDirectoryFindsNothing, sim::World, world, 1) {
    object::MemoryStore store(world.core());
    constexpr size_t names = 70'000;
    const Call call;
    Report report;
    const object::ContainerId container = co_await container_of_names(world, store, names);
    const auto fs = *co_await Dfs::mount(call, store, container, world.core(), {}, report);
    struct Seek {
        uint64_t cookie;
        size_t left;
    };
    for (const Seek& seek : {Seek{uint64_t{1} << 40, 0}, Seek{names, 0}, Seek{names - 5, 5}}) {
        const auto opened = co_await fs->open(call, root_node, {.read = true});
        const auto entries = co_await fs->readdir(call, opened->handle, seek.cookie, 1000);
        EXPECT_TRUE(entries) << seek.cookie;
        if (entries) EXPECT_EQ(entries->size(), seek.left) << seek.cookie;
        const auto first = co_await fs->readdir(call, opened->handle, 0, 1000);
        EXPECT_TRUE(first);
        if (first) EXPECT_EQ(first->size(), 1000u);
    }
    co_await fs->close_all();
}

// As those of a server, whose tenants may mount many containers.
CO_TEST(ReaddirCookies, MountsShareOneLimit, sim::World, world, 1) {
    object::MemoryStore store(world.core());
    constexpr size_t names = 5'000;
    const Call call;
    Report report;
    ListingMemory shared(size_t{1} << 18);
    const object::ContainerId container = co_await container_of_names(world, store, names);
    std::vector<std::unique_ptr<Dfs>> mounts;
    for (int i = 0; i < 4; ++i) {
        const auto& fs = mounts.emplace_back(*co_await Dfs::mount(
            call, store, container, world.core(), {.listings = &shared}, report));
        const auto opened = co_await fs->open(call, root_node, {.read = true});
        size_t seen = 0;
        co_await walk(*fs, opened->handle, seen);
        EXPECT_EQ(seen, names);
        EXPECT_GT(shared.bytes(), 0u);
        EXPECT_LE(shared.bytes(), shared.bytes_max());
    }
    for (const auto& fs : mounts) co_await fs->close_all();
    EXPECT_EQ(shared.bytes(), 0u);
}

}  // namespace
}  // namespace ros2s::fs
