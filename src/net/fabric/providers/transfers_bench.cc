// What moving bytes costs, by provider: a request of 160 bytes that is answered with 4 KiB, as a
// small read is, and puts and gets of 1 MiB, as large reads and writes are. The server has a core
// of its own. The CPU column counts both cores. For ratios let the rows take turns:
// --benchmark_repetitions=7 --benchmark_enable_random_interleaving=true
#include <benchmark/benchmark.h>
#include <stdlib.h>

#include <array>
#include <chrono>
#include <filesystem>

#include "ros2s/fabric/providers/providers.h"
#include "ros2s/pki/authority.h"
#include "ros2s/runtime/nursery.h"
#include "ros2s/runtime/test_support/made_reactor.h"

namespace ros2s::fabric {
namespace {

constexpr uint64_t small_bytes = 4096, large_bytes = uint64_t{1} << 20;
constexpr int64_t requests = 8192, transfers = 256;  // of one iteration

// An endpoint on each of two cores.
class Pair {
  public:
    explicit Pair(std::string provider)
        : provider_(std::move(provider)), client_(made_reactor()), server_(made_reactor()) {
        char name[] = "/tmp/ros2store-bench-XXXXXX";
        directory_ = ::mkdtemp(name);
        Report report;
        const auto now = std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
        ROS2S_CHECK(
            pki::make_authority(certificates(),
                                {.certificates = {{.name = "server",
                                                   .alternative_names = {"localhost"},
                                                   .server = true},
                                                  {.name = "client", .alternative_names = {}}}},
                                now, report));
        ROS2S_CHECK(server_->start(report));
        client_->run(open());
    }
    Pair& operator=(Pair&&) = delete;
    ~Pair() {
        client_->run(close());
        server_->stop();
        server_->join();
        std::filesystem::remove_all(directory_);
    }
    void request_often(int64_t depth) { client_->run(request_side_by_side(depth)); }
    void transfer_often(int64_t depth, bool put) {
        client_->run(on(*server_, *client_, transfer_side_by_side(depth, put)));
    }

  private:
    [[nodiscard]] std::string certificates() const { return directory_ + "/certs"; }
    [[nodiscard]] std::unique_ptr<Domain> open_here(OsReactor& core, const char* name) const {
        Report report;
        auto opened =
            fabric::open_domain(core, provider_, "lo", report,
                                {.tls = {.identity = pki::identity_in(certificates(), name),
                                         .server_name = "localhost"}});
        if (!opened) std::fprintf(stderr, "%s\n", report.text().c_str());
        ROS2S_CHECK(opened);
        return std::move(*opened);
    }
    Task<> listen() {
        server_domain_ = open_here(*server_, "server");
        Report report;
        auto listening = co_await server_domain_->listen(
            provider_ == "shm" ? directory_ + "/fabric" : "127.0.0.1:0",
            {.limits = {.reply_bytes = small_bytes + 256}}, report);
        ROS2S_CHECK(listening);
        listener_ = std::move(*listening);
        serving_ = std::make_unique<Nursery>(*server_, 1);
    }
    Task<> accept() {
        auto accepted = co_await listener_->accept();
        ROS2S_CHECK(accepted);
        there_ = std::move(*accepted);
        ROS2S_CHECK(serving_->try_spawn(serve(*this)));
    }
    Task<> open() {
        co_await on(*server_, *client_, listen());
        domain_ = open_here(*client_, "client");
        Report report;
        auto connected = co_await domain_->connect(listener_->address(), {}, report);
        ROS2S_CHECK(connected);
        here_ = std::move(*connected);
        co_await on(*server_, *client_, accept());
        memory_ = *here_->allocate(large_bytes);
        region_ = *here_->grant(memory_, Rights::read_write);
    }
    Task<> stop_listening() {
        co_await serving_->join();
        co_await there_->close();
        there_.reset();
        co_await listener_->close();
        listener_.reset();
        serving_.reset();
        co_await server_domain_->close();
        server_domain_.reset();
    }
    Task<> close() {
        co_await region_.revoke();
        here_->free(memory_);
        co_await here_->close();
        here_.reset();
        co_await domain_->close();
        domain_.reset();
        co_await on(*server_, *client_, stop_listening());
    }
    // Answers each request with 4 KiB, until the client leaves.
    static Task<> serve(Pair& self) {
        const AlignedBuffer payload(small_bytes);
        const std::array<std::byte, 64> head{};
        while (true) {
            auto request = co_await self.there_->receive();
            if (!request) co_return;
            ROS2S_CHECK(self.there_->reply(*request, head, payload.bytes()));
        }
    }
    Task<> request_side_by_side(int64_t depth) {
        const std::array<std::byte, 160> request{};
        for (int64_t i = 0; i < depth; ++i) ROS2S_CHECK(co_await here_->send(request));
        for (int64_t i = 0; i < requests; ++i) {
            ROS2S_CHECK(co_await here_->receive());
            if (i + depth < requests) ROS2S_CHECK(co_await here_->send(request));
        }
    }
    Task<> transfer_side_by_side(int64_t depth, bool put) {
        Nursery nursery(*server_, static_cast<size_t>(depth));
        for (int64_t i = 0; i < depth; ++i) {
            co_await nursery.spawn(transfer(*this, transfers / depth, put));
        }
        co_await nursery.join();
    }
    static Task<> transfer(Pair& self, int64_t times, bool put) {
        const AlignedBuffer buffer(large_bytes);
        const RemoteKey key = self.region_.key();
        for (int64_t i = 0; i < times; ++i) {
            const auto done = put ? co_await self.there_->put(key, 0, buffer.bytes())
                                  : co_await self.there_->get(key, 0, buffer.bytes());
            ROS2S_CHECK(done);
        }
    }

    const std::string provider_;
    std::unique_ptr<OsReactor> client_, server_;
    std::string directory_;
    std::unique_ptr<Domain> server_domain_, domain_;
    std::unique_ptr<Listener> listener_;
    std::unique_ptr<Endpoint> here_, there_;
    std::unique_ptr<Nursery> serving_;
    Bytes memory_;
    MemoryRegion region_;
};

void request_4k(benchmark::State& state, const char* provider) {
    Pair pair(provider);
    for (auto _ : state) pair.request_often(state.range(0));
    state.SetItemsProcessed(state.iterations() * requests);
}

void transfer_1m(benchmark::State& state, const char* provider, bool put) {
    Pair pair(provider);
    for (auto _ : state) pair.transfer_often(state.range(0), put);
    state.SetBytesProcessed(state.iterations() * transfers * static_cast<int64_t>(large_bytes));
}

[[maybe_unused]] const bool registered = [] {
    for (const char* provider : {"shm", "ucx+tcp", "tls"}) {
        const std::string name(provider);
        benchmark::RegisterBenchmark(("request_4k/" + name).c_str(), request_4k, provider)
            ->Arg(1)
            ->Arg(32)
            ->UseRealTime()
            ->MeasureProcessCPUTime();
        for (const bool put : {true, false}) {
            benchmark::RegisterBenchmark(((put ? "put_1m/" : "get_1m/") + name).c_str(),
                                         transfer_1m, provider, put)
                ->Arg(4)
                ->UseRealTime()
                ->MeasureProcessCPUTime();
        }
    }
    return true;
}();

}  // namespace
}  // namespace ros2s::fabric
