#include "block_cipher.h"

#include <errno.h>
#include <gtest/gtest.h>

#include "test_support/cipher.h"

namespace ros2s::cipher {
namespace {

constexpr object::ObjectId block_object{.high = 7, .low = 9};
const object::Dkey block_dkey = object::Dkey::integer(3);
const object::Akey block_akey{"data"};

class BlockCipherTest : public testing::Test {
  protected:
    // Block n is filled with bytes that differ from block to block.
    static std::vector<std::byte> plain(uint64_t block, size_t length = block_bytes) {
        std::vector<std::byte> bytes(length);
        for (size_t i = 0; i < length; ++i) bytes[i] = static_cast<std::byte>(i * 31 + block);
        return bytes;
    }
    void seal(uint64_t block, size_t length = block_bytes) {
        sealed_.resize(length);
        cipher_.seal(place_, block, plain(block, length), sealed_, cell_);
    }
    [[nodiscard]] Result<> open(uint64_t block) {
        opened_.assign(sealed_.size(), std::byte{0xee});
        return cipher_.open(place_, block, cell_, sealed_, opened_);
    }

    Random random_{1};
    Secrets secrets_{random_};
    BlockCipher cipher_{secrets_, test_keys(1)};
    BlockBinding place_{cipher_.key_id(), block_object, block_dkey, block_akey};
    std::vector<std::byte> sealed_, opened_;
    Cell cell_;
};

TEST_F(BlockCipherTest, SealedBlockIsOpened) {
    for (const size_t length : {size_t{1}, size_t{100}, size_t{4095}, size_t{4096}}) {
        seal(5, length);
        EXPECT_NE(sealed_, plain(5, length));
        ASSERT_TRUE(open(5).has_value());
        EXPECT_EQ(opened_, plain(5, length));
    }
}

// Computed by another implementation (Python's cryptography) from docs/formats/cipher.md.
TEST_F(BlockCipherTest, BytesMatchTheFormat) {
    const auto cell = from_hex(
        "01010c00010000000500000000000000a0a1a2a3a4a5a6a7a8a9aaabacadaeaff4c4843f8aae14d66511d69052"
        "f17c6600000000000000000000000000000000");
    ASSERT_EQ(cell.size(), sizeof(Cell));
    std::memcpy(&cell_, cell.data(), cell.size());
    sealed_ = from_hex("ecfaae182cfba79f2819e6ba");
    ASSERT_TRUE(open(9).has_value());
    EXPECT_EQ(as_text(opened_), "golden block");
}

TEST_F(BlockCipherTest, ShortBlockIsFollowedByZeros) {
    seal(2, 100);
    sealed_.resize(300);
    ASSERT_TRUE(open(2).has_value());
    auto expected = plain(2, 100);
    expected.resize(300);
    EXPECT_EQ(opened_, expected);
    sealed_[200] = std::byte{1};
    EXPECT_EQ(open(2).error().code, Code::corrupt);
    sealed_.resize(99);
    EXPECT_EQ(open(2).error().code, Code::corrupt);
}

TEST_F(BlockCipherTest, HoleContainsOnlyZeros) {
    sealed_.assign(block_bytes, std::byte{0});
    ASSERT_TRUE(open(0).has_value());
    EXPECT_EQ(opened_, sealed_);
    sealed_[4095] = std::byte{1};
    EXPECT_EQ(open(0).error().code, Code::corrupt);
}

TEST_F(BlockCipherTest, FlippedBitIsAnErrorAndGivesZeros) {
    seal(1, 512);
    const std::vector<std::byte> zeros(512);
    for (size_t bit = 0; bit < 8 * sealed_.size(); ++bit) {
        sealed_[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
        ASSERT_EQ(open(1).error().code, Code::corrupt) << bit;
        ASSERT_EQ(opened_, zeros);
        sealed_[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    }
    auto* const cell = reinterpret_cast<std::byte*>(&cell_);
    for (size_t bit = 0; bit < 8 * sizeof(Cell); ++bit) {
        cell[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
        ASSERT_FALSE(open(1).has_value()) << bit;
        ASSERT_EQ(opened_, zeros);
        cell[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    }
    EXPECT_TRUE(open(1).has_value());
}

TEST_F(BlockCipherTest, BlockOpensOnlyAtItsOwnPlace) {
    seal(1);
    EXPECT_EQ(open(2).error().code, Code::corrupt);
    const auto elsewhere = [this](BlockBinding place) {
        return cipher_.open(place, 1, cell_, sealed_, opened_);
    };
    const Uuid& id = cipher_.key_id();
    EXPECT_TRUE(elsewhere({id, block_object, block_dkey, block_akey}).has_value());
    EXPECT_FALSE(elsewhere({id, {.high = 7, .low = 8}, block_dkey, block_akey}).has_value());
    EXPECT_FALSE(elsewhere({id, {.high = 8, .low = 9}, block_dkey, block_akey}).has_value());
    EXPECT_FALSE(elsewhere({id, block_object, object::Dkey::integer(4), block_akey}).has_value());
    EXPECT_FALSE(elsewhere({id, block_object, block_dkey, {"dat"}}).has_value());
    // The same bytes, divided differently between the two keys.
    EXPECT_FALSE(elsewhere({id, block_object, {block_dkey.bytes + "d"}, {"ata"}}).has_value());
    Uuid other = id;
    other.bytes[15] = 1;
    EXPECT_FALSE(elsewhere({other, block_object, block_dkey, block_akey}).has_value());
}

TEST_F(BlockCipherTest, SaltAndCounterAreNeverReused) {
    BlockCipher cipher(secrets_, test_keys(1), /*salt_blocks=*/3);
    std::vector<std::pair<Cell, std::vector<std::byte>>> all;
    for (uint64_t block = 0; block < 10; ++block) {
        sealed_.resize(64);
        cipher.seal(place_, block, plain(block, 64), sealed_, cell_);
        EXPECT_EQ(cell_.counter, block % 3);
        for (const auto& [earlier, sealed] : all) {
            EXPECT_FALSE(earlier.salt == cell_.salt && earlier.counter == cell_.counter);
        }
        all.emplace_back(cell_, sealed_);
    }
    for (uint64_t block = 0; block < all.size(); ++block) {
        std::tie(cell_, sealed_) = all[block];
        EXPECT_TRUE(open(block).has_value()) << block;
    }
}

TEST_F(BlockCipherTest, OlderDataKeyVersionStaysReadable) {
    seal(1);
    opened_.resize(block_bytes);
    BlockCipher newer(secrets_, test_keys(2));
    EXPECT_TRUE(newer.open(place_, 1, cell_, sealed_, opened_).has_value());
    newer.seal(place_, 1, plain(1), sealed_, cell_);
    EXPECT_EQ(cell_.key_version, 2U);
    EXPECT_EQ(to_errno(open(1).error()), EKEYREJECTED);
    EXPECT_TRUE(newer.open(place_, 1, cell_, sealed_, opened_).has_value());
}

TEST_F(BlockCipherTest, ManySaltsAreReadAndFewAreCached) {
    std::vector<std::pair<Cell, std::vector<std::byte>>> all;
    for (size_t i = 0; i < BlockCipher::readers_max + 10; ++i) {
        BlockCipher other(secrets_, test_keys(1));
        sealed_.resize(32);
        other.seal(place_, i, plain(i, 32), sealed_, cell_);
        all.emplace_back(cell_, sealed_);
    }
    for (int round = 0; round < 2; ++round) {
        for (size_t i = 0; i < all.size(); ++i) {
            std::tie(cell_, sealed_) = all[i];
            ASSERT_TRUE(open(i).has_value());
            EXPECT_EQ(opened_, plain(i, 32));
        }
    }
}

}  // namespace
}  // namespace ros2s::cipher
