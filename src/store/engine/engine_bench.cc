// The engine's speed on this machine's disk: 4 KiB random reads and durable random writes, and 1
// MiB ones, at several depths. Run it in a directory on the disk to measure:
//
//     ROS2STORE_BENCH_DIR=/var/tmp engine_engine_bench
//
// Compare with fio on a fully written file there (io_uring, direct=1).
#include <benchmark/benchmark.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "engine_store.h"
#include "ros2s/base/check.h"
#include "ros2s/device/uring/file_device.h"
#include "ros2s/engine/index/rocksdb/rocksdb_index.h"
#include "ros2s/runtime/nursery.h"
#include "ros2s/runtime/os_reactor.h"
#include "ros2s/runtime/thread_pool.h"
#include "test_support/null_device.h"

namespace ros2s::engine {
namespace {

constexpr uint64_t device_bytes = uint64_t{2} << 30;
constexpr uint64_t data_bytes = uint64_t{512} << 20;
constexpr uint64_t chunk_bytes = 1 << 20;

// One pool for all measurements, made when the first begins and removed at the end.
class Pool {
  public:
    explicit Pool(bool null) : null_(null) {
        const char* const parent = std::getenv("ROS2STORE_BENCH_DIR");
        std::string name = std::string(parent != nullptr ? parent : "/tmp") + "/engine-XXXXXX";
        ROS2S_CHECK(::mkdtemp(name.data()) != nullptr);
        directory_ = name;
        reactor = OsReactor::create({}, report_).value();
        blocking = std::make_unique<ThreadPool>(2);
        const Result<> opened = reactor->run(open());
        if (!opened) {
            std::fprintf(stderr, "%s: %s\n", describe(opened.error()).c_str(),
                         report_.text().c_str());
            std::abort();
        }
    }
    ~Pool() {
        ROS2S_CHECK(reactor->run(store->close()).has_value());
        store.reset();
        blocking.reset();
        reactor.reset();
        std::filesystem::remove_all(directory_);
    }
    static Pool& get(bool null) {
        if (present() == nullptr || present()->null_ != null) {
            present().reset();
            present() = std::make_unique<Pool>(null);
        }
        return *present();
    }
    // Null at first; reset before main() ends, because reactors outlive no thread.
    static std::unique_ptr<Pool>& present() {
        static std::unique_ptr<Pool> pool;
        return pool;
    }

    std::unique_ptr<OsReactor> reactor;
    std::unique_ptr<ThreadPool> blocking;
    std::unique_ptr<EngineStore> store;
    object::ContainerId container{};
    Call call;

  private:
    IndexFactory factory() {
        return [this](std::string_view name, bool create, Report& report) {
            const std::string path = directory_ + "/" + std::string(name);
            const RocksDbOptions options{.memory_bytes = EngineOptions{}.index_share()};
            return create ? create_rocksdb_index(path, options, report)
                          : open_rocksdb_index(path, options, report);
        };
    }
    Task<Result<>> open() {
        const Environment env{*reactor, *blocking};
        const std::string path = directory_ + "/device-0";
        EngineStore::Devices devices;
        if (null_) {
            devices.push_back(std::make_unique<NullDevice>(data_bytes + data_bytes / 4));
        } else {
            ROS2S_CO_TRY(co_await device::create_file_device(*reactor, path, device_bytes, {}, {},
                                                             {}, report_));
            ROS2S_CO_TRY_ASSIGN(devices.emplace_back(),
                                co_await device::FileDevice::open(*reactor, path, {}, report_));
        }
        device::BlockDevice* const device = devices[0].get();
        ROS2S_CO_TRY(co_await EngineStore::create(env, {&device, 1}, factory(), {}, report_));
        ROS2S_CO_TRY_ASSIGN(
            store, co_await EngineStore::open(env, std::move(devices), factory(), {}, report_));
        ROS2S_CO_TRY_ASSIGN(const auto made,
                            co_await store->create_container(call, {.label = "b"}));
        container = made.id;
        const AlignedBuffer buffer(chunk_bytes);
        std::memset(buffer.data(), 0x5a, buffer.size());
        for (uint64_t at = 0; at < data_bytes; at += chunk_bytes) {
            ROS2S_CO_TRY(co_await write(at, buffer.bytes()));
        }
        co_return Result<>();
    }

  public:
    Task<Result<>> write(uint64_t offset, Bytes bytes) {
        object::Transaction transaction;
        transaction.operations.push_back({.kind = object::Operation::Kind::write,
                                          .object = {1, 1},
                                          .dkey = object::Dkey::integer(offset / chunk_bytes),
                                          .akey = {"d"},
                                          .extent = {offset % chunk_bytes, bytes.size()},
                                          .window = object::Window::local(bytes)});
        const auto commit = co_await store->update(call, container, transaction);
        if (!commit) co_return fail(commit.error());
        co_return Result<>();
    }

  private:
    bool null_;
    Report report_;
    std::string directory_;
};

Task<> writer(Pool& pool, uint64_t& left, uint64_t bytes, uint64_t& failures) {
    const AlignedBuffer buffer(bytes);
    std::memset(buffer.data(), 0x77, buffer.size());
    while (left > 0) {
        --left;
        const uint64_t offset = pool.reactor->random().below(data_bytes / bytes) * bytes;
        const Result<> written = co_await pool.write(offset, buffer.bytes());
        if (!written) ++failures;
    }
}
Task<> reader(Pool& pool, uint64_t& left, uint64_t bytes, uint64_t& failures) {
    const AlignedBuffer buffer(bytes);
    object::FetchItem item{.object = {1, 1}, .akey = {"d"}};
    item.window = object::Window::local(buffer.bytes());
    while (left > 0) {
        --left;
        const uint64_t offset = pool.reactor->random().below(data_bytes / bytes) * bytes;
        item.dkey = object::Dkey::integer(offset / chunk_bytes);
        item.extent = {offset % chunk_bytes, bytes};
        const Result<> fetched = co_await pool.store->fetch(pool.call, pool.container, {&item, 1});
        if (!fetched || !item.status) ++failures;
    }
}

using Worker = Task<> (*)(Pool&, uint64_t&, uint64_t, uint64_t&);
Task<uint64_t> all(Pool& pool, Worker worker, uint64_t depth, uint64_t operations, uint64_t bytes) {
    uint64_t left = operations;
    uint64_t failures = 0;
    Nursery nursery(*pool.reactor, depth);
    for (uint64_t i = 0; i < depth; ++i) {
        co_await nursery.spawn(worker(pool, left, bytes, failures));
    }
    co_await nursery.join();
    co_return failures;
}

void measure(benchmark::State& state, Worker worker, uint64_t per_round, bool null = false) {
    Pool& pool = Pool::get(null);
    const auto bytes = static_cast<uint64_t>(state.range(0));
    const auto depth = static_cast<uint64_t>(state.range(1));
    uint64_t failures = 0;
    for (auto _ : state) {
        failures += pool.reactor->run(all(pool, worker, depth, per_round, bytes));
    }
    if (failures > 0) state.SkipWithError("requests failed");
    state.SetItemsProcessed(state.iterations() * static_cast<int64_t>(per_round));
    state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(per_round * bytes));
}
void read(benchmark::State& state) { measure(state, reader, 4096); }
void write(benchmark::State& state) { measure(state, writer, 4096); }
void read_large(benchmark::State& state) { measure(state, reader, 256); }
void write_large(benchmark::State& state) { measure(state, writer, 256); }
void null_read(benchmark::State& state) { measure(state, reader, 4096, true); }
void null_write(benchmark::State& state) { measure(state, writer, 4096, true); }

BENCHMARK(null_read)->Args({4096, 32})->UseRealTime()->MinTime(1);
BENCHMARK(null_write)->Args({4096, 1})->Args({4096, 32})->UseRealTime()->MinTime(1);
BENCHMARK(read)->Args({4096, 1})->Args({4096, 32})->UseRealTime()->MinTime(2);
BENCHMARK(write)->Args({4096, 1})->Args({4096, 32})->Args({4096, 128})->UseRealTime()->MinTime(2);
BENCHMARK(read_large)->Args({1 << 20, 8})->UseRealTime()->MinTime(1);
BENCHMARK(write_large)->Args({1 << 20, 8})->UseRealTime()->MinTime(1);

}  // namespace
}  // namespace ros2s::engine

int main(int argc, char** argv) {
    benchmark::Initialize(&argc, argv);
    benchmark::RunSpecifiedBenchmarks();
    ros2s::engine::Pool::present().reset();
    return 0;
}
