// The memory cap of a pool, as the kernel counts it. This process, with a real pool (device file,
// io_uring, RocksDB), writes small records until the index is several times as large as the cap,
// reads them in an order that is bad for caches, writes and reads large extents concurrently,
// closes the pool and opens it again.
//
// The allowance above the cap is for memory that does not grow with pool or load: code and
// libraries, fixed parts of RocksDB and io_uring, thread stacks, and the allocator's slack.
//
// The cap and the size of the index are parameters, so that the default cap can be tested. This
// takes minutes, and as much disk as the index, its compactions (about the same again) and four
// times the cap:
//   ROS2STORE_CAP_MIB=512 ROS2STORE_INDEX_TIMES=10 TMPDIR=/var/tmp memory_cap_test
// It prints the peaks, and the times of reads of cached records and of records on the disk. The
// test does not check these figures.
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "resident_peak.h"
#include "ros2s/base/random.h"
#include "ros2s/fs/container.h"
#include "ros2s/pool/embedded_pool.h"
#include "ros2s/pool/pool_directory.h"
#include "ros2s/runtime/nursery.h"
#include "ros2s/runtime/os_reactor.h"
#include "ros2s/runtime/thread_pool.h"

namespace ros2s::pool {
namespace {

namespace files = std::filesystem;

constexpr uint64_t allowance = uint64_t{48} << 20;
constexpr uint64_t value_bytes = 500;
constexpr uint64_t writers = 32;
constexpr uint64_t records_each = 64;  // in a transaction
constexpr uint64_t records_of_object = 100;
constexpr uint64_t timed_reads = 1000;
constexpr uint64_t large_rounds = 4;

struct Load {
    uint64_t cap = 0;          // bytes
    uint64_t index_bytes = 0;  // at least
    uint64_t transactions_each = 0;
    uint64_t records = 0;
    uint64_t large_bytes = 0;  // of one request; all writers' together are half the cap

    static Load from_environment() {
        const auto number = [](const char* name, uint64_t otherwise) {
            const char* const text = std::getenv(name);
            return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
        };
        Load load;
        load.cap = number("ROS2STORE_CAP_MIB", 64) << 20;
        load.index_bytes = load.cap * number("ROS2STORE_INDEX_TIMES", 4);
        // The keys come on top of the values.
        load.transactions_each = load.index_bytes / (writers * records_each * value_bytes) + 1;
        load.records = writers * load.transactions_each * records_each;
        load.large_bytes = load.cap / 2 / writers;
        return load;
    }
};

uint64_t disk_bytes(const std::string& directory) {
    uint64_t bytes = 0;
    for (const auto& each : files::recursive_directory_iterator(directory)) {
        struct stat found{};
        if (::stat(each.path().c_str(), &found) == 0 && S_ISREG(found.st_mode)) {
            bytes += static_cast<uint64_t>(found.st_blocks) * 512;
        }
    }
    return bytes;
}

// Each record has different bytes, so that compression cannot make it smaller.
std::string value_of(uint64_t record) {
    Random random(record);
    std::string value(value_bytes, '\0');
    std::ranges::generate(value, [&] { return static_cast<char>(random.next()); });
    return value;
}

// Drops the index's files from the page cache. The page cache is not memory of this process, and
// would hide the disk.
void forget_cached_pages(const std::string& directory) {
    for (const auto& each : files::recursive_directory_iterator(directory)) {
        const int file = ::open(each.path().c_str(), O_RDONLY | O_CLOEXEC);
        if (file < 0) continue;
        ::posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
        ::close(file);
    }
}

double microseconds(Duration duration) {
    return std::chrono::duration<double, std::micro>(duration).count();
}

object::ObjectId object_of(uint64_t record) { return {2, record / records_of_object}; }

class MemoryCap : public testing::Test {
  protected:
    void SetUp() override {
        std::string path = testing::TempDir() + "memory_cap.XXXXXX";
        ASSERT_NE(mkdtemp(path.data()), nullptr);
        base_ = path;
        auto made = OsReactor::create({}, report_);
        ASSERT_TRUE(made) << report_.text();
        reactor_ = std::move(*made);
    }
    void TearDown() override { files::remove_all(base_); }

    Task<> write(object::ObjectStore& store, object::ContainerId container, uint64_t writer) {
        std::vector<std::string> values(records_each);
        for (uint64_t t = 0; t < load_.transactions_each; ++t) {
            object::Transaction transaction;
            for (uint64_t i = 0; i < records_each; ++i) {
                const uint64_t record = (writer * load_.transactions_each + t) * records_each + i;
                values[i] = value_of(record);
                transaction.operations.push_back(
                    {.kind = object::Operation::Kind::put,
                     .object = object_of(record),
                     .dkey = object::Dkey::integer(record),
                     .akey = {"v"},
                     .window = object::Window::local(as_bytes(values[i]))});
            }
            const auto commit = co_await store.update(Call{}, container, transaction);
            if (!commit) {
                ADD_FAILURE() << describe(commit.error());
                co_return;
            }
        }
    }

    // How long the fetch took.
    Task<Duration> read_one(object::ObjectStore& store, object::ContainerId container,
                            uint64_t record) {
        std::string value(value_bytes, '\0');
        object::FetchItem item{
            .object = object_of(record),
            .dkey = object::Dkey::integer(record),
            .akey = {"v"},
            .extent = {0, value.size()},
            .window = object::Window::local(std::as_writable_bytes(std::span(value)))};
        const Time begin = reactor_->now();
        const auto fetched = co_await store.fetch(Call{}, container, {&item, 1});
        const Duration took = reactor_->now() - begin;
        EXPECT_TRUE(fetched && item.status && value == value_of(record))
            << "record " << record << " does not read back";
        co_return took;
    }

    Task<> read(object::ObjectStore& store, object::ContainerId container, uint64_t reader) {
        Random random(reader);
        for (uint64_t i = 0; i < 1000 && !HasFailure(); ++i) {
            co_await read_one(store, container, random.below(load_.records));
        }
    }

    // All writers use the same bytes, so that the measurement does not include memory of the test.
    Task<> write_and_read_large(object::ObjectStore& store, object::ContainerId container,
                                uint64_t writer, std::string& bytes) {
        for (uint64_t round = 0; round < large_rounds && !HasFailure(); ++round) {
            object::Transaction transaction;
            transaction.operations.push_back({.kind = object::Operation::Kind::write,
                                              .object = {3, writer},
                                              .dkey = object::Dkey::integer(0),
                                              .akey = {"data"},
                                              .extent = {0, bytes.size()},
                                              .window = object::Window::local(as_bytes(bytes))});
            const auto commit = co_await store.update(Call{}, container, transaction);
            EXPECT_TRUE(commit) << describe(commit.error());
            object::FetchItem item{
                .object = {3, writer},
                .dkey = object::Dkey::integer(0),
                .akey = {"data"},
                .extent = {0, bytes.size()},
                .window = object::Window::local(std::as_writable_bytes(std::span(bytes)))};
            const auto fetched = co_await store.fetch(Call{}, container, {&item, 1});
            EXPECT_TRUE(fetched && item.status) << "large extent " << writer;
        }
    }

    // The median of single reads of `timed_reads` random records, the same for the same seed.
    Task<Duration> median_read(object::ObjectStore& store, object::ContainerId container,
                               uint64_t seed) {
        Random random(seed);
        std::vector<Duration> took;
        while (took.size() < timed_reads) {
            took.push_back(co_await read_one(store, container, random.below(load_.records)));
        }
        std::ranges::nth_element(took, took.begin() + timed_reads / 2);
        co_return took[timed_reads / 2];
    }

    Task<> time_reads(object::ObjectStore& store, object::ContainerId container) {
        const uint64_t seed = writers;  // not that of a reader
        forget_cached_pages(base_ + "/pool/index");
        const Duration disk = co_await median_read(store, container, seed);
        const Duration cached = co_await median_read(store, container, seed);
        fmt::print(
            "one read of {} bytes, median of {}: {:.1f} µs from the disk, {:.1f} µs from "
            "the cache ({:.1f} times)\n",
            value_bytes, timed_reads, microseconds(disk), microseconds(cached),
            microseconds(disk) / microseconds(cached));
    }

    template <typename Work>
    Task<> side_by_side(Work work) {
        Nursery nursery(*reactor_, writers);
        for (uint64_t i = 0; i < writers; ++i) co_await nursery.spawn(work(i));
        co_await nursery.join();
    }

    Task<Result<>> live(bool first) {
        OwnerRecord present;
        ROS2S_CO_TRY_ASSIGN(auto pool,
                            co_await EmbeddedPool::open({*reactor_, blocking_}, base_ + "/pool", {},
                                                        present, report_));
        const auto container =
            co_await fs::find_container(Call{}, pool->store(), pool->shown(), "main", report_);
        if (container) {
            auto& store = pool->store();
            const object::ContainerId id = container->id;
            if (first) {
                co_await side_by_side([&](uint64_t writer) { return write(store, id, writer); });
            }
            co_await side_by_side([&](uint64_t reader) { return read(store, id, reader); });
            co_await time_reads(store, id);
            show_peak("written and read, small");
            std::string bytes(load_.large_bytes, 'x');
            co_await side_by_side(
                [&](uint64_t writer) { return write_and_read_large(store, id, writer, bytes); });
            show_peak("written and read, large");
        }
        co_await pool->close();
        ROS2S_CO_TRY(container);
        co_return Result<>{};
    }

    void show_peak(std::string_view after) const {
        fmt::print("{}: cap {} MiB, {} records, index {} MiB, resident peak {} MiB\n", after,
                   load_.cap >> 20, load_.records, disk_bytes(base_ + "/pool/index") >> 20,
                   resident_peak() >> 20);
    }

    const Load load_ = Load::from_environment();
    std::string base_;
    Report report_;
    std::unique_ptr<OsReactor> reactor_;
    ThreadPool blocking_{2};
};

TEST_F(MemoryCap, LargeIndexStaysWithinTheCap) {
    PoolCreation creation{.directory = base_ + "/pool",
                          .bytes = std::max(pool_bytes_min, 4 * load_.cap)};
    creation.config.memory_bytes = load_.cap;
    ASSERT_TRUE(reactor_->run(create_pool(Call{}, {*reactor_, blocking_}, creation, report_)))
        << report_.text();
    for (const bool first : {true, false}) {
        ASSERT_TRUE(reactor_->run(live(first))) << report_.text();
        EXPECT_GE(disk_bytes(base_ + "/pool/index"), load_.index_bytes);
        const uint64_t peak = resident_peak();
        RecordProperty("resident_peak", std::to_string(peak));
        EXPECT_GT(peak, load_.cap / 4);  // less would mean that it was not measured
        EXPECT_LE(peak, load_.cap + allowance);
    }
}

}  // namespace
}  // namespace ros2s::pool
