// Sparse files whose maps are several times as large as the memory cap of the pool, on a real pool.
// Recovery after the process died, truncation, removal, and destruction of a container stay within
// the cap, and free the space. The writing process dies without closing the pool, so the kernel
// measures the memory of the process that does the rest alone.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "resident_peak.h"
#include "ros2s/fs/container.h"
#include "ros2s/pool/embedded_pool.h"
#include "ros2s/runtime/nursery.h"
#include "ros2s/runtime/test_support/made_reactor.h"
#include "ros2s/runtime/thread_pool.h"

namespace ros2s::pool {
namespace {

using fs::Window;

constexpr uint64_t cap = uint64_t{64} << 20;
constexpr uint64_t allowance = uint64_t{48} << 20;  // as in memory_cap_test
constexpr uint64_t file_bytes = uint64_t{23} << 30;
constexpr uint64_t step = uint64_t{64} << 10;  // one block of 4 KiB in each
constexpr uint64_t writers = 32;
const Call call;

struct Process {
    explicit Process(std::string directory) : path(std::move(directory)) {
        reactor = made_reactor();
    }
    Task<Result<std::unique_ptr<EmbeddedPool>>> open() {
        OwnerRecord present;
        co_return co_await EmbeddedPool::open({*reactor, blocking}, path, {}, present, report);
    }
    std::string path;
    Report report;
    std::unique_ptr<OsReactor> reactor;
    ThreadPool blocking{2};
};

Task<> write_blocks(fs::FileSystem& files, fs::FileHandle file, uint64_t writer, uint64_t& failed) {
    const std::vector<std::byte> block(4096, std::byte{1});
    for (uint64_t at = writer * step; at < file_bytes && failed == 0; at += writers * step) {
        if (!co_await files.pwrite(call, file, Window::local(ConstBytes(block)), at)) ++failed;
    }
}

Task<Result<>> write_file(Reactor& reactor, EmbeddedPool& pool, std::string container,
                          Report& report) {
    ROS2S_CO_TRY_ASSIGN(const auto files,
                        co_await pool.open_container(call, container, {}, report));
    ROS2S_CO_TRY_ASSIGN(const auto opened, co_await files->create(call, fs::root_node, "sparse",
                                                                  0644, {.write = true}, {}));
    uint64_t failed = 0;
    Nursery nursery(reactor, writers);
    for (uint64_t writer = 0; writer < writers; ++writer) {
        co_await nursery.spawn(write_blocks(*files, opened.handle, writer, failed));
    }
    co_await nursery.join();
    co_await files->close_all();
    if (failed != 0) co_return fail(Code::io);
    co_return Result<>{};
}

// Dies without closing anything.
Task<> write_and_die(Process& self) {
    PoolCreation creation{.directory = self.path, .bytes = uint64_t{8} << 30};
    creation.config.memory_bytes = cap;
    const auto created =
        co_await create_pool(call, {*self.reactor, self.blocking}, creation, self.report);
    if (!created) ::_exit(2);
    const auto pool = co_await self.open();
    if (!pool) ::_exit(3);
    const auto second =
        co_await (*pool)->create_container(call, {.label = "second"}, {}, self.report);
    if (!second) ::_exit(4);
    for (const char* container : {"main", "second"}) {
        if (!co_await write_file(*self.reactor, **pool, container, self.report)) ::_exit(5);
    }
    ::_exit(0);
}

uint64_t mib(uint64_t bytes) { return bytes >> 20; }

class SparseFile : public testing::Test {
  protected:
    void SetUp() override {
        std::string path = testing::TempDir() + "sparse_file.XXXXXX";
        ASSERT_NE(mkdtemp(path.data()), nullptr);
        base = path;
        const pid_t writer = ::fork();
        if (writer == 0) {
            Process child(base + "/pool");
            child.reactor->run(write_and_die(child));
            ::_exit(6);
        }
        int status = 0;
        ASSERT_EQ(::waitpid(writer, &status, 0), writer);
        ASSERT_TRUE(WIFEXITED(status));
        ASSERT_EQ(WEXITSTATUS(status), 0) << "the number of the step that failed";
    }
    void TearDown() override { std::filesystem::remove_all(base); }

    static Task<uint64_t> used(EmbeddedPool& pool) {
        const auto space = co_await pool.store().space(call, {});
        EXPECT_TRUE(space);
        co_return space ? space->total_bytes - space->free_bytes : 0;
    }
    static Task<uint64_t> show_used(EmbeddedPool& pool, std::string_view after) {
        const uint64_t bytes = co_await used(pool);
        fmt::print("{}: {} MiB used, resident peak {} MiB\n", after, mib(bytes),
                   mib(resident_peak()));
        co_return bytes;
    }

    static Task<> live(Process& self) {
        auto opened = co_await self.open();
        EXPECT_TRUE(opened) << self.report.text();
        if (!opened) co_return;
        EmbeddedPool& pool = **opened;
        co_await cut_and_remove(self, pool);
        const auto second =
            co_await fs::find_container(call, pool.store(), pool.shown(), "second", self.report);
        EXPECT_TRUE(second) << self.report.text();
        if (second) EXPECT_TRUE(co_await pool.store().destroy_container(call, second->id));
        co_await show_used(pool, "destroyed");
        // Space is freed in steps.
        for (int tries = 0; tries < 600 && mib(co_await used(pool)) > 64; ++tries) {
            co_await sleep_for(*self.reactor, std::chrono::milliseconds(100));
        }
        EXPECT_LE(mib(co_await show_used(pool, "at the end")), 64u);
        co_await pool.close();
    }

    static Task<> cut_and_remove(Process& self, EmbeddedPool& pool) {
        const auto files = co_await pool.open_container(call, "main", {}, self.report);
        EXPECT_TRUE(files) << self.report.text();
        if (!files) co_return;
        const auto node = co_await (*files)->lookup(call, fs::root_node, "sparse");
        EXPECT_TRUE(node);
        if (!node) co_return;
        const uint64_t before = co_await show_used(pool, "recovered");
        EXPECT_EQ(node->size, file_bytes - step + 4096);
        const auto cut =
            co_await (*files)->set_attributes(call, node->node, {.size = file_bytes / 2 + 100});
        EXPECT_TRUE(cut) << (cut ? "" : describe(cut.error()));
        EXPECT_LT(co_await show_used(pool, "cut off in the middle"), before);
        const auto removed = co_await (*files)->unlink(call, fs::root_node, "sparse");
        EXPECT_TRUE(removed) << (removed ? "" : describe(removed.error()));
        co_await show_used(pool, "removed");
        co_await (*files)->close_all();
    }

    std::string base;
};

TEST_F(SparseFile, LargeSparseFileStaysWithinTheCap) {
    Process self(base + "/pool");
    self.reactor->run(live(self));
    EXPECT_GT(resident_peak(), cap / 4);  // less would mean that it was not measured
    EXPECT_LE(resident_peak(), cap + allowance);
}

}  // namespace
}  // namespace ros2s::pool
