// A pool in a fresh directory, for tests.
#pragma once
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "ros2s/api/pool_directory.h"
#include "ros2s/runtime/os_reactor.h"
#include "ros2s/runtime/thread_pool.h"
#include "ros2store/ros2store.h"

namespace ros2s::api::c {

class TestPool {
  public:
    TestPool() {
        std::string path = testing::TempDir() + "ros2store.XXXXXX";
        EXPECT_NE(mkdtemp(path.data()), nullptr);
        directory_ = path + "/pool";
        parent_ = path;
        Report report;
        auto reactor = OsReactor::create({}, report);
        EXPECT_TRUE(reactor) << report.text();
        ThreadPool blocking(2);
        const Call call;
        const PoolCreation creation{.directory = directory_, .bytes = pool_bytes_min};
        const auto made = (*reactor)->run(
            create_pool(call, {.reactor = **reactor, .blocking = blocking}, creation, report));
        EXPECT_TRUE(made) << report.text();
    }
    ~TestPool() { std::filesystem::remove_all(parent_); }
    TestPool(const TestPool&) = delete;
    TestPool& operator=(const TestPool&) = delete;

    [[nodiscard]] const std::string& directory() const { return directory_; }
    [[nodiscard]] std::string uri(const std::string& path = "") const {
        return "ros2s+local:///pool/main" + path + "?dir=" + directory_;
    }
    [[nodiscard]] ros2s_fs* open(const std::string& path = "") const {
        ros2s_fs* fs = nullptr;
        char error[512];
        EXPECT_EQ(ros2s_open(uri(path).c_str(), nullptr, &fs, error, sizeof error), 0) << error;
        return fs;
    }

  private:
    std::string parent_;
    std::string directory_;
};

}  // namespace ros2s::api::c
