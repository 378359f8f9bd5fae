// What the server does with requests that the client does not send, or has no right to, and what it
// keeps.
#include "store_server.h"

#include <array>

#include "fields.h"
#include "test_support/store_bench.h"

namespace ros2s::remote {
namespace {

class Whatever final : public rpc::ReplyReader {
  public:
    Result<> read(const rpc::Reply&) override { return {}; }
};

Task<> nonsense(Bench& bench) {
    Whatever reader;
    Random random(7);
    std::array<std::byte, 4000> memory{};
    const std::array<ConstBytes, 1> payload{ConstBytes(memory)};
    const std::array<Bytes, 1> sink{Bytes(memory)};
    const std::span<const ConstBytes> some(payload);
    int refused = 0;
    for (uint16_t method = 0; method < 13; ++method) {
        for (int i = 0; i < 200; ++i) {
            std::vector<std::byte> body(random.below(200));
            for (std::byte& b : body) b = static_cast<std::byte>(random.below(3));
            const rpc::CallRequest request{.method = method,
                                           .body = body,
                                           .payload = some.first(random.below(2)),
                                           .sink = sink};
            if (!co_await bench.wired.channel().call({}, request, reader)) ++refused;
        }
    }
    EXPECT_GT(refused, 1500);
    EXPECT_GT(bench.wired.service().metrics().malformed.value(), 500U);
    // The requests are refused, not the client.
    EXPECT_EQ(bench.wired.channel().metrics().connections.value(), 1U);
    EXPECT_TRUE(co_await bench.store().space({}, {}));
}
TEST(StoreServer, InvalidBodyIsAnsweredByAnError) { Bench().run(nonsense); }

// Each method that names a container needs a right there, and reaches no store without it.
Task<> no_rights(Bench& bench) {
    using Use = ContainerPolicy::Use;
    const auto denied = [](const auto& result) {
        return !result && result.error().code == Code::denied;
    };
    RemoteStore& store = bench.store();
    const Holder holder{.client = Bench::client()};
    std::array<std::byte, 1> byte{};
    FetchItem item{.object = first_object,
                   .dkey = {"d"},
                   .akey = {"a"},
                   .extent = {.offset = 0, .length = byte.size()},
                   .window = Window::local(Bytes(byte))};
    std::array<Link, 1> links{};
    const UpdateName name{.sequence = 7};
    const Call named{.update = &name};
    bench.policy.denies = true;
    EXPECT_TRUE(denied(co_await store.fetch({}, bench.container, {&item, 1})));
    EXPECT_TRUE(denied(co_await store.fetch_chain({}, bench.container, holder, {&item, 1}, links)));
    EXPECT_TRUE(denied(co_await store.pin({}, bench.container, holder, item)));
    EXPECT_TRUE(denied(co_await store.unpin({}, bench.container, holder, first_object)));
    EXPECT_TRUE(denied(co_await store.list(
        {}, bench.container, {.what = ListRequest::What::dkeys, .object = first_object})));
    EXPECT_TRUE(denied(co_await store.query({}, bench.container, first_object, {"a"})));
    EXPECT_TRUE(denied(co_await store.space({}, bench.container)));
    EXPECT_TRUE(denied(co_await bench.update(Batch().put({first_object, "d", "a"}, "x"))));
    LockRequest lock{.object = first_object,
                     .lock = {.mode = LockMode::exclusive},
                     .how = LockRequest::How::set};
    EXPECT_TRUE(denied(co_await store.lock({}, bench.container, holder, lock)));
    lock.object = {};
    lock.lock.space = LockSpace::container;
    EXPECT_TRUE(denied(co_await store.lock({}, bench.container, holder, lock)));
    EXPECT_TRUE(denied(co_await store.destroy_container(named, bench.container)));
    EXPECT_EQ(bench.policy.denied,
              (std::vector<Use>{Use::read, Use::read, Use::read, Use::read, Use::read, Use::read,
                                Use::read, Use::write, Use::write, Use::write, Use::destroy}));
    EXPECT_TRUE(denied(co_await store.create_container({}, {.label = "other"})));
    EXPECT_EQ((co_await store.list_containers({}))->size(), 0U);
    EXPECT_EQ((co_await bench.behind.list_containers({}))->size(), 1U);
}
TEST(StoreServer, UseWithoutARightIsDenied) { Bench().run(no_rights); }

// A policy logs labels, and the client refuses these itself.
Task<> invalid_label(Bench& bench) {
    Whatever reader;
    bench.policy.denies = true;
    Buffer buffer;
    const ConstBytes body =
        rpc::build(buffer, create_fields, Creation{.properties = {.label = "a\nb"}});
    const Result<> called = co_await bench.wired.channel().call(
        {}, {.method = static_cast<uint16_t>(Method::create_container), .body = body}, reader);
    EXPECT_EQ(called, Result<>(fail(Code::invalid)));
}
TEST(StoreServer, InvalidLabelNeverReachesThePolicy) { Bench().run(invalid_label); }

// Lengths of body and payload that contradict each other.
Task<> contradictions(Bench& bench) {
    Whatever reader;
    std::string bytes(3000, 'x');
    const Batch batch = Batch().write({first_object, "d", "a"}, 0, bytes);
    Buffer buffer;
    const ConstBytes body = rpc::build(buffer, update_fields, bench.container, batch.transaction());
    const std::string long_payload(3001, 'y'), short_payload(2999, 'z');
    for (const std::string& text : {long_payload, short_payload, std::string()}) {
        const std::array<ConstBytes, 1> payload{as_bytes(text)};
        const Result<> called = co_await bench.wired.channel().call(
            {}, {.method = 3, .body = body, .payload = payload}, reader);
        EXPECT_EQ(called, Result<>(fail(Code::invalid)));
    }
    std::array<FetchItem, 2> items;
    for (FetchItem& item : items) {
        item = {.object = first_object,
                .dkey = {"d"},
                .akey = {"a"},
                .extent = {0, ~uint64_t{0} / 2 + 5}};
    }
    Buffer fetch;
    const std::array<Bytes, 1> sink{std::as_writable_bytes(std::span(bytes)).first(8)};
    const Result<> called = co_await bench.wired.channel().call(
        {},
        {.method = 2,
         .body = rpc::build(fetch, fetch_fields, bench.container, items),
         .sink = sink},
        reader);
    EXPECT_EQ(called, Result<>(fail(Code::invalid)));
}
TEST(StoreServer, ContradictoryLengthsAreRefused) { Bench().run(contradictions); }

// ---- memory that the server keeps -----------------------------------------------------------

constexpr size_t kept_of_a_few_requests = size_t{1} << 20;

// Each request makes another operation large.
Task<> large_operations(Bench& bench) {
    Whatever reader;
    Transaction transaction;
    transaction.operations.assign(
        transaction_operations_max,
        {.kind = Operation::Kind::touch, .object = first_object, .dkey = {"d"}, .akey = {"a"}});
    Buffer buffer;
    for (size_t i = 0; i < 16; ++i) {
        Operation& operation = transaction.operations[i];
        const Operation small = operation;
        operation.kind = Operation::Kind::write;
        if (i % 2 == 0) {
            operation.seals.assign(1 << 20, 's');
        } else {
            operation.checksums.resize(1 << 18);
        }
        const ConstBytes body = rpc::build(buffer, update_fields, bench.container, transaction);
        EXPECT_FALSE(co_await bench.wired.channel().call({}, {.method = 3, .body = body}, reader));
        operation = small;
    }
    EXPECT_EQ(bench.wired.service().metrics().malformed.value(), 0U);
    EXPECT_LT(bench.wired.service().kept_bytes(), kept_of_a_few_requests);
}
TEST(StoreServer, MemoryOfGrowingOperationsIsReleased) { Bench().run(large_operations); }

// The request is small; what it asks for makes another item large each time.
Task<> large_items(Bench& bench) {
    constexpr uint64_t bytes = 4 << 20;
    const AkeyAddress place{first_object, "d", "array"};
    EXPECT_TRUE(co_await bench.update(Batch().set_size(place, bytes)));
    std::string got(bytes, '?');
    for (size_t i = 0; i < 64; ++i) {
        std::vector<FetchItem> items(
            64, {.object = first_object,
                 .dkey = {"d"},
                 .akey = {"array"},
                 .extent = {0, 1},
                 .window = Window::local(std::as_writable_bytes(std::span(got)))});
        items[i].extent.length = bytes;
        items[i].wants_seals = true;
        EXPECT_TRUE(co_await bench.store().fetch({}, bench.container, items));
        for (const FetchItem& item : items) EXPECT_TRUE(item.status);
        EXPECT_EQ(items[i].seals.size(), bytes / block_bytes * seal_bytes);
    }
    EXPECT_LT(bench.wired.service().kept_bytes(), kept_of_a_few_requests);
}
TEST(StoreServer, MemoryOfGrowingItemsIsReleased) { Bench().run(large_items); }

Task<> small_requests(Bench& bench) {
    EXPECT_TRUE(co_await bench.update(Batch().put({first_object, "d", "a"}, "x")));
    EXPECT_GT(bench.wired.service().kept_bytes(), 0U);
}
TEST(StoreServer, MemoryOfSmallRequestIsKept) { Bench().run(small_requests); }

}  // namespace
}  // namespace ros2s::remote
