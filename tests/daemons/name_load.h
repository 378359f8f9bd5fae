// A load of names: each is created exclusively, renamed and removed. Done twice, any of these
// fails; not done, the next one does.
#pragma once
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "ros2s/fs/file_system.h"
#include "ros2s/runtime/nursery.h"
#include "ros2s/runtime/os_reactor.h"
#include "ros2s/runtime/run_blocking.h"

namespace ros2s::tests {

class NameLoad {
  public:
    NameLoad(OsReactor& reactor, fs::FileSystem& files)
        : reactor_(reactor), files_(files), workers_(reactor, workers) {}

    void begin() {
        run_blocking(reactor_, [&] { return begin_here(); });
    }
    // Waits until so many more rounds are done, a minute at most.
    void expect_progress(uint64_t rounds) {
        const uint64_t before = rounds_done();
        for (int i = 0; i < 60'000 && rounds_done() < before + rounds; ++i) ::usleep(1000);
        EXPECT_GE(rounds_done(), before + rounds);
    }
    // After which the root is as it was.
    void end() {
        run_blocking(reactor_, [&] { return end_here(); });
    }

  private:
    static constexpr uint32_t workers = 4;

    Task<> begin_here() {
        for (uint32_t i = 0; i < workers; ++i) co_await workers_.spawn(work(*this, i));
    }
    static Task<> work(NameLoad& self, uint32_t worker) {
        for (uint32_t round = 0; !self.stop_; ++round) {
            const std::string name = fmt::format("name-{}-{}", worker, round);
            if (!co_await self.one(name, name + "-moved")) co_return;
            ++self.done_;
        }
    }
    Task<bool> one(std::string name, std::string moved) {
        const auto made = co_await files_.create(call_, fs::root_node, name, 0600,
                                                 {.write = true, .exclusive = true}, {});
        EXPECT_TRUE(made) << name << ": " << describe(made.error());
        if (!made) co_return false;
        EXPECT_TRUE(co_await files_.close(call_, made->handle));
        const auto renamed =
            co_await files_.rename(call_, fs::root_node, name, fs::root_node, moved, {});
        EXPECT_TRUE(renamed) << name << ": " << describe(renamed.error());
        const auto removed = co_await files_.unlink(call_, fs::root_node, moved);
        EXPECT_TRUE(removed) << moved << ": " << describe(removed.error());
        co_return renamed&& removed;
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
    const Call call_;
    bool stop_ = false;
    uint64_t done_ = 0;
    Nursery workers_;
};

}  // namespace ros2s::tests
