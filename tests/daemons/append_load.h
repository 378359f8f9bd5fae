// A load of numbered appends. Each number must be in the file exactly once.
#pragma once
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <vector>

#include "load.h"

namespace ros2s::tests {

class AppendLoad final : public Load {
  public:
    AppendLoad(OsReactor& reactor, fs::FileSystem& files) : Load(reactor, files, writers) {}

    // Checks after end() that the file has exactly the acknowledged numbers, in each writer's
    // order.
    void expect_each_once() {
        run_blocking(reactor_, [&] { return compare(); });
    }

  private:
    static constexpr uint32_t writers = 8;
    static constexpr size_t record_bytes = 4096;

    Task<bool> prepare() override {
        const auto opened = co_await files_.create({}, fs::root_node, "log", 0644,
                                                   {.write = true, .append = true}, {});
        EXPECT_TRUE(opened);
        if (!opened) co_return false;
        file_ = opened->handle;
        co_return true;
    }
    Task<> work(uint32_t writer) override {
        const Call call;
        std::vector<std::byte> record(record_bytes);
        for (uint32_t number = 0; !stop_; ++number) {
            std::memcpy(record.data(), &writer, sizeof writer);
            std::memcpy(record.data() + sizeof writer, &number, sizeof number);
            const auto written =
                co_await files_.pwrite(call, file_, fs::Window::local(ConstBytes(record)), 0);
            EXPECT_TRUE(written) << describe(written.error());
            if (!written) co_return;
            ++done_;
        }
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
        EXPECT_EQ(records, done_);
        EXPECT_TRUE(co_await files_.close(call, file_));
    }

    fs::FileHandle file_{};
};

}  // namespace ros2s::tests
