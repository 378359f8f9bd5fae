// Published vectors for each algorithm.
#include "secret_key.h"

#include <gtest/gtest.h>

#include "test_support/cipher.h"

namespace ros2s::cipher {
namespace {

// RFC 5869, appendix A.1 and A.3.
TEST(SecretKeys, HkdfMatchesRfc5869) {
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
TEST(SecretKeys, WrappingMatchesRfc3394) {
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

TEST(SecretKeys, WrongKeyOrChangedBitDoesNotUnwrap) {
    const WrappedKey wrapped = wrap(counting_key(0), counting_key(7));
    EXPECT_EQ(unwrap(counting_key(1), wrapped).error().code, Code::corrupt);
    for (size_t bit = 0; bit < 8 * wrapped.size(); ++bit) {
        WrappedKey changed = wrapped;
        changed[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
        ASSERT_EQ(unwrap(counting_key(0), changed).error().code, Code::corrupt) << bit;
    }
}

}  // namespace
}  // namespace ros2s::cipher
