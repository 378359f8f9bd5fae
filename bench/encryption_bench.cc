// What encryption costs: the same reads and writes on a plain and an encrypted container of one
// pool in this process, in turn, so that both meet the same machine. Prints medians of the rounds.
//
//     encryption_bench DIRECTORY      (the pool is made there and removed; tmpfs has no disk's
//     noise)
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "ros2s/cipher/container_keys.h"
#include "ros2s/fs/container.h"
#include "ros2s/pool/embedded_pool.h"
#include "ros2s/pool/pool_directory.h"
#include "ros2s/runtime/nursery.h"
#include "ros2s/runtime/os_reactor.h"
#include "ros2s/runtime/thread_pool.h"

namespace ros2s {
namespace {

constexpr uint64_t file_bytes = 64 << 20;
constexpr size_t depth = 8;
constexpr int rounds = 9;

struct Load {
    const char* name;
    bool writes;
    uint64_t bytes;
    int operations;  // of a round
};
constexpr std::array loads{
    Load{"random read 4 KiB", false, 4096, 4000}, Load{"random write 4 KiB", true, 4096, 2000},
    Load{"random read 1 MiB", false, 1 << 20, 200}, Load{"random write 1 MiB", true, 1 << 20, 100}};

struct Side {
    std::unique_ptr<fs::FileSystem> files;
    fs::FileHandle handle{};
    std::vector<double> wall_us{}, cpu_us{};  // of an operation, by round
};

double cpu_now_us() {
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    const auto us = [](const timeval& time) {
        return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_usec);
    };
    return us(usage.ru_utime) + us(usage.ru_stime);
}

double median(std::vector<double>& values) {
    std::ranges::sort(values);
    return values[values.size() / 2];
}

template <class T>
T need(Result<T> result, const Report& report) {
    if (result) return std::move(*result);
    std::fputs(fmt::format("{}: {}\n", describe(result.error()), report.text()).c_str(), stderr);
    std::exit(1);
}

class Bench {
  public:
    explicit Bench(std::string directory) : directory_(std::move(directory)) {
        std::filesystem::create_directories(keys_);
        std::ofstream(keys_ + "/bench.key") << std::string(64, '7');
        ::chmod((keys_ + "/bench.key").c_str(), 0600);
        reactor_ = need(OsReactor::create({}, report_), report_);
        const pool::PoolCreation creation{.directory = directory_ + "/pool",
                                          .bytes = uint64_t{1} << 30};
        if (!reactor_->run(pool::create_pool({}, {*reactor_, blocking_}, creation, report_))) {
            need(Result<int>(fail(Code::io)), report_);
        }
        pool::OwnerRecord owner;
        pool_ = need(reactor_->run(pool::EmbeddedPool::open(
                         {*reactor_, blocking_}, creation.directory, {}, owner, report_)),
                     report_);
        layers_ =
            need(cipher::decrypt_with(keys_, cipher::keep_keys, {*reactor_, blocking_}, report_),
                 report_);
        reactor_->run(begin());
    }
    ~Bench() {
        for (Side& side : sides_) {
            (void)reactor_->run(side.files->close(call_, side.handle));
            side.files.reset();
        }
        reactor_->run(pool_->close());
        pool_.reset();
        std::filesystem::remove_all(directory_ + "/pool");
        std::filesystem::remove_all(keys_);
    }
    Bench(const Bench&) = delete;
    Bench& operator=(const Bench&) = delete;

    void run() {
        fmt::print("{:<20}{:>12}{:>12}{:>8}{:>12}{:>12}{:>10}\n", "", "plain us", "encrypted",
                   "speed", "plain CPU", "encrypted", "CPU more");
        for (const Load& load : loads) {
            for (Side& side : sides_) side.wall_us = side.cpu_us = {};
            for (int round = 0; round < rounds; ++round) {
                for (Side& side : sides_) reactor_->run(measure(load, side));
            }
            const double plain = median(sides_[0].wall_us), sealed = median(sides_[1].wall_us);
            const double cpu = median(sides_[0].cpu_us), more = median(sides_[1].cpu_us);
            fmt::print("{:<20}{:>12.1f}{:>12.1f}{:>7.2f}x{:>12.1f}{:>12.1f}{:>10.1f}\n", load.name,
                       plain, sealed, plain / sealed, cpu, more, more - cpu);
        }
    }

  private:
    Task<> begin() {
        for (Side& side : sides_) {
            const bool encrypted = &side == &sides_[1];
            const std::string label = encrypted ? "encrypted" : "plain";
            const auto made = need(
                co_await pool_->create_container(call_, {.label = label}, {}, report_), report_);
            if (encrypted) {
                const auto provider =
                    need(cipher::KeyCalls::open({*reactor_, blocking_}, keys_, report_), report_);
                const object::Features features = pool_->store().features();
                const std::string bytes = cipher::encode(
                    need(co_await cipher::make_keys(call_, *provider, "bench", features, report_),
                         report_));
                if (!co_await fs::require_decryption(call_, pool_->store(), made,
                                                     cipher::put_keys(bytes), report_)) {
                    need(Result<int>(fail(Code::io)), report_);
                }
            }
            side.files = need(
                co_await pool_->open_container(call_, label, {.layers = layers_.get()}, report_),
                report_);
            side.handle = need(co_await side.files->create(call_, fs::root_node, "f", 0644,
                                                           {.write = true}, {}),
                               report_)
                              .handle;
            for (uint64_t at = 0; at < file_bytes; at += buffers_[0].size()) {
                need(co_await side.files->pwrite(call_, side.handle,
                                                 object::Window::local(buffers_[0].bytes()), at),
                     report_);
            }
        }
    }

    Task<> measure(Load load, Side& side) {
        const double cpu = cpu_now_us();
        const Time begin = reactor_->now();
        Nursery nursery(*reactor_, depth);
        for (int i = 0; i < load.operations; ++i) {
            const uint64_t at = random_.below(file_bytes / load.bytes) * load.bytes;
            co_await nursery.spawn(once(side, load.writes, load.bytes, at));
        }
        co_await nursery.join();
        const double each = load.operations;
        const std::chrono::duration<double, std::micro> wall = reactor_->now() - begin;
        side.wall_us.push_back(wall.count() / each);
        side.cpu_us.push_back((cpu_now_us() - cpu) / each);
    }

    Task<> once(Side& side, bool writes, uint64_t bytes, uint64_t at) {
        AlignedBuffer buffer = std::move(buffers_.back());  // as many as the nursery starts
        buffers_.pop_back();
        const auto window = object::Window::local(buffer.bytes().first(bytes));
        need(writes ? co_await side.files->pwrite(call_, side.handle, window, at)
                    : co_await side.files->pread(call_, side.handle, window, at),
             report_);
        buffers_.push_back(std::move(buffer));
    }

    const Call call_{};
    const std::string directory_;
    const std::string keys_ = directory_ + "/keys";
    Report report_;
    ThreadPool blocking_{2};
    std::unique_ptr<OsReactor> reactor_;
    std::unique_ptr<pool::EmbeddedPool> pool_;
    std::unique_ptr<object::StoreLayers> layers_;
    std::array<Side, 2> sides_;  // plain, encrypted
    Random random_{1};
    std::vector<AlignedBuffer> buffers_ = [] {
        std::vector<AlignedBuffer> buffers;
        for (size_t i = 0; i < depth; ++i) {
            buffers.emplace_back(1 << 20);
            std::ranges::fill(buffers.back().bytes(), std::byte{0x5a});
        }
        return buffers;
    }();
};

}  // namespace
}  // namespace ros2s

int main(int count, char** words) {
    if (count != 2) {
        std::fputs("usage: encryption_bench DIRECTORY\n", stderr);
        return 2;
    }
    ros2s::Bench(words[1]).run();
    return 0;
}
