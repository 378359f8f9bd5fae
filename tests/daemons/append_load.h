// A load of numbered appends, each of which must be in the file exactly once.
#pragma once
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <map>
#include <memory>
#include <vector>

#include "ros2s/fs/file_system.h"
#include "ros2s/runtime/nursery.h"
#include "ros2s/runtime/os_reactor.h"
#include "ros2s/runtime/run_blocking.h"

namespace ros2s::tests {

class AppendLoad {
  public:
    AppendLoad(OsReactor& reactor, fs::FileSystem& files)
        : reactor_(reactor), files_(files), writers_(reactor, writers) {}

    void begin() {
        run_blocking(reactor_, [&] { return begin_here(); });
    }
    // Waits until so many more are acknowledged, a minute at most.
    void expect_progress(uint64_t appends) {
        const uint64_t before = acknowledged();
        for (int i = 0; i < 60'000 && acknowledged() < before + appends; ++i) ::usleep(1000);
        EXPECT_GE(acknowledged(), before + appends);
    }
    void end() {
        run_blocking(reactor_, [&] { return end_here(); });
    }
    // After end(): what is in the file is what was acknowledged, in each writer's order.
    void expect_each_once() {
        run_blocking(reactor_, [&] { return compare(); });
    }

  private:
    static constexpr uint32_t writers = 8;
    static constexpr size_t record_bytes = 4096;

    Task<> begin_here() {
        const auto opened = co_await files_.create({}, fs::root_node, "log", 0644,
                                                   {.write = true, .append = true}, {});
        EXPECT_TRUE(opened);
        if (!opened) co_return;
        file_ = opened->handle;
        for (uint32_t i = 0; i < writers; ++i) co_await writers_.spawn(append(*this, i));
    }
    static Task<> append(AppendLoad& self, uint32_t writer) {
        const Call call;
        std::vector<std::byte> record(record_bytes);
        for (uint32_t number = 0; !self.stop_; ++number) {
            std::memcpy(record.data(), &writer, sizeof writer);
            std::memcpy(record.data() + sizeof writer, &number, sizeof number);
            const auto written = co_await self.files_.pwrite(
                call, self.file_, fs::Window::local(ConstBytes(record)), 0);
            EXPECT_TRUE(written) << describe(written.error());
            if (!written) co_return;
            ++self.acknowledged_;
        }
    }
    Task<> look(uint64_t& into) {
        into = acknowledged_;
        co_return;
    }
    uint64_t acknowledged() {
        uint64_t now = 0;
        run_blocking(reactor_, [&] { return look(now); });
        return now;
    }
    Task<> end_here() {
        stop_ = true;
        co_await writers_.join();
    }
    Task<> compare() {
        const Call call;
        std::map<uint32_t, uint32_t> next;
        std::vector<std::byte> record(record_bytes);
        uint64_t records = 0;
        for (;; ++records) {
            const auto read = co_await files_.pread(call, file_, fs::Window::local(Bytes(record)),
                                                    records * record_bytes);
            EXPECT_TRUE(read);
            if (!read || *read == 0) break;
            uint32_t writer = 0, number = 0;
            std::memcpy(&writer, record.data(), sizeof writer);
            std::memcpy(&number, record.data() + sizeof writer, sizeof number);
            EXPECT_EQ(number, next[writer]++) << "of writer " << writer;
        }
        EXPECT_EQ(records, acknowledged_);
        EXPECT_TRUE(co_await files_.close(call, file_));
    }

    OsReactor& reactor_;
    fs::FileSystem& files_;
    fs::FileHandle file_{};
    bool stop_ = false;
    uint64_t acknowledged_ = 0;
    Nursery writers_;
};

}  // namespace ros2s::tests
