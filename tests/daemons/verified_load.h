// A load of files that are written over and read back: every byte that comes is compared. It takes
// a few MiB, however long it runs.
#pragma once
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <vector>

#include "ros2s/fs/file_system.h"
#include "ros2s/runtime/nursery.h"
#include "ros2s/runtime/os_reactor.h"
#include "ros2s/runtime/run_blocking.h"

namespace ros2s::tests {

class VerifiedLoad {
  public:
    // `name`: of its files, for loads beside each other.
    VerifiedLoad(OsReactor& reactor, fs::FileSystem& files, std::string name)
        : reactor_(reactor), files_(files), name_(std::move(name)), workers_(reactor, workers) {}

    void begin() {
        run_blocking(reactor_, [&] { return begin_here(); });
    }
    // Waits until so many more rounds are done, a minute at most.
    void expect_progress(uint64_t rounds) {
        const uint64_t before = rounds_done();
        for (int i = 0; i < 60'000 && rounds_done() < before + rounds; ++i) ::usleep(1000);
        EXPECT_GE(rounds_done(), before + rounds);
    }
    void end() {
        run_blocking(reactor_, [&] { return end_here(); });
    }

  private:
    static constexpr uint32_t workers = 4;
    static constexpr size_t round_bytes = size_t{192} << 10;  // inline, and by windows

    Task<> begin_here() {
        for (uint32_t i = 0; i < workers; ++i) co_await workers_.spawn(work(*this, i));
    }
    static Task<> work(VerifiedLoad& self, uint32_t worker) {
        const Call call;
        const auto opened = co_await self.files_.create(call, fs::root_node,
                                                        fmt::format("{}-{}", self.name_, worker),
                                                        0600, {.write = true}, {});
        EXPECT_TRUE(opened) << describe(opened.error());
        if (!opened) co_return;
        for (uint64_t round = 0; !self.stop_; ++round) {
            if (!co_await self.one(opened->handle, worker, round)) break;
            ++self.done_;
        }
        EXPECT_TRUE(co_await self.files_.close(call, opened->handle));
    }
    Task<bool> one(fs::FileHandle file, uint32_t worker, uint64_t round) {
        const Call call;
        const size_t bytes = round % 2 == 0 ? 4096 : round_bytes;
        std::vector<std::byte> written(bytes), read(bytes);
        for (size_t at = 0; at < bytes; at += sizeof(uint64_t)) {
            const uint64_t stamp = (round << 32 | uint64_t{worker} << 24) ^ at * 0x9e3779b97f4a7c15;
            std::memcpy(&written[at], &stamp, sizeof stamp);
        }
        const auto put =
            co_await files_.pwrite(call, file, fs::Window::local(ConstBytes(written)), 0);
        EXPECT_TRUE(put) << describe(put.error());
        const auto got = co_await files_.pread(call, file, fs::Window::local(Bytes(read)), 0);
        EXPECT_TRUE(got) << describe(got.error());
        EXPECT_TRUE(read == written) << "worker " << worker << ", round " << round;
        co_return put&& got&& read == written;
    }
    Task<> look(uint64_t& into) {
        into = done_;
        co_return;
    }
    uint64_t rounds_done() {
        uint64_t now = 0;
        run_blocking(reactor_, [&] { return look(now); });
        return now;
    }
    Task<> end_here() {
        stop_ = true;
        co_await workers_.join();
    }

    OsReactor& reactor_;
    fs::FileSystem& files_;
    const std::string name_;
    bool stop_ = false;
    uint64_t done_ = 0;
    Nursery workers_;
};

}  // namespace ros2s::tests
