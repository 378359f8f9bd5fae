// A load of files that are written over and read back: every byte that comes is compared. It takes
// a few MiB, however long it runs.
#pragma once
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "load.h"

namespace ros2s::tests {

class VerifiedLoad final : public Load {
  public:
    // `name`: of its files, for loads beside each other.
    VerifiedLoad(OsReactor& reactor, fs::FileSystem& files, std::string name)
        : Load(reactor, files, workers), name_(std::move(name)) {}

  private:
    static constexpr uint32_t workers = 4;
    static constexpr size_t round_bytes = size_t{192} << 10;  // inline, and by windows

    Task<> work(uint32_t worker) override {
        const Call call;
        const auto opened = co_await files_.create(
            call, fs::root_node, fmt::format("{}-{}", name_, worker), 0600, {.write = true}, {});
        EXPECT_TRUE(opened) << describe(opened.error());
        if (!opened) co_return;
        for (uint64_t round = 0; !stop_; ++round) {
            if (!co_await one(opened->handle, worker, round)) break;
            ++done_;
        }
        EXPECT_TRUE(co_await files_.close(call, opened->handle));
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

    const std::string name_;
};

}  // namespace ros2s::tests
