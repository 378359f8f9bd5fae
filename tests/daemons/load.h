// Load: workers on the core of a reactor that run rounds until the end. A derived class defines a
// round.
#pragma once
#include <gtest/gtest.h>
#include <unistd.h>

#include "ros2s/fs/file_system.h"
#include "ros2s/runtime/nursery.h"
#include "ros2s/runtime/os_reactor.h"
#include "ros2s/runtime/run_blocking.h"

namespace ros2s::tests {

class Load {
  public:
    virtual ~Load() = default;

    void begin() {
        run_blocking(reactor_, [&] { return begin_here(); });
    }
    // Waits until this many more rounds are done, for at most a minute.
    void expect_progress(uint64_t rounds) {
        const uint64_t before = rounds_done();
        for (int i = 0; i < 60'000 && rounds_done() < before + rounds; ++i) ::usleep(1000);
        EXPECT_GE(rounds_done(), before + rounds);
    }
    void end() {
        run_blocking(reactor_, [&] { return end_here(); });
    }

  protected:
    Load(OsReactor& reactor, fs::FileSystem& files, uint32_t workers)
        : reactor_(reactor), files_(files), workers_max_(workers), workers_(reactor, workers) {}

    // Called before the workers start. False: they do not start.
    virtual Task<bool> prepare() { co_return true; }
    // Runs rounds until stop_, and counts them in done_.
    virtual Task<> work(uint32_t worker) = 0;

    OsReactor& reactor_;
    fs::FileSystem& files_;
    bool stop_ = false;
    uint64_t done_ = 0;

  private:
    Task<> begin_here() {
        if (!co_await prepare()) co_return;
        for (uint32_t i = 0; i < workers_max_; ++i) co_await workers_.spawn(work(i));
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

    const uint32_t workers_max_;
    Nursery workers_;
};

}  // namespace ros2s::tests
