// Descriptors, tables of regions and hellos, given any bytes.
#include <gtest/gtest.h>

#include <algorithm>

#include "ros2s/base/random.h"
#include "ros2s/fabric/endpoint.h"
#include "ros2s/fabric/hello.h"
#include "ros2s/fabric/region_table.h"

namespace ros2s::fabric {
namespace {

TEST(RemoteKey, RoundTripsAndFlippedBitIsRefused) {
    RemoteKey key{.rights = Rights::write, .domain = 1, .session = 2, .lease = 3, .slot = 4};
    key.seal();
    std::array<std::byte, sizeof key> bytes{};
    std::memcpy(bytes.data(), &key, sizeof key);
    ASSERT_TRUE(RemoteKey::decode(bytes));
    EXPECT_EQ(*RemoteKey::decode(bytes), key);
    for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
        auto flipped = bytes;
        flipped[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
        EXPECT_FALSE(RemoteKey::decode(flipped)) << bit;
    }
    EXPECT_FALSE(RemoteKey::decode(ConstBytes(bytes).first(95)));
}

TEST(RemoteKey, UnknownVersionIsReported) {
    RemoteKey key;
    key.version = 2;
    key.seal();
    EXPECT_EQ(key.check().error().code, Code::bad_version);
    EXPECT_EQ(key.check().error().detail, 2U);
}

// These bytes never change: a change of one of them is another version. hello_fuzz starts with
// them, too.
constexpr std::string_view golden =
#include "fabric_hello_fuzz_seeds.txt"
    ;

TEST(FabricFormats, GoldenBytesMatch) {
    std::string lines = "\n";
    const auto add = [&lines](auto object) {
        object.seal();
        for (const std::byte byte : object_bytes(object)) {
            const auto number = static_cast<unsigned>(byte);
            lines += {"0123456789abcdef"[number / 16], "0123456789abcdef"[number % 16]};
        }
        lines += '\n';
    };
    Hello hello{.answer = Answer::refused,
                .domain = 1,
                .session = 2,
                .message_bytes_max = 3,
                .incoming_bytes_max = 4,
                .memory_bytes = 5,
                .operations_max = 6,
                .appended_bytes = 7,
                .passed_bytes = 8};
    hello.set_provider("ucx+tcp");
    add(hello);
    add(RemoteKey{.rights = Rights::write,
                  .memory = MemoryKind::gpu,
                  .domain = 1,
                  .session = 2,
                  .lease = 3,
                  .slot = 4,
                  .generation = 5,
                  .address = 6,
                  .length = 7,
                  .device = 8,
                  .native_bytes = 2,
                  .native = {std::byte{9}, std::byte{10}}});
    EXPECT_EQ(lines, golden);
}

// Against the rule in one line, for keys with false fields.
TEST(RegionTable, OnlyGrantedAccessIsAllowed) {
    constexpr uint64_t seed = 11;
    Random random(seed);
    std::array<std::byte, 4096> memory{};
    RegionTable table(1, 2, 8);
    std::vector<RemoteKey> live;
    uint64_t allowed = 0;
    for (int i = 0; i < 100'000; ++i) {
        if (random.one_in(50)) {
            const uint64_t offset = random.below(4096);
            const auto rights = static_cast<Rights>(1 + random.below(3));
            auto key = table.grant(Bytes(memory).subspan(offset, random.below(4096 - offset)),
                                   rights, random.below(2), Time::max());
            EXPECT_EQ(key.has_value(), live.size() < 8) << "seed " << seed;
            if (key) live.push_back(*key);
        }
        if (random.one_in(60) && !live.empty()) {
            const size_t victim = random.below(live.size());
            table.revoke(live[victim].slot, live[victim].generation);
            live.erase(live.begin() + static_cast<ptrdiff_t>(victim));
        }
        RemoteKey key = live.empty() ? RemoteKey{} : live[random.below(live.size())];
        if (random.one_in(3)) key.generation += static_cast<uint32_t>(random.below(3));
        if (random.one_in(5)) key.slot = static_cast<uint32_t>(random.below(10));
        if (random.one_in(9)) key.domain = random.below(3);
        if (random.one_in(9)) key.session = random.below(3);
        if (random.one_in(9)) key.lease = random.below(3);
        key.rights = Rights::read_write;
        key.length = ~uint64_t{0};
        key.seal();
        const uint64_t offset = random.one_in(4) ? random.next() : random.below(4096);
        const uint64_t count = random.one_in(4) ? random.next() : random.below(4096);
        const Rights right = random.one_in(2) ? Rights::read : Rights::write;
        const auto same = [&](const RemoteKey& each) {
            return each.slot == key.slot && each.generation == key.generation &&
                   each.lease == key.lease;
        };
        const auto found = std::ranges::find_if(live, same);
        const bool expected = found != live.end() && key.domain == 1 && key.session == 2 &&
                              allows(found->rights, right) &&
                              static_cast<unsigned __int128>(offset) + count <= found->length;
        const auto checked = table.check(key, offset, count, right, Time{});
        ASSERT_EQ(checked.has_value(), expected) << "seed " << seed << ", step " << i;
        if (checked) {
            ++allowed;
            EXPECT_GE(*checked, memory.data());
            EXPECT_LE(*checked + count, memory.data() + memory.size());
        }
    }
    EXPECT_GT(allowed, 500U);
}

TEST(Hello, MismatchedProviderOrVersionIsReported) {
    Hello hello{.domain = 7};
    hello.set_provider("ucx+tcp");
    hello.seal();
    std::array<std::byte, sizeof hello> bytes{};
    std::memcpy(bytes.data(), &hello, sizeof hello);
    ASSERT_TRUE(Hello::decode(bytes));
    EXPECT_EQ(Hello::decode(bytes)->provider_name(), "ucx+tcp");
    EXPECT_EQ(answer_to(Hello::decode(bytes), "ucx+tcp"), Answer::welcome);
    EXPECT_EQ(answer_to(Hello::decode(bytes), "shm"), Answer::other_provider);

    Report report;
    EXPECT_EQ(check_answer(Hello::decode(as_bytes("HTTP/1.1 400")), "host:80", "ucx+tcp", report)
                  .error()
                  .code,
              Code::unsupported);
    EXPECT_NE(report.text().find("host:80"), std::string::npos);

    hello.version = 3;
    hello.seal();
    EXPECT_EQ(Hello::decode(object_bytes(hello)).error(), (Error{Code::bad_version, 0, 3}));
    EXPECT_EQ(answer_to(Hello::decode(object_bytes(hello)), "ucx+tcp"), Answer::other_version);
}

TEST(Hello, RandomProviderDecodesOnlyIfPrintable) {
    Random random(5);
    for (int i = 0; i < 1000; ++i) {
        Hello hello;
        for (char& letter : hello.provider) letter = static_cast<char>(random.next());
        hello.seal();
        const auto decoded = Hello::decode(object_bytes(hello));
        if (!decoded) continue;
        for (const char letter : decoded->provider_name())
            EXPECT_TRUE(letter > ' ' && letter <= '~');
    }
}

TEST(BorrowedMessage, PartsAreTheBytesFromOffset) {
    constexpr std::array<std::byte, 5> bytes{std::byte{0}, std::byte{1}, std::byte{2}, std::byte{3},
                                             std::byte{4}};
    for (size_t wraps_at = 0; wraps_at <= bytes.size(); ++wraps_at) {
        const BorrowedMessage message(ConstBytes(bytes).first(wraps_at),
                                      ConstBytes(bytes).subspan(wraps_at));
        for (size_t offset = 0; offset <= bytes.size(); ++offset) {
            const auto [first, second] = message.parts(offset);
            std::vector<std::byte> found(first.begin(), first.end());
            found.insert(found.end(), second.begin(), second.end());
            EXPECT_TRUE(std::ranges::equal(found, ConstBytes(bytes).subspan(offset)));
        }
    }
}

}  // namespace
}  // namespace ros2s::fabric
