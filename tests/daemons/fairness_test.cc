// One tenant of a real ros2store-dpu attacks. Another tenant keeps at least a quarter of its speed
// (a tenth during reads of 1 MiB). The same run measures its speed without the attack. At a
// ros2store-dpu and at a ros2store-engine, refused requests cost the other tenant no more than
// valid ones.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "dpu_process.h"
#include "dpu_tenant.h"
#include "raw_connection.h"
#include "ros2s/base/crc32c.h"
#include "ros2s/fabric/shm/shm.h"
#include "ros2s/hostlink/fields.h"
#include "ros2s/object/checksum.h"
#include "ros2s/object/test_support/batch.h"
#include "ros2s/remote/fields.h"
#include "ros2s/remote/remote_store.h"
#include "ros2s/runtime/nursery.h"
#include "ros2s/runtime/os_reactor.h"
#include "ros2s/runtime/run_blocking.h"

namespace ros2s::tests {
namespace {

using namespace std::chrono_literals;

const Call call;
constexpr uint64_t mib = 1 << 20;
constexpr std::chrono::seconds measured_for{3};

enum class Checksum : uint8_t { none, right, wrong };

// What a tenant reads and writes: a file at a DPU, or an array at an engine. Use it on its
// reactor's core.
class Content {
  public:
    Content(uint32_t service, uint16_t read_method, uint16_t write_method)
        : service(service), read_method(read_method), write_method(write_method) {}
    Content& operator=(Content&&) = delete;
    virtual ~Content() = default;
    virtual Task<> open(uint64_t size) = 0;
    virtual Task<> close() = 0;
    [[nodiscard]] virtual connection::Connection& connection() = 0;
    virtual Task<Result<>> read(Bytes into, uint64_t at) = 0;
    // Bodies of requests that a test sends itself, for the first bytes.
    virtual ConstBytes read_body(rpc::Buffer& buffer, uint64_t length) const = 0;
    virtual ConstBytes write_body(rpc::Buffer& buffer, ConstBytes payload,
                                  Checksum checksum) const = 0;

    const uint32_t service;
    const uint16_t read_method, write_method;
};

class FileAtDpu final : public Content {
  public:
    FileAtDpu(Reactor& reactor, connection::Options options, std::string name)
        : Content(hostlink::file_service, static_cast<uint16_t>(hostlink::Method::read),
                  static_cast<uint16_t>(hostlink::Method::write)),
          reactor_(reactor),
          options_(std::move(options)),
          name_(std::move(name)) {}
    Task<> open(uint64_t size) override {
        return tenant_.open(reactor_, options_, "main", name_, size);
    }
    Task<> close() override { return tenant_.close(); }
    connection::Connection& connection() override { return *tenant_.connection; }
    Task<Result<>> read(Bytes into, uint64_t at) override {
        ROS2S_CO_TRY(co_await tenant_.link->pread(call, tenant_.file, fs::Window::local(into), at));
        co_return Result<>{};
    }
    ConstBytes read_body(rpc::Buffer& buffer, uint64_t /*length*/) const override {
        return rpc::build(buffer, hostlink::file_fields, body());
    }
    ConstBytes write_body(rpc::Buffer& buffer, ConstBytes payload,
                          Checksum checksum) const override {
        hostlink::FileBody file = body();
        if (checksum != Checksum::none) {
            file.length = payload.size();
            file.crc = crc32c(payload) + (checksum == Checksum::right ? 0 : 1);
        }
        return rpc::build(buffer, hostlink::file_fields, file);
    }

  private:
    [[nodiscard]] hostlink::FileBody body() const {
        return {.mount = tenant_.location().mount, .handle = tenant_.at_server};
    }
    Reactor& reactor_;
    connection::Options options_;
    std::string name_;
    DpuTenant tenant_;
};

class ArrayAtEngine final : public Content {
  public:
    ArrayAtEngine(Reactor& reactor, connection::Options options, std::string name)
        : Content(remote::object_service, static_cast<uint16_t>(remote::Method::fetch),
                  static_cast<uint16_t>(remote::Method::update)),
          reactor_(reactor),
          options_(std::move(options)),
          address_{{0, crc32c(as_bytes(name))}, "chunk", "data"} {
        options_.purpose = session::Purpose::store;
        options_.service = service;
    }
    Task<> open(uint64_t size) override {
        Report report;
        auto opened = co_await connection::Connection::open(reactor_, options_, report);
        EXPECT_TRUE(opened) << report.text();
        connection_ = std::move(*opened);
        auto store = co_await remote::RemoteStore::open(call, connection_->channel(), report);
        EXPECT_TRUE(store) << report.text();
        store_ = std::move(*store);
        const auto containers = co_await store_->list_containers(call);
        EXPECT_TRUE(containers && containers->size() == 1);
        container_ = containers->front().id;
        object::Batch batch;
        batch.write(address_, 0, std::string(size, 'a'));
        object::Transaction transaction = batch.transaction();
        transaction.id = {.client = connection_->client(), .sequence = 1};
        EXPECT_TRUE(co_await store_->update(call, container_, transaction));
    }
    Task<> close() override {
        store_.reset();
        co_await connection_->close();
        connection_.reset();
    }
    connection::Connection& connection() override { return *connection_; }
    Task<Result<>> read(Bytes into, uint64_t at) override {
        object::FetchItem item = fetched({at, into.size()});
        item.window = object::Window::local(into);
        ROS2S_CO_TRY(co_await store_->fetch(call, container_, {&item, 1}));
        co_return item.status;
    }
    ConstBytes read_body(rpc::Buffer& buffer, uint64_t length) const override {
        std::vector<object::FetchItem> items{fetched({0, length})};
        return rpc::build(buffer, remote::fetch_fields, container_, items);
    }
    ConstBytes write_body(rpc::Buffer& buffer, ConstBytes payload,
                          Checksum checksum) const override {
        object::Transaction transaction;
        object::Operation& write = transaction.operations.emplace_back();
        write.object = address_.object;
        write.dkey = {address_.dkey};
        write.akey = {address_.akey};
        write.extent = {0, payload.size()};
        write.window = object::Window::local(payload);
        if (checksum != Checksum::none) object::array_checksums(0, payload, write.checksums);
        if (checksum == Checksum::wrong) ++write.checksums[0];
        return rpc::build(buffer, remote::update_fields, container_, transaction);
    }

  private:
    [[nodiscard]] object::FetchItem fetched(object::Extent extent) const {
        return {.object = address_.object,
                .dkey = {address_.dkey},
                .akey = {address_.akey},
                .extent = extent};
    }
    Reactor& reactor_;
    connection::Options options_;
    object::AkeyAddress address_;
    std::unique_ptr<connection::Connection> connection_;
    std::unique_ptr<remote::RemoteStore> store_;
    object::ContainerId container_{};
};

// Sends reads of 4 KiB, one after the other.
Task<> read_on(Content& content, const std::atomic<bool>& stop, std::atomic<uint64_t>& done) {
    std::vector<std::byte> memory(4096);
    for (uint64_t at = 0; !stop; at = (at + 4096) % mib) {
        EXPECT_TRUE(co_await content.read(memory, at));
        ++done;
    }
}

class ReadNothing final : public rpc::ReplyReader {
  public:
    Result<> read(const rpc::Reply&) override { return {}; }
};

// The same by hand.
Task<> read_by_hand(const Content& content, rpc::Channel& channel, const std::atomic<bool>& stop,
                    size_t bytes, std::atomic<uint64_t>& done) {
    rpc::Buffer body;
    std::vector<std::byte> memory(bytes);
    const Bytes sink[] = {memory};
    ReadNothing reader;
    const rpc::CallRequest request{.method = content.read_method,
                                   .repeatable = true,
                                   .body = content.read_body(body, bytes),
                                   .sink = sink,
                                   .reply_body_bytes_max = 64 + bytes / 512};
    while (!stop) {
        EXPECT_TRUE(co_await channel.call(call, request, reader));
        ++done;
    }
}

using Attack = Task<> (*)(Reactor&, Content&, const std::atomic<bool>&, std::atomic<uint64_t>&);

template <int connections, size_t bytes>
Task<> many_reads(Reactor& reactor, Content& content, const std::atomic<bool>& stop,
                  std::atomic<uint64_t>& done) {
    constexpr int at_once = 64;
    const auto domain = fabric::shm::open_domain(reactor);
    std::vector<std::unique_ptr<rpc::Channel>> channels;
    Nursery nursery(reactor, connections * at_once);
    for (int i = 0; i < connections; ++i) {
        Report report;
        auto channel =
            co_await rpc::Channel::open(reactor, *domain, content.connection().channel().address(),
                                        content.connection().tickets(),
                                        {.service = content.service,
                                         .client = content.connection().client(),
                                         .staging_bytes_max = std::max(mib, 16 * bytes)},
                                        report);
        EXPECT_TRUE(channel) << report.text();
        if (!channel) break;
        channels.push_back(std::move(*channel));
        for (int j = 0; j < at_once; ++j) {
            co_await nursery.spawn(read_by_hand(content, *channels.back(), stop, bytes, done));
        }
    }
    co_await nursery.join();
    for (auto& channel : channels) co_await channel->close();
    channels.clear();
    co_await domain->close();
}

// Keeps eight requests in flight until `stop`.
Task<> repeat(RawConnection& raw, rpc::FrameHeader header,
              std::span<const rpc::WindowDescriptor> source,
              std::span<const rpc::WindowDescriptor> sink, ConstBytes body,
              const std::atomic<bool>& stop, std::atomic<uint64_t>& done,
              rpc::Kind wanted = rpc::Kind::failure, uint32_t first_slot = 0) {
    constexpr uint64_t at_once = 8;
    std::vector<std::byte> memory(8192);
    header.kind = rpc::Kind::request;
    header.session = raw.session;
    uint64_t number = 0;
    const auto send = [&](uint64_t slot) {
        header.request = ++number << 16 | slot;
        header.sequence = number;
        header.slot = first_slot + static_cast<uint32_t>(slot);
        return raw.endpoint->send(rpc::encode_frame(header, source, sink, body, memory));
    };
    for (uint64_t slot = 0; slot < at_once; ++slot) EXPECT_TRUE(co_await send(slot));
    for (uint64_t open = at_once; open > 0; --open) {
        const auto answer = co_await raw.endpoint->receive();
        EXPECT_TRUE(answer);
        if (!answer) co_return;
        const auto frame = rpc::decode_frame(answer->bytes());
        EXPECT_EQ(frame->header.kind, wanted);
        ++done;
        if (stop) continue;
        EXPECT_TRUE(co_await send(frame->header.request & 0xffff));
        ++open;
    }
}

Task<> no_windows_once(fabric::Domain& domain, Content& content, const std::atomic<bool>& stop,
                       std::atomic<uint64_t>& done) {
    RawConnection raw;
    EXPECT_TRUE(co_await raw.open(domain, content.connection(), content.service));
    rpc::Buffer body;
    rpc::FrameHeader header;
    header.method = content.read_method;
    header.sink_bytes = 64 * mib;
    co_await repeat(raw, header, {}, {}, content.read_body(body, 64 * mib), stop, done);
    co_await raw.close();
}

Task<> late_writes_once(fabric::Domain& domain, Content& content, const std::atomic<bool>& stop,
                        std::atomic<uint64_t>& done) {
    RawConnection raw;
    EXPECT_TRUE(co_await raw.open(domain, content.connection(), content.service));
    const auto memory = raw.endpoint->allocate(32 * mib);
    EXPECT_TRUE(memory);
    std::ranges::fill(*memory, std::byte{7});
    auto region = raw.endpoint->grant(*memory, fabric::Rights::read);
    EXPECT_TRUE(region);
    rpc::WindowDescriptor window{.length = memory->size()};
    std::ranges::copy(object_bytes(region->key()), window.key.begin());
    rpc::Buffer body;
    rpc::FrameHeader header;
    header.method = content.write_method;
    header.set({.client = content.connection().client()});
    header.set(rpc::Flag::in_source);
    header.payload_bytes = memory->size();
    header.remaining_ns = 1'000'000;
    co_await repeat(raw, header, {&window, 1}, {},
                    content.write_body(body, *memory, Checksum::none), stop, done);
    co_await region->revoke();
    raw.endpoint->free(*memory);
    co_await raw.close();
}

// Writes with a true or a false checksum.
template <size_t bytes, Checksum checksum>
Task<> writes_once(fabric::Domain& domain, Content& content, const std::atomic<bool>& stop,
                   std::atomic<uint64_t>& done) {
    RawConnection raw;
    EXPECT_TRUE(co_await raw.open(domain, content.connection(), content.service));
    const auto memory = raw.endpoint->allocate(bytes);
    EXPECT_TRUE(memory);
    std::ranges::fill(*memory, std::byte{7});
    auto region = raw.endpoint->grant(*memory, fabric::Rights::read);
    EXPECT_TRUE(region);
    rpc::WindowDescriptor window{.length = memory->size()};
    std::ranges::copy(object_bytes(region->key()), window.key.begin());
    rpc::Buffer body;
    rpc::FrameHeader header;
    header.method = content.write_method;
    header.set({.client = content.connection().client()});
    header.set(rpc::Flag::in_source);
    header.payload_bytes = bytes;
    static std::atomic<uint32_t> used_slots = 100;  // a name is for one update
    co_await repeat(raw, header, {&window, 1}, {}, content.write_body(body, *memory, checksum),
                    stop, done, checksum == Checksum::right ? rpc::Kind::reply : rpc::Kind::failure,
                    used_slots.fetch_add(8));
    co_await region->revoke();
    raw.endpoint->free(*memory);
    co_await raw.close();
}

// Reads with a window for their bytes, or with none.
template <size_t bytes, bool have_window>
Task<> reads_once(fabric::Domain& domain, Content& content, const std::atomic<bool>& stop,
                  std::atomic<uint64_t>& done) {
    RawConnection raw;
    EXPECT_TRUE(co_await raw.open(domain, content.connection(), content.service));
    const auto memory = raw.endpoint->allocate(bytes);
    EXPECT_TRUE(memory);
    auto region = raw.endpoint->grant(*memory, fabric::Rights::write);
    EXPECT_TRUE(region);
    rpc::WindowDescriptor window{.length = memory->size()};
    std::ranges::copy(object_bytes(region->key()), window.key.begin());
    rpc::Buffer body;
    rpc::FrameHeader header;
    header.method = content.read_method;
    header.sink_bytes = bytes;
    const std::span<const rpc::WindowDescriptor> windows(&window, have_window ? 1 : 0);
    co_await repeat(raw, header, {}, windows, content.read_body(body, bytes), stop, done,
                    have_window ? rpc::Kind::reply : rpc::Kind::failure);
    co_await region->revoke();
    raw.endpoint->free(*memory);
    co_await raw.close();
}

template <auto once>
Task<> by_eight(Reactor& reactor, Content& content, const std::atomic<bool>& stop,
                std::atomic<uint64_t>& done) {
    const auto domain = fabric::shm::open_domain(reactor);
    Nursery nursery(reactor, 8);
    for (int i = 0; i < 8; ++i) co_await nursery.spawn(once(*domain, content, stop, done));
    co_await nursery.join();
    co_await domain->close();
}

class DaemonFairness : public testing::TestWithParam<std::string> {
  protected:
    DaemonFairness() {
        for (auto* reactor : {&good, &bad}) {
            *reactor = started_reactor("host");
        }
        for (const char* name : {"alice", "bob"}) {
            engine.give(fmt::format("CN={}", name), "write: pool/*");
            issue_certificate(engine.places().storage_certs, name);
        }
        engine.write_settings();
        dpu.give(R"("CN=alice": {write: pool/*}, "CN=bob": {write: pool/*})");
        issue_certificates(dpu, {"alice", "bob"});
    }
    [[nodiscard]] bool is_dpu() const { return GetParam() == "dpu"; }
    [[nodiscard]] std::unique_ptr<Content> content(Reactor& reactor,
                                                   const std::string& name) const {
        if (is_dpu()) {
            return std::make_unique<FileAtDpu>(reactor, tenant_options(dpu, name, "pool"), name);
        }
        connection::Options options = engine.options("shm");
        options.server.identity = pki::identity_in(engine.places().storage_certs, name);
        return std::make_unique<ArrayAtEngine>(reactor, std::move(options), name);
    }
    // The growth of a counter per second.
    static double pace(const std::atomic<uint64_t>& done) {
        const uint64_t before = done;
        std::this_thread::sleep_for(measured_for);
        return static_cast<double>(done - before) / measured_for.count();
    }
    // The bystander's speed during the attack, as a fraction of its speed alone. There must be at
    // least this many attacks per second.
    double left_under(Attack attack, Content& bob, const std::atomic<uint64_t>& reads,
                      double attacks_least);
    void run(Attack attack, double attacks_least, double least = 0.25);
    // Beside refused requests it keeps at least 0.7 of its speed beside valid ones.
    void compare(Attack refused, Attack valid);
    template <class Measure>
    void measure(Measure measure);

    EngineProcess engine;
    DpuProcess dpu{engine, "shm"};
    std::unique_ptr<OsReactor> good, bad;
};

double DaemonFairness::left_under(Attack attack, Content& bob, const std::atomic<uint64_t>& reads,
                                  double attacks_least) {
    std::this_thread::sleep_for(500ms);
    const double alone = pace(reads);
    std::atomic<bool> stop = false;
    std::atomic<uint64_t> attacks = 0;
    std::thread attacking(
        [&] { run_blocking(*bad, [&] { return attack(*bad, bob, stop, attacks); }); });
    while (attacks == 0) std::this_thread::sleep_for(10ms);
    std::this_thread::sleep_for(3s);
    const uint64_t before = attacks;
    const double under_attack = pace(reads);
    const double rate = static_cast<double>(attacks - before) / measured_for.count();
    stop = true;
    attacking.join();
    fmt::print("alone {:.0f} reads/s, under {:.0f} attacks/s {:.0f}: {:.0f} %\n", alone, rate,
               under_attack, 100 * under_attack / alone);
    EXPECT_GE(rate, attacks_least);
    return under_attack / alone;
}

template <class Measure>
void DaemonFairness::measure(Measure measure) {
    ASSERT_TRUE(engine.start() && (!is_dpu() || dpu.start()));
    const auto alice = content(*good, "alice"), bob = content(*bad, "bob");
    run_blocking(*good, [&] { return alice->open(mib); });
    run_blocking(*bad, [&] { return bob->open(64 * mib); });
    std::atomic<bool> stop = false;
    std::atomic<uint64_t> reads = 0;
    std::thread reading([&] { run_blocking(*good, [&] { return read_on(*alice, stop, reads); }); });
    measure(*bob, reads);
    stop = true;
    reading.join();
    run_blocking(*bad, [&] { return bob->close(); });
    run_blocking(*good, [&] { return alice->close(); });
    if (is_dpu()) EXPECT_EQ(dpu.stop(), 0) << dpu.log();
}

// Other programs of the machine may disturb one measurement. A starved bystander fails all three.
void DaemonFairness::run(Attack attack, double attacks_least, double least) {
    measure([&](Content& bob, const std::atomic<uint64_t>& reads) {
        double left = 0;
        for (int attempt = 0; attempt < 3 && left < least; ++attempt) {
            left = left_under(attack, bob, reads, attacks_least);
        }
        EXPECT_GE(left, least);
    });
}

void DaemonFairness::compare(Attack refused, Attack valid) {
    measure([&](Content& bob, const std::atomic<uint64_t>& reads) {
        double ratio = 0;
        for (int attempt = 0; attempt < 3 && ratio < 0.7; ++attempt) {
            const double beside_valid = left_under(valid, bob, reads, 5);
            ratio = left_under(refused, bob, reads, 5) / beside_valid;
        }
        EXPECT_GE(ratio, 0.7);
    });
}

// Not at an engine: there a client may be a DPU of many tenants, and 32 of its requests may be
// ahead of any other's.
class DpuFairness : public DaemonFairness {};
TEST_P(DpuFairness, ManyReadsLeaveBystanderServed) { run(many_reads<250, 4096>, 100); }
// A read of 1 MiB costs the servers as much as 17 reads of the bystander.
TEST_P(DpuFairness, ManyLargeReadsLeaveBystanderServed) { run(many_reads<16, mib>, 100, 0.1); }
TEST_P(DpuFairness, ReadsWithoutWindowLeaveBystanderServed) { run(by_eight<no_windows_once>, 5); }
TEST_P(DpuFairness, LateLargeWritesLeaveBystanderServed) { run(by_eight<late_writes_once>, 5); }

TEST_P(DaemonFairness, LargeWritesWithFalseChecksumsCostNoMore) {
    compare(by_eight<writes_once<mib, Checksum::wrong>>,
            by_eight<writes_once<mib, Checksum::right>>);
}
TEST_P(DaemonFairness, SmallWritesWithFalseChecksumsCostNoMore) {
    compare(by_eight<writes_once<4096, Checksum::wrong>>,
            by_eight<writes_once<4096, Checksum::right>>);
}
TEST_P(DaemonFairness, SmallReadsWithoutWindowCostNoMore) {
    compare(by_eight<reads_once<32768, false>>, by_eight<reads_once<32768, true>>);
}

INSTANTIATE_TEST_SUITE_P(Each, DpuFairness, testing::Values("dpu"));
INSTANTIATE_TEST_SUITE_P(Each, DaemonFairness, testing::Values("dpu", "engine"),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace ros2s::tests
