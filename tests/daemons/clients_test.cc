// Several clients of one container: two hosts, each with its own DPU, and a direct client. An
// acknowledged change is visible to the others at once. If several clients try the same change, one
// succeeds.
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "dpu_process.h"
#include "ros2s/base/random.h"
#include "ros2store/ros2store.h"

namespace ros2s::tests {
namespace {

constexpr size_t clients = 3;

// An opened library, with its own session and core.
class Client {
  public:
    explicit Client(const std::string& uri) {
        std::array<char, 1024> error{};
        EXPECT_EQ(ros2s_open(uri.c_str(), nullptr, &fs_, error.data(), error.size()), 0)
            << uri << ": " << error.data();
    }
    ~Client() {
        for (const auto& [name, file] : open_) EXPECT_EQ(ros2s_file_close(file), 0);
        if (fs_ != nullptr) EXPECT_EQ(ros2s_close(fs_), 0) << ros2s_last_error();
    }
    Client& operator=(Client&&) = delete;

    [[nodiscard]] bool is_open() const { return fs_ != nullptr; }
    ros2s_fs* fs() { return fs_; }
    // Stays open after the first use, so that stale state of a handle is detected.
    ros2s_file* file(const std::string& name, int flags = O_RDWR) {
        ros2s_file*& found = open_[name];
        if (found == nullptr) {
            EXPECT_EQ(ros2s_file_open(fs_, name.c_str(), flags | O_CREAT, 0644, &found), 0)
                << name << ": " << ros2s_last_error();
        }
        return found;
    }
    int create(const std::string& name) {
        ros2s_file* made = nullptr;
        const int result =
            ros2s_file_open(fs_, name.c_str(), O_RDWR | O_CREAT | O_EXCL, 0644, &made);
        if (result == 0) EXPECT_EQ(ros2s_file_close(made), 0);
        return result;
    }
    [[nodiscard]] bool has(const std::string& name) {
        struct stat status{};
        return ros2s_stat(fs_, name.c_str(), &status) == 0;
    }

  private:
    ros2s_fs* fs_ = nullptr;
    std::map<std::string, ros2s_file*> open_;
};

class ConcurrentClients : public testing::Test {
  protected:
    void SetUp() override {
        ASSERT_TRUE(engine.start() && near.start() && far.start());
        const std::string first = engine.pool_directory();
        for (const std::string& uri :
             {fmt::format("ros2s+dpu:///pool/main?dir={}", first),
              fmt::format("ros2s+dpu:///pool/main?dir={}", engine.path("second")),
              fmt::format("ros2s:///pool/main?dir={}&provider=ucx+tcp", first)}) {
            all.push_back(std::make_unique<Client>(uri));
            ASSERT_TRUE(all.back()->is_open());
        }
    }
    // Runs it for all clients concurrently.
    void each_at_once(const std::function<void(Client&, size_t)>& run) {
        std::vector<std::jthread> threads;
        for (size_t i = 0; i < all.size(); ++i) threads.emplace_back([&, i] { run(*all[i], i); });
    }

    EngineProcess engine;
    DpuProcess near{engine, "shm"};
    DpuProcess far{engine, "ucx+tcp", engine.path("second")};
    std::vector<std::unique_ptr<Client>> all;
};

TEST_F(ConcurrentClients, AcknowledgedChangeIsSeenByOthers) {
    const uint64_t seed = random_seed();
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Random random(seed);
    constexpr size_t block = 4096;
    std::vector<uint8_t> bytes(block), found(block);
    uint64_t end = 0;
    for (int round = 0; round < 150; ++round) {
        Client& writer = *all[random.below(clients)];
        const uint64_t offset = random.below(64) * (block / 2);
        std::ranges::fill(bytes, static_cast<uint8_t>(round + 1));
        ASSERT_EQ(ros2s_pwrite(writer.file("shared"), bytes.data(), block, offset),
                  static_cast<ssize_t>(block))
            << ros2s_last_error();
        end = std::max(end, offset + block);
        const std::string name = fmt::format("name-{}", round);
        ASSERT_EQ(writer.create(name), 0) << ros2s_last_error();
        Client& mover = *all[random.below(clients)];
        ASSERT_EQ(ros2s_rename(mover.fs(), name.c_str(), (name + "-moved").c_str(), 0), 0)
            << ros2s_last_error();
        for (const auto& reader : all) {
            ASSERT_EQ(ros2s_pread(reader->file("shared"), found.data(), block, offset),
                      static_cast<ssize_t>(block));
            ASSERT_EQ(found, bytes) << "round " << round;
            struct stat status{};
            ASSERT_EQ(ros2s_stat(reader->fs(), "shared", &status), 0);
            ASSERT_EQ(static_cast<uint64_t>(status.st_size), end);
            ASSERT_FALSE(reader->has(name)) << "round " << round;
            ASSERT_TRUE(reader->has(name + "-moved")) << "round " << round;
        }
    }
}

TEST_F(ConcurrentClients, ConcurrentAppendsDoNotOverlap) {
    constexpr size_t appends = 150, record = 64;
    each_at_once([&](Client& client, size_t number) {
        ros2s_file* file = client.file("log", O_RDWR | O_APPEND);
        for (size_t i = 0; i < appends; ++i) {
            const std::string text = fmt::format("{:<63}\n", fmt::format("{} {}", number, i));
            ASSERT_EQ(ros2s_pwrite(file, text.data(), record, 0), static_cast<ssize_t>(record))
                << ros2s_last_error();
        }
    });
    std::string whole(clients * appends * record + 1, '\0');
    ASSERT_EQ(ros2s_pread(all[0]->file("log"), whole.data(), whole.size(), 0),
              static_cast<ssize_t>(whole.size() - 1));
    std::set<std::string> lines;
    std::vector<size_t> next(clients, 0);
    for (size_t at = 0; at + record < whole.size(); at += record) {
        size_t number = 0, count = 0;
        ASSERT_EQ(std::sscanf(whole.data() + at, "%zu %zu", &number, &count), 2) << "at " << at;
        ASSERT_LT(number, clients);
        ASSERT_EQ(count, next[number]++) << "of client " << number;
    }
    EXPECT_EQ(next, std::vector<size_t>(clients, appends));
}

TEST_F(ConcurrentClients, ConcurrentCreateOrRenameSucceedsOnce) {
    constexpr size_t names = 60;
    std::array<std::atomic<int>, names> created{}, moved{};
    each_at_once([&](Client& client, size_t number) {
        for (size_t i = 0; i < names; ++i) {
            const int made = client.create(fmt::format("once-{}", i));
            ASSERT_TRUE(made == 0 || made == -EEXIST) << ros2s_last_error();
            created[i] += made == 0;
            const int renamed = ros2s_rename(client.fs(), fmt::format("once-{}", i).c_str(),
                                             fmt::format("got-{}-by-{}", i, number).c_str(), 0);
            ASSERT_TRUE(renamed == 0 || renamed == -ENOENT) << ros2s_last_error();
            moved[i] += renamed == 0;
        }
    });
    for (size_t i = 0; i < names; ++i) {
        // A late client finds that the name is free again, and creates another file.
        EXPECT_GE(created[i], 1) << i;
        EXPECT_EQ(created[i], moved[i]) << i;
        EXPECT_FALSE(all[0]->has(fmt::format("once-{}", i))) << i;
    }
}

}  // namespace
}  // namespace ros2s::tests
