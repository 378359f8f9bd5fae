// The cost of a request over shared memory to a service without work: the checksum of a block, a
// message in a ring, a call without payload, a call that reads 4 KiB, and one that writes 4 KiB.
// The server has a core of its own. The CPU column counts both cores, including their polling:
// compare it at depth 32, where there is always work.
#include <benchmark/benchmark.h>
#include <stdlib.h>
#include <unistd.h>

#include <array>
#include <memory>
#include <string>
#include <utility>

#include "ros2s/base/crc32c.h"
#include "ros2s/fabric/shm/shm.h"
#include "ros2s/rpc/channel.h"
#include "ros2s/rpc/server.h"
#include "ros2s/runtime/nursery.h"
#include "ros2s/runtime/test_support/made_reactor.h"

namespace ros2s::rpc {
namespace {

constexpr uint64_t block = 4096;
constexpr uint32_t bench_service = 7;
constexpr int64_t calls = 20'000;  // of one iteration

// Answers each request with enough payload to fill its sink.
class AnswerAtOnce final : public Service {
  public:
    [[nodiscard]] uint32_t number() const override { return bench_service; }
    Task<> serve(Request& request) override {
        const PayloadMemory memory =
            request.memory(std::max(request.payload_bytes(), request.sink_bytes()));
        if (request.payload_bytes() > 0) {
            const auto received = co_await request.receive_payload(memory.bytes());
            ROS2S_CHECK(received);
        }
        co_await request.reply(request.body(), memory.bytes().first(request.sink_bytes()));
    }
};

class AdmitAll final : public Gate {
  public:
    Result<Guest> admit(const HelloBody&, const fabric::Peer&) override { return Guest{}; }
    void left(const Guest&) override {}
};

class AnyTicket final : public TicketSource {
  public:
    Task<Result<std::string>> take(Report&) override { co_return std::string("any"); }
};

class ReadBlock final : public ReplyReader {
  public:
    explicit ReadBlock(Bytes into) : into_(into) {}
    Result<> read(const Reply& reply) override {
        if (reply.payload_bytes != into_.size()) return fail(Code::corrupt);
        if (reply.where != Reply::Payload::placed && !into_.empty()) {
            reply.copy(reply.payload, into_);
        }
        return {};
    }

  private:
    Bytes into_;
};

// A server on a core of its own, and a client on this thread's.
class Pair {
  public:
    Pair() : client_(made_reactor()), server_(made_reactor()) {
        char name[] = "/tmp/ros2store-bench-XXXXXX";
        directory_ = ::mkdtemp(name);
        Report report;
        ROS2S_CHECK(server_->start(report));
        client_->run(open());
    }
    Pair& operator=(Pair&&) = delete;
    ~Pair() {
        client_->run(close());
        server_->stop();
        server_->join();
        ::rmdir(directory_.c_str());
    }
    void run(int64_t depth, uint64_t sent, uint64_t received) {
        client_->run(call_side_by_side(depth, sent, received));
    }

  private:
    Task<> listen() {
        server_domain_ = fabric::shm::open_domain(*server_);
        Report report;
        auto listening = co_await Server::listen(*server_, *server_domain_, directory_ + "/fabric",
                                                 service_, gate_, {}, report);
        ROS2S_CHECK(listening);
        serving_ = std::move(*listening);
    }
    Task<> stop_listening() {
        co_await serving_->close();
        serving_.reset();
        co_await server_domain_->close();
        server_domain_.reset();
    }
    Task<> open() {
        co_await on(*server_, *client_, listen());
        domain_ = fabric::shm::open_domain(*client_);
        ChannelOptions options;
        options.service = bench_service;
        options.client.bytes[0] = 1;
        Report report;
        auto channel = co_await Channel::open(*client_, *domain_, serving_->address(), tickets_,
                                              options, report);
        ROS2S_CHECK(channel);
        channel_ = std::move(*channel);
    }
    Task<> close() {
        co_await channel_->close();
        channel_.reset();
        co_await domain_->close();
        domain_.reset();
        co_await on(*server_, *client_, stop_listening());
    }
    Task<> call_side_by_side(int64_t depth, uint64_t sent, uint64_t received) {
        Nursery nursery(*client_, static_cast<size_t>(depth));
        for (int64_t i = 0; i < depth; ++i) {
            co_await nursery.spawn(call_often(*channel_, calls / depth, sent, received));
        }
        co_await nursery.join();
    }
    static Task<> call_often(Channel& channel, int64_t times, uint64_t sent, uint64_t received) {
        const AlignedBuffer buffer(block);
        const std::array<std::byte, 32> body{};
        const ConstBytes payload[] = {buffer.bytes().first(sent)};
        const Bytes sink[] = {buffer.bytes().first(received)};
        ReadBlock reader(sink[0]);
        const CallRequest request{.method = 1,
                                  .repeatable = true,
                                  .body = body,
                                  .payload = payload,
                                  .sink = sink,
                                  .reply_body_bytes_max = sizeof body};
        for (int64_t i = 0; i < times; ++i) {
            const auto done = co_await channel.call({}, request, reader);
            ROS2S_CHECK(done);
        }
    }

    std::unique_ptr<OsReactor> client_, server_;
    std::string directory_;
    AnswerAtOnce service_;
    AdmitAll gate_;
    AnyTicket tickets_;
    std::unique_ptr<fabric::Domain> server_domain_, domain_;
    std::unique_ptr<Server> serving_;
    std::unique_ptr<Channel> channel_;
};

void call(benchmark::State& state, uint64_t sent, uint64_t received) {
    Pair pair;
    const int64_t depth = state.range(0);
    for (auto _ : state) pair.run(depth, sent, received);
    state.SetItemsProcessed(state.iterations() * (calls / depth) * depth);
}

// Messages to and fro between two endpoints of one core, `depth` at a time.
class Echo {
  public:
    Echo() : core_(made_reactor()) {
        char name[] = "/tmp/ros2store-bench-XXXXXX";
        directory_ = ::mkdtemp(name);
        core_->run(open());
    }
    Echo& operator=(Echo&&) = delete;
    ~Echo() {
        core_->run(close());
        ::rmdir(directory_.c_str());
    }
    void run(int64_t depth) { core_->run(echo(depth)); }

  private:
    Task<> open() {
        domain_ = fabric::shm::open_domain(*core_);
        Report report;
        auto listening = co_await domain_->listen(directory_ + "/fabric", {}, report);
        ROS2S_CHECK(listening);
        listener_ = std::move(*listening);
        auto connected = co_await domain_->connect(listener_->address(), {}, report);
        ROS2S_CHECK(connected);
        here_ = std::move(*connected);
        auto accepted = co_await listener_->accept();
        ROS2S_CHECK(accepted);
        there_ = std::move(*accepted);
    }
    Task<> close() {
        co_await here_->close();
        co_await there_->close();
        here_.reset();
        there_.reset();
        co_await listener_->close();
        listener_.reset();
        co_await domain_->close();
        domain_.reset();
    }
    Task<> echo(int64_t depth) {
        const std::array<std::byte, 192> bytes{};
        for (int64_t i = 0; i < calls; i += depth) {
            for (int64_t j = 0; j < depth; ++j) ROS2S_CHECK(co_await here_->send(bytes));
            for (int64_t j = 0; j < depth; ++j) {
                const auto request = co_await there_->receive();
                ROS2S_CHECK(request && co_await there_->send(request->bytes()));
            }
            for (int64_t j = 0; j < depth; ++j) ROS2S_CHECK(co_await here_->receive());
        }
    }

    std::unique_ptr<OsReactor> core_;
    std::string directory_;
    std::unique_ptr<fabric::Domain> domain_;
    std::unique_ptr<fabric::Listener> listener_;
    std::unique_ptr<fabric::Endpoint> here_, there_;
};

void ring(benchmark::State& state) {
    Echo echo;
    const int64_t depth = state.range(0);
    for (auto _ : state) echo.run(depth);
    state.SetItemsProcessed(state.iterations() * (calls / depth) * depth);
}

void checksum(benchmark::State& state) {
    const AlignedBuffer buffer(static_cast<size_t>(state.range(0)));
    for (auto _ : state) benchmark::DoNotOptimize(crc32c(buffer.bytes()));
    state.SetBytesProcessed(state.iterations() * state.range(0));
}

// The blocks of so many MiB, in turn: more than the cache, they come from memory.
void checksum_of_blocks(benchmark::State& state) {
    const AlignedBuffer buffer(static_cast<size_t>(state.range(0)) << 20);
    std::ranges::fill(buffer.bytes(), std::byte{1});
    size_t at = 0;
    for (auto _ : state) {
        benchmark::DoNotOptimize(crc32c(buffer.bytes().subspan(at, block)));
        at = (at + block) % buffer.bytes().size();
    }
    state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(block));
}

BENCHMARK(checksum)->Arg(128)->Arg(4096);
BENCHMARK(checksum_of_blocks)->Arg(1)->Arg(256);
BENCHMARK(ring)->Arg(1)->Arg(32)->UseRealTime();
BENCHMARK_CAPTURE(call, nothing, 0, 0)->Arg(1)->Arg(32)->UseRealTime()->MeasureProcessCPUTime();
BENCHMARK_CAPTURE(call, read_4k, 0, block)->Arg(1)->Arg(32)->UseRealTime()->MeasureProcessCPUTime();
BENCHMARK_CAPTURE(call, write_4k, block, 0)
    ->Arg(1)
    ->Arg(32)
    ->UseRealTime()
    ->MeasureProcessCPUTime();

}  // namespace
}  // namespace ros2s::rpc
