// The cost of a read and a write, from ros2s_queue_submit() to ros2s_queue_reap(), in each process
// on the path: memory allocations, and CRC32C passes over the payload. The bounds are measured
// values. A change that needs more fails here. A change that needs less lowers the bounds.
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <vector>

#include "dpu_process.h"
#include "ros2store/ros2store.h"
#include "work_counter.h"

namespace ros2s::tests {
namespace {

constexpr uint64_t block = 4096;
constexpr uint64_t chunk = 1 << 20;
constexpr uint64_t file_bytes = chunk;
constexpr int batches = 100;
constexpr uint32_t in_flight_most = 32;
static_assert(in_flight_most * block <= chunk);
// Allocations of a request, at most, in each process. One of 1 MiB has 256 checksums, and a copy in
// slices. Over TCP its payload is frames of 60 KiB, which wait in queues.
constexpr double allocations_of_block = 0, allocations_of_chunk = 2, allocations_over_tcp = 6;
constexpr double slack = 0.1;  // of an allocation, for lists of the engine that grow now and then

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
    CountedDaemon& operator=(CountedDaemon&&) = delete;

    [[nodiscard]] const Work& work() const { return *work_; }
    bool started = false;

  private:
    const Work* work_ = nullptr;
};

// Of a request.
struct Cost {
    uint64_t allocations = 0, passes = 0;
};
struct Costs {
    Cost here{}, dpu{}, engine{};
};
// Of the reader or writer of the bytes, and of their engine.
constexpr Costs one_pass{.here = {.passes = 1}, .engine = {.passes = 1}};

// A file of a container, with as many requests in flight.
class OneFile {
  public:
    OneFile(const std::string& uri, uint32_t in_flight) : in_flight_(in_flight) {
        std::string error(1024, '\0');
        EXPECT_EQ(ros2s_open(uri.c_str(), nullptr, &fs_, error.data(), error.size()), 0) << error;
        if (fs_ == nullptr) return;
        EXPECT_EQ(ros2s_file_open(fs_, "file", O_RDWR | O_CREAT, 0644, &file_), 0);
        EXPECT_EQ(ros2s_queue_create(fs_, in_flight_, &queue_), 0);
    }
    ~OneFile() {
        if (fs_ == nullptr) return;
        EXPECT_EQ(ros2s_queue_destroy(queue_), 0);
        EXPECT_EQ(ros2s_file_close(file_), 0);
        EXPECT_EQ(ros2s_close(fs_), 0);
    }
    OneFile& operator=(OneFile&&) = delete;
    [[nodiscard]] bool is_open() const { return fs_ != nullptr; }

    void run(ros2s_opcode opcode, uint64_t bytes, uint64_t requests) {
        for (uint64_t i = 0; i < requests; i += in_flight_) {
            for (uint32_t each = 0; each < in_flight_; ++each) {
                ros2s_request& request = requests_[each];
                request.opcode = opcode;
                request.file = file_;
                request.address = buffer_.get() + each * bytes;
                request.bytes = bytes;
                request.offset = (i + each) * 97 * bytes % file_bytes;
            }
            const int count = static_cast<int>(in_flight_);
            ASSERT_EQ(ros2s_queue_submit(queue_, requests_.data(), in_flight_), count)
                << ros2s_last_error();
            ASSERT_EQ(ros2s_queue_reap(queue_, done_.data(), in_flight_, in_flight_, -1), count)
                << ros2s_last_error();
            for (uint32_t each = 0; each < in_flight_; ++each) {
                ASSERT_EQ(done_[each].result, static_cast<int64_t>(bytes));
            }
        }
    }

  private:
    struct Free {
        void operator()(void* memory) const { ::free(memory); }
    };
    const uint32_t in_flight_;
    ros2s_fs* fs_ = nullptr;
    ros2s_file* file_ = nullptr;
    ros2s_queue* queue_ = nullptr;
    std::unique_ptr<char, Free> buffer_{static_cast<char*>(::aligned_alloc(block, chunk))};
    std::array<ros2s_request, in_flight_most> requests_{};
    std::array<ros2s_completion, in_flight_most> done_{};
};

class RequestCosts : public testing::Test {
  protected:
    // Checks requests of 4 KiB and of 1 MiB, and 32 of 4 KiB in flight. `options`: of the URI.
    void expect_at_most(const std::string& scheme, const Costs& read, const Costs& write,
                        const std::string& options = {}) {
        const std::string uri =
            fmt::format("{}:///pool/main?dir={}{}", scheme, engine_.pool_directory(), options);
        const uint64_t before = work_here().allocations;
        for (const uint32_t in_flight : {1U, in_flight_most}) {
            OneFile file(uri, in_flight);
            ASSERT_TRUE(file.is_open());
            EXPECT_GT(work_here().allocations, before) << "it does not count";
            const std::string way = fmt::format("{}, {}:", scheme, in_flight);
            for (const uint64_t bytes : {block, chunk}) {
                if (bytes == chunk && in_flight > 1) continue;
                const uint64_t requests = bytes == chunk ? 4 : std::max(in_flight, 20U);
                expect_of(file, ROS2S_OP_WRITE, way + " write", write, bytes, requests);
                expect_of(file, ROS2S_OP_READ, way + " read", read, bytes, requests);
            }
        }
    }
    void count_engine() {
        counted_engine_ = std::make_unique<CountedDaemon>(engine_, engine_.path("engine.work"));
        ASSERT_TRUE(counted_engine_->started);
    }
    // `provider`: between DPU and engine.
    void expect_of_offload(const std::string& provider) {
        count_engine();
        DpuProcess dpu(engine_, provider);
        counted_dpu_ = std::make_unique<CountedDaemon>(dpu, engine_.path("dpu.work"));
        ASSERT_TRUE(counted_dpu_->started);
        expect_at_most("ros2s+dpu", one_pass, one_pass);
    }
    EngineProcess engine_;
    std::unique_ptr<CountedDaemon> counted_engine_, counted_dpu_;

    double of_chunk_ = allocations_of_chunk;

  private:
    [[nodiscard]] Costs now() const {
        const auto of = [](const Work& work) { return Cost{work.allocations, work.summed_bytes}; };
        return {of(work_here()), counted_dpu_ ? of(counted_dpu_->work()) : Cost{},
                counted_engine_ ? of(counted_engine_->work()) : Cost{}};
    }
    static void lower(Cost& least, const Cost& before, const Cost& after) {
        least.allocations = std::min(least.allocations, after.allocations - before.allocations);
        least.passes = std::min(least.passes, after.passes - before.passes);
    }
    // The cheapest of many batches counts, in each process: heartbeats, checkpoints and other
    // background work are in other batches. A batch is short, also on a busy machine.
    void expect_of(OneFile& file, ros2s_opcode opcode, const std::string& what, const Costs& most,
                   uint64_t bytes, uint64_t requests) {
        file.run(opcode, bytes, 2 * requests);
        constexpr Cost most_of_all{.allocations = UINT64_MAX, .passes = UINT64_MAX};
        Costs least{.here = most_of_all, .dpu = most_of_all, .engine = most_of_all};
        for (int batch = 0; batch < batches; ++batch) {
            const Costs before = now();
            file.run(opcode, bytes, requests);
            const Costs after = now();
            lower(least.here, before.here, after.here);
            lower(least.dpu, before.dpu, after.dpu);
            lower(least.engine, before.engine, after.engine);
        }
        const auto check = [&](const char* where, const Cost& made, const Cost& bound) {
            const auto each = [&](uint64_t all) {
                return static_cast<double>(all) / static_cast<double>(requests);
            };
            const double allocations = each(made.allocations);
            const double passes = each(made.passes) / static_cast<double>(bytes);
            const double allocations_most = bytes == block ? allocations_of_block : of_chunk_;
            fmt::print("{:22} {:7} {:6} {:5.2f} allocations (at most {}), {:5.2f} passes ({})\n",
                       what, bytes, where, allocations, allocations_most, passes, bound.passes);
            EXPECT_LE(allocations, allocations_most + slack) << what << ", " << where;
            EXPECT_NEAR(passes, static_cast<double>(bound.passes), 0.5) << what << ", " << where;
        };
        check("here", least.here, most.here);
        check("dpu", least.dpu, most.dpu);
        check("engine", least.engine, most.engine);
    }
};

TEST_F(RequestCosts, EmbeddedStaysWithinCosts) {
    expect_at_most("ros2s+local", {.here = {.passes = 1}}, {.here = {.passes = 1}});
}

TEST_F(RequestCosts, DirectStaysWithinCosts) {
    count_engine();
    expect_at_most("ros2s", one_pass, one_pass);
}

TEST_F(RequestCosts, DirectOverTcpStaysWithinCosts) {
    count_engine();
    of_chunk_ = allocations_over_tcp;
    expect_at_most("ros2s", one_pass, one_pass, "&provider=ucx+tcp");
}

TEST_F(RequestCosts, OffloadStaysWithinCosts) { expect_of_offload("shm"); }

TEST_F(RequestCosts, OffloadOverTcpStaysWithinCosts) {
    of_chunk_ = allocations_over_tcp;
    expect_of_offload("ucx+tcp");
}

}  // namespace
}  // namespace ros2s::tests
