// The cost of a read and a write, from ros2s_queue_submit() to ros2s_queue_reap(), in each process
// on the path: memory allocations, and CRC32C passes over the payload. The bounds are measured
// values. A change that needs more fails here. A change that needs less lowers the bounds.
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "dpu_process.h"
#include "ros2store/ros2store.h"
#include "work_counter.h"

namespace ros2s::tests {
namespace {

constexpr uint64_t block = 4096;
constexpr uint64_t chunk = 1 << 20;
constexpr uint64_t file_bytes = chunk;
constexpr double slack = 0.3;  // of an allocation

// Starts a daemon whose counters are in a file that this process maps.
class CountedDaemon {
  public:
    template <class Process>
    CountedDaemon(Process& process, const std::string& file) {
        const int descriptor = ::open(file.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        EXPECT_EQ(::ftruncate(descriptor, sizeof(Work)), 0) << file;
        work_ = static_cast<const Work*>(
            ::mmap(nullptr, sizeof *work_, PROT_READ, MAP_SHARED, descriptor, 0));
        ::close(descriptor);
        ::setenv("LD_PRELOAD", WORK_COUNTER, 1);
        ::setenv(work_file_variable, file.c_str(), 1);
        started = process.start();
        ::unsetenv(work_file_variable);
        ::unsetenv("LD_PRELOAD");
        EXPECT_GT(work_->allocations, 1000u) << "it does not count";
    }
    ~CountedDaemon() { ::munmap(const_cast<Work*>(work_), sizeof *work_); }
    CountedDaemon(const CountedDaemon&) = delete;
    CountedDaemon& operator=(const CountedDaemon&) = delete;

    [[nodiscard]] const Work& work() const { return *work_; }
    bool started = false;

  private:
    const Work* work_ = nullptr;
};

// Of a request.
struct Cost {
    uint64_t allocations = 0, passes = 0;
    uint64_t further_passes = 0;  // of 1 MiB
};
struct Costs {
    Cost here{}, dpu{}, engine{};
};

// A file of a container, with one request in flight.
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

    void run(ros2s_opcode opcode, uint64_t bytes, uint64_t requests) {
        for (uint64_t i = 0; i < requests; ++i) {
            ros2s_request request{};
            request.opcode = opcode;
            request.file = file_;
            request.address = buffer_.get();
            request.bytes = bytes;
            request.offset = i * 97 * bytes % file_bytes;
            ASSERT_EQ(ros2s_queue_submit(queue_, &request, 1), 1) << ros2s_last_error();
            ros2s_completion done{};
            ASSERT_EQ(ros2s_queue_reap(queue_, &done, 1, 1, -1), 1) << ros2s_last_error();
            ASSERT_EQ(done.result, static_cast<int64_t>(bytes));
        }
    }

  private:
    struct Free {
        void operator()(void* memory) const { ::free(memory); }
    };
    ros2s_fs* fs_ = nullptr;
    ros2s_file* file_ = nullptr;
    ros2s_queue* queue_ = nullptr;
    std::unique_ptr<void, Free> buffer_{::aligned_alloc(block, chunk)};
};

class RequestCosts : public testing::Test {
  protected:
    [[nodiscard]] std::string uri(const std::string& scheme) const {
        return fmt::format("{}:///pool/main?dir={}", scheme, engine_.pool_directory());
    }
    // Checks requests of 4 KiB. The CRC32C passes are also checked for requests of 1 MiB.
    void expect_at_most(const std::string& way, const Costs& read, const Costs& write) {
        const uint64_t before = work_here().allocations;
        OneFile file(uri(way));
        ASSERT_TRUE(file.is_open());
        EXPECT_GT(work_here().allocations, before) << "it does not count";
        expect_of(file, ROS2S_OP_WRITE, way + " write", write);
        expect_of(file, ROS2S_OP_READ, way + " read", read);
    }
    EngineProcess engine_;
    DpuProcess dpu_{engine_, "shm"};
    std::unique_ptr<CountedDaemon> counted_engine_, counted_dpu_;

  private:
    [[nodiscard]] Costs now() const {
        const auto of = [](const Work& work) { return Cost{work.allocations, work.summed_bytes}; };
        return {of(work_here()), counted_dpu_ ? of(counted_dpu_->work()) : Cost{},
                counted_engine_ ? of(counted_engine_->work()) : Cost{}};
    }
    void expect_of(OneFile& file, ros2s_opcode opcode, const std::string& what, const Costs& most) {
        expect_of(file, opcode, what, most, block, 4000);
        expect_of(file, opcode, what, most, chunk, 100);
    }
    // Background work, such as heartbeats, runs during the requests, and for longer on a busy
    // machine. Its allocations per second are measured at rest and subtracted.
    void expect_of(OneFile& file, ros2s_opcode opcode, const std::string& what, const Costs& most,
                   uint64_t bytes, uint64_t requests) {
        using Seconds = std::chrono::duration<double>;
        file.run(opcode, bytes, std::min<uint64_t>(requests, 500));
        const auto begin = std::chrono::steady_clock::now();
        const Costs before = now();
        file.run(opcode, bytes, requests);
        const Costs after = now();
        const Seconds busy = std::chrono::steady_clock::now() - begin;
        std::this_thread::sleep_for(Seconds{1});
        const Costs rested = now();
        const Seconds rest = std::chrono::steady_clock::now() - begin - busy;
        const auto check = [&](const char* where, const Cost Costs::* process) {
            const Cost& from = before.*process;
            const Cost& to = after.*process;
            const Cost& bound = most.*process;
            const auto each = [&](double made) { return made / static_cast<double>(requests); };
            const auto background =
                static_cast<double>((rested.*process).allocations - to.allocations) / rest.count();
            const double allocations = each(static_cast<double>(to.allocations - from.allocations) -
                                            background * busy.count());
            const uint64_t passes_most = bound.passes + (bytes == chunk ? bound.further_passes : 0);
            const double passes =
                each(static_cast<double>(to.passes - from.passes)) / static_cast<double>(bytes);
            fmt::print(
                "{:20} {:7} {:6} {:6.2f} allocations ({}), {:5.2f} passes ({}), {:.0f} allocations "
                "per second at rest\n",
                what, bytes, where, allocations,
                bytes == block ? fmt::format("at most {}", bound.allocations) : "no limit", passes,
                passes_most, background);
            EXPECT_NEAR(passes, static_cast<double>(passes_most), 0.5) << what << ", " << where;
            if (bytes == block) {
                EXPECT_LE(allocations, static_cast<double>(bound.allocations) + slack)
                    << what << ", " << where;
            }
        };
        check("here", &Costs::here);
        check("dpu", &Costs::dpu);
        check("engine", &Costs::engine);
    }
};

TEST_F(RequestCosts, Embedded) {
    expect_at_most("ros2s+local", {.here = {.allocations = 1, .passes = 1}},
                   {.here = {.allocations = 2, .passes = 1}});
}

TEST_F(RequestCosts, Direct) {
    counted_engine_ = std::make_unique<CountedDaemon>(engine_, engine_.path("engine.work"));
    ASSERT_TRUE(counted_engine_->started);
    expect_at_most(
        "ros2s", {.here = {.allocations = 3, .passes = 1}, .engine = {.passes = 1}},
        {.here = {.allocations = 2, .passes = 1}, .engine = {.allocations = 2, .passes = 1}});
}

TEST_F(RequestCosts, Offload) {
    counted_engine_ = std::make_unique<CountedDaemon>(engine_, engine_.path("engine.work"));
    ASSERT_TRUE(counted_engine_->started);
    counted_dpu_ = std::make_unique<CountedDaemon>(dpu_, engine_.path("dpu.work"));
    ASSERT_TRUE(counted_dpu_->started);
    expect_at_most("ros2s+dpu",
                   {.here = {.allocations = 1, .passes = 1},
                    .dpu = {.allocations = 3},
                    .engine = {.passes = 1}},
                   {.here = {.allocations = 1, .passes = 1},
                    .dpu = {.allocations = 2, .further_passes = 1},
                    .engine = {.allocations = 2, .passes = 1}});
}

}  // namespace
}  // namespace ros2s::tests
