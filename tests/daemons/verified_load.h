// A load of files that are overwritten and read back. It compares every byte. It uses a few MiB for
// any duration, and measures its rounds.
#pragma once
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "load.h"

namespace ros2s::tests {

class VerifiedLoad final : public Load {
  public:
    // `name`: the name of its files; concurrent loads need different names. `marker`: is in each
    // 512 bytes of them.
    VerifiedLoad(OsReactor& reactor, fs::FileSystem& files, std::string name,
                 std::string marker = {})
        : Load(reactor, files, workers), name_(std::move(name)), marker_(std::move(marker)) {}
    // The 99th percentile of the time of a round (a write and a read) since the last call.
    Duration take_p99() {
        Duration found{};
        run_blocking(reactor_, [&] { return take_p99_here(found); });
        return found;
    }

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
            const Time begun = reactor_.now();
            if (!co_await one(opened->handle, worker, round)) break;
            const auto slots = static_cast<size_t>((reactor_.now() - begun) / slot);
            ++took_[std::min(slots, took_.size() - 1)];
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
        for (size_t at = 0; at < bytes; at += 512) {
            std::memcpy(&written[at], marker_.data(), marker_.size());
        }
        const auto put =
            co_await files_.pwrite(call, file, fs::Window::local(ConstBytes(written)), 0);
        EXPECT_TRUE(put) << describe(put.error());
        const auto got = co_await files_.pread(call, file, fs::Window::local(Bytes(read)), 0);
        EXPECT_TRUE(got) << describe(got.error());
        EXPECT_TRUE(read == written) << "worker " << worker << ", round " << round;
        co_return put&& got&& read == written;
    }

    Task<> take_p99_here(Duration& found) {
        const uint64_t all = std::accumulate(took_.begin(), took_.end(), uint64_t{0});
        uint64_t seen = 0;
        size_t slots = 0;
        while (slots < took_.size() && (seen += took_[slots]) * 100 < all * 99) ++slots;
        found = slot * (slots + 1);
        std::ranges::fill(took_, 0);
        co_return;
    }

    static constexpr Duration slot = std::chrono::microseconds(100);
    const std::string name_, marker_;
    // Rounds by duration. The last bucket: a minute or more.
    std::vector<uint32_t> took_ = std::vector<uint32_t>(std::chrono::minutes(1) / slot);
};

}  // namespace ros2s::tests
