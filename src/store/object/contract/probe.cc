#include <algorithm>
#include <cstring>

#include "probe.h"

#include "ros2s/object/checksum.h"

namespace ros2s::object::contract {
namespace {
constexpr size_t guard_bytes = 64;
constexpr char untouched = '\xee';
}  // namespace

Task<> Probe::open() { container_ = co_await create_container("contract"); }

Task<Result<Commit>> Probe::update(Batch batch) {
    co_return co_await store().update(call_, container_, batch.transaction());
}

Task<Commit> Probe::must(Batch batch) {
    const auto commit = co_await store().update(call_, container_, batch.transaction());
    if (commit) co_return *commit;
    ADD_FAILURE() << "an update failed: " << describe(commit.error()) << ", detail "
                  << commit.error().detail;
    co_return Commit{};
}

Task<> Probe::refused(Batch batch, Code code, uint64_t detail) {
    const auto commit = co_await store().update(call_, container_, batch.transaction());
    if (commit) {
        ADD_FAILURE() << "an update succeeded that had to fail: " << describe(code);
        co_return;
    }
    EXPECT_EQ(describe(commit.error().code), describe(code));
    if (detail != 0) EXPECT_EQ(commit.error().detail, detail);
}

Task<Fetched> Probe::fetch_once(AkeyAddress address, Extent extent, bool aligned) {
    const size_t offset = aligned ? 0 : 1;
    const AlignedBuffer memory(offset + extent.length + guard_bytes);
    std::memset(memory.data(), static_cast<uint8_t>(untouched), memory.size());
    const Bytes window = memory.bytes().subspan(offset);
    FetchItem item{.object = address.object,
                   .dkey = {address.dkey},
                   .akey = {address.akey},
                   .extent = extent,
                   .window = Window::local(window),
                   .wants_seals = store().features().seals};
    const auto fetched = co_await store().fetch(call_, container_, {&item, 1});
    if (!fetched) {
        ADD_FAILURE() << "a fetch failed: " << describe(fetched.error());
        co_return Fetched{.status = fail(fetched.error())};
    }
    for (const std::byte b : window.last(guard_bytes)) {
        if (b != std::byte{static_cast<uint8_t>(untouched)}) {
            ADD_FAILURE() << "a fetch wrote beyond its extent";
            break;
        }
    }
    Fetched reply{.status = item.status,
                  .is_value = item.is_value,
                  .size = item.size,
                  .epoch = item.epoch,
                  .bytes = std::string(as_text(window.first(extent.length))),
                  .checksums = item.checksums,
                  .seals = item.seals};
    co_return reply;
}

Task<Fetched> Probe::fetch(AkeyAddress address, Extent extent) {
    Fetched aligned = co_await fetch_once(address, extent, true);
    const Fetched unaligned = co_await fetch_once(address, extent, false);
    EXPECT_EQ(aligned.status, unaligned.status);
    EXPECT_EQ(aligned.size, unaligned.size);
    EXPECT_EQ(aligned.epoch, unaligned.epoch);
    EXPECT_TRUE(aligned.bytes == unaligned.bytes) << "aligned and unaligned windows differ";
    EXPECT_EQ(aligned.checksums, unaligned.checksums);
    EXPECT_EQ(aligned.seals, unaligned.seals);
    co_return aligned;
}

Task<> Probe::expect_array(AkeyAddress address, std::string bytes) {
    const Fetched got = co_await fetch(address, {0, bytes.size() + 100});
    EXPECT_TRUE(got.status.has_value()) << describe(got.status.error());
    EXPECT_FALSE(got.is_value);
    EXPECT_EQ(got.size, bytes.size());
    const auto [a, b] = std::ranges::mismatch(got.bytes, bytes);
    EXPECT_TRUE(b == bytes.end()) << "bytes differ from offset " << b - bytes.begin();
    if (!got.status) co_return;
    EXPECT_EQ(got.bytes.substr(bytes.size()), std::string(100, '\0'));
    EXPECT_TRUE(array_checksums_match(0, as_bytes(got.bytes), got.checksums));
}

Task<> Probe::expect_value(AkeyAddress address, std::string bytes) {
    const Fetched got = co_await fetch(address, {0, bytes.size() + 10});
    EXPECT_TRUE(got.status.has_value()) << describe(got.status.error());
    EXPECT_TRUE(got.is_value);
    EXPECT_EQ(got.size, bytes.size());
    EXPECT_TRUE(got.bytes.substr(0, bytes.size()) == bytes) << "another value";
    EXPECT_EQ(got.bytes.substr(bytes.size()), std::string(10, untouched));
    EXPECT_EQ(got.checksums, Checksums{crc32c(as_bytes(bytes))});
}

Task<> Probe::expect_absent(AkeyAddress address) {
    const Fetched got = co_await fetch(address, {0, 100});
    EXPECT_EQ(got.status, Result<>(fail(Code::not_found)));
    EXPECT_EQ(got.bytes, std::string(100, '\0'));
    EXPECT_EQ(got.size, 0U);
    EXPECT_EQ(got.epoch, Epoch{});
    EXPECT_TRUE(got.checksums.empty());
}

Task<ListReply> Probe::list(ListRequest request) {
    auto reply = co_await store().list(call_, container_, request);
    if (reply) co_return std::move(*reply);
    ADD_FAILURE() << "a list failed: " << describe(reply.error());
    co_return ListReply{};
}

Task<std::vector<ListEntry>> Probe::list_all(ListRequest request) {
    std::vector<ListEntry> all;
    bool more = true;
    while (more) {
        const ListReply page = co_await list(request);
        EXPECT_LE(page.entries.size(), request.limit);
        EXPECT_TRUE(!page.more || !page.entries.empty()) << "a page without progress";
        if (page.entries.empty()) break;
        all.insert(all.end(), page.entries.begin(), page.entries.end());
        request.after = page.entries.back().key;
        more = page.more;
    }
    co_return all;
}

Task<QueryReply> Probe::query(ObjectId object, std::string akey) {
    const Akey name{std::move(akey)};
    auto reply = co_await store().query(call_, container_, object, name);
    if (reply) co_return std::move(*reply);
    ADD_FAILURE() << "a query failed: " << describe(reply.error());
    co_return QueryReply{};
}

Task<ContainerId> Probe::create_container(std::string label) {
    const ContainerProperties properties{.label = std::move(label)};
    const auto record = co_await store().create_container(call_, properties);
    if (record) co_return record->id;
    ADD_FAILURE() << "no container " << properties.label << ": " << describe(record.error());
    co_return ContainerId{};
}

Task<PoolSpace> Probe::space() {
    const auto space = co_await store().space(call_, {});
    if (space) co_return *space;
    ADD_FAILURE() << "no answer about space: " << describe(space.error());
    co_return PoolSpace{};
}

std::string pattern(uint64_t seed, size_t length) {
    Random random(seed);
    std::string bytes(length, '\0');
    for (size_t i = 0; i < length; i += 8) {
        const uint64_t word = random.next();
        std::memcpy(bytes.data() + i, &word, std::min<size_t>(8, length - i));
    }
    return bytes;
}

void overlay(std::string& bytes, uint64_t offset, const std::string& part) {
    if (part.empty()) return;
    if (bytes.size() < offset + part.size()) bytes.resize(offset + part.size(), '\0');
    bytes.replace(offset, part.size(), part);
}

}  // namespace ros2s::object::contract
