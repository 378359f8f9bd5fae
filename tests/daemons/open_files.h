// Files that a host has open in two containers, while `tenant set` changes what its tenant may do.
#pragma once
#include <gtest/gtest.h>

#include <cerrno>
#include <chrono>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "client.h"
#include "ros2s/config/config.h"

namespace ros2s::tests {

class OpenFile {
  public:
    OpenFile(OsReactor& reactor, connection::HostOptions host) : reactor_(reactor) {
        Report report;
        EXPECT_TRUE(client_.open(reactor_, host, report)) << report.text();
        EXPECT_TRUE(run_blocking(reactor_, [this] { return create(*this); }));
    }
    ~OpenFile() { client_.close(reactor_); }
    OpenFile& operator=(OpenFile&&) = delete;
    // Returns the errno; 0: it is written.
    int write() {
        const auto written = run_blocking(reactor_, [this] { return write_here(*this); });
        return written ? 0 : to_errno(written.error());
    }

  private:
    static Task<Result<>> create(OpenFile& self) {
        ROS2S_CO_TRY_ASSIGN(const auto opened, co_await self.client_.files().create(
                                                   {}, fs::root_node, "open", 0644,
                                                   {.read = true, .write = true}, {}));
        self.file_ = opened.handle;
        co_return Result<>{};
    }
    static Task<Result<uint64_t>> write_here(OpenFile& self) {
        co_return co_await self.client_.files().pwrite(
            {}, self.file_, fs::Window::local(ConstBytes(self.bytes_)), 0);
    }

    OsReactor& reactor_;
    Client client_;
    fs::FileHandle file_{};
    const std::vector<std::byte> bytes_ = std::vector<std::byte>(4096, std::byte{1});
};

// Writes until `file` has that result, and returns the time. Until then it has the other one of 0
// and EPERM, and the file beside it has no error.
inline std::chrono::nanoseconds wait_for(int result, OpenFile& file, OpenFile* beside = nullptr) {
    using namespace std::chrono_literals;
    const auto begun = std::chrono::steady_clock::now();
    const auto passed = [&] { return std::chrono::steady_clock::now() - begun; };
    for (int got = file.write(); got != result && passed() < 30s; got = file.write()) {
        EXPECT_EQ(got, result == 0 ? EPERM : 0);
        if (beside != nullptr) EXPECT_EQ(beside->write(), 0);
    }
    return passed();
}

// `stays` is in the container `kept`, `goes` in `main`. `set` changes the tenant, which may write
// to both.
inline void expect_that_files_follow_rights(
    OpenFile& goes, OpenFile& stays, const std::function<void(const config::Entries&)>& set) {
    using namespace std::chrono_literals;
    for (const char* weight : {"3", "5"}) {
        set({{"weight", weight}, {"requests", "100000"}});
        for (int i = 0; i < 20; ++i) {
            EXPECT_EQ(goes.write(), 0);
            EXPECT_EQ(stays.write(), 0);
        }
    }
    for (int round = 0; round < 2; ++round) {
        SCOPED_TRACE(round);
        set({{"write", "kept"}});
        EXPECT_LT(wait_for(EPERM, goes, &stays), 2s);
        for (int i = 0; i < 20; ++i) {
            EXPECT_EQ(goes.write(), EPERM);
            EXPECT_EQ(stays.write(), 0);
        }
        set({{"write", "kept, main"}});
        EXPECT_LT(wait_for(0, goes, &stays), 10s);
        EXPECT_EQ(stays.write(), 0);
    }
    // The tenant loses all of its rights.
    set({{"write", ""}});
    EXPECT_LT(wait_for(EPERM, goes), 2s);
    EXPECT_LT(wait_for(EPERM, stays), 2s);
    set({{"write", "kept, main"}});
    EXPECT_LT(wait_for(0, goes), 10s);
    EXPECT_LT(wait_for(0, stays), 10s);
}

}  // namespace ros2s::tests
