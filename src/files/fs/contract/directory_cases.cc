// Directories: mkdir, rmdir, readdir, and their times.
#include <algorithm>
#include <set>

#include "suite.h"

namespace ros2s::fs::contract {
namespace {

using std::string;
using Names = std::vector<string>;

Names numbered(int count) {
    Names names;
    for (int i = 0; i < count; ++i) {
        string number = std::to_string(i);
        names.push_back("entry-" + string(5 - number.size(), '0') + number);
    }
    return names;
}

// Reads a whole directory through one handle, doing `meanwhile` after each batch.
template <class F>
Task<Names> walk_while(Fixture& f, FileHandle handle, size_t batch, F& meanwhile) {
    Names seen;
    uint64_t cookie = 0;
    for (;;) {
        const auto entries = co_await f.fs.readdir(f.call, handle, cookie, batch);
        EXPECT_OK(entries);
        if (!entries || entries->empty()) break;
        for (const DirectoryEntry& entry : *entries) seen.push_back(entry.name);
        cookie = entries->back().cookie;
        co_await meanwhile(seen);
    }
    co_return seen;
}

// What "rm -r" does between two batches.
struct UnlinkSeen {
    Fixture& f;
    size_t done = 0;
    Task<> operator()(const Names& seen) {
        for (; done < seen.size(); ++done) {
            EXPECT_OK(co_await f.fs.unlink(f.call, root_node, seen[done]));
        }
    }
};
// Adds other names, also among those that were read already, and removes them again.
struct Churn {
    Fixture& f;
    int step = 0;
    Task<> operator()(const Names&) {
        co_await f.file(root_node, "entry-00" + std::to_string(step * 7 % 100) + "-new");
        co_await f.file(root_node, "a" + std::to_string(step));
        if (step > 0) {
            EXPECT_OK(co_await f.fs.unlink(f.call, root_node, "a" + std::to_string(step - 1)));
        }
        ++step;
    }
};

Task<> try_mkdir(Fixture& f, NodeId parent, string name, int& made) {
    const auto result = co_await f.fs.mkdir(f.call, parent, name, 0755, f.owner);
    if (result) ++made;
    // The directory itself may be removed at the same time.
    if (!result) EXPECT_FAILS(not_found, result);
}
Task<> try_rmdir(Fixture& f, string name, int& removed) {
    const auto result = co_await f.fs.rmdir(f.call, root_node, name);
    if (result) ++removed;
    if (!result) EXPECT_FAILS(not_empty, result);
}

// What can be done with an open directory that was removed.
Task<> use_removed_directory(Fixture& f, NodeId dir, FileHandle handle) {
    const Attributes found = co_await f.stat(dir);
    EXPECT_EQ(found.links, 0u);
    EXPECT_EQ(found.mode, S_IFDIR | 0750u);
    const auto entries = co_await f.fs.readdir(f.call, handle, 0, 10);
    if (entries) EXPECT_TRUE(entries->empty());
    if (!entries) EXPECT_FAILS(not_found, entries);  // as getdents on Linux
    const WallTime time{std::chrono::seconds(1'000'000'000)};
    EXPECT_OK(co_await f.fs.set_attributes(f.call, dir, {.mode = 0700}));
    EXPECT_OK(co_await f.fs.set_attributes(f.call, dir, {.accessed = time, .modified = time}));
    EXPECT_EQ((co_await f.stat(dir)).mode, S_IFDIR | 0700u);
    EXPECT_EQ((co_await f.stat(dir)).modified, time);
    EXPECT_EQ((co_await f.stat(dir)).links, 0u);
    co_await f.file(root_node, "elsewhere");
    const NodeId elsewhere = co_await f.node_of(root_node, "elsewhere");
    EXPECT_FAILS(not_found, co_await f.fs.lookup(f.call, dir, "x"));
    EXPECT_FAILS(not_found, co_await f.fs.create(f.call, dir, "x", 0644, f.writing, f.owner));
    EXPECT_FAILS(not_found, co_await f.fs.mkdir(f.call, dir, "x", 0755, f.owner));
    EXPECT_FAILS(not_found, co_await f.fs.symlink(f.call, dir, "x", "y", f.owner));
    EXPECT_FAILS(not_found, co_await f.fs.link(f.call, elsewhere, dir, "x"));
    EXPECT_FAILS(not_found, co_await f.fs.rename(f.call, root_node, "elsewhere", dir, "x", {}));
    EXPECT_FAILS(not_found, co_await f.fs.rename(f.call, dir, "x", root_node, "y", {}));
    EXPECT_FAILS(not_found, co_await f.fs.unlink(f.call, dir, "x"));
    EXPECT_FAILS(not_found, co_await f.fs.rmdir(f.call, dir, "x"));
    EXPECT_OK(co_await f.fs.unlink(f.call, root_node, "elsewhere"));
}

constexpr Case directory_table[] = {
    {"EmptyDirectoryIsRemoved",
     [](Fixture& f) -> Task<> {
         co_await f.directory(root_node, "dir");
         EXPECT_OK(co_await f.fs.rmdir(f.call, root_node, "dir"));
         EXPECT_FALSE(co_await f.exists(root_node, "dir"));
     }},
    {"RmdirOfAFullDirectoryIsRefused",
     [](Fixture& f) -> Task<> {
         const NodeId dir = co_await f.directory(root_node, "dir");
         co_await f.file(dir, "x");
         EXPECT_FAILS(not_empty, co_await f.fs.rmdir(f.call, root_node, "dir"));
         EXPECT_OK(co_await f.fs.unlink(f.call, dir, "x"));
         EXPECT_OK(co_await f.fs.rmdir(f.call, root_node, "dir"));
     }},
    {"RmdirOfADirectoryWithASubdirectoryIsRefused",
     [](Fixture& f) -> Task<> {
         const NodeId dir = co_await f.directory(root_node, "dir");
         co_await f.directory(dir, "sub");
         EXPECT_FAILS(not_empty, co_await f.fs.rmdir(f.call, root_node, "dir"));
     }},
    {"RmdirOfAFileIsRefused",
     [](Fixture& f) -> Task<> {
         co_await f.file(root_node, "file");
         co_await f.symlink(root_node, "link", "file");
         EXPECT_FAILS(not_directory, co_await f.fs.rmdir(f.call, root_node, "file"));
         EXPECT_FAILS(not_directory, co_await f.fs.rmdir(f.call, root_node, "link"));
     }},
    {"NewNameInARemovedDirectoryIsRefused",
     [](Fixture& f) -> Task<> {
         const NodeId dir = co_await f.directory(root_node, "dir");
         const NodeId file = co_await f.file(root_node, "file");
         EXPECT_OK(co_await f.fs.rmdir(f.call, root_node, "dir"));
         EXPECT_FAILS(not_found, co_await f.fs.lookup(f.call, dir, "x"));
         EXPECT_FAILS(not_found, co_await f.fs.mkdir(f.call, dir, "x", 0755, f.owner));
         EXPECT_FAILS(not_found, co_await f.fs.create(f.call, dir, "x", 0644, f.writing, f.owner));
         EXPECT_FAILS(not_found, co_await f.fs.symlink(f.call, dir, "x", "t", f.owner));
         EXPECT_FAILS(not_found, co_await f.fs.link(f.call, file, dir, "x"));
         EXPECT_FAILS(not_found, co_await f.fs.rename(f.call, root_node, "file", dir, "x", {}));
         EXPECT_TRUE(co_await f.exists(root_node, "file"));
     }},
    {"HundredLevelsAreReachable",
     [](Fixture& f) -> Task<> {
         std::vector<NodeId> path{root_node};
         for (int i = 0; i < 100; ++i) {
             path.push_back(co_await f.directory(path.back(), "d"));
         }
         co_await f.file(path.back(), "leaf", "deep");
         NodeId at = root_node;
         for (int i = 0; i < 100; ++i) at = co_await f.node_of(at, "d");
         EXPECT_EQ(co_await f.contents(co_await f.node_of(at, "leaf")), "deep");
     }},
    {"EmptyDirectoryListsNothing",
     [](Fixture& f) -> Task<> {
         const NodeId dir = co_await f.directory(root_node, "dir");
         const FileHandle handle = co_await f.open(dir, f.reading);
         const auto entries = co_await f.fs.readdir(f.call, handle, 0, 10);
         CO_ASSERT(entries.has_value());
         EXPECT_TRUE(entries->empty());
     }},
    {"EntriesHaveTypesAndNodes",
     [](Fixture& f) -> Task<> {
         const NodeId file = co_await f.file(root_node, "a-file");
         const NodeId dir = co_await f.directory(root_node, "b-dir");
         const NodeId link = co_await f.symlink(root_node, "c-link", "a-file");
         const mode_t special = f.traits.special_nodes ? S_IFIFO : S_IFREG;
         const auto fifo =
             co_await f.fs.mknod(f.call, root_node, "d-fifo", special | 0644, 0, f.owner);
         CO_ASSERT(fifo.has_value());
         const FileHandle handle = co_await f.open(root_node, f.reading);
         auto entries = co_await f.fs.readdir(f.call, handle, 0, 10);
         CO_ASSERT(entries && entries->size() == 4);
         std::ranges::sort(*entries, {}, &DirectoryEntry::name);
         const std::vector<std::pair<NodeId, mode_t>> wanted{
             {file, S_IFREG}, {dir, S_IFDIR}, {link, S_IFLNK}, {fifo->node, special}};
         for (size_t i = 0; i < 4; ++i) {
             EXPECT_EQ((*entries)[i].node, wanted[i].first) << i;
             EXPECT_EQ((*entries)[i].type, wanted[i].second) << i;
         }
     }},
    {"ReaddirOfAFileIsRefused",
     [](Fixture& f) -> Task<> {
         const FileHandle handle = co_await f.open(co_await f.file(root_node, "file"));
         EXPECT_FAILS(not_directory, co_await f.fs.readdir(f.call, handle, 0, 10));
     }},
    {"ListingInBatchesOfOneIsComplete",
     [](Fixture& f) -> Task<> {
         const Names all = numbered(25);
         for (const string& name : all) co_await f.file(root_node, name);
         EXPECT_EQ(co_await f.names(root_node, 1), all);
     }},
    {"ListingOfManyNamesIsComplete",
     [](Fixture& f) -> Task<> {
         const NodeId dir = co_await f.directory(root_node, "dir");
         const Names all = numbered(2500);
         for (const string& name : all) {
             EXPECT_OK(co_await f.fs.mknod(f.call, dir, name, S_IFREG | 0644, 0, f.owner));
         }
         EXPECT_EQ(co_await f.names(dir, 100), all);
         EXPECT_EQ(co_await f.names(dir, 5000), all);
     }},
    {"RestartedListingShowsChanges",
     [](Fixture& f) -> Task<> {
         co_await f.file(root_node, "a");
         const FileHandle handle = co_await f.open(root_node, f.reading);
         EXPECT_EQ((co_await f.fs.readdir(f.call, handle, 0, 10))->size(), 1u);
         co_await f.file(root_node, "b");
         EXPECT_EQ((co_await f.fs.readdir(f.call, handle, 0, 10))->size(), 2u);
         EXPECT_OK(co_await f.fs.unlink(f.call, root_node, "a"));
         EXPECT_EQ((co_await f.fs.readdir(f.call, handle, 0, 10))->size(), 1u);
     }},
    {"ListingContinuesAtAnyCookie",
     [](Fixture& f) -> Task<> {
         for (const string& name : numbered(20)) co_await f.file(root_node, name);
         const FileHandle handle = co_await f.open(root_node, f.reading);
         const auto all = co_await f.fs.readdir(f.call, handle, 0, 20);
         CO_ASSERT(all && all->size() == 20);
         for (const size_t from : {0u, 5u, 18u, 19u, 7u}) {
             const auto rest = co_await f.fs.readdir(f.call, handle, (*all)[from].cookie, 100);
             CO_ASSERT(rest.has_value());
             EXPECT_EQ(rest->size(), 19 - from);
             if (!rest->empty()) EXPECT_EQ(rest->front().name, (*all)[from + 1].name);
         }
     }},
    {"UnlinkingListedNamesHidesNone",
     [](Fixture& f) -> Task<> {
         const Names all = numbered(200);
         for (const string& name : all) co_await f.file(root_node, name);
         const FileHandle handle = co_await f.open(root_node, f.reading);
         UnlinkSeen unlink_seen{f};
         Names seen = co_await walk_while(f, handle, 7, unlink_seen);
         std::ranges::sort(seen);
         EXPECT_EQ(seen, all);
         EXPECT_EQ(co_await f.names(root_node), Names{});
     }},
    {"ListingDuringChangesShowsOtherNamesOnce",
     [](Fixture& f) -> Task<> {
         // Entries that stay come exactly once; others at most once.
         const Names staying = numbered(150);
         for (const string& name : staying) co_await f.file(root_node, name);
         const FileHandle handle = co_await f.open(root_node, f.reading);
         Churn churn{f};
         const Names seen = co_await walk_while(f, handle, 9, churn);
         const std::set<string> distinct(seen.begin(), seen.end());
         EXPECT_EQ(distinct.size(), seen.size()) << "an entry came twice";
         for (const string& name : staying) EXPECT_TRUE(distinct.contains(name)) << name;
     }},
    {"ListingContinuesAfterTheLastNameIsUnlinked",
     [](Fixture& f) -> Task<> {
         const Names all = numbered(10);
         for (const string& name : all) co_await f.file(root_node, name);
         const FileHandle handle = co_await f.open(root_node, f.reading);
         const auto first = co_await f.fs.readdir(f.call, handle, 0, 5);
         CO_ASSERT(first && first->size() == 5);
         const string last = first->back().name;
         EXPECT_OK(co_await f.fs.unlink(f.call, root_node, last));
         const auto rest = co_await f.fs.readdir(f.call, handle, first->back().cookie, 100);
         CO_ASSERT(rest.has_value());
         EXPECT_EQ(rest->size(), 5u);
     }},
    {"HandlesHaveIndependentPositions",
     [](Fixture& f) -> Task<> {
         for (const string& name : numbered(10)) co_await f.file(root_node, name);
         const FileHandle a = co_await f.open(root_node, f.reading);
         const FileHandle b = co_await f.open(root_node, f.reading);
         const auto in_a = co_await f.fs.readdir(f.call, a, 0, 6);
         const auto in_b = co_await f.fs.readdir(f.call, b, 0, 3);
         CO_ASSERT(in_a && in_b);
         EXPECT_EQ((co_await f.fs.readdir(f.call, a, in_a->back().cookie, 100))->size(), 4u);
         EXPECT_EQ((co_await f.fs.readdir(f.call, b, in_b->back().cookie, 100))->size(), 7u);
     }},
    {"CookieBehindTheEndListsNothing",
     [](Fixture& f) -> Task<> {
         co_await f.file(root_node, "file");
         const FileHandle handle = co_await f.open(root_node, f.reading);
         const auto entries = co_await f.fs.readdir(f.call, handle, INT64_MAX - 2, 10);
         EXPECT_OK(entries);
         if (entries) EXPECT_TRUE(entries->empty());
         EXPECT_EQ((co_await f.fs.readdir(f.call, handle, 0, 10))->size(), 1u);
     }},
    {"UnknownCookieOfANewHandleIsHarmless",
     [](Fixture& f) -> Task<> {
         for (const char* name : {"a", "b", "c"}) co_await f.file(root_node, name);
         // In some file systems a cookie is the position of a name. There, names may follow.
         for (const uint64_t cookie : {uint64_t{4}, uint64_t{1000}, uint64_t{1} << 40}) {
             const FileHandle handle = co_await f.open(root_node, f.reading);
             const auto behind = co_await f.fs.readdir(f.call, handle, cookie, 10);
             EXPECT_OK(behind);
             EXPECT_EQ((co_await f.fs.readdir(f.call, handle, 0, 10))->size(), 3u);
             co_await f.close(handle);
         }
     }},
    {"CookieOfAnotherHandleHidesNoNames",
     [](Fixture& f) -> Task<> {
         for (const char* name : {"a", "b", "c"}) co_await f.file(root_node, name);
         const FileHandle first = co_await f.open(root_node, f.reading);
         const auto entries = co_await f.fs.readdir(f.call, first, 0, 2);
         CO_ASSERT(entries);
         const FileHandle second = co_await f.open(root_node, f.reading);
         // The remaining names or an error, but not the end of the directory.
         const auto rest = co_await f.fs.readdir(f.call, second, entries->back().cookie, 10);
         if (rest) EXPECT_FALSE(rest->empty());
     }},
    {"RemovedOpenDirectoryIsUsable",
     [](Fixture& f) -> Task<> {
         const NodeId dir = co_await f.directory(root_node, "dir", 0750);
         const FileHandle handle = co_await f.open(dir, f.reading);
         EXPECT_OK(co_await f.fs.rmdir(f.call, root_node, "dir"));
         co_await use_removed_directory(f, dir, handle);
         co_await f.close(handle);
         EXPECT_FALSE(co_await f.exists(root_node, "dir"));
     }},
    {"ReplacedOpenDirectoryIsUsable",
     [](Fixture& f) -> Task<> {
         const NodeId dir = co_await f.directory(root_node, "dir", 0750);
         const NodeId other = co_await f.directory(root_node, "other");
         const FileHandle handle = co_await f.open(dir, f.reading);
         EXPECT_OK(co_await f.fs.rename(f.call, root_node, "other", root_node, "dir", {}));
         co_await use_removed_directory(f, dir, handle);
         co_await f.close(handle);
         EXPECT_EQ(co_await f.node_of(root_node, "dir"), other);
         co_await f.file(other, "file");
     }},
    {"ConcurrentRmdirAndMkdirExcludeEachOther",
     [](Fixture& f) -> Task<> {
         // Either the directory is removed and was empty, or it stays with its entries.
         for (int round = 0; round < 30; ++round) {
             const NodeId dir = co_await f.directory(root_node, "dir");
             int made = 0;
             int removed = 0;
             {
                 Nursery nursery(f.reactor, 3);
                 co_await nursery.spawn(try_mkdir(f, dir, "a", made));
                 co_await nursery.spawn(try_rmdir(f, "dir", removed));
                 co_await nursery.spawn(try_mkdir(f, dir, "b", made));
                 co_await nursery.join();
             }
             EXPECT_EQ(removed == 1, made == 0) << round;
             if (removed == 0) {
                 for (const string& name : co_await f.names(dir)) {
                     EXPECT_OK(co_await f.fs.rmdir(f.call, dir, name));
                 }
                 EXPECT_OK(co_await f.fs.rmdir(f.call, root_node, "dir"));
             }
         }
     }},
    {"EntryChangesUpdateTheDirectoryTimes",
     [](Fixture& f) -> Task<> {
         const NodeId dir = co_await f.directory(root_node, "dir");
         const NodeId other = co_await f.file(root_node, "other");
         Attributes before = co_await f.stat(dir);
         const auto moved = [&](const Attributes& now) {
             const bool later = now.modified > before.modified && now.changed > before.changed;
             before = now;
             return later;
         };
         co_await f.later();
         co_await f.file(dir, "x");
         EXPECT_TRUE(moved(co_await f.stat(dir))) << "create";
         co_await f.later();
         EXPECT_OK(co_await f.fs.rename(f.call, dir, "x", dir, "y", {}));
         EXPECT_TRUE(moved(co_await f.stat(dir))) << "rename in it";
         co_await f.later();
         if (f.traits.hard_links) {
             EXPECT_OK(co_await f.fs.link(f.call, other, dir, "z"));
         } else {
             EXPECT_OK(co_await f.fs.rename(f.call, root_node, "other", dir, "z", {}));
         }
         EXPECT_TRUE(moved(co_await f.stat(dir))) << "link, or rename into it";
         co_await f.later();
         EXPECT_OK(co_await f.fs.unlink(f.call, dir, "y"));
         EXPECT_TRUE(moved(co_await f.stat(dir))) << "unlink";
         co_await f.later();
         EXPECT_OK(co_await f.fs.rename(f.call, dir, "z", root_node, "z", {}));
         EXPECT_TRUE(moved(co_await f.stat(dir))) << "rename out of it";
         co_await f.later();
         EXPECT_OK(co_await f.fs.lookup(f.call, root_node, "z"));
         EXPECT_FALSE(moved(co_await f.stat(dir))) << "lookup";
     }},
    {"SetGroupDirectoryPassesOnItsGroup",
     [](Fixture& f) -> Task<> {
         const NodeId dir = co_await f.directory(root_node, "dir");
         EXPECT_OK(co_await f.fs.set_attributes(f.call, dir, {.gid = 55}));
         EXPECT_OK(co_await f.fs.set_attributes(f.call, dir, {.mode = 02775}));
         EXPECT_EQ((co_await f.stat(co_await f.file(dir, "file"))).gid, 55u);
         const Attributes sub = co_await f.stat(co_await f.directory(dir, "sub"));
         EXPECT_EQ(sub.gid, 55u);
         EXPECT_EQ(sub.mode & S_ISGID, static_cast<mode_t>(S_ISGID));
     }},
};

}  // namespace

Cases directory_cases() { return directory_table; }

}  // namespace ros2s::fs::contract
