// Random requests and replies are decoded as they were encoded; truncated ones are refused; golden
// bytes.
#include "wire.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "fields.h"
#include "ros2s/base/random.h"
#include "ros2s/object/checksum.h"

namespace ros2s::remote {
namespace {

using namespace object;

struct Draw {
    Random random;

    std::string text(size_t most) {
        std::string bytes(random.one_in(4) ? most : random.below(most + 1), '\0');
        for (char& c : bytes) c = static_cast<char>(random.next());
        return bytes;
    }
    uint64_t number() { return random.next() >> random.below(64); }
    bool flag() { return random.one_in(2); }
    ObjectId object() { return {number(), number()}; }
    WallTime time() { return WallTime{Duration{static_cast<int64_t>(number())}}; }
    Checksums checksums(size_t most) {
        Checksums numbers;
        numbers.resize(random.below(most + 1));
        for (uint32_t& n : numbers) n = static_cast<uint32_t>(random.next());
        return numbers;
    }
    Result<> status() {
        if (random.one_in(2)) return {};
        const auto code = static_cast<Code>(random.below(static_cast<uint64_t>(Code::closed) + 1));
        return fail(Error{code, static_cast<int32_t>(random.below(200)), number()});
    }
    ContainerId container() { return {Uuid::make(Secrets(random))}; }
    FetchItem item() {
        return {.object = object(),
                .dkey = {text(key_bytes_max)},
                .akey = {text(key_bytes_max)},
                .extent = {number(), number()}};
    }
    Condition condition() {
        return {.kind = static_cast<Condition::Kind>(random.below(9)),
                .object = object(),
                .dkey = {text(key_bytes_max)},
                .akey = {text(key_bytes_max)},
                .value = number()};
    }
    Operation operation() {
        Operation operation{.kind = static_cast<Operation::Kind>(random.below(9)),
                            .object = object(),
                            .dkey = {text(key_bytes_max)},
                            .akey = {text(key_bytes_max)},
                            .extent = {number(), number()},
                            .size = number(),
                            .dkey_end = {text(key_bytes_max)},
                            .checksums = checksums(20)};
        if (operation.kind <= Operation::Kind::put) operation.window.length = number();
        return operation;
    }
    Amount amount() { return {number(), number()}; }
    ContainerProperties properties() {
        return {.label = text(127), .chunk_bytes = number(), .owner = text(511), .caps = amount()};
    }
    ContainerRecord record() {
        return {.id = container(), .properties = properties(), .created = time(), .used = amount()};
    }
};

class StoreWire : public testing::TestWithParam<uint64_t> {
  protected:
    // A decoded value encodes to the same bytes, so no field is lost (the golden bytes show that
    // every field is there). Shorter and longer inputs are refused.
    void expect_comes_back(ConstBytes written, const std::function<bool(ConstBytes)>& accepts,
                           const std::function<ConstBytes()>& again) {
        std::vector<std::byte> bytes(written.begin(), written.end());
        ASSERT_TRUE(accepts(bytes));
        EXPECT_TRUE(std::ranges::equal(again(), bytes));
        const size_t step = std::max<size_t>(1, bytes.size() / 200);
        for (size_t size = 0; size < bytes.size(); size += step) {
            EXPECT_FALSE(accepts(ConstBytes(bytes).first(size))) << size << " of " << bytes.size();
        }
        bytes.push_back({});
        EXPECT_FALSE(accepts(bytes));
    }
    // `read`: gets the parts of the body.
    template <class... Parts>
    void expect_parts_come_back(ConstBytes body, auto fields, Parts&... read) {
        expect_comes_back(
            body, [&](ConstBytes bytes) { return rpc::read(bytes, fields, read...).has_value(); },
            [&] { return rpc::build(buffer, fields, read...); });
    }
    // For a body that is one value.
    template <class Body>
    void expect_comes_back(const Body& body, auto fields) {
        Result<Body> read = fail(Code::io);
        expect_comes_back(
            rpc::build(buffer, fields, body),
            [&](ConstBytes bytes) {
                auto now = rpc::read_body<Body>(bytes, fields);
                if (!read) read = now;
                return now.has_value();
            },
            [&] { return rpc::build(buffer, fields, *read); });
    }
    Draw draw{Random(GetParam())};
    Buffer buffer;
    ContainerId container = draw.container();
    ContainerId read_container;
};

TEST_P(StoreWire, FetchRequestRoundTrips) {
    std::vector<FetchItem> items(draw.random.below(30));
    for (FetchItem& item : items) item = draw.item();
    const ConstBytes body = rpc::build(buffer, fetch_fields, container, items);
    uint64_t most = 20;
    for (const FetchItem& item : items) most += request_bytes_max(item);
    EXPECT_EQ(body.size(), most);
    std::vector<FetchItem> read(3);
    ASSERT_TRUE(rpc::read(body, fetch_fields, read_container, read));
    for (const FetchItem& item : read) {
        EXPECT_EQ(item.window.length, item.extent.length);
        EXPECT_EQ(item.window.address, 0U);
    }
    expect_parts_come_back(body, fetch_fields, read_container, read);
}

TEST_P(StoreWire, SealsRoundTrip) {
    std::vector<FetchItem> items(2 + draw.random.below(30));
    for (FetchItem& item : items) item = draw.item();
    items.front().wants_seals = true;
    ConstBytes body = rpc::build(buffer, fetch_fields, container, items);
    std::vector<FetchItem> read;
    ASSERT_TRUE(rpc::read(body, fetch_fields, read_container, read));
    EXPECT_FALSE(rpc::read(body.first(body.size() - 1), fetch_fields, read_container, read));
    ASSERT_TRUE(rpc::read(body, fetch_fields, read_container, read));
    ASSERT_EQ(read.size(), items.size());
    for (size_t i = 0; i < items.size(); ++i) {
        EXPECT_EQ(read[i].wants_seals, items[i].wants_seals);
        if (draw.flag()) read[i].seals = draw.text(10 * seal_bytes);
    }
    const std::vector<FetchItem> sent = read;
    body = rpc::build(buffer, fetched_fields, read);
    ASSERT_TRUE(rpc::read(body, fetched_fields, items));
    for (size_t i = 0; i < items.size(); ++i) EXPECT_EQ(items[i].seals, sent[i].seals);
    EXPECT_FALSE(rpc::read(body.first(body.size() - 1), fetched_fields, items));
    // Who has not asked is not told.
    for (FetchItem& item : items) item.wants_seals = false;
    EXPECT_FALSE(rpc::read(body, fetched_fields, items));

    Transaction transaction;
    transaction.operations.resize(1 + draw.random.below(5));
    for (Operation& operation : transaction.operations) operation = draw.operation();
    transaction.operations.back().seals = draw.text(seal_bytes) + "x";
    body = rpc::build(buffer, update_fields, container, transaction);
    Transaction back;
    ASSERT_TRUE(rpc::read(body, update_fields, read_container, back));
    EXPECT_EQ(back.operations.back().seals, transaction.operations.back().seals);
    EXPECT_FALSE(rpc::read(body.first(body.size() - 1), update_fields, read_container, back));
    transaction.operations.back().seals.clear();
    body = rpc::build(buffer, update_fields, container, transaction);
    ASSERT_TRUE(rpc::read(body, update_fields, read_container, back));
    EXPECT_TRUE(back.operations.back().seals.empty());
}

TEST_P(StoreWire, FetchReplyRoundTrips) {
    std::vector<FetchItem> items(draw.random.below(30));
    for (FetchItem& item : items) {
        item.extent = {draw.random.below(1 << 20), draw.random.below(1 << 17)};
        item.status = draw.status();
        item.is_value = draw.flag();
        item.size = draw.number();
        item.epoch = {draw.number()};
        if (item.is_value) item.extent.offset = 0;
        if (item.is_value && item.status) item.size = draw.random.below(item.extent.length + 1);
        if (item.status) item.checksums = draw.checksums(item.is_value ? 1 : 33);
    }
    const ConstBytes body = rpc::build(buffer, fetched_fields, items);
    std::vector<FetchItem> read(items.size());
    for (size_t i = 0; i < items.size(); ++i) read[i].extent = items[i].extent;
    ASSERT_TRUE(rpc::read(body, fetched_fields, read));
    for (size_t i = 0; i < items.size(); ++i) {
        EXPECT_EQ(read[i].status, items[i].status);
        EXPECT_EQ(payload_bytes(read[i]), payload_bytes(items[i]));
    }
    expect_parts_come_back(body, fetched_fields, read);
    // A reply for another number of items, or a value larger than requested.
    rpc::build(buffer, fetched_fields, items);
    read.emplace_back();
    EXPECT_FALSE(rpc::read(buffer, fetched_fields, read).has_value());
    FetchItem value{.extent = {0, 10}, .is_value = true, .size = 11};
    std::span<FetchItem> one(&value, 1);
    EXPECT_FALSE(
        rpc::read(rpc::build(buffer, fetched_fields, one), fetched_fields, one).has_value());
}

TEST_P(StoreWire, UpdateRoundTrips) {
    Transaction transaction;
    transaction.conditions.resize(draw.random.below(20));
    transaction.operations.resize(draw.random.below(20));
    for (Condition& condition : transaction.conditions) condition = draw.condition();
    for (Operation& operation : transaction.operations) operation = draw.operation();
    transaction.id.owner = draw.container().uuid;
    transaction.id.digest = draw.number();
    if (std::ranges::any_of(transaction.conditions, &Condition::is_about_holders)) {
        transaction.holder.client = draw.container().uuid;
    }
    Transaction read;
    read.operations.resize(40);
    read.id = {.client = container.uuid, .slot = 1, .sequence = 2};
    const ConstBytes body = rpc::build(buffer, update_fields, container, transaction);
    ASSERT_TRUE(rpc::read(body, update_fields, read_container, read));
    EXPECT_EQ(read.id, transaction.id);
    EXPECT_EQ(read.holder, transaction.holder);
    expect_parts_come_back(body, update_fields, read_container, read);
}

TEST_P(StoreWire, PinRequestsRoundTrip) {
    const Uuid holder = draw.container().uuid;
    const FetchItem item = draw.item();
    Uuid read_holder;
    FetchItem read;
    expect_parts_come_back(rpc::build(buffer, pin_fields, container, holder, item), pin_fields,
                           read_container, read_holder, read);
    ObjectId object;
    expect_parts_come_back(rpc::build(buffer, unpin_fields, container, holder, item.object),
                           unpin_fields, read_container, read_holder, object);
    for (const bool is_wanted : {false, true}) expect_comes_back(is_wanted, unpinned_fields);
}

TEST_P(StoreWire, FetchChainsRoundTrip) {
    const Uuid holder = draw.container().uuid;
    std::vector<FetchItem> items(draw.random.below(20));
    std::vector<Link> links(items.size());
    for (size_t i = 0; i < items.size(); ++i) {
        items[i] = draw.item();
        links[i] = {.kind = static_cast<Link::Kind>(draw.random.below(3)),
                    .object = {static_cast<uint32_t>(draw.number()), 8},
                    .when = {static_cast<uint32_t>(draw.number()), 5},
                    .mask = static_cast<uint8_t>(draw.number()),
                    .value = static_cast<uint8_t>(draw.number())};
    }
    Uuid read_holder;
    std::vector<FetchItem> read(3);
    std::vector<Link> read_links;
    expect_parts_come_back(rpc::build(buffer, chain_fields, container, holder, items, links),
                           chain_fields, read_container, read_holder, read, read_links);
    for (size_t i = 0; i < items.size(); ++i) {
        items[i].extent = {0, draw.random.below(1 << 17)};
        items[i].status = draw.status();
        links[i].facts = {.exists = draw.flag(),
                          .highest_dkey = {draw.text(key_bytes_max)},
                          .size = draw.number()};
    }
    uint64_t most = 4;
    for (const FetchItem& item : items) most += reply_bytes_max(item);
    for (const Link& link : links) {
        if (link.kind == Link::Kind::query) most += facts_bytes_max();
    }
    read.resize(items.size());
    for (size_t i = 0; i < items.size(); ++i) read[i].extent = items[i].extent;
    const ConstBytes reply = rpc::build(buffer, chained_fields, items, links);
    EXPECT_LE(reply.size(), most);
    expect_parts_come_back(reply, chained_fields, read, read_links);
}

TEST_P(StoreWire, ListRequestRoundTrips) {
    ListRequest request{.what = static_cast<ListRequest::What>(draw.random.below(3)),
                        .object = draw.object(),
                        .dkey = {draw.text(key_bytes_max)},
                        .akey = {draw.text(key_bytes_max)},
                        .limit = static_cast<uint32_t>(draw.number())};
    if (draw.flag()) request.after = draw.text(key_bytes_max + 1);
    ListRequest read{.after = "something"};
    const auto accepts = [&](ConstBytes bytes) {
        return rpc::read(bytes, list_fields, read_container, read).has_value();
    };
    expect_comes_back(rpc::build(buffer, list_fields, container, request), accepts,
                      [&] { return rpc::build(buffer, list_fields, read_container, read); });
    // A position after all keys stays after all keys.
    request.after = std::string(1000, '\xff');
    ASSERT_TRUE(accepts(rpc::build(buffer, list_fields, container, request)));
    EXPECT_TRUE(*read.after > std::string(key_bytes_max, '\xff'));
}

TEST_P(StoreWire, ListReplyRoundTripsInPages) {
    ListReply reply;
    reply.entries.resize(draw.random.below(40));
    reply.more = !reply.entries.empty() && draw.flag();
    for (ListEntry& entry : reply.entries) {
        entry = {draw.text(key_bytes_max), draw.text(1000), {draw.number()}};
    }
    ListReply read;
    ListReply rest = reply;
    do {
        const ConstBytes body = encode_listed(buffer, rest, 4000);
        EXPECT_LE(body.size(), 4000U);
        const size_t had = read.entries.size();
        ASSERT_TRUE(rpc::read(body, listed_fields, read.entries, read.more).has_value());
        const auto got = static_cast<long>(read.entries.size() - had);
        rest.entries.erase(rest.entries.begin(), rest.entries.begin() + got);
    } while (!rest.entries.empty());
    Buffer whole;
    encode_listed(whole, reply, 1 << 20);
    EXPECT_TRUE(std::ranges::equal(encode_listed(buffer, read, 1 << 20), whole));
    expect_comes_back(
        whole,
        [&](ConstBytes bytes) {
            read = {};
            return rpc::read(bytes, listed_fields, read.entries, read.more).has_value();
        },
        [&] { return encode_listed(buffer, read, 1 << 20); });
}

TEST_P(StoreWire, QueryAndReplyRoundTrip) {
    ObjectId object;
    Akey akey;
    expect_parts_come_back(
        rpc::build(buffer, query_fields, container, draw.object(), Akey{draw.text(key_bytes_max)}),
        query_fields, read_container, object, akey);
    expect_comes_back(QueryReply{.exists = draw.flag(),
                                 .highest_dkey = {draw.text(key_bytes_max)},
                                 .size = draw.number(),
                                 .last_epoch = {draw.number()},
                                 .last_time = draw.time(),
                                 .bytes_used = draw.number()},
                      queried_fields);
}

TEST_P(StoreWire, ContainerRequestsRoundTrip) {
    expect_comes_back(Creation{draw.properties(), draw.container().uuid, draw.number()},
                      create_fields);
    expect_comes_back(draw.record(), container_fields);
    expect_comes_back(Destruction{container, draw.container().uuid, draw.number()}, destroy_fields);

    std::vector<ContainerRecord> records(draw.random.below(50));
    for (size_t i = 0; i < records.size(); ++i) {
        records[i] = draw.record();
        records[i].properties.label = fmt::format("container-{:03}", i);
    }
    ContainerPage page;
    do {
        const std::string after = page.records.empty() ? "" : page.records.back().properties.label;
        EXPECT_EQ(*rpc::read_body<std::string>(rpc::build(buffer, list_containers_fields, after),
                                               list_containers_fields),
                  after);
        const ConstBytes body = encode_containers(buffer, records, after, 1000);
        EXPECT_LE(body.size(), 1000U);
        ASSERT_TRUE(rpc::read(body, containers_fields, page.records, page.more).has_value());
    } while (page.more);
    ASSERT_EQ(page.records.size(), records.size());
    for (size_t i = 0; i < records.size(); ++i) EXPECT_EQ(page.records[i].id, records[i].id);
}

TEST_P(StoreWire, CommitSpaceAndDescriptionRoundTrip) {
    expect_comes_back(Commit{{draw.number()}, draw.time(), draw.flag()}, commit_fields);
    expect_comes_back(Commit{{draw.number()}, draw.time(), draw.flag(), draw.number()},
                      leased_commit_fields);
    expect_comes_back(PoolSpace{draw.number(), draw.number(), draw.number(), draw.number()},
                      space_fields);
    expect_comes_back(Description{{draw.flag(), draw.flag(), draw.flag(), draw.flag(), draw.flag(),
                                   draw.flag(), draw.flag()},
                                  draw.text(1024)},
                      description_fields);
}

INSTANTIATE_TEST_SUITE_P(Seeds, StoreWire, testing::Range<uint64_t>(1, 61));

// These bytes never change: a change of one of them is another version. The fuzzers start with
// them, too: a line has the number by which they choose a body (its method; of a reply also the
// number of its items), and the body.
constexpr std::string_view golden_requests =
#include "remote_request_fuzz_seeds.txt"
    ;
constexpr std::string_view golden_replies =
#include "remote_reply_fuzz_seeds.txt"
    ;

class StoreWireGolden : public testing::Test {
  protected:
    void request(Method method, ConstBytes body) {
        requests_ += fmt::format("{:02x} ", static_cast<unsigned>(method));
        add(requests_, body);
    }
    void reply(Method method, ConstBytes body, unsigned items = 0) {
        replies_ += fmt::format("{:02x}{:02x} ", static_cast<unsigned>(method), items);
        add(replies_, body);
    }
    static void add(std::string& lines, ConstBytes body) {
        for (const std::byte byte : body) {
            lines += fmt::format("{:02x}", static_cast<unsigned>(byte));
        }
        lines += '\n';
    }
    std::string requests_ = "\n", replies_ = "\n";
};

TEST_F(StoreWireGolden, BodiesMatchTheGoldenBytes) {
    Buffer buffer;
    ContainerId container;
    for (uint8_t i = 0; i < 16; ++i) container.uuid.bytes[i] = static_cast<uint8_t>(0x50 + i);
    reply(Method::describe,
          rpc::build(buffer, description_fields,
                     Description{{.conditions = true, .durable = true}, "memory"}));
    FetchItem item{.object = {1, 2}, .dkey = {"dk"}, .akey = {"a"}, .extent = {4096, 8192}};
    request(Method::fetch, rpc::build(buffer, fetch_fields, container, std::span(&item, 1)));
    item.size = 12288;
    item.epoch = {77};
    item.checksums = {0x01020304, 0x05060708};
    reply(Method::fetch, rpc::build(buffer, fetched_fields, std::span(&item, 1)), 1);
    const FetchItem missing{.status = fail(Error{Code::not_found, 2, 3})};
    reply(Method::fetch, rpc::build(buffer, fetched_fields, std::span(&missing, 1)), 1);
    Transaction transaction;
    transaction.id = {.owner = container.uuid, .digest = 0x1122334455667788};
    transaction.conditions.push_back({Condition::Kind::size_equals, {1, 2}, {"d"}, {"a"}, 5});
    Operation& operation = transaction.operations.emplace_back();
    operation.kind = Operation::Kind::write;
    operation.object = {1, 2};
    operation.dkey = {"d"};
    operation.akey = {"a"};
    operation.extent = {5, 3};
    operation.window.length = 3;
    operation.checksums = {0xaabbccdd};
    request(Method::update, rpc::build(buffer, update_fields, container, transaction));
    transaction.conditions = {{.kind = Condition::Kind::pinned, .object = {1, 2}}};
    transaction.operations.clear();
    transaction.holder.client = container.uuid;
    request(Method::update, rpc::build(buffer, update_fields, container, transaction));
    reply(Method::update, encode_commit(buffer, {{77}, WallTime{Duration{5}}, true}));
    ListRequest list{.what = ListRequest::What::dkeys, .object = {1, 2}, .akey = {"inode"}};
    list.after = "x";
    request(Method::list, rpc::build(buffer, list_fields, container, list));
    reply(Method::list, encode_listed(buffer, {{{"key", "value", {9}}}, true}, 100));
    request(Method::query,
            rpc::build(buffer, query_fields, container, ObjectId{1, 2}, Akey{"data"}));
    reply(Method::query, rpc::build(buffer, queried_fields,
                                    QueryReply{true, {"d"}, 5, {9}, WallTime{Duration{5}}, 4096}));
    const ContainerRecord record{container,
                                 {"main", 1 << 20, "CN=alice", {1 << 30, 2000}},
                                 WallTime{Duration{5}},
                                 {4096, 3}};
    request(Method::create_container,
            rpc::build(buffer, create_fields,
                       Creation{record.properties, container.uuid, 0x1122334455667788}));
    reply(Method::create_container, rpc::build(buffer, container_fields, record));
    request(Method::destroy_container,
            rpc::build(buffer, destroy_fields,
                       Destruction{container, container.uuid, 0x1122334455667788}));
    request(Method::list_containers,
            rpc::build(buffer, list_containers_fields, std::string("main")));
    reply(Method::list_containers, encode_containers(buffer, {&record, 1}, "", 1000));
    request(Method::space, rpc::build(buffer, space_request_fields, container));
    reply(Method::space, rpc::build(buffer, space_fields, PoolSpace{1 << 30, 1 << 20, 2000, 1000}));
    request(Method::pin, rpc::build(buffer, pin_fields, container, container.uuid, item));
    request(Method::unpin,
            rpc::build(buffer, unpin_fields, container, container.uuid, ObjectId{1, 2}));
    reply(Method::unpin, rpc::build(buffer, unpinned_fields, true));
    std::vector<FetchItem> chain(2);
    chain[0] = {.object = {1, 2}, .dkey = {"dk"}, .akey = {"a"}, .extent = {0, 16}};
    chain[1] = {.object = {1, 0}, .akey = {"data"}};
    std::vector<Link> links(2);
    links[1] = {.kind = Link::Kind::query,
                .object = {.item = 0, .offset = 8},
                .when = {.item = 0, .offset = 2},
                .mask = 0xf0,
                .value = 0x80};
    request(Method::fetch_chain,
            rpc::build(buffer, chain_fields, container, container.uuid, chain, links));
    chain[0].is_value = true;
    chain[0].size = 16;
    chain[0].epoch = {77};
    chain[0].checksums = {0x01020304};
    links[1].facts = {true, {"d"}, 5, {9}, WallTime{Duration{5}}, 4096};
    reply(Method::fetch_chain, rpc::build(buffer, chained_fields, chain, links), 2);
    request(Method::pinned_again,
            rpc::build(buffer, pinned_again_fields, container, container.uuid));
    reply(Method::pinned_again, rpc::build(buffer, refused_a_punch_fields, true));
    request(Method::listen, rpc::build(buffer, listen_fields, container, container.uuid,
                                       Listening{.waits = true, .given_back = {{{1, 2}, 7}}}));
    reply(Method::listen, rpc::build(buffer, news_fields, LeaseNews{.recalled = {{{1, 2}, 8}}}));
    EXPECT_EQ(requests_, golden_requests);
    EXPECT_EQ(replies_, golden_replies);
}

}  // namespace
}  // namespace ros2s::remote
