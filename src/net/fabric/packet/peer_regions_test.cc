// The initiating side's copy of the peer's regions, if an adapter moves the bytes.
#include "ros2s/fabric/packet/peer_regions.h"

#include <gtest/gtest.h>

#include <cstring>

namespace ros2s::fabric {
namespace {

constexpr uint64_t lender = 11;
constexpr uint64_t borrower = 22;
constexpr Time never = Time::max();
constexpr Time now{};

RemoteKey make_key(uint32_t slot, uint32_t generation = 1) {
    RemoteKey key{.rights = Rights::read_write,
                  .domain = lender,
                  .session = borrower,
                  .slot = slot,
                  .generation = generation,
                  .address = 0x10000,
                  .length = 4096,
                  .native_bytes = sizeof(uint64_t)};
    const uint64_t native = 1000 + slot;
    std::memcpy(key.native.data(), &native, sizeof native);
    key.seal();
    return key;
}

TEST(PeerRegions, UseNamesAddressAndAdapterKey) {
    PeerRegions regions(lender, borrower, 4);
    ASSERT_TRUE(regions.add(make_key(3), never));
    const auto use = regions.begin(make_key(3), 100, 200, Rights::write, now);
    ASSERT_TRUE(use);
    EXPECT_EQ(use->at().address, 0x10000U + 100);
    EXPECT_EQ(use->at().key, 1003U);
    EXPECT_FALSE(regions.end(*use));
    EXPECT_EQ(regions.size(), 1U);
}

// The key alone gives no right: the announcement decides.
TEST(PeerRegions, UnannouncedKeyIsRefused) {
    PeerRegions regions(lender, borrower, 4);
    RemoteKey read_only = make_key(0);
    read_only.rights = Rights::read;
    read_only.seal();
    ASSERT_TRUE(regions.add(read_only, never));
    ASSERT_TRUE(regions.add(make_key(1), now));
    RemoteKey larger = make_key(0);
    larger.length = 8192;
    larger.seal();
    EXPECT_EQ(regions.begin(larger, 4096, 1, Rights::read, now).error(), Refusal::range);
    EXPECT_EQ(regions.begin(make_key(0), ~uint64_t{0}, 2, Rights::read, now).error(),
              Refusal::range);
    EXPECT_EQ(regions.begin(make_key(0), 0, 1, Rights::write, now).error(), Refusal::right);
    EXPECT_EQ(regions.begin(make_key(1), 0, 1, Rights::read, now).error(), Refusal::expired);
    EXPECT_EQ(regions.begin(make_key(2), 0, 1, Rights::read, now).error(), Refusal::stale);
    EXPECT_EQ(regions.begin(make_key(0, 2), 0, 1, Rights::read, now).error(), Refusal::stale);
    RemoteKey elsewhere = make_key(0);
    elsewhere.session = 23;
    elsewhere.seal();
    EXPECT_EQ(regions.begin(elsewhere, 0, 1, Rights::read, now).error(), Refusal::session);
}

TEST(PeerRegions, ExcessOrMalformedGrantIsRefused) {
    PeerRegions regions(lender, borrower, 2);
    RemoteKey without_native = make_key(0);
    without_native.native_bytes = 0;
    without_native.seal();
    EXPECT_FALSE(regions.add(without_native, never));
    RemoteKey damaged = make_key(0);
    damaged.length = 1;
    EXPECT_FALSE(regions.add(damaged, never));
    EXPECT_TRUE(regions.add(make_key(0), never));
    EXPECT_FALSE(regions.add(make_key(0), never));
    EXPECT_TRUE(regions.add(make_key(1), never));
    EXPECT_FALSE(regions.add(make_key(2), never));
}

TEST(PeerRegions, RevocationEndsWithLastUse) {
    PeerRegions regions(lender, borrower, 4);
    ASSERT_TRUE(regions.add(make_key(0), never));
    const auto first = regions.begin(make_key(0), 0, 1, Rights::read, now);
    const auto second = regions.begin(make_key(0), 0, 1, Rights::read, now);
    ASSERT_TRUE(first && second);
    EXPECT_FALSE(first->revoked());
    EXPECT_FALSE(regions.revoke(0, 1));
    EXPECT_TRUE(first->revoked() && second->revoked());
    EXPECT_EQ(regions.begin(make_key(0), 0, 1, Rights::read, now).error(), Refusal::stale);
    // The slot is reused while uses of the old grant end.
    EXPECT_TRUE(regions.add(make_key(0, 2), never));
    EXPECT_FALSE(regions.end(*first));
    EXPECT_TRUE(regions.end(*second));
    EXPECT_TRUE(regions.revoke(0, 2));
    EXPECT_FALSE(regions.revoke(0, 2));  // it does not exist any more
    EXPECT_EQ(regions.size(), 0U);
}

}  // namespace
}  // namespace ros2s::fabric
