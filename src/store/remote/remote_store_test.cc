// Properties that the contract does not test for a local store: requests larger than one message,
// false servers, damage on the way.
#include "remote_store.h"

#include <algorithm>
#include <array>

#include "fields.h"
#include "ros2s/client/verifying_store.h"
#include "ros2s/object/checksum.h"
#include "ros2s/object/forwarding_store.h"
#include "test_support/store_bench.h"

namespace ros2s::remote {
namespace {

// ---- names ------------------------------------------------------------------------------------

// One name, used by two subjects for themselves and for clients that they serve: all are different.
Task<> subjects(Bench& bench) {
    Uuid a, b;
    a.bytes[0] = 0xa0;
    b.bytes[0] = 0xb0;
    const AkeyAddress place{first_object, "d", "value"};
    for (const Uuid& subject : {a, b}) {
        co_await bench.wired.disconnect();
        bench.wired.gate().owner = subject;
        co_await bench.wired.connect();
        for (const Uuid& served : {Uuid{}, a, b}) {
            for (const bool again : {false, true}) {
                const auto commit = co_await bench.update(
                    Batch().id({Bench::client(), 0, 1, served}).put(place, "the same"));
                EXPECT_TRUE(commit && commit->replayed == again);
            }
            Batch leap = Batch().id({Bench::client(), 0, ~uint64_t{0}, served}).put(place, "");
            EXPECT_TRUE(co_await bench.update(leap));
        }
    }
}
TEST(RemoteStore, EqualIdsOfDifferentSubjectsAreDistinct) { Bench().run(subjects); }

// ---- large requests -------------------------------------------------------------------------

Task<> large(Bench& bench) {
    const std::string bytes = pattern(3, 40 << 20);
    const AkeyAddress place{first_object, "d", "array"};
    for (const uint64_t offset : {uint64_t{12345}, 12345 + bytes.size()}) {
        const auto commit = co_await bench.update(Batch().write(place, offset, bytes));
        EXPECT_TRUE(commit) << describe(commit.error());
    }
    // 80 MiB as one item: more than a request takes.
    std::string got(2 * bytes.size() + 20000, '?');
    auto item = object::fetch_item(first_object, {"d"}, {"array"}, 12345 - 1000,
                                   std::as_writable_bytes(std::span(got)));
    const uint64_t requests = bench.wired.channel().metrics().requests.value();
    EXPECT_TRUE(co_await bench.store().fetch({}, bench.container, {&item, 1}));
    EXPECT_GT(bench.wired.channel().metrics().requests.value(), requests + 1);
    EXPECT_TRUE(item.status);
    EXPECT_EQ(item.size, 12345 + 2 * bytes.size());
    EXPECT_TRUE(array_checksums_match(item.extent.offset, as_bytes(got), item.checksums));
    EXPECT_TRUE(got == std::string(1000, '\0') + bytes + bytes + std::string(19000, '\0'));
    // The same for an absent akey.
    item.akey = {"nothing"};
    EXPECT_TRUE(co_await bench.store().fetch({}, bench.container, {&item, 1}));
    EXPECT_EQ(item.status, Result<>(fail(Code::not_found)));
    EXPECT_TRUE(std::ranges::count(got, '\0') == static_cast<long>(got.size()));
}
TEST(RemoteStore, LargeItemIsSplitIntoRequests) { Bench().run(large); }

Task<> many_items(Bench& bench) {
    constexpr size_t count = fetch_items_max;
    constexpr uint64_t bytes_each = 100'000;
    Batch batch;
    std::vector<std::string> wanted;
    for (size_t i = 0; i < count; i += 2) {
        batch = Batch().write({first_object, std::to_string(i), "a"}, 0, pattern(i, bytes_each));
        EXPECT_TRUE(co_await bench.update(batch));
    }
    std::vector<std::string> got(count, std::string(bytes_each, '?'));
    std::vector<FetchItem> items(count);
    for (size_t i = 0; i < count; ++i) {
        items[i] = {.object = first_object,
                    .dkey = {std::to_string(i)},
                    .akey = {i % 5 == 4 ? "" : "a"},  // some are invalid
                    .extent = {0, bytes_each},
                    .window = Window::local(std::as_writable_bytes(std::span(got[i])))};
    }
    EXPECT_TRUE(co_await bench.store().fetch({}, bench.container, items));
    for (size_t i = 0; i < count; ++i) {
        if (i % 5 == 4) {
            EXPECT_EQ(items[i].status, Result<>(fail(Code::invalid))) << i;
        } else if (i % 2 == 1) {
            EXPECT_EQ(items[i].status, Result<>(fail(Code::not_found))) << i;
        } else {
            EXPECT_TRUE(items[i].status && got[i] == pattern(i, bytes_each)) << i;
        }
    }
}
TEST(RemoteStore, ManyLargeItemsAreFetched) { Bench().run(many_items); }

Task<> long_lists(Bench& bench) {
    constexpr int count = 3000;
    for (int from = 0; from < count; from += 1000) {
        Batch batch;
        for (int i = from; i < from + 1000; ++i) {
            batch.put({first_object, std::to_string(100000 + i), "v"}, pattern(1, 500));
        }
        EXPECT_TRUE(co_await bench.update(batch));
    }
    for (const uint32_t limit : {1U, 999U, 2500U, 3000U, 5000U}) {
        const auto listed = co_await bench.store().list({}, bench.container,
                                                        {.what = ListRequest::What::dkeys,
                                                         .object = first_object,
                                                         .akey = {"v"},
                                                         .limit = limit});
        EXPECT_TRUE(listed);
        if (!listed) continue;
        EXPECT_EQ(listed->entries.size(), std::min<size_t>(limit, count));
        EXPECT_EQ(listed->more, limit < count);
        EXPECT_EQ(listed->entries.back().key,
                  std::to_string(100000 + std::min<int>(static_cast<int>(limit), count) - 1));
        EXPECT_EQ(listed->entries.back().value, pattern(1, 500));
    }
    std::vector<std::string> labels{"c"};
    for (int i = 0; i < 3000; ++i) {
        labels.push_back(std::string(100, 'x') + std::to_string(10000 + i));
        EXPECT_TRUE(co_await bench.behind.create_container({}, {.label = labels.back()}));
    }
    const auto containers = co_await bench.store().list_containers({});
    EXPECT_TRUE(containers && containers->size() == labels.size());
    if (!containers) co_return;
    for (size_t i = 0; i < labels.size(); ++i) {
        EXPECT_EQ((*containers)[i].properties.label, labels[i]);
    }
}
TEST(RemoteStore, LongListIsReadInPages) { Bench().run(long_lists); }

struct FalseLists final : ForwardingStore {
    using ForwardingStore::ForwardingStore;
    Task<Result<ListReply>> list(const Call& /*call*/, ContainerId /*container*/,
                                 const ListRequest& /*request*/) override {
        ListReply reply;
        reply.entries.push_back({.key = "abc"});
        co_return reply;
    }
};
Task<> serve(Bench& bench, ObjectStore& store) {
    co_await bench.wired.disconnect();
    co_await bench.wired.stop_serving();
    co_await bench.wired.serve(store, &bench.policy);
    co_await bench.wired.connect();
}
Task<> false_lists(Bench& bench) {
    FalseLists false_store(bench.behind);
    co_await serve(bench, false_store);
    ListRequest request{.what = ListRequest::What::objects, .limit = 10};
    const auto objects = co_await bench.store().list(bench.call, bench.container, request);
    EXPECT_EQ(objects.error().code, Code::corrupt);
    request.what = ListRequest::What::dkeys;
    request.object = first_object;
    EXPECT_TRUE(co_await bench.store().list(bench.call, bench.container, request));
    co_await serve(bench, bench.behind);
}
TEST(RemoteStore, ListWithInvalidObjectIsCorrupt) { Bench().run(false_lists); }

// The device reads whole blocks into a window whose address has the offset of the extent in a
// block.
struct ChecksWindows final : ForwardingStore {
    using ForwardingStore::ForwardingStore;
    Task<Result<>> fetch(const Call& call, ContainerId container,
                         std::span<FetchItem> items) override {
        for (const FetchItem& item : items) {
            const auto address = reinterpret_cast<uintptr_t>(item.window.bytes().data());
            EXPECT_EQ(address % block_bytes, item.extent.offset % block_bytes);
        }
        co_return co_await below().fetch(call, container, items);
    }
};
Task<> aligned_windows(Bench& bench) {
    const std::string value = pattern(1, 200'000);
    Batch batch;
    EXPECT_TRUE(co_await bench.update(batch.write({first_object, "d", "a"}, 0, value)));
    ChecksWindows checking(bench.behind);
    co_await serve(bench, checking);
    constexpr std::array<Extent, 3> extents{{{0, 100'001}, {4099, 32'768}, {5, 150'000}}};
    std::vector<std::string> got;
    for (const Extent& each : extents) got.emplace_back(each.length, '?');
    std::vector<FetchItem> items;
    for (size_t i = 0; i < extents.size(); ++i) {
        items.push_back(object::fetch_item(first_object, {"d"}, {"a"}, extents[i].offset,
                                           std::as_writable_bytes(std::span(got[i]))));
    }
    EXPECT_TRUE(co_await bench.store().fetch(bench.call, bench.container, items));
    for (size_t i = 0; i < extents.size(); ++i) {
        EXPECT_EQ(got[i], value.substr(extents[i].offset, extents[i].length)) << i;
    }
    co_await serve(bench, bench.behind);
}
TEST(RemoteStore, WindowsOfLargeItemsAreAlignedAsTheirExtents) { Bench().run(aligned_windows); }

// Negated, the number would be a count of bytes.
struct NegativeErrnos final : ForwardingStore {
    using ForwardingStore::ForwardingStore;
    Task<Result<>> fetch(const Call& /*call*/, ContainerId /*container*/,
                         std::span<FetchItem> items) override {
        for (FetchItem& item : items) item.status = fail(Error{.code = Code::io, .os_errno = -1});
        co_return Result<>{};
    }
};
Task<> negative_errnos(Bench& bench) {
    NegativeErrnos false_store(bench.behind);
    co_await serve(bench, false_store);
    std::array<std::byte, 4> memory{};
    auto item = object::fetch_item(first_object, {"d"}, {"a"}, 0, Bytes(memory));
    EXPECT_EQ(co_await bench.store().fetch(bench.call, bench.container, {&item, 1}),
              Result<>(fail(Code::corrupt)));
    co_await serve(bench, bench.behind);
}
TEST(RemoteStore, NegativeErrnoIsCorrupt) { Bench().run(negative_errnos); }

// A client may leave each reply unread: what it holds counts towards the tenant's memory.
struct LooksInside final : ForwardingStore {
    LooksInside(ObjectStore& below, const rpc::ServerGroup& of)
        : ForwardingStore(below), group(of) {}
    Task<Result<ListReply>> list(const Call& call, ContainerId container,
                                 const ListRequest& request) override {
        bytes = group.admission.inside().bytes;
        co_return co_await below().list(call, container, request);
    }
    Task<Result<std::vector<ContainerRecord>>> list_containers(const Call& call) override {
        bytes = group.admission.inside().bytes;
        co_return co_await below().list_containers(call);
    }
    const rpc::ServerGroup& group;
    uint64_t bytes = 0;
};
Task<> memory_of_lists(Bench& bench) {
    LooksInside store(bench.behind, bench.group);
    co_await serve(bench, store);
    ListRequest request{
        .what = ListRequest::What::dkeys, .object = first_object, .akey = {"value"}, .limit = 16};
    EXPECT_TRUE(co_await bench.store().list(bench.call, bench.container, request));
    EXPECT_GT(store.bytes, list_value_bytes_max);
    request.akey = {};
    EXPECT_TRUE(co_await bench.store().list(bench.call, bench.container, request));
    EXPECT_GT(store.bytes, 16 * key_bytes_max);
    EXPECT_LT(store.bytes, 64 * 1024U);
    EXPECT_TRUE(co_await bench.store().list_containers(bench.call));
    EXPECT_GT(store.bytes, containers_max * label_bytes_max);
    co_await serve(bench, bench.behind);
}
TEST(RemoteStore, ListIsChargedToMemoryOfItsTenant) { Bench().run(memory_of_lists); }

// Notes how many requests of another tenant had their turn before. A query looks at many entries.
struct NotesTurns final : ForwardingStore {
    using ForwardingStore::ForwardingStore;
    Task<Result<PoolSpace>> space(const Call& call, ContainerId container) override {
        passed_before = passed;
        co_return co_await below().space(call, container);
    }
    Task<Result<QueryReply>> query(const Call& call, ContainerId container, ObjectId object,
                                   const Akey& akey) override {
        *call.entries_looked += entries;
        co_return co_await below().query(call, container, object, akey);
    }
    static constexpr int entries = 1000;
    int passed = 0;
    int passed_before = 0;
};
// The client has sent something that costs as much as looking at this many entries.
Task<> expect_charged(Bench& bench, NotesTurns& store) {
    constexpr int turns = 100;
    // Another tenant's small requests and one of the client's wait. One at a time is inside.
    const admission::Admission& admission = bench.group.admission;
    admission::Line others(bench.group.admission, 7);
    admission::Permit first = co_await others.enter(0, {});
    Nursery nursery(bench.world.core(), turns + 1);
    co_await nursery.spawn([](Bench& its) -> Task<> {
        EXPECT_TRUE(co_await its.store().space(its.call, its.container));
    }(bench));
    for (int i = 0; i < turns; ++i) {
        co_await nursery.spawn([](admission::Line& line, int& passed) -> Task<> {
            const admission::Permit permit = co_await line.enter(0, {});
            ++passed;
        }(others, store.passed));
    }
    while (admission.metrics().waiting.value() <= turns) {
        co_await sleep_for(bench.world.core(), std::chrono::microseconds(10));
    }
    first.release();
    co_await nursery.join();
    const auto cost_ns = static_cast<double>(admission::cost_ns_of_entries(NotesTurns::entries));
    const auto look_ns = static_cast<double>(admission::cost_ns_of(admission::Work::look, 0));
    EXPECT_NEAR(store.passed_before, cost_ns / look_ns, 3);
}
Task<> cost_of_containers(Bench& bench) {
    for (int i = 1; i < NotesTurns::entries; ++i) {
        EXPECT_TRUE(co_await bench.behind.create_container({}, {.label = std::to_string(i)}));
    }
    NotesTurns store(bench.behind);
    co_await serve(bench, store);
    // It may see none of them.
    bench.policy.denies = true;
    EXPECT_EQ((co_await bench.store().list_containers(bench.call))->size(), 0U);
    bench.policy.denies = false;
    co_await expect_charged(bench, store);
    co_await serve(bench, bench.behind);
}
Task<> cost_of_entries(Bench& bench) {
    NotesTurns store(bench.behind);
    co_await serve(bench, store);
    EXPECT_TRUE(co_await bench.store().query(bench.call, bench.container, {1, 1}, {"a"}));
    co_await expect_charged(bench, store);
    co_await serve(bench, bench.behind);
}
WireOptions one_inside() {
    WireOptions options;
    options.server.admission.all.requests = 1;
    return options;
}
TEST(RemoteStore, ListingIsChargedForAllContainers) { Bench(one_inside()).run(cost_of_containers); }
TEST(RemoteStore, ExaminedEntriesAreCharged) { Bench(one_inside()).run(cost_of_entries); }

Task<> owners(Bench& bench) {
    const ContainerProperties mine{.label = "mine", .caps = {.bytes = 1 << 20}};
    const auto made = co_await bench.store().create_container({}, mine);
    EXPECT_TRUE(made && made->properties.owner == "the client");
    EXPECT_TRUE(made && made->properties.caps == mine.caps);
    const ContainerProperties stolen{.label = "stolen", .owner = "another"};
    const auto refused = co_await bench.store().create_container({}, stolen);
    EXPECT_TRUE(!refused && refused.error().code == Code::denied);
    const auto space = co_await bench.store().space({}, bench.container);
    EXPECT_TRUE(space && space->total_bytes == uint64_t{1} << 30);
    const auto unknown = co_await bench.store().space({}, {.uuid = {.bytes = {1}}});
    EXPECT_TRUE(!unknown && unknown.error().code == Code::not_found);
}
TEST(RemoteStore, ServerSetsTheOwnerOfANewContainer) { Bench().run(owners); }

Task<> says_what_it_is(Bench& bench) {
    EXPECT_EQ(bench.store().path(), "sim to store, memory");
    const Features behind = bench.behind.features(), here = bench.store().features();
    EXPECT_EQ(behind.stored_replies, here.stored_replies);
    EXPECT_EQ(behind.checksums, here.checksums);
    EXPECT_EQ(behind.durable, here.durable);
    const auto space = co_await bench.store().space({}, {});
    EXPECT_TRUE(space && space->total_bytes == uint64_t{1} << 30);
}
TEST(RemoteStore, FeaturesOfTheServedStoreAreReported) { Bench().run(says_what_it_is); }

// ---- deferred changes -------------------------------------------------------------------------

// Notes who asks, and the deferred updates.
class AskedStore final : public ForwardingStore {
  public:
    using ForwardingStore::ForwardingStore;
    std::vector<Uuid> readers;
    std::vector<bool> deferred;
    std::vector<uint64_t> incarnations;
    std::vector<Acknowledged> synced;

    Task<Result<>> fetch(const Call& call, ContainerId container,
                         std::span<FetchItem> items) override {
        readers.push_back(call.client->id);
        return below().fetch(call, container, items);
    }
    Task<Result<ListReply>> list(const Call& call, ContainerId container,
                                 const ListRequest& request) override {
        readers.push_back(call.client->id);
        return below().list(call, container, request);
    }
    Task<Result<QueryReply>> query(const Call& call, ContainerId container, ObjectId object,
                                   const Akey& akey) override {
        readers.push_back(call.client->id);
        return below().query(call, container, object, akey);
    }
    Task<Result<Commit>> update(const Call& call, ContainerId container,
                                const Transaction& transaction) override {
        readers.push_back(call.client->id);
        deferred.push_back(transaction.deferred);
        incarnations.push_back(call.client->incarnation);
        return below().update(call, container, transaction);
    }
    Task<Result<uint64_t>> sync(const Call&, ContainerId, const Holder& holder,
                                const Acknowledged& known) override {
        readers.push_back(holder.client);
        synced.push_back(known);
        if (known.incarnation == 1) co_return fail(Code::expired, 2);
        co_return uint64_t{2};
    }
};

Task<> defers(Bench& bench) {
    AskedStore asked(bench.behind);
    co_await bench.wired.serve(asked, &bench.policy);
    co_await bench.wired.connect();
    ObjectStore& store = bench.store();
    bench.container = (co_await store.create_container({}, {.label = "c"}))->id;
    const Uuid client{.bytes = {7}};
    const StoreClient asking{.id = client, .incarnation = 9};
    const Call from{.client = &asking};
    const AkeyAddress place{first_object, "d", "a"};
    Batch batch = Batch().by({.client = client}).deferred().write(place, 0, "text");
    EXPECT_TRUE(co_await store.update(from, bench.container, batch.transaction()));
    Batch durable = Batch().by({.client = client}).write(place, 0, "text");
    EXPECT_TRUE(co_await store.update(from, bench.container, durable.transaction()));
    EXPECT_EQ(asked.deferred, (std::vector{true, false}));
    EXPECT_EQ(asked.incarnations, (std::vector<uint64_t>{9, 9}));
    std::string got(4, ' ');
    FetchItem item{.object = first_object,
                   .dkey = {"d"},
                   .akey = {"a"},
                   .extent = {0, 4},
                   .window = Window::local(std::as_writable_bytes(std::span(got)))};
    EXPECT_TRUE(co_await store.fetch(from, bench.container, {&item, 1}));
    EXPECT_TRUE(co_await store.query(from, bench.container, first_object, {"a"}));
    EXPECT_TRUE(co_await store.list(from, bench.container,
                                    {.what = ListRequest::What::dkeys, .object = first_object}));
    EXPECT_EQ(asked.readers, std::vector(5, client));
    EXPECT_TRUE(co_await store.fetch({}, bench.container, {&item, 1}));
    EXPECT_TRUE(asked.readers.back().is_nil()) << "the server knows nobody";
    const auto lost = co_await store.sync({}, bench.container, {.client = client}, {1, {5}});
    EXPECT_TRUE(!lost && lost.error().code == Code::expired && lost.error().detail == 2);
    EXPECT_EQ(co_await store.sync({}, bench.container, {}, {2, {6}}), 2U);
    EXPECT_EQ(asked.synced.back().last, Epoch{6});
    EXPECT_TRUE(asked.readers[6] == client && asked.readers[7].is_nil());
    bench.policy.denies = true;
    EXPECT_FALSE(co_await store.sync({}, bench.container, {}, {}));
    EXPECT_EQ(asked.synced.size(), 2U);
    co_await bench.wired.disconnect();
    co_await bench.wired.stop_serving();
}
TEST(RemoteStore, DeferredUpdatesAndTheClientThatAsksReachTheStore) {
    Bench bench;
    bench.world.run(defers(bench));
}

// ---- damage on the way ------------------------------------------------------------------------

// A flip may also lose a message of the fabric, which is not repeated within a connection.
Call within_a_second(Bench& bench) {
    return {.deadline = bench.world.core().now() + std::chrono::seconds(1)};
}
bool was_lost(Bench& bench, const Error& error) {
    if (error.code != Code::deadline) return false;
    bench.wired.network().kill("client");
    return true;
}

// Bits flip between client and server: reads return, and writes store, correct bytes or an error.
Task<> damaged(Bench& bench) {
    client::VerifyingStore client(bench.world.core(), bench.store());
    constexpr uint64_t bytes = 200'000;
    uint64_t refused = 0, withheld = 0, fine = 0;
    bench.wired.network().set_model({.flip_one_in = 12});
    for (uint64_t i = 0; i < 150; ++i) {
        const AkeyAddress place{first_object, std::to_string(i), "a"};
        const uint64_t length = i % 3 == 0 ? 3000 : bytes;
        const std::string text = pattern(i, length);
        const Batch batch = Batch().id({bench.client(), 0, i + 1}).write(place, 0, text);
        Result<Commit> commit;
        do {
            commit = co_await client.update(within_a_second(bench), bench.container,
                                            batch.transaction());
        } while (!commit && was_lost(bench, commit.error()));
        if (!commit) EXPECT_EQ(commit.error().code, Code::corrupt) << describe(commit.error());
        if (!commit) ++refused;
        std::string got(length, '?');
        auto item = object::fetch_item(first_object, {place.dkey}, {"a"}, 0,
                                       std::as_writable_bytes(std::span(got)));
        Result<> fetched;
        do {
            fetched = co_await client.fetch(within_a_second(bench), bench.container, {&item, 1});
        } while (!fetched && was_lost(bench, fetched.error()));
        EXPECT_TRUE(fetched) << describe(fetched.error());
        if (item.status) {
            ++fine;
            EXPECT_TRUE(commit && got == text) << i;
        } else if (item.status.error().code == Code::corrupt) {
            ++withheld;
        } else {
            EXPECT_EQ(item.status.error().code, Code::not_found);
            EXPECT_FALSE(commit);
        }
        // The stored bytes are those that were sent.
        std::string behind(length, '?');
        item.window = Window::local(std::as_writable_bytes(std::span(behind)));
        EXPECT_TRUE(co_await bench.behind.fetch({}, bench.container, {&item, 1}));
        if (commit) EXPECT_TRUE(item.status && behind == text) << i;
    }
    bench.wired.network().set_model({});
    EXPECT_GT(bench.wired.network().flips(), 100U);
    EXPECT_GT(refused, 5U);
    EXPECT_GT(withheld, 5U);
    EXPECT_GT(fine, 20U);
    EXPECT_EQ(client.metrics().corrupt.value(), withheld);
}
TEST(RemoteStore, FlippedBitOnTheWireIsDetected) {
    for (uint64_t seed = 1; seed <= 5; ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        WireOptions options;
        options.channel.patience = std::chrono::seconds(600);
        Bench bench(options, seed);
        bench.run(damaged);
    }
}

}  // namespace
}  // namespace ros2s::remote
