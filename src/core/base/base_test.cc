#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <memory>
#include <utility>

#include "ros2s/base/bytes.h"
#include "ros2s/base/crc32c.h"
#include "ros2s/base/descriptor.h"
#include "ros2s/base/digest.h"
#include "ros2s/base/inline_vector.h"
#include "ros2s/base/latency_histogram.h"
#include "ros2s/base/random.h"
#include "ros2s/base/result.h"
#include "ros2s/base/uuid.h"

namespace ros2s {
namespace {

TEST(CoarseHistogram, BoundsAreInclusivePowersOfTwo) {
    constexpr size_t buckets = CoarseHistogram::bounds_ns.size() + 1;
    EXPECT_EQ(buckets, 16U);
    EXPECT_EQ(CoarseHistogram::bounds_ns.front(), 32'768U);
    EXPECT_EQ(CoarseHistogram::bounds_ns.back(), 536'870'912U);
    for (size_t i = 0; i < buckets; ++i) {
        CoarseHistogram times;
        const uint64_t least = i == 0 ? 0 : CoarseHistogram::bounds_ns[i - 1] + 1;
        const uint64_t most =
            i + 1 < buckets ? CoarseHistogram::bounds_ns[i] : uint64_t{3600} * 1'000'000'000;
        times.add(least);
        times.add(most);
        std::vector<uint64_t> expected(buckets);
        expected[i] = 2;
        HistogramReading reading = times.read();
        EXPECT_EQ(reading.counts, expected);
        EXPECT_EQ(reading.sum_ns, least + most);
        reading.add(times.read());
        expected[i] = 4;
        EXPECT_EQ(reading.counts, expected);
        EXPECT_EQ(reading.sum_ns, 2 * (least + most));
    }
}

TEST(Crc32c, PublishedVectorsMatch) {
    EXPECT_EQ(crc32c(as_bytes("")), 0u);
    EXPECT_EQ(crc32c(as_bytes("123456789")), 0xe3069283u);
    EXPECT_EQ(crc32c(as_bytes(std::string(32, '\0'))), 0x8a9136aau);  // RFC 3720 B.4
}

TEST(Crc32c, ExtensionAcrossAnySplitMatches) {
    Random random(1);
    std::string text(513, '\0');
    for (auto& c : text) c = static_cast<char>(random.below(256));
    const uint32_t whole = crc32c(as_bytes(text));
    for (size_t cut = 0; cut <= text.size(); ++cut) {
        const auto view = std::string_view(text);
        EXPECT_EQ(crc32c_extend(crc32c(as_bytes(view.substr(0, cut))), as_bytes(view.substr(cut))),
                  whole);
    }
}

TEST(Crc32c, CombinationOfAnyLengthsMatches) {
    Random random(2);
    std::string text(5 * 4096, '\0');
    for (auto& c : text) c = static_cast<char>(random.below(256));
    for (const size_t cut : {0, 1, 100, 4095, 4096, 4097, 8192, 20479, 20480}) {
        for (const size_t end : {20480, 20479, 12288}) {
            if (cut > end) continue;
            const auto view = std::string_view(text).substr(0, end);
            const uint32_t first = crc32c(as_bytes(view.substr(0, cut)));
            const uint32_t second = crc32c(as_bytes(view.substr(cut)));
            EXPECT_EQ(crc32c_combine(first, second, end - cut), crc32c(as_bytes(view)));
        }
    }
}

TEST(Result, ErrnoRoundTrips) {
    for (const int number :
         {ENOENT, EEXIST,       EINVAL,     ENOTDIR,   EISDIR, ENOTEMPTY, ELOOP,
          ENOSPC, ENAMETOOLONG, ENOMEM,     EROFS,     EPERM,  EBUSY,     ENODATA,
          ERANGE, ESTALE,       EOPNOTSUPP, ECANCELED, EIO,    EACCES,    EDQUOT}) {
        const Error error = fail_errno(number).error();
        EXPECT_EQ(to_errno(error), number);
    }
    EXPECT_EQ(to_errno(Error{Code::no_space}), ENOSPC);
    EXPECT_EQ(to_errno(Error{Code::deadline}), ETIMEDOUT);
    EXPECT_EQ(to_errno(Error{Code::corrupt}), EIO);
}

TEST(Result, InvalidErrnoBecomesEio) {
    for (const int number : {INT_MIN, -ENOENT, -1, 4096, INT_MAX}) {
        EXPECT_EQ(to_errno(Error{Code::not_found, number}), EIO) << number;
    }
    EXPECT_EQ(to_errno(Error{Code::io, 4095}), 4095);
}

TEST(Random, SequenceIsFixed) {
    Random random(42);
    EXPECT_EQ(random.next(), 0x15780b2e0c2ec716u);
}

TEST(Secrets, SeededSecretsAreReproducible) {
    const Secrets secrets;
    EXPECT_NE(secrets.next(), secrets.next());
    Random seeded(42);
    EXPECT_EQ(Secrets(seeded).next(), 0x15780b2e0c2ec716u);
}

TEST(Digest, ValuesAreFixedAndDistinct) {
    EXPECT_EQ(Digest().add(1).value(), 0x910a2dec89025cc1u);
    EXPECT_EQ(Digest().add(std::string_view("ros2store, nine")).value(), 0x5f50dd1712c0f9bcu);
    EXPECT_NE(Digest().add(std::string_view("ab")).add(std::string_view("c")).value(),
              Digest().add(std::string_view("a")).add(std::string_view("bc")).value());
    EXPECT_NE(Digest().add(std::string_view("a")).value(),
              Digest().add(std::string_view("a\0", 2)).value());
    EXPECT_NE(Digest().value(), 0U);
}

// Elements that notice if they are copied, lost or destroyed twice.
TEST(InlineVector, ElementsSurviveInlineAndOnTheHeap) {
    using Numbers = InlineVector<std::shared_ptr<int>, 2>;
    const auto one = std::make_shared<int>(1);
    for (const size_t count : {0U, 1U, 2U, 3U, 9U}) {
        Numbers numbers;
        for (size_t i = 0; i < count; ++i) numbers.push_back(one);
        EXPECT_EQ(numbers.size(), count);
        EXPECT_EQ(static_cast<size_t>(one.use_count()), count + 1);
        Numbers moved = std::move(numbers);
        EXPECT_TRUE(numbers.empty());  // NOLINT(bugprone-use-after-move)
        EXPECT_EQ(static_cast<size_t>(one.use_count()), count + 1);
        Numbers copy = moved;
        EXPECT_TRUE(copy == moved);
        EXPECT_EQ(static_cast<size_t>(one.use_count()), 2 * count + 1);
        numbers.emplace_back(one);
        numbers = std::move(moved);
        copy = Numbers{one, one, one};
        EXPECT_EQ(static_cast<size_t>(one.use_count()), count + 4);
        copy.truncate(1);
        EXPECT_EQ(copy.back(), one);
        EXPECT_EQ(static_cast<size_t>(one.use_count()), count + 2);
        copy.pop_back();
        EXPECT_TRUE(copy.empty());
        copy = numbers;
        EXPECT_TRUE(copy == numbers);
        copy.resize(count + 1);
        EXPECT_EQ(copy.back(), nullptr);
        EXPECT_EQ(static_cast<size_t>(one.use_count()), 2 * count + 1);
    }
    EXPECT_EQ(one.use_count(), 1);
}

TEST(InlineVector, AssignmentReusesMemory) {
    InlineVector<int, 1> numbers{1, 2, 3};
    const int* const memory = numbers.data();
    const InlineVector<int, 1> others{4, 5};
    numbers = others;
    EXPECT_EQ(numbers.data(), memory);
    EXPECT_TRUE(numbers == others);
    EXPECT_EQ(numbers.capacity(), 3U);
}

TEST(Descriptor, OnlyOwnedDescriptorsAreClosed) {
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    const auto is_open = [](int fd) { return ::fcntl(fd, F_GETFD) >= 0; };
    Descriptor first(ends[0]);
    {
        const Descriptor none(-1);
        Descriptor moved(std::move(first));
        EXPECT_EQ(moved.get(), ends[0]);
        first = std::move(moved);
        Descriptor second(ends[1]);
        EXPECT_EQ(second.release(), ends[1]);
    }
    EXPECT_TRUE(is_open(ends[0]) && is_open(ends[1]));
    first = Descriptor(ends[1]);
    EXPECT_FALSE(is_open(ends[0]));
    EXPECT_TRUE(is_open(ends[1]));
}

TEST(Uuid, TextRoundTripsAndBadTextIsRefused) {
    Random random(7);
    const Uuid uuid = Uuid::make(Secrets(random));
    const auto parsed = Uuid::parse(uuid.to_string());
    ASSERT_TRUE(parsed);
    EXPECT_EQ(*parsed, uuid);
    EXPECT_EQ(Uuid::parse("1B4E28BA-2fa1-4d2b-883f-0016d3cca427"),
              Uuid::parse("1b4e28ba-2fa1-4d2b-883f-0016d3cca427"));
    EXPECT_FALSE(Uuid::parse("not-a-uuid"));
    EXPECT_FALSE(Uuid::parse(std::string(36, 'g')));
    EXPECT_FALSE(Uuid::parse(std::string(36, '0')));
    EXPECT_FALSE(Uuid::parse("1b4e28b-a2fa1-4d2b-883f-0016d3cca427"));
    EXPECT_FALSE(Uuid::parse("1b4e28ba-2fa1-4d2b-883f-0016d3cca4 7"));
    EXPECT_FALSE(Uuid::parse("1b4e28ba-2fa1-4d2b-883f-0016d3cca4-7"));
    EXPECT_FALSE(Uuid::parse("0x4e28ba-2fa1-4d2b-883f-0016d3cca427"));
}

Result<int> half(int n) {
    if (n % 2 != 0) return fail(Code::invalid, static_cast<uint64_t>(n));
    return n / 2;
}
Result<int> quarter(int n) {
    ROS2S_TRY(half(n));
    ROS2S_TRY_ASSIGN(const int h, half(n));
    return half(h);
}
TEST(Result, TryReturnsTheFirstError) {
    EXPECT_EQ(quarter(8), 2);
    EXPECT_EQ(quarter(6).error(), (Error{Code::invalid, 0, 3}));
    EXPECT_EQ(describe(fail_errno(5).error()),
              "the device or kernel reported an error (Input/output error)");
}
TEST(Result, LostConnectionIsDescribedWithPeerAndTime) {
    constexpr uint64_t since = 1'795'233'274;
    EXPECT_EQ(describe(Error{Code::deadline, 0, 0}), "the deadline passed");
    EXPECT_EQ(describe(Error{Code::deadline, 0, 5}),
              "the server did not reply within 5 s, this program's limit; the request may have "
              "been done");
    EXPECT_EQ(describe(Error{Code::disconnected, 0, 0}), "the connection to the peer is lost");
    EXPECT_EQ(describe(Error{Code::disconnected, 0, since}),
              "the connection to the peer is lost, since 2026-11-21 03:54:34 UTC");
    EXPECT_EQ(
        describe(Error{Code::disconnected, EREMOTEIO, since}),
        "the DPU answers, but cannot reach the engine behind it since 2026-11-21 03:54:34 UTC");
}

}  // namespace
}  // namespace ros2s
