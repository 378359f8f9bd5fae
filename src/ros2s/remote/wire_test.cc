// Random requests and replies come back as they were; cut ones are refused; golden bytes.
#include "wire.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

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
    std::vector<uint32_t> checksums(size_t most) {
        std::vector<uint32_t> numbers(random.below(most + 1));
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
        return {.kind = static_cast<Condition::Kind>(random.below(7)),
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
    ContainerProperties properties() { return {.label = text(127), .chunk_bytes = number()}; }
    ContainerRecord record() {
        return {.id = container(), .properties = properties(), .created = time()};
    }
};

// Every shorter input is refused, and so is a longer one.
void expect_strict(ConstBytes body, const std::function<bool(ConstBytes)>& accepts) {
    std::vector<std::byte> bytes(body.begin(), body.end());
    EXPECT_TRUE(accepts(bytes));
    const size_t step = std::max<size_t>(1, bytes.size() / 200);
    for (size_t size = 0; size < bytes.size(); size += step) {
        EXPECT_FALSE(accepts(ConstBytes(bytes).first(size))) << size << " of " << bytes.size();
    }
    bytes.push_back({});
    EXPECT_FALSE(accepts(bytes));
}

class Wire : public testing::TestWithParam<uint64_t> {
  protected:
    Draw draw{Random(GetParam())};
    Buffer buffer;
};

TEST_P(Wire, Fetch) {
    const ContainerId container = draw.container();
    std::vector<FetchItem> items(draw.random.below(30));
    for (FetchItem& item : items) item = draw.item();
    const ConstBytes body = encode_fetch(buffer, container, items);
    uint64_t most = 20;
    for (const FetchItem& item : items) most += request_bytes_max(item);
    EXPECT_EQ(body.size(), most);
    ContainerId read_container;
    std::vector<FetchItem> read(3);
    ASSERT_TRUE(decode_fetch(body, read_container, read).has_value());
    EXPECT_EQ(read_container, container);
    ASSERT_EQ(read.size(), items.size());
    for (size_t i = 0; i < items.size(); ++i) {
        EXPECT_EQ(read[i].object, items[i].object);
        EXPECT_EQ(read[i].dkey, items[i].dkey);
        EXPECT_EQ(read[i].akey, items[i].akey);
        EXPECT_EQ(read[i].extent, items[i].extent);
        EXPECT_EQ(read[i].window.length, items[i].extent.length);
        EXPECT_EQ(read[i].window.address, 0U);
    }
    expect_strict(body, [&](ConstBytes bytes) {
        return decode_fetch(bytes, read_container, read).has_value();
    });
}

TEST_P(Wire, Fetched) {
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
    const ConstBytes body = encode_fetched(buffer, items);
    std::vector<FetchItem> read(items.size());
    for (size_t i = 0; i < items.size(); ++i) read[i].extent = items[i].extent;
    ASSERT_TRUE(decode_fetched(body, read).has_value());
    for (size_t i = 0; i < items.size(); ++i) {
        EXPECT_EQ(read[i].status, items[i].status);
        EXPECT_EQ(read[i].is_value, items[i].is_value);
        EXPECT_EQ(read[i].size, items[i].size);
        EXPECT_EQ(read[i].epoch, items[i].epoch);
        EXPECT_EQ(read[i].checksums, items[i].checksums);
        EXPECT_EQ(payload_bytes(read[i]), payload_bytes(items[i]));
    }
    expect_strict(body, [&](ConstBytes bytes) { return decode_fetched(bytes, read).has_value(); });
    // An answer for another number of items, or a value larger than what was asked for.
    read.emplace_back();
    EXPECT_FALSE(decode_fetched(body, read).has_value());
    FetchItem value{.extent = {0, 10}, .is_value = true, .size = 11};
    EXPECT_FALSE(decode_fetched(encode_fetched(buffer, {&value, 1}), {&value, 1}).has_value());
}

TEST_P(Wire, Update) {
    const ContainerId container = draw.container();
    Transaction transaction;
    transaction.conditions.resize(draw.random.below(20));
    transaction.operations.resize(draw.random.below(20));
    for (Condition& condition : transaction.conditions) condition = draw.condition();
    for (Operation& operation : transaction.operations) operation = draw.operation();
    transaction.id.owner = draw.container().uuid;
    transaction.id.digest = draw.number();
    if (std::ranges::any_of(transaction.conditions, &Condition::is_about_pins)) {
        transaction.holder.client = draw.container().uuid;
    }
    const ConstBytes body = encode_update(buffer, container, transaction);
    ContainerId read_container;
    Transaction read;
    read.operations.resize(40);
    ASSERT_TRUE(decode_update(body, read_container, read).has_value());
    EXPECT_EQ(read_container, container);
    EXPECT_EQ(read.id, transaction.id);
    EXPECT_EQ(read.holder, transaction.holder);
    ASSERT_EQ(read.conditions.size(), transaction.conditions.size());
    ASSERT_EQ(read.operations.size(), transaction.operations.size());
    for (size_t i = 0; i < read.conditions.size(); ++i) {
        const Condition &a = read.conditions[i], &b = transaction.conditions[i];
        EXPECT_TRUE(a.kind == b.kind && a.object == b.object && a.dkey == b.dkey &&
                    a.akey == b.akey && a.value == b.value);
    }
    for (size_t i = 0; i < read.operations.size(); ++i) {
        const Operation &a = read.operations[i], &b = transaction.operations[i];
        EXPECT_TRUE(a.kind == b.kind && a.object == b.object && a.dkey == b.dkey &&
                    a.akey == b.akey && a.extent == b.extent && a.size == b.size &&
                    a.dkey_end == b.dkey_end && a.window.length == b.window.length &&
                    a.checksums == b.checksums);
    }
    expect_strict(body, [&](ConstBytes bytes) {
        return decode_update(bytes, read_container, read).has_value();
    });
}

TEST_P(Wire, Pins) {
    const ContainerId container = draw.container();
    const Uuid holder = draw.container().uuid;
    const FetchItem item = draw.item();
    ContainerId read_container;
    Uuid read_holder;
    std::vector<FetchItem> read;
    ConstBytes body = encode_pin(buffer, container, holder, item);
    ASSERT_TRUE(decode_pin(body, read_container, read_holder, read).has_value());
    EXPECT_EQ(read_container, container);
    EXPECT_EQ(read_holder, holder);
    ASSERT_EQ(read.size(), 1U);
    EXPECT_TRUE(read[0].object == item.object && read[0].dkey == item.dkey &&
                read[0].akey == item.akey && read[0].extent == item.extent);
    expect_strict(body, [&](ConstBytes bytes) {
        return decode_pin(bytes, read_container, read_holder, read).has_value();
    });
    ObjectId object;
    body = encode_unpin(buffer, container, holder, item.object);
    ASSERT_TRUE(decode_unpin(body, read_container, read_holder, object).has_value());
    EXPECT_EQ(read_container, container);
    EXPECT_EQ(read_holder, holder);
    EXPECT_EQ(object, item.object);
    expect_strict(body, [&](ConstBytes bytes) {
        return decode_unpin(bytes, read_container, read_holder, object).has_value();
    });
    for (const bool is_wanted : {false, true}) {
        body = encode_unpinned(buffer, is_wanted);
        EXPECT_EQ(decode_unpinned(body), Result<bool>(is_wanted));
        expect_strict(body, [](ConstBytes bytes) { return decode_unpinned(bytes).has_value(); });
    }
}

TEST_P(Wire, List) {
    const ContainerId container = draw.container();
    ListRequest request{.what = static_cast<ListRequest::What>(draw.random.below(3)),
                        .object = draw.object(),
                        .dkey = {draw.text(key_bytes_max)},
                        .akey = {draw.text(key_bytes_max)},
                        .limit = static_cast<uint32_t>(draw.number())};
    if (draw.flag()) request.after = draw.text(key_bytes_max + 1);
    const ConstBytes body = encode_list(buffer, container, request);
    ContainerId read_container;
    ListRequest read{.after = "something"};
    ASSERT_TRUE(decode_list(body, read_container, read).has_value());
    EXPECT_EQ(read_container, container);
    EXPECT_TRUE(read.what == request.what && read.object == request.object &&
                read.dkey == request.dkey && read.akey == request.akey &&
                read.after == request.after && read.limit == request.limit);
    expect_strict(body, [&](ConstBytes bytes) {
        return decode_list(bytes, read_container, read).has_value();
    });
    // A position behind all keys stays behind all keys.
    request.after = std::string(1000, '\xff');
    ASSERT_TRUE(decode_list(encode_list(buffer, container, request), read_container, read));
    EXPECT_TRUE(*read.after > std::string(key_bytes_max, '\xff'));
}

TEST_P(Wire, ListedInPages) {
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
        ASSERT_TRUE(decode_listed(body, read).has_value());
        const auto got = static_cast<long>(read.entries.size() - had);
        rest.entries.erase(rest.entries.begin(), rest.entries.begin() + got);
    } while (!rest.entries.empty());
    ASSERT_EQ(read.entries.size(), reply.entries.size());
    EXPECT_EQ(read.more, reply.more);
    for (size_t i = 0; i < reply.entries.size(); ++i) {
        EXPECT_EQ(read.entries[i].key, reply.entries[i].key);
        EXPECT_EQ(read.entries[i].value, reply.entries[i].value);
        EXPECT_EQ(read.entries[i].epoch, reply.entries[i].epoch);
    }
    reply.more = false;
    expect_strict(encode_listed(buffer, reply, 1 << 20), [&](ConstBytes bytes) {
        ListReply once;
        return decode_listed(bytes, once).has_value();
    });
}

TEST_P(Wire, QueryAndItsReply) {
    const ContainerId container = draw.container();
    const ObjectId object = draw.object();
    const Akey akey{draw.text(key_bytes_max)};
    ContainerId read_container;
    ObjectId read_object;
    Akey read_akey;
    const auto takes = [&](ConstBytes bytes) {
        return decode_query(bytes, read_container, read_object, read_akey).has_value();
    };
    const ConstBytes body = encode_query(buffer, container, object, akey);
    ASSERT_TRUE(takes(body));
    EXPECT_TRUE(read_container == container && read_object == object && read_akey == akey);
    expect_strict(body, takes);

    const QueryReply reply{.exists = draw.flag(),
                           .highest_dkey = {draw.text(key_bytes_max)},
                           .size = draw.number(),
                           .last_epoch = {draw.number()},
                           .last_time = draw.time(),
                           .bytes_used = draw.number()};
    const ConstBytes answer = encode_queried(buffer, reply);
    const auto read = decode_queried(answer);
    ASSERT_TRUE(read.has_value());
    EXPECT_TRUE(read->exists == reply.exists && read->highest_dkey == reply.highest_dkey &&
                read->size == reply.size && read->last_epoch == reply.last_epoch &&
                read->last_time == reply.last_time && read->bytes_used == reply.bytes_used);
    expect_strict(answer, [](ConstBytes bytes) { return decode_queried(bytes).has_value(); });
}

TEST_P(Wire, Containers) {
    const ContainerProperties properties = draw.properties();
    const Creation creation{properties, draw.container().uuid, draw.number()};
    const auto created = decode_create(encode_create(buffer, creation));
    ASSERT_TRUE(created.has_value());
    EXPECT_TRUE(created->properties == properties && created->owner == creation.owner &&
                created->digest == creation.digest);
    const ContainerRecord record = draw.record();
    const auto read = decode_created(encode_created(buffer, record));
    ASSERT_TRUE(read.has_value());
    EXPECT_TRUE(read->id == record.id && read->properties == record.properties &&
                read->created == record.created);
    const Destruction destruction{record.id, draw.container().uuid, draw.number()};
    const auto destroyed = decode_destroy(encode_destroy(buffer, destruction));
    ASSERT_TRUE(destroyed.has_value());
    EXPECT_TRUE(destroyed->container == record.id && destroyed->owner == destruction.owner &&
                destroyed->digest == destruction.digest);

    std::vector<ContainerRecord> records(draw.random.below(50));
    for (size_t i = 0; i < records.size(); ++i) {
        records[i] = draw.record();
        records[i].properties.label = fmt::format("container-{:03}", i);
    }
    ContainerPage page;
    do {
        const std::string after = page.records.empty() ? "" : page.records.back().properties.label;
        EXPECT_EQ(*decode_list_containers(encode_list_containers(buffer, after)), after);
        const ConstBytes body = encode_containers(buffer, records, after, 500);
        EXPECT_LE(body.size(), 500U);
        ASSERT_TRUE(decode_containers(body, page).has_value());
    } while (page.more);
    ASSERT_EQ(page.records.size(), records.size());
    for (size_t i = 0; i < records.size(); ++i) EXPECT_EQ(page.records[i].id, records[i].id);
}

TEST_P(Wire, CommitSpaceDescription) {
    const Commit commit{{draw.number()}, draw.time(), draw.flag()};
    EXPECT_EQ(*decode_commit(encode_commit(buffer, commit)), commit);
    expect_strict(buffer, [](ConstBytes bytes) { return decode_commit(bytes).has_value(); });
    const PoolSpace space{draw.number(), draw.number()};
    const auto read = decode_space(encode_space(buffer, space));
    ASSERT_TRUE(read.has_value());
    EXPECT_TRUE(read->total_bytes == space.total_bytes && read->free_bytes == space.free_bytes);
    const Description description{{draw.flag(), draw.flag(), draw.flag(), draw.flag(), draw.flag()},
                                  draw.text(1024)};
    const auto described = decode_description(encode_description(buffer, description));
    ASSERT_TRUE(described.has_value());
    EXPECT_EQ(described->path, description.path);
    EXPECT_EQ(described->features.conditions, description.features.conditions);
    EXPECT_EQ(described->features.durable, description.features.durable);
    expect_strict(buffer, [](ConstBytes bytes) { return decode_description(bytes).has_value(); });
}

INSTANTIATE_TEST_SUITE_P(Seeds, Wire, testing::Range<uint64_t>(1, 61));

// The bytes are for ever: a change of one of these is another version. What the fuzzers begin with,
// too: a line is what they choose a body by (its method; of a reply also how many items it is for),
// and the body.
constexpr std::string_view golden_requests =
#include "remote_request_fuzz_seeds.txt"
    ;
constexpr std::string_view golden_replies =
#include "remote_reply_fuzz_seeds.txt"
    ;

class WireGolden : public testing::Test {
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

TEST_F(WireGolden, Bodies) {
    Buffer buffer;
    ContainerId container;
    for (uint8_t i = 0; i < 16; ++i) container.uuid.bytes[i] = static_cast<uint8_t>(0x50 + i);
    reply(Method::describe,
          encode_description(buffer, {{.conditions = true, .durable = true}, "memory"}));
    FetchItem item{.object = {1, 2}, .dkey = {"dk"}, .akey = {"a"}, .extent = {4096, 8192}};
    request(Method::fetch, encode_fetch(buffer, container, {&item, 1}));
    item.size = 12288;
    item.epoch = {77};
    item.checksums = {0x01020304, 0x05060708};
    reply(Method::fetch, encode_fetched(buffer, {&item, 1}), 1);
    const FetchItem missing{.status = fail(Error{Code::not_found, 2, 3})};
    reply(Method::fetch, encode_fetched(buffer, {&missing, 1}), 1);
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
    request(Method::update, encode_update(buffer, container, transaction));
    transaction.conditions = {{.kind = Condition::Kind::pinned, .object = {1, 2}}};
    transaction.operations.clear();
    transaction.holder.client = container.uuid;
    request(Method::update, encode_update(buffer, container, transaction));
    reply(Method::update, encode_commit(buffer, {{77}, WallTime{Duration{5}}, true}));
    ListRequest list{.what = ListRequest::What::dkeys, .object = {1, 2}, .akey = {"inode"}};
    list.after = "x";
    request(Method::list, encode_list(buffer, container, list));
    reply(Method::list, encode_listed(buffer, {{{"key", "value", {9}}}, true}, 100));
    request(Method::query, encode_query(buffer, container, {1, 2}, {"data"}));
    reply(Method::query,
          encode_queried(buffer, {true, {"d"}, 5, {9}, WallTime{Duration{5}}, 4096}));
    const ContainerRecord record{container, {"main", 1 << 20}, WallTime{Duration{5}}};
    request(Method::create_container,
            encode_create(buffer, {record.properties, container.uuid, 0x1122334455667788}));
    reply(Method::create_container, encode_created(buffer, record));
    request(Method::destroy_container,
            encode_destroy(buffer, {container, container.uuid, 0x1122334455667788}));
    request(Method::list_containers, encode_list_containers(buffer, "main"));
    reply(Method::list_containers, encode_containers(buffer, {&record, 1}, "", 1000));
    reply(Method::space, encode_space(buffer, {1 << 30, 1 << 20}));
    request(Method::pin, encode_pin(buffer, container, container.uuid, item));
    request(Method::unpin, encode_unpin(buffer, container, container.uuid, {1, 2}));
    reply(Method::unpin, encode_unpinned(buffer, true));
    EXPECT_EQ(requests_, golden_requests);
    EXPECT_EQ(replies_, golden_replies);
}

}  // namespace
}  // namespace ros2s::remote
