// Published vectors for each algorithm.
#include "aead.h"

#include <gtest/gtest.h>

#include "cipher_test_support.h"

namespace ros2s::cipher {
namespace {

// RFC 5869, appendix A.1 and A.3.
TEST(Aead, HkdfGivesTheVectorsOfItsRfc) {
    const std::vector<std::byte> key(22, std::byte{0x0b});
    std::vector<std::byte> out(42);
    hkdf_sha256(key, from_hex("000102030405060708090a0b0c"), from_hex("f0f1f2f3f4f5f6f7f8f9"), out);
    EXPECT_EQ(out, from_hex("3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf"
                            "34007208d5b887185865"));
    hkdf_sha256(key, {}, {}, out);
    EXPECT_EQ(out, from_hex("8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d"
                            "9d201395faa4b61a96c8"));
}

// RFC 3394, section 4.6.
TEST(Aead, KeysAreWrappedAsInRfc3394) {
    const SecretKey wrapping = counting_key(0);
    const SecretKey key =
        key_from_hex("00112233445566778899aabbccddeeff000102030405060708090a0b0c0d0e0f");
    const WrappedKey wrapped = wrap(wrapping, key);
    EXPECT_EQ(std::vector(wrapped.begin(), wrapped.end()),
              from_hex("28c9f404c4b810f4cbccb35cfb87f8263f5786e2d80ed326cbc7f0e71a99f43b"
                       "fb988b9b7a02dd21"));
    const auto back = unwrap(wrapping, wrapped);
    ASSERT_TRUE(back.has_value());
    EXPECT_TRUE(std::ranges::equal(back->bytes(), key.bytes()));
}

TEST(Aead, AnotherKeyOrAChangedBitDoesNotUnwrap) {
    const WrappedKey wrapped = wrap(counting_key(0), counting_key(7));
    EXPECT_EQ(unwrap(counting_key(1), wrapped).error().code, Code::corrupt);
    for (size_t bit = 0; bit < 8 * wrapped.size(); ++bit) {
        WrappedKey changed = wrapped;
        changed[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
        ASSERT_EQ(unwrap(counting_key(0), changed).error().code, Code::corrupt) << bit;
    }
}

// McGrew and Viega, The Galois/Counter Mode of Operation, test case 16.
TEST(Aead, GcmGivesTheVectorOfItsSpecification) {
    const SecretKey key =
        key_from_hex("feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308");
    const auto plain = from_hex(
        "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72"
        "1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39");
    const auto authenticated = from_hex("feedfacedeadbeeffeedfacedeadbeefabaddad2");
    Nonce nonce;
    std::ranges::copy(from_hex("cafebabefacedbaddecaf888"), nonce.begin());
    Gcm sealing(key, Gcm::Direction::seal);
    std::vector<std::byte> sealed(plain.size());
    Tag tag;
    // Twice, because the context is reused.
    for (int i = 0; i < 2; ++i) {
        sealing.seal(nonce, authenticated, plain, sealed, tag);
        EXPECT_EQ(sealed,
                  from_hex("522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa"
                           "8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662"));
        EXPECT_EQ(std::vector(tag.begin(), tag.end()),
                  from_hex("76fc6ece0f4e1768cddf8853bb2d551b"));
    }
    Gcm opening(key, Gcm::Direction::open);
    std::vector<std::byte> opened(plain.size());
    Tag other = tag;
    other[3] ^= std::byte{1};
    EXPECT_FALSE(opening.open(nonce, authenticated, sealed, opened, other));
    EXPECT_TRUE(opening.open(nonce, authenticated, sealed, opened, tag));
    EXPECT_EQ(opened, plain);
}

}  // namespace
}  // namespace ros2s::cipher
