// What age does to a pool: fills it to 80 %, overwrites 4 KiB blocks at random for several times
// its size, and prints what durable writes and reads cost before, meanwhile and after. Run it in a
// directory on the disk to measure:
//
//     ROS2STORE_BENCH_DIR=/var/tmp engine_aging_bench [MiB of the device] [times its size]
//     [cleaner_percent]
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <map>

#include "engine_store.h"
#include "ros2s/base/check.h"
#include "ros2s/device/uring/file_device.h"
#include "ros2s/engine/index/rocksdb/rocksdb_index.h"
#include "ros2s/runtime/nursery.h"
#include "ros2s/runtime/os_reactor.h"
#include "ros2s/runtime/thread_pool.h"

namespace ros2s::engine {
namespace {

constexpr uint64_t aging_chunk = 1 << 20;
constexpr size_t aging_depth = 32;

class AgingPool {
  public:
    AgingPool(uint64_t device_bytes, uint32_t cleaner_percent) {
        const char* const parent = std::getenv("ROS2STORE_BENCH_DIR");
        std::string name = std::string(parent != nullptr ? parent : "/tmp") + "/aging-XXXXXX";
        ROS2S_CHECK(::mkdtemp(name.data()) != nullptr);
        directory_ = name;
        const Result<> opened = reactor->run(open(device_bytes, cleaner_percent));
        if (opened) return;
        std::fprintf(stderr, "%s: %s\n", describe(opened.error()).c_str(), report_.text().c_str());
        std::abort();
    }
    ~AgingPool() {
        ROS2S_CHECK(reactor->run(store->close()).has_value());
        store.reset();
        std::filesystem::remove_all(directory_);
    }

    // Operations of `bytes` each at random offsets, or in order; 32 at a time.
    void run(bool writes, bool in_order, uint64_t operations, uint64_t bytes) {
        ROS2S_CHECK(reactor->run(all(writes, in_order, operations, bytes)) == 0);
    }
    // Until the cleaner has moved nothing for a second. Returns the time before.
    std::chrono::duration<double> rest() {
        const auto begin = std::chrono::steady_clock::now();
        auto last = begin;
        for (uint64_t moved = UINT64_MAX; moved != metrics()["cleaner_moved_bytes_total"];) {
            moved = metrics()["cleaner_moved_bytes_total"];
            last = std::chrono::steady_clock::now();
            reactor->run(wait());
        }
        return last - begin;
    }
    std::map<std::string, uint64_t> metrics() const {
        std::map<std::string, uint64_t> all;
        store->visit_metrics([&](std::string_view name, std::string_view, uint64_t value) {
            all.emplace(name.substr(name.find("engine_") + 7), value);
        });
        return all;
    }

  private:
    Report report_;

  public:
    std::unique_ptr<OsReactor> reactor = OsReactor::create({}, report_).value();
    std::unique_ptr<ThreadPool> blocking = std::make_unique<ThreadPool>(2);
    std::unique_ptr<EngineStore> store;
    uint64_t data_bytes = 0;

  private:
    IndexFactory factory() {
        return [this](std::string_view name, bool create, Report& report) {
            const std::string path = directory_ + "/" + std::string(name);
            const RocksDbOptions options{.memory_bytes = EngineOptions{}.index_share()};
            return create ? create_rocksdb_index(path, options, report)
                          : open_rocksdb_index(path, options, report);
        };
    }
    Task<Result<>> open(uint64_t device_bytes, uint32_t cleaner_percent) {
        const Environment env{*reactor, *blocking};
        const std::string path = directory_ + "/device-0";
        ROS2S_CO_TRY(
            co_await device::create_file_device(*reactor, path, device_bytes, {}, {}, {}, report_));
        EngineStore::Devices devices;
        ROS2S_CO_TRY_ASSIGN(devices.emplace_back(),
                            co_await device::FileDevice::open(*reactor, path, {}, report_));
        device::BlockDevice* const device = devices[0].get();
        ROS2S_CO_TRY(co_await EngineStore::create(env, {&device, 1}, factory(), {}, report_));
        EngineOptions options;
        options.cleaner_percent = cleaner_percent;
        ROS2S_CO_TRY_ASSIGN(store, co_await EngineStore::open(env, std::move(devices), factory(),
                                                              options, report_));
        ROS2S_CO_TRY_ASSIGN(const auto made,
                            co_await store->create_container(call_, {.label = "b"}));
        container_ = made.id;
        data_bytes = metrics()["total_bytes"] / 10 * 8 / aging_chunk * aging_chunk;
        co_return Result<>();
    }
    Task<> wait() { (void)co_await sleep_for(*reactor, std::chrono::seconds(1)); }
    Task<> worker(bool writes, bool in_order, uint64_t& left, uint64_t bytes, uint64_t& failures) {
        const AlignedBuffer buffer(bytes);
        std::memset(buffer.data(), 0x77, buffer.size());
        object::FetchItem item{.object = {1, 1}, .akey = {"d"}};
        item.window = object::Window::local(buffer.bytes());
        while (left > 0) {
            const uint64_t number = --left;
            const uint64_t places = data_bytes / bytes;
            const uint64_t offset =
                bytes * (in_order ? number % places : reactor->random().below(places));
            item.dkey = object::Dkey::integer(offset / aging_chunk);
            item.extent = {offset % aging_chunk, bytes};
            bool good = false;
            if (writes) {
                object::Transaction transaction;
                transaction.operations.push_back({.kind = object::Operation::Kind::write,
                                                  .object = item.object,
                                                  .dkey = item.dkey,
                                                  .akey = item.akey,
                                                  .extent = item.extent,
                                                  .window = item.window});
                good = (co_await store->update(call_, container_, transaction)).has_value();
            } else {
                const Result<> done = co_await store->fetch(call_, container_, {&item, 1});
                good = done && item.status;
            }
            failures += good ? 0 : 1;
        }
    }
    Task<uint64_t> all(bool writes, bool in_order, uint64_t operations, uint64_t bytes) {
        uint64_t left = operations;
        uint64_t failures = 0;
        const size_t depth = bytes > block_bytes ? 8 : aging_depth;
        Nursery nursery(*reactor, depth);
        for (size_t i = 0; i < depth; ++i) {
            co_await nursery.spawn(worker(writes, in_order, left, bytes, failures));
        }
        co_await nursery.join();
        co_return failures;
    }

    std::string directory_;
    object::ContainerId container_{};
    Call call_;
};

// One line: the rate of the operations, and the I/Os of their groups.
void phase(AgingPool& pool, std::string_view name, bool writes, bool in_order, uint64_t operations,
           uint64_t bytes) {
    auto before = pool.metrics();
    const auto begin = std::chrono::steady_clock::now();
    pool.run(writes, in_order, operations, bytes);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    auto after = pool.metrics();
    const auto grown = [&](const char* what) {
        return static_cast<double>(after[what] - before[what]);
    };
    const double groups = std::max(grown("groups_total"), 1.0);
    fmt::print("{:<28} {:>9.0f}/s {:>8.1f} MiB/s", name,
               static_cast<double>(operations) / took.count(),
               static_cast<double>(operations * bytes) / took.count() / (1 << 20));
    if (writes) {
        fmt::print("  groups of {:>5.1f} blocks in {:>5.2f} runs", grown("blocks_total") / groups,
                   grown("runs_total") / groups);
        fmt::print(
            ", {:>4.2f} written for 1, {} MiB clear",
            1 + grown("cleaner_moved_bytes_total") / std::max(grown("update_bytes_total"), 1.0),
            after["clear_bytes"] >> 20);
    }
    fmt::print("\n");
    std::fflush(stdout);
}

void age(uint64_t device_bytes, uint64_t times, uint32_t cleaner_percent) {
    AgingPool pool(device_bytes, cleaner_percent);
    const uint64_t blocks = pool.data_bytes / block_bytes;
    phase(pool, "fill, 1 MiB", true, true, pool.data_bytes / aging_chunk, aging_chunk);
    const uint64_t sample = std::min<uint64_t>(blocks / 10, 100'000);
    phase(pool, "fresh: write 4 KiB", true, false, sample, block_bytes);
    phase(pool, "fresh: read 4 KiB", false, false, sample, block_bytes);
    phase(pool, "fresh: read 1 MiB", false, false, 512, aging_chunk);
    for (uint64_t i = 1; i <= times; ++i) {
        phase(pool, fmt::format("overwrite, size x {}", i), true, false, blocks, block_bytes);
    }
    phase(pool, "aged: write 4 KiB", true, false, sample, block_bytes);
    phase(pool, "aged: read 4 KiB", false, false, sample, block_bytes);
    phase(pool, "aged: read 1 MiB", false, false, 512, aging_chunk);
    phase(pool, "aged: write 1 MiB", true, false, 32, aging_chunk);
    const std::chrono::duration<double> rested = pool.rest();
    phase(pool, fmt::format("rested {:.1f} s: write 4 KiB", rested.count()), true, false,
          sample / 2, block_bytes);
    phase(pool, "rested: write 1 MiB", true, false, 32, aging_chunk);
    phase(pool, "rested: read 1 MiB", false, false, 512, aging_chunk);
    auto all = pool.metrics();
    fmt::print("in all {:.2f} written for 1\n",
               1 + static_cast<double>(all["cleaner_moved_bytes_total"]) /
                       static_cast<double>(all["update_bytes_total"]));
}

}  // namespace
}  // namespace ros2s::engine

int main(int argc, char** argv) {
    const auto argument = [&](int i, uint64_t otherwise) {
        return argc > i ? std::strtoull(argv[i], nullptr, 10) : otherwise;
    };
    ros2s::engine::age(argument(1, 2048) << 20, argument(2, 4),
                       static_cast<uint32_t>(argument(3, 100)));
    return 0;
}
