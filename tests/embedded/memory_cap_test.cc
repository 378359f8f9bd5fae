// The memory cap of a pool, as the kernel counts it: this process, with a real pool (device file,
// io_uring, RocksDB), makes an index several times the cap out of small records, reads them in an
// order that no cache likes, lists them, closes, and opens the pool again.
//
// The allowance on top of the cap is for what does not grow with pool or load: code and libraries,
// RocksDB's and io_uring's fixed parts, thread stacks, and the allocator's slack.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

#include "ros2s/api/embedded_pool.h"
#include "ros2s/api/pool_directory.h"
#include "ros2s/base/random.h"
#include "ros2s/runtime/nursery.h"
#include "ros2s/runtime/os_reactor.h"
#include "ros2s/runtime/thread_pool.h"

namespace ros2s::api {
namespace {

namespace files = std::filesystem;

constexpr uint64_t cap = uint64_t{64} << 20;
constexpr uint64_t allowance = uint64_t{48} << 20;
constexpr uint64_t value_bytes = 500;
constexpr uint64_t writers = 32;
constexpr uint64_t records_each = 64;  // in a transaction
constexpr uint64_t transactions_each = 320;
constexpr uint64_t records = writers * transactions_each * records_each;
constexpr uint64_t records_of_object = 100;

// The most that was ever resident.
uint64_t peak_bytes() {
    std::ifstream status("/proc/self/status");
    for (std::string word; status >> word;) {
        uint64_t kib = 0;
        if (word == "VmHWM:" && status >> kib) return kib << 10;
    }
    return 0;
}

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

// Other bytes for each record, so that nothing on the way can make them smaller.
std::string value_of(uint64_t record) {
    Random random(record);
    std::string value(value_bytes, '\0');
    std::ranges::generate(value, [&] { return static_cast<char>(random.next()); });
    return value;
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
        for (uint64_t t = 0; t < transactions_each; ++t) {
            object::Transaction transaction;
            for (uint64_t i = 0; i < records_each; ++i) {
                const uint64_t record = (writer * transactions_each + t) * records_each + i;
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

    Task<> read(object::ObjectStore& store, object::ContainerId container, uint64_t reader) {
        std::string value(value_bytes, '\0');
        Random random(reader);
        for (uint64_t i = 0; i < 1000; ++i) {
            const uint64_t record = random.below(records);
            object::FetchItem item{
                .object = object_of(record),
                .dkey = object::Dkey::integer(record),
                .akey = {"v"},
                .extent = {0, value.size()},
                .window = object::Window::local(std::as_writable_bytes(std::span(value)))};
            const auto fetched = co_await store.fetch(Call{}, container, {&item, 1});
            if (!fetched || !item.status || value != value_of(record)) {
                ADD_FAILURE() << "record " << record << " does not read back";
                co_return;
            }
        }
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
        const auto container = co_await pool->find_container(Call{}, "main", report_);
        if (container) {
            auto& store = pool->store();
            const object::ContainerId id = container->id;
            if (first) {
                co_await side_by_side([&](uint64_t writer) { return write(store, id, writer); });
            }
            co_await side_by_side([&](uint64_t reader) { return read(store, id, reader); });
        }
        co_await pool->close();
        ROS2S_CO_TRY(container);
        co_return Result<>{};
    }

    std::string base_;
    Report report_;
    std::unique_ptr<OsReactor> reactor_;
    ThreadPool blocking_{2};
};

TEST_F(MemoryCap, HoldsForAProcessWithAnIndexFourTimesAsLarge) {
    PoolCreation creation{.directory = base_ + "/pool", .bytes = pool_bytes_min};
    creation.config.memory_bytes = cap;
    ASSERT_TRUE(reactor_->run(create_pool(Call{}, {*reactor_, blocking_}, creation, report_)))
        << report_.text();
    for (const bool first : {true, false}) {
        ASSERT_TRUE(reactor_->run(live(first))) << report_.text();
        EXPECT_GE(disk_bytes(base_ + "/pool/index"), 4 * cap);
        const uint64_t peak = peak_bytes();
        RecordProperty("resident_peak", std::to_string(peak));
        EXPECT_GT(peak, cap / 4);  // less would mean that it was not measured
        EXPECT_LE(peak, cap + allowance);
    }
}

}  // namespace
}  // namespace ros2s::api
