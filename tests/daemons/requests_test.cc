// The number of requests that operations on names cost, between host, DPU and engine. The bounds
// are measured values. A change that needs more requests fails here. A change that needs fewer
// lowers the bounds.
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <cmath>
#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

#include "dpu_process.h"
#include "ros2store/ros2store.h"

namespace ros2s::tests {
namespace {

constexpr int rounds = 20;

// Requests of one operation. `control`: calls of the control plane. `link`: requests of a host to
// its DPU. `engine`: requests to the engine.
struct Requests {
    double control = 0, link = 0, engine = 0;
};

// The sum of a histogram's counts over all operations, except the periodic ones of a client.
double count_of(const std::string& scrape, const std::string& histogram) {
    double sum = 0;
    std::istringstream lines(scrape);
    for (std::string line; std::getline(lines, line);) {
        if (!line.starts_with(histogram + "_count")) continue;
        if (line.contains("\"KeepAlive\"") || line.contains("\"forget\"") ||
            line.contains("\"listen\"")) {
            continue;
        }
        sum += std::atof(line.c_str() + line.rfind(' '));
    }
    return sum;
}

class RequestCounts : public testing::Test {
  protected:
    void SetUp() override { ASSERT_TRUE(engine_.start()); }
    void TearDown() override {
        if (fs_ != nullptr) EXPECT_EQ(ros2s_close(fs_), 0);
    }
    void open(const std::string& scheme) {
        has_dpu_ = scheme == "ros2s+dpu";
        if (has_dpu_) ASSERT_TRUE(dpu_.start());
        const std::string uri =
            fmt::format("{}:///pool/main?dir={}", scheme, engine_.pool_directory());
        std::string error(1024, '\0');
        ASSERT_EQ(ros2s_open(uri.c_str(), nullptr, &fs_, error.data(), error.size()), 0) << error;
        for (std::string path; const char* name : {"a", "/b", "/c", "/d"}) {
            path += name;
            ASSERT_EQ(ros2s_mkdir(fs_, path.c_str(), 0755), 0) << ros2s_last_error();
        }
        create("warm");
        (void)::poll(nullptr, 0, 500);  // then a mount behind a DPU has leases
    }
    // For a file in the root, and for one in the fourth directory below it.
    void expect_at_most(const std::string& directory, Requests create_close, Requests stat,
                        Requests open_close, Requests unlink) {
        const auto path = [&](int i) { return fmt::format("{}f{}", directory, i); };
        const auto check = [&](const char* what, const Requests& most, auto operation) {
            const Requests before = now();
            for (int i = 0; i < rounds; ++i) operation(path(i));
            const Requests after = now();
            const auto each = [&](const char* where, double made, double bound) {
                made /= rounds;
                fmt::print("{:14} in '{}' {:8} {:5.2f}, at most {}\n", what, directory, where, made,
                           bound);
                // Allows half a request more for background work.
                EXPECT_LE(made, bound + 0.5) << what << " in '" << directory << "', " << where;
            };
            each("control", after.control - before.control, most.control);
            each("link", after.link - before.link, most.link);
            each("engine", after.engine - before.engine, most.engine);
        };
        check("create, close", create_close, [&](const std::string& file) { create(file); });
        check("stat", stat, [&](const std::string& file) {
            struct stat out{};
            EXPECT_EQ(ros2s_stat(fs_, file.c_str(), &out), 0) << ros2s_last_error();
        });
        check("open, close", open_close,
              [&](const std::string& file) { open_file(file, O_RDONLY); });
        check("unlink", unlink, [&](const std::string& file) {
            EXPECT_EQ(ros2s_unlink(fs_, file.c_str()), 0) << ros2s_last_error();
        });
    }

    // For calls on 100 names of a directory.
    void expect_of_many(double link, double look_ups, double creations, double removals) {
        constexpr size_t count = 100;
        // What was removed before is punched in the background, which ends now. Of the removals
        // below, at most two looks at the free space are counted.
        (void)::poll(nullptr, 0, 4000);
        ros2s_dir* directory = nullptr;
        ASSERT_EQ(ros2s_opendir(fs_, "a/b", &directory), 0) << ros2s_last_error();
        std::vector<std::string> names;
        std::vector<ros2s_name_item> items;
        for (size_t i = 0; i < count; ++i) names.push_back(fmt::format("many{}", i));
        for (const std::string& name : names) items.push_back({.name = name.c_str()});
        std::vector<struct stat> stats(count);
        std::vector<ros2s_dirent> entries(count);
        const auto check = [&](const char* what, double most, const auto& operation) {
            const Requests before = now();
            EXPECT_EQ(operation(), 0) << ros2s_last_error();
            const Requests after = now();
            fmt::print("{:14} of {} names: link {}, engine {}, at most {} and {}\n", what, count,
                       after.link - before.link, after.engine - before.engine, link, most);
            EXPECT_LE(after.link - before.link, link) << what;
            EXPECT_LE(after.engine - before.engine, most) << what;
            for (const ros2s_name_item& item : items) EXPECT_EQ(item.result, 0) << item.name;
        };
        check("create_many", creations,
              [&] { return ros2s_create_many(directory, items.data(), 0644, count); });
        check("stat_many", look_ups,
              [&] { return ros2s_stat_many(directory, items.data(), stats.data(), count); });
        // One more for the list, and one if the directory was opened without a request.
        check("readdir_many", look_ups + 2, [&] {
            return ros2s_readdir_many(directory, entries.data(), stats.data(), count) > 50 ? 0 : 1;
        });
        check("unlink_many", removals,
              [&] { return ros2s_unlink_many(directory, items.data(), count); });
        EXPECT_EQ(ros2s_closedir(directory), 0);
    }

  private:
    void create(const std::string& file) { open_file(file, O_WRONLY | O_CREAT | O_EXCL); }
    void open_file(const std::string& path, int flags) {
        ros2s_file* file = nullptr;
        ASSERT_EQ(ros2s_file_open(fs_, path.c_str(), flags, 0644, &file), 0) << ros2s_last_error();
        EXPECT_EQ(ros2s_file_close(file), 0) << ros2s_last_error();
    }
    [[nodiscard]] Requests now() const {
        Requests requests;
        const std::string engine = engine_.metrics();
        requests.engine = count_of(engine, "ros2store_request_duration_seconds");
        requests.control = count_of(engine, "ros2store_control_call_duration_seconds");
        if (!has_dpu_) return requests;
        const std::string dpu = dpu_.metrics();
        requests.link = count_of(dpu, "ros2store_request_duration_seconds");
        requests.control += count_of(dpu, "ros2store_control_call_duration_seconds");
        return requests;
    }
    EngineProcess engine_;
    DpuProcess dpu_{engine_, "shm"};
    bool has_dpu_ = false;
    ros2s_fs* fs_ = nullptr;
};

TEST_F(RequestCounts, DirectStaysWithinCounts) {
    open("ros2s");
    expect_at_most("", {.engine = 2}, {.engine = 1}, {.engine = 3}, {.engine = 2});
    expect_at_most("a/b/c/d/", {.engine = 2}, {.engine = 1}, {.engine = 3}, {.engine = 2});
    expect_of_many(0, 4, 2, 10);
}

TEST_F(RequestCounts, OffloadStaysWithinCounts) {
    open("ros2s+dpu");
    expect_at_most("", {.link = 2, .engine = 2}, {.link = 1, .engine = 1}, {.link = 2, .engine = 3},
                   {.link = 1, .engine = 2});
    // After a change the next path is looked up again.
    expect_at_most("a/b/c/d/", {.link = 3, .engine = 3}, {.link = 1, .engine = 1},
                   {.link = 2, .engine = 3}, {.link = 2, .engine = 3});
    expect_of_many(2, 4, 2, 10);  // a kept directory is opened by its first listing
}

}  // namespace
}  // namespace ros2s::tests
