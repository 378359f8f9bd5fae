// What a 4 KiB read and a 4 KiB write allocate, from ros2s_queue_submit() to ros2s_queue_reap(), in
// each process that they pass through. The bounds are what was measured: a change that allocates
// more fails here; one that allocates less lowers them.
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "allocation_counter.h"
#include "dpu_process.h"
#include "ros2store/ros2store.h"

namespace ros2s::tests {
namespace {

constexpr uint64_t block = 4096;
constexpr uint64_t blocks = 256;

// Starts a daemon that counts into a file, which is mapped here.
class CountedDaemon {
  public:
    template <class Process>
    CountedDaemon(Process& process, const std::string& file) {
        const int descriptor = ::open(file.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        EXPECT_EQ(::ftruncate(descriptor, sizeof(uint64_t)), 0) << file;
        count_ = static_cast<std::atomic<uint64_t>*>(
            ::mmap(nullptr, sizeof *count_, PROT_READ, MAP_SHARED, descriptor, 0));
        ::close(descriptor);
        ::setenv("LD_PRELOAD", ALLOCATION_COUNTER, 1);
        ::setenv(allocations_file_variable, file.c_str(), 1);
        started = process.start();
        ::unsetenv(allocations_file_variable);
        ::unsetenv("LD_PRELOAD");
        EXPECT_GT(count(), 1000u) << "it does not count";
    }
    ~CountedDaemon() { ::munmap(count_, sizeof *count_); }
    CountedDaemon(const CountedDaemon&) = delete;
    CountedDaemon& operator=(const CountedDaemon&) = delete;

    [[nodiscard]] uint64_t count() const { return count_->load(std::memory_order_relaxed); }
    bool started = false;

  private:
    std::atomic<uint64_t>* count_ = nullptr;
};

struct Counts {
    uint64_t here = 0, dpu = 0, engine = 0;
};

// A file of a container, and one request at a time on it.
class OneFile {
  public:
    explicit OneFile(const std::string& uri) {
        std::string error(1024, '\0');
        EXPECT_EQ(ros2s_open(uri.c_str(), nullptr, &fs_, error.data(), error.size()), 0) << error;
        if (fs_ == nullptr) return;
        EXPECT_EQ(ros2s_file_open(fs_, "file", O_RDWR | O_CREAT, 0644, &file_), 0);
        EXPECT_EQ(ros2s_queue_create(fs_, 1, &queue_), 0);
    }
    ~OneFile() {
        if (fs_ == nullptr) return;
        EXPECT_EQ(ros2s_queue_destroy(queue_), 0);
        EXPECT_EQ(ros2s_file_close(file_), 0);
        EXPECT_EQ(ros2s_close(fs_), 0);
    }
    OneFile(const OneFile&) = delete;
    OneFile& operator=(const OneFile&) = delete;
    [[nodiscard]] bool is_open() const { return fs_ != nullptr; }

    void run(ros2s_opcode opcode, uint64_t requests) {
        for (uint64_t i = 0; i < requests; ++i) {
            ros2s_request request{};
            request.opcode = opcode;
            request.file = file_;
            request.address = buffer_.get();
            request.bytes = block;
            request.offset = i * 97 % blocks * block;
            ASSERT_EQ(ros2s_queue_submit(queue_, &request, 1), 1) << ros2s_last_error();
            ros2s_completion done{};
            ASSERT_EQ(ros2s_queue_reap(queue_, &done, 1, 1, -1), 1) << ros2s_last_error();
            ASSERT_EQ(done.result, static_cast<int64_t>(block));
        }
    }

  private:
    struct Free {
        void operator()(void* memory) const { ::free(memory); }
    };
    ros2s_fs* fs_ = nullptr;
    ros2s_file* file_ = nullptr;
    ros2s_queue* queue_ = nullptr;
    std::unique_ptr<void, Free> buffer_{::aligned_alloc(block, block)};
};

class Allocations : public testing::Test {
  protected:
    [[nodiscard]] std::string uri(const std::string& scheme) const {
        return fmt::format("{}:///pool/main?dir={}", scheme, engine_.pool_directory());
    }
    // Of a request; half of one more is left to threads in the background.
    void expect_at_most(const std::string& way, const Counts& read, const Counts& write) {
        const uint64_t before = allocations_here();
        OneFile file(uri(way));
        ASSERT_TRUE(file.is_open());
        EXPECT_GT(allocations_here(), before) << "it does not count";
        expect_of(file, ROS2S_OP_WRITE, way + " write", write);
        expect_of(file, ROS2S_OP_READ, way + " read", read);
    }
    EngineProcess engine_;
    DpuProcess dpu_{engine_, "shm"};
    std::unique_ptr<CountedDaemon> counted_engine_, counted_dpu_;

  private:
    [[nodiscard]] Counts now() const {
        return {allocations_here(), counted_dpu_ ? counted_dpu_->count() : 0,
                counted_engine_ ? counted_engine_->count() : 0};
    }
    void expect_of(OneFile& file, ros2s_opcode opcode, const std::string& what,
                   const Counts& most) {
        constexpr uint64_t requests = 4000;
        file.run(opcode, 2 * blocks);
        const Counts before = now();
        file.run(opcode, requests);
        const Counts after = now();
        const auto check = [&](const char* where, uint64_t made, uint64_t bound) {
            const double each = static_cast<double>(made) / requests;
            fmt::print("{:20} {:6} {:6.2f} a request, at most {}\n", what, where, each, bound);
            EXPECT_LE(each, static_cast<double>(bound) + 0.5) << what << ", " << where;
        };
        check("here", after.here - before.here, most.here);
        check("dpu", after.dpu - before.dpu, most.dpu);
        check("engine", after.engine - before.engine, most.engine);
    }
};

TEST_F(Allocations, Embedded) { expect_at_most("ros2s+local", {.here = 1}, {.here = 2}); }

TEST_F(Allocations, Direct) {
    counted_engine_ = std::make_unique<CountedDaemon>(engine_, engine_.path("engine.allocations"));
    ASSERT_TRUE(counted_engine_->started);
    expect_at_most("ros2s", {.here = 3, .engine = 0}, {.here = 2, .engine = 2});
}

TEST_F(Allocations, Offload) {
    counted_engine_ = std::make_unique<CountedDaemon>(engine_, engine_.path("engine.allocations"));
    ASSERT_TRUE(counted_engine_->started);
    counted_dpu_ = std::make_unique<CountedDaemon>(dpu_, engine_.path("dpu.allocations"));
    ASSERT_TRUE(counted_dpu_->started);
    expect_at_most("ros2s+dpu", {.here = 1, .dpu = 3, .engine = 0},
                   {.here = 1, .dpu = 2, .engine = 2});
}

}  // namespace
}  // namespace ros2s::tests
