// Which calls of LocalDirectory need helper threads, and how many jobs they need.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "open_local_directory.h"
#include "ros2s/runtime/nursery.h"
#include "ros2s/runtime/sim/co_test.h"

namespace ros2s::foreign {
namespace {

using fs::root_node;

// Like ASSERT_TRUE, in a coroutine.
#define CO_ASSERT(...)                     \
    do {                                   \
        if (!(__VA_ARGS__)) {              \
            ADD_FAILURE() << #__VA_ARGS__; \
            co_return;                     \
        }                                  \
    } while (false)

// Counts jobs. While it is held, jobs do not run, as if the threads hung.
class CountedPool final : public BlockingPool {
  public:
    explicit CountedPool(BlockingPool& inner) : inner_(inner) {}
    void submit(Job& job) noexcept override {
        ++jobs_;
        if (!holds_) return inner_.submit(job);
        job.next = std::exchange(held_, &job);
    }
    void hold() { holds_ = true; }
    void release() {
        holds_ = false;
        while (held_ != nullptr) inner_.submit(*std::exchange(held_, held_->next));
    }
    // Since the last time.
    size_t jobs() { return std::exchange(jobs_, 0); }

  private:
    BlockingPool& inner_;
    size_t jobs_ = 0;
    bool holds_ = false;
    Job* held_ = nullptr;
};

std::vector<std::string> numbered(size_t count) {
    std::vector<std::string> names;
    for (size_t i = 0; i < count; ++i) names.push_back("n" + std::to_string(i));
    return names;
}

// In tmpfs, where all existing names are cached in memory, and no others.
class LocalDirectoryLookups : public testing::Test {
  protected:
    void SetUp() override {
        std::string pattern = "/dev/shm/ros2store-test-XXXXXX";
        if (::mkdtemp(pattern.data()) == nullptr) GTEST_SKIP() << "/dev/shm cannot be written";
        path = pattern;
        if (file_system_kind(path) != Result<std::string>("tmpfs")) GTEST_SKIP() << "no tmpfs";
        std::filesystem::create_directories(path + "/a/b");
        std::ofstream(path + "/a/b/file") << "text";
        std::filesystem::create_symlink("/etc", path + "/a/link");
        world.run(open(*this, path));
    }
    void TearDown() override {
        if (fs != nullptr) world.run(fs->close_all());
        std::error_code ignored;
        if (!path.empty()) std::filesystem::remove_all(path, ignored);
    }
    static Task<> open(LocalDirectoryLookups& self, std::string path) {
        Report report;
        auto opened = co_await open_local_directory(path, self.world.core(), self.pool, report);
        EXPECT_TRUE(opened) << report.text();
        if (opened) self.fs = std::move(*opened);
        (void)self.pool.jobs();
    }
    static Task<> look_up(LocalDirectoryLookups& self, std::string name,
                          Result<fs::Attributes>& found) {
        found = co_await self.fs->lookup({}, root_node, name);
    }

    std::string path;
    sim::World world{1};
    CountedPool pool{world.blocking()};
    std::unique_ptr<fs::FileSystem> fs;

  public:
    // Would not end if anything waited for a thread.
    Task<> finds_without_threads() {
        pool.hold();
        const Call call;
        const auto walked = co_await fs->walk(call, "a/b/file", fs::LastLink::keep);
        CO_ASSERT(walked && walked->attributes);
        EXPECT_EQ(walked->attributes->size, 4U);
        const auto above = co_await fs->lookup(call, root_node, "a");
        CO_ASSERT(above);
        const std::vector<std::string_view> names{"b", "link", "b", "."};
        for (const auto& each : co_await fs->lookup_many(call, above->node, names)) {
            EXPECT_TRUE(each);
        }
        const fs::NodeId file = walked->attributes->node;
        EXPECT_EQ((co_await fs->get_attributes(call, file))->node, file);
        // Another program's change is seen at once.
        std::ofstream(path + "/a/b/file", std::ios::app) << " and more";
        EXPECT_EQ((co_await fs->get_attributes(call, file))->size, 13U);
        std::filesystem::rename(path + "/a/b", path + "/a/c");
        EXPECT_TRUE(co_await fs->lookup(call, above->node, "c"));
        EXPECT_EQ(pool.jobs(), 0U);
        pool.release();
        EXPECT_EQ((co_await fs->lookup(call, above->node, "b")).error().code, Code::not_found);
    }
    Task<> waits_for_what_is_not_in_memory() {
        pool.hold();
        Result<fs::Attributes> found;
        Nursery calls(world.core(), 1);
        co_await calls.spawn(look_up(*this, "absent", found));
        (void)co_await sleep_for(world.core(), std::chrono::seconds(1));
        EXPECT_EQ(pool.jobs(), 1U);
        EXPECT_EQ(found->node, fs::NodeId{}) << "it did not wait for a thread";
        pool.release();
        co_await calls.join();
        EXPECT_EQ(found.error().code, Code::not_found);
    }
    Task<> stops_at_links() {
        const Call call;
        const std::vector<std::string_view> names{"a", "link", "passwd"};
        const auto found = co_await fs->look_up_names(call, root_node, names);
        CO_ASSERT(found.size() == 2 && found[1]);
        EXPECT_TRUE(S_ISLNK(found[1]->mode));
        EXPECT_EQ((co_await fs->lookup(call, found[1]->node, "passwd")).error().code,
                  Code::not_directory);
        // "b" is replaced by a link out of the directory: what is below is not found any more.
        const auto below = co_await fs->walk(call, "a/b", fs::LastLink::keep);
        std::filesystem::rename(path + "/a/b", path + "/a/moved");
        std::filesystem::create_symlink("/etc", path + "/a/b");
        EXPECT_EQ((co_await fs->lookup(call, below->attributes->node, "passwd")).error().code,
                  Code::not_found);
        const std::vector<std::string_view> again{"a", "b", "passwd"};
        EXPECT_EQ((co_await fs->look_up_names(call, root_node, again)).size(), 2U);
    }
    Task<> refuses_names() {
        const Call call;
        const std::string zero("b\0c", 3), slash = "b/file", most(256, 'n');
        for (const std::string& bad : {zero, slash, most, std::string(".."), std::string()}) {
            const std::vector<std::string_view> names{bad}, after{"a", bad};
            const auto alone = co_await fs->look_up_names(call, root_node, names);
            EXPECT_TRUE(alone.size() == 1 && !alone[0]) << bad;
            EXPECT_EQ((co_await fs->look_up_names(call, root_node, after)).size(), 1U) << bad;
            EXPECT_FALSE((co_await fs->lookup_many(call, root_node, names))[0]) << bad;
            EXPECT_FALSE((co_await fs->create_many(call, root_node, names, 0644, {}))[0]) << bad;
            EXPECT_FALSE((co_await fs->unlink_many(call, root_node, names))[0]) << bad;
        }
        EXPECT_TRUE(std::filesystem::exists(path + "/a/b/file"));
    }
    Task<> counts_jobs() {
        const Call call;
        const auto names = numbered(64);
        const std::vector<std::string_view> views(names.begin(), names.end());
        for (const auto& each : co_await fs->lookup_many(call, root_node, views)) {
            EXPECT_FALSE(each);
        }
        EXPECT_EQ(pool.jobs(), 2U);
        for (const auto& each : co_await fs->create_many(call, root_node, views, 0640, {})) {
            EXPECT_TRUE(each);
        }
        EXPECT_EQ(pool.jobs(), 2U);
        for (const auto& each : co_await fs->unlink_many(call, root_node, views)) {
            EXPECT_TRUE(each);
        }
        EXPECT_EQ(pool.jobs(), 2U);
        const auto made = co_await fs->create(call, root_node, "made", 0640, {.write = true}, {});
        CO_ASSERT(made);
        EXPECT_EQ(pool.jobs(), 1U);
        EXPECT_EQ(made->attributes.mode, S_IFREG | 0640U);
        EXPECT_TRUE(co_await fs->close(call, made->handle));
        EXPECT_EQ(pool.jobs(), 1U);
    }
    Task<> removes_and_forgets() {
        const Call call;
        const auto made = co_await fs->create(call, root_node, "made", 0640, {.write = true}, {});
        CO_ASSERT(made);
        EXPECT_TRUE(co_await fs->close(call, made->handle));
        const auto file = co_await fs->walk(call, "a/b/file", fs::LastLink::keep);
        CO_ASSERT(file && file->attributes);
        EXPECT_TRUE(co_await fs->unlink(call, root_node, "made"));
        (void)pool.jobs();
        fs->forget(file->attributes->node, 1);
        EXPECT_EQ(pool.jobs(), 0U);
        fs->forget(made->attributes.node, 1);
        EXPECT_EQ(pool.jobs(), 1U);
    }
    // Nested directories. Only the deepest one has a reference.
    Task<> make_chain(std::vector<fs::NodeId>& chain) {
        const Call call;
        chain.push_back(root_node);
        for (int i = 0; i < 500; ++i) {
            const auto made = co_await fs->mkdir(call, chain.back(), "d", 0755, {});
            CO_ASSERT(made);
            chain.push_back(made->node);
        }
        for (size_t i = 1; i + 1 < chain.size(); ++i) fs->forget(chain[i], 1);
    }
    Task<> lets_go_of_a_chain() {
        std::vector<fs::NodeId> chain;
        co_await make_chain(chain);
        CO_ASSERT(chain.size() == 501);
        const Call call;
        fs->forget(chain.back(), 1);
        const auto is_there = [&](size_t at) { return fs->get_attributes(call, chain[at]); };
        EXPECT_FALSE(co_await is_there(500));
        EXPECT_FALSE(co_await is_there(436));
        EXPECT_TRUE(co_await is_there(435)) << "all were dropped in one piece";
        // A node that is used again stays, and so do its parents.
        const auto again = co_await fs->lookup(call, root_node, "d");
        CO_ASSERT(again);
        EXPECT_EQ(again->node, chain[1]);
        (void)co_await sleep_for(world.core(), std::chrono::seconds(1));
        EXPECT_FALSE(co_await is_there(2));
        EXPECT_TRUE(co_await is_there(1));
        fs->forget(again->node, 1);
        EXPECT_FALSE(co_await is_there(1));
    }
    // TearDown() closes the file system, whose task is not done then.
    Task<> forgets_a_chain() {
        std::vector<fs::NodeId> chain;
        co_await make_chain(chain);
        fs->forget(chain.back(), 1);
    }
};

TEST_F(LocalDirectoryLookups, CachedNameNeedsNoThread) { world.run(finds_without_threads()); }
TEST_F(LocalDirectoryLookups, UncachedNameIsLookedUpOnAThread) {
    world.run(waits_for_what_is_not_in_memory());
}
TEST_F(LocalDirectoryLookups, LookupStopsAtLinks) { world.run(stops_at_links()); }
TEST_F(LocalDirectoryLookups, InvalidNamesAreRefused) { world.run(refuses_names()); }
// Closing it may free blocks.
TEST_F(LocalDirectoryLookups, RemovedFileIsClosedOnAThread) { world.run(removes_and_forgets()); }
// A host can make a chain of any length by moving one chain to the end of another.
TEST_F(LocalDirectoryLookups, DirectoryChainIsDroppedInSlices) { world.run(lets_go_of_a_chain()); }
TEST_F(LocalDirectoryLookups, DirectoryChainIsDroppedBeforeTheEnd) { world.run(forgets_a_chain()); }
TEST_F(LocalDirectoryLookups, ManyNamesAreOneJob) { world.run(counts_jobs()); }

// A file system that may contact a server even for names that the kernel has cached.
CO_TEST(LocalDirectory, OtherFileSystemIsAskedOnAThread, sim::World, world, 1) {
    CountedPool pool(world.blocking());
    Report report;
    auto opened = co_await open_local_directory("/proc", world.core(), pool, report);
    CO_ASSERT(opened);
    (void)pool.jobs();
    const Call call;
    const auto walked = co_await (*opened)->walk(call, "sys/kernel/ostype", fs::LastLink::keep);
    CO_ASSERT(walked && walked->attributes);
    EXPECT_EQ(pool.jobs(), 1U);
    EXPECT_TRUE(co_await (*opened)->get_attributes(call, walked->attributes->node));
    EXPECT_EQ(pool.jobs(), 1U);
    const auto names = numbered(32);
    const std::vector<std::string_view> views(names.begin(), names.end());
    for (const auto& each : co_await (*opened)->lookup_many(call, root_node, views)) {
        EXPECT_EQ(each.error().code, Code::not_found);
    }
    EXPECT_EQ(pool.jobs(), 4U);
    co_await (*opened)->close_all();
}

Task<> walk_into(fs::FileSystem& files, Call call, std::string path, Result<>& done) {
    const auto walked = co_await files.walk(call, path, fs::LastLink::follow);
    done = walked ? Result<>() : fail(walked.error());
}

// In /proc, where names are found ahead on a thread.
// Otherwise they would be kept until the process ends, because no client knows them.
CO_TEST(LocalDirectory, StoppedWalkReleasesNodesFoundAhead, sim::World, world, 1) {
    CountedPool pool(world.blocking());
    Report report;
    auto opened = co_await open_local_directory("/proc", world.core(), pool, report);
    CO_ASSERT(opened);
    fs::FileSystem& files = **opened;
    const Call call;
    const auto sys = co_await files.lookup(call, root_node, "sys");
    CO_ASSERT(sys);
    const auto kernel = co_await files.lookup(call, sys->node, "kernel");
    CO_ASSERT(kernel);
    StopSource stop;
    Result<> done;
    Nursery calls(world.core(), 1);
    pool.hold();
    // ".." ends the names that are found together: the walk would look up more after it.
    co_await calls.spawn(
        walk_into(files, {.stop = stop.token()}, "sys/kernel/../kernel/ostype", done));
    (void)co_await sleep_for(world.core(), std::chrono::seconds(1));
    stop.request_stop();
    pool.release();
    co_await calls.join();
    EXPECT_EQ(done, Result<>(fail(Code::cancelled)));
    files.forget(kernel->node, 1);
    files.forget(sys->node, 1);
    EXPECT_EQ((co_await files.get_attributes(call, kernel->node)).error().code, Code::stale);
    EXPECT_EQ((co_await files.get_attributes(call, sys->node)).error().code, Code::stale);
    co_await files.close_all();
}

}  // namespace
}  // namespace ros2s::foreign
