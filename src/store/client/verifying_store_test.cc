// The client over the oracle: the contract, corruption in both directions, counters, trace, cost.
#include "ros2s/client/verifying_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <new>

#include "ros2s/object/checksum.h"
#include "ros2s/object/contract/contract.h"
#include "ros2s/object/forwarding_store.h"
#include "ros2s/object/test_support/batch.h"
#include "ros2s/object/test_support/memory_store.h"
#include "ros2s/runtime/nursery.h"
#include "ros2s/runtime/sim/world.h"
#include "ros2s/runtime/trace.h"

#ifndef ROS2S_SANITIZED
// Counts allocations of this program, for the test of the steady state.
static uint64_t allocations = 0;
void* operator new(size_t size) {
    ++allocations;
    if (void* memory = std::malloc(size)) return memory;
    std::abort();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
#endif

namespace ros2s::client {
namespace {

using namespace object;

class ClientSetup final : public contract::Setup {
  public:
    explicit ClientSetup(const contract::Needs& needs)
        : world_(needs.seed),
          memory_(world_.core(), {.capacity_bytes = needs.capacity_bytes,
                                  .delay_max = std::chrono::milliseconds(1)}),
          client_(world_.core(), memory_) {}
    ObjectStore& store() override { return client_; }
    Reactor& reactor() override { return world_.core(); }
    void run(Task<> task) override { world_.run(std::move(task)); }
    bool make_read_only() override {
        memory_.set_read_only(true);
        return true;
    }

  private:
    sim::World world_;
    MemoryStore memory_;
    VerifyingStore client_;
};
ROS2S_OBJECT_STORE_CONTRACT(ClientOverMemory, [](const contract::Needs& needs) {
    return std::make_unique<ClientSetup>(needs);
});

// A store behind a bad wire.
class BadWire final : public ForwardingStore {
  public:
    enum class Harm : uint8_t {
        none,
        flip,
        flip_shared,
        drop_checksums,
        swap_bytes,
        claims_corrupt
    };
    explicit BadWire(ObjectStore& below) : ForwardingStore(below) {}
    Harm on_fetch = Harm::none;
    uint64_t flipped_bit = 0;
    bool flip_on_update = false;
    size_t checksums_seen = 0;  // in updates

    Task<Result<>> fetch(const Call& call, ContainerId container,
                         std::span<FetchItem> items) override {
        ROS2S_CO_TRY(co_await below().fetch(call, container, items));
        for (FetchItem& item : items) {
            const Bytes bytes = item.window.bytes();
            if (on_fetch == Harm::flip || (on_fetch == Harm::flip_shared && item.window.shared)) {
                bytes[flipped_bit / 8] ^= std::byte{static_cast<uint8_t>(1 << flipped_bit % 8)};
            } else if (on_fetch == Harm::drop_checksums) {
                item.checksums.clear();
            } else if (on_fetch == Harm::swap_bytes) {
                std::swap(bytes[0], bytes[1]);
            } else if (on_fetch == Harm::claims_corrupt) {
                item.status = fail(Code::corrupt);
            }
        }
        co_return Result<>();
    }
    Task<Result<Commit>> update(const Call& call, ContainerId container,
                                const Transaction& transaction) override {
        Transaction harmed = transaction;
        std::string payload;
        for (Operation& operation : harmed.operations) {
            checksums_seen += operation.checksums.size();
            if (!flip_on_update) continue;
            payload = as_text(operation.window.bytes());
            payload[flipped_bit / 8] ^= static_cast<char>(1 << flipped_bit % 8);
            operation.window = Window::local(as_bytes(payload));
        }
        co_return co_await below().update(call, container, harmed);
    }
};

// The client over a bad wire over the oracle, with an array and a value in a container.
struct Rig {
    sim::World world{1};
    MemoryStore memory{world.core()};
    BadWire wire{memory};
    std::vector<std::string> lines;
    VerifyingStore client{world.core(), wire, Log([this](LogLevel, std::string_view line) {
                              lines.emplace_back(line);
                          })};
    Call call{};
    ContainerId container{};
    std::string window = std::string(12'000, '?');

    static inline const AkeyAddress array{{0x12, 0xab}, std::string("chunk\0", 6), "data"};
    static inline const AkeyAddress value{{0x12, 0xab}, "name", "inode"};
    static inline const std::string bytes = std::string(12'000, 'b');

    Rig() { world.run(fill()); }
    Task<> fill() {
        const ContainerProperties properties{.label = "c"};
        const auto record = co_await client.create_container(call, properties);
        container = record->id;
        const Batch batch = Batch().write(array, 0, bytes).put(value, "some value");
        const auto commit = co_await client.update(call, container, batch.transaction());
        EXPECT_TRUE(commit.has_value());
    }
    FetchItem item(const AkeyAddress& place, Extent extent) {
        return {.object = place.object,
                .dkey = {place.dkey},
                .akey = {place.akey},
                .extent = extent,
                .window = Window::local(std::as_writable_bytes(std::span(window)))};
    }
    Result<> fetch(FetchItem& item) { return world.run(client.fetch(call, container, {&item, 1})); }
};

// The receiver detects the damage. Data that the store reports as corrupt is still withheld.
TEST(VerifyingStore, ForwardedBytesKeepTheirChecksums) {
    Rig rig;
    FetchItem item = rig.item(Rig::array, {0, 12'000});
    item.forwarded = true;
    EXPECT_TRUE(rig.fetch(item).has_value());
    const Checksums checksums = item.checksums;
    rig.wire.on_fetch = BadWire::Harm::flip;
    EXPECT_TRUE(rig.fetch(item).has_value());
    EXPECT_TRUE(item.status.has_value());
    EXPECT_EQ(item.checksums, checksums);
    EXPECT_FALSE(array_checksums_match(0, as_bytes(rig.window), checksums));
    rig.wire.on_fetch = BadWire::Harm::claims_corrupt;
    EXPECT_TRUE(rig.fetch(item).has_value());
    EXPECT_EQ(item.status, Result<>(fail(Code::corrupt)));
    EXPECT_EQ(rig.window, std::string(12'000, '\0'));
}

TEST(VerifyingStore, CorruptBytesAreWithheldAndNamed) {
    Rig rig;
    rig.wire.on_fetch = BadWire::Harm::flip;
    for (const auto& [byte, block_end] :
         {std::pair<uint64_t, uint64_t>{0, 4096}, {4095, 8192}, {4096, 8192}, {9999, 10'001}}) {
        rig.wire.flipped_bit = byte * 8 + byte % 8;
        FetchItem item = rig.item(Rig::array, {1, 10'000});
        EXPECT_TRUE(rig.fetch(item).has_value());
        EXPECT_EQ(item.status, Result<>(fail(Code::corrupt, block_end)));
        EXPECT_TRUE(item.checksums.empty());
        EXPECT_EQ(rig.window.substr(0, 10'000), std::string(10'000, '\0'));
        EXPECT_EQ(rig.window.substr(10'000), std::string(2'000, '?'));
    }
    ASSERT_EQ(rig.lines.size(), 4U);
    EXPECT_THAT(rig.lines[1], testing::HasSubstr("object 0000000000000012.00000000000000ab"));
    EXPECT_THAT(rig.lines[1], testing::HasSubstr(R"(dkey "chunk\x00" akey "data")"));
    EXPECT_THAT(rig.lines[1], testing::HasSubstr("extent [4096, 8192)"));
    EXPECT_EQ(rig.client.metrics().corrupt.value(), 4U);
    EXPECT_EQ(rig.client.metrics().fetch.errors.value(), 4U);
    // The stored bytes are correct, and can be read again when the wire is good.
    rig.wire.on_fetch = BadWire::Harm::none;
    FetchItem item = rig.item(Rig::array, {0, 12'000});
    EXPECT_TRUE(rig.fetch(item).has_value());
    EXPECT_TRUE(item.status.has_value());
    EXPECT_EQ(rig.window, Rig::bytes);
}

// Another process writes to the window. The store's data is not damaged, and the bytes still
// arrive.
TEST(VerifyingStore, DamageInSharedWindowIsReadAgain) {
    Rig rig;
    rig.wire.on_fetch = BadWire::Harm::flip_shared;
    for (const auto& [place, length] : {std::pair(Rig::array, 10'000), {Rig::value, 100}}) {
        rig.window.assign(12'000, '?');
        FetchItem item = rig.item(place, {0, static_cast<uint64_t>(length)});
        item.window.shared = true;
        EXPECT_TRUE(rig.fetch(item).has_value());
        EXPECT_TRUE(item.status.has_value());
        const std::string expected = item.is_value ? "some value" : Rig::bytes.substr(0, 10'000);
        EXPECT_EQ(rig.window.substr(0, expected.size()), expected);
        EXPECT_EQ(rig.window.substr(10'000), std::string(2'000, '?'));
        EXPECT_TRUE(item.window.shared);
    }
    EXPECT_TRUE(rig.lines.empty());
    EXPECT_EQ(rig.client.metrics().corrupt.value(), 0U);
    EXPECT_EQ(rig.client.metrics().read_again.value(), 2U);
    // Bytes that are also damaged in private memory are corrupt.
    rig.wire.on_fetch = BadWire::Harm::flip;
    FetchItem item = rig.item(Rig::array, {0, 10'000});
    item.window.shared = true;
    EXPECT_TRUE(rig.fetch(item).has_value());
    EXPECT_EQ(item.status, Result<>(fail(Code::corrupt, 4096)));
    EXPECT_EQ(rig.window.substr(0, 10'000), std::string(10'000, '\0'));
    EXPECT_EQ(rig.lines.size(), 1U);
    EXPECT_EQ(rig.client.metrics().corrupt.value(), 1U);
}

TEST(VerifyingStore, CorruptValueIsWithheld) {
    Rig rig;
    for (const auto harm : {BadWire::Harm::flip, BadWire::Harm::swap_bytes,
                            BadWire::Harm::drop_checksums, BadWire::Harm::claims_corrupt}) {
        rig.wire.on_fetch = harm;
        FetchItem item = rig.item(Rig::value, {0, 100});
        EXPECT_TRUE(rig.fetch(item).has_value());
        EXPECT_EQ(item.status, Result<>(fail(Code::corrupt)));
        EXPECT_EQ(rig.window.substr(0, 100), std::string(100, '\0'));
    }
    EXPECT_THAT(rig.lines[0], testing::HasSubstr("value [0, 10)"));
    // The store itself reports the corruption that it finds.
    EXPECT_EQ(rig.lines.size(), 3U);
    EXPECT_EQ(rig.client.metrics().corrupt.value(), 4U);
}

TEST(VerifyingStore, FurtherCorruptionIsCountedNotLogged) {
    Rig rig;
    rig.wire.on_fetch = BadWire::Harm::drop_checksums;
    for (int i = 0; i < 150; ++i) {
        FetchItem item = rig.item(Rig::array, {0, 4096});
        EXPECT_TRUE(rig.fetch(item).has_value());
    }
    EXPECT_EQ(rig.lines.size(), VerifyingStore::corrupt_lines_max);
    EXPECT_EQ(rig.client.metrics().corrupt.value(), 150U);
}

TEST(VerifyingStore, StoreDetectsDamageBySentChecksums) {
    Rig rig;
    rig.wire.flip_on_update = true;
    rig.wire.flipped_bit = 5000 * 8;
    const Batch write = Batch().write(Rig::array, 77, std::string(6000, 'n'));
    const Result<Commit> refused =
        rig.world.run(rig.client.update(rig.call, rig.container, write.transaction()));
    EXPECT_EQ(refused, Result<Commit>(fail(Code::corrupt)));
    rig.wire.flipped_bit = 3;
    const Batch put = Batch().put(Rig::value, "new");
    EXPECT_EQ(rig.world.run(rig.client.update(rig.call, rig.container, put.transaction())),
              Result<Commit>(fail(Code::corrupt)));
    EXPECT_TRUE(write.transaction().operations[0].checksums.empty());
    FetchItem item = rig.item(Rig::array, {0, 12'000});
    EXPECT_TRUE(rig.fetch(item).has_value());
    EXPECT_EQ(rig.window, Rig::bytes);
    EXPECT_EQ(rig.client.metrics().update.errors.value(), 2U);
}

// There is nothing between the two, so the bytes are not checked again. Corruption that the store
// itself finds is still withheld.
TEST(CountedStore, LocalStoreGetsNoChecksums) {
    Rig rig;
    CountedStore client(rig.world.core(), rig.wire);
    const size_t seen = rig.wire.checksums_seen;
    EXPECT_GT(seen, 0U);  // the other client's, which filled the rig
    const Batch write = Batch().write(Rig::array, 0, std::string(9000, 'n'));
    EXPECT_TRUE(rig.world.run(client.update(rig.call, rig.container, write.transaction())));
    EXPECT_EQ(rig.wire.checksums_seen, seen);

    FetchItem item = rig.item(Rig::array, {0, 9000});
    rig.wire.on_fetch = BadWire::Harm::drop_checksums;
    EXPECT_TRUE(rig.world.run(client.fetch(rig.call, rig.container, {&item, 1})));
    EXPECT_TRUE(item.status.has_value());
    EXPECT_EQ(rig.window.substr(0, 9000), std::string(9000, 'n'));

    rig.wire.on_fetch = BadWire::Harm::claims_corrupt;
    EXPECT_TRUE(rig.world.run(client.fetch(rig.call, rig.container, {&item, 1})));
    EXPECT_EQ(item.status, Result<>(fail(Code::corrupt)));
    EXPECT_EQ(rig.window.substr(0, 9000), std::string(9000, '\0'));
    EXPECT_EQ(client.metrics().corrupt.value(), 1U);
}

TEST(VerifyingStore, RequestsBytesAndTimeAreCounted) {
    Rig rig;
    FetchItem items[] = {rig.item(Rig::array, {0, 5000}), rig.item(Rig::array, {0, 300})};
    items[1].dkey = {"absent"};
    items[1].window = items[1].window.slice(6000, 300);
    EXPECT_TRUE(rig.world.run(rig.client.fetch(rig.call, rig.container, items)).has_value());
    const ListRequest request{.what = ListRequest::What::objects};
    EXPECT_TRUE(rig.world.run(rig.client.list(rig.call, rig.container, request)).has_value());
    EXPECT_FALSE(rig.world.run(rig.client.list(rig.call, {}, request)).has_value());
    std::map<std::string, uint64_t> seen;
    rig.client.metrics().visit([&](std::string_view name, std::string_view help, uint64_t value) {
        EXPECT_FALSE(help.empty());
        EXPECT_TRUE(seen.emplace(name, value).second) << name << " twice";
    });
    EXPECT_EQ(seen.at("ros2store_client_fetch_requests_total"), 1U);
    EXPECT_EQ(seen.at("ros2store_client_fetch_bytes_total"), 5300U);
    EXPECT_EQ(seen.at("ros2store_client_fetch_errors_total"), 0U);
    EXPECT_EQ(seen.at("ros2store_client_update_requests_total"), 1U);
    EXPECT_EQ(seen.at("ros2store_client_update_bytes_total"), 12'010U);
    EXPECT_EQ(seen.at("ros2store_client_list_requests_total"), 2U);
    EXPECT_EQ(seen.at("ros2store_client_list_errors_total"), 1U);
    EXPECT_EQ(seen.at("ros2store_client_other_requests_total"), 1U);
    EXPECT_EQ(seen.at("ros2store_client_fetch_below_1024_nanoseconds_total"), 1U);
}

TEST(RequestMetrics, LatenciesAreSortedIntoBuckets) {
    RequestMetrics metrics;
    for (const int64_t ns : {0, 1023, 1024, 4095, 4096, 16'383, 16'384})
        metrics.finish(Duration(ns));
    metrics.finish(std::chrono::hours(1));
    EXPECT_EQ(metrics.latency[0].value(), 2U);
    EXPECT_EQ(metrics.latency[1].value(), 2U);
    EXPECT_EQ(metrics.latency[2].value(), 2U);
    EXPECT_EQ(metrics.latency[3].value(), 1U);
    EXPECT_EQ(metrics.latency[RequestMetrics::bucket_count - 1].value(), 1U);
    EXPECT_EQ(metrics.requests.value(), 8U);
}

TEST(VerifyingStore, TraceRecordsEachRequest) {
    Rig rig;
    Trace trace;
    rig.call.trace = &trace;
    FetchItem item = rig.item(Rig::array, {0, 1});
    EXPECT_TRUE(rig.fetch(item).has_value());
    const Batch batch = Batch().put(Rig::value, "v");
    EXPECT_TRUE(rig.world.run(rig.client.update(rig.call, rig.container, batch.transaction())));
    ASSERT_EQ(trace.steps().size(), 2U);
    EXPECT_EQ(trace.steps()[0].name, "client.fetch");
    EXPECT_EQ(trace.steps()[1].name, "client.update");
}

// Notes the turn of the core in which each update arrives.
struct Arrivals final : ForwardingStore {
    using ForwardingStore::ForwardingStore;
    Task<Result<Commit>> update(const Call& call, ContainerId container,
                                const Transaction& transaction) override {
        arrived.push_back(turns);
        return below().update(call, container, transaction);
    }
    std::vector<size_t> arrived;
    size_t turns = 0;
};
Task<> count_turns(Reactor& core, size_t& turns, const bool& done) {
    while (!done) {
        ++turns;
        co_await yield(core);
    }
}
Task<> write(Rig& rig, VerifyingStore& client, const std::string& bytes) {
    const Batch batch = Batch().write(Rig::array, 0, bytes);
    EXPECT_TRUE(co_await client.update(rig.call, rig.container, batch.transaction()));
}
TEST(VerifyingStore, LargeUpdateIsSentBeforeTheNextIsSummed) {
    Rig rig;
    rig.world.run([](Rig& self) -> Task<> {
        Reactor& core = self.world.core();
        constexpr size_t slices = 16;
        const std::string bytes(slices * slice_bytes, 'b');
        Arrivals arrivals(self.memory);
        VerifyingStore client(core, arrivals);
        bool done = false;
        Nursery counting(core, 1), nursery(core, 2);
        co_await counting.spawn(count_turns(core, arrivals.turns, done));
        for (int i = 0; i < 2; ++i) co_await nursery.spawn(write(self, client, bytes));
        co_await nursery.join();
        done = true;
        co_await counting.join();
        EXPECT_EQ(arrivals.arrived.size(), 2U);
        EXPECT_GE(arrivals.arrived.front(), slices / 2);
        EXPECT_GE(arrivals.arrived.back(), arrivals.arrived.front() + slices / 2);
    }(rig));
}

#ifndef ROS2S_SANITIZED
Task<> fetch_many(VerifyingStore& client, const Call& call, ContainerId container, FetchItem& item,
                  uint64_t& during) {
    for (int i = 0; i < 1010; ++i) {
        if (i == 10) during = allocations;
        const auto fetched = co_await client.fetch(call, container, {&item, 1});
        EXPECT_TRUE(fetched && item.status);
    }
    during = allocations - during;
}
TEST(VerifyingStore, FetchAllocatesNothing) {
    Rig rig;
    VerifyingStore client(rig.world.core(), rig.memory);
    FetchItem item = rig.item(Rig::array, {4096, 4096});
    uint64_t during = 0;
    rig.world.run(fetch_many(client, rig.call, rig.container, item, during));
    EXPECT_EQ(during, 0U);
}
#endif

}  // namespace
}  // namespace ros2s::client
