#include "gcm.h"

#include <gtest/gtest.h>
#include <openssl/evp.h>

#include <algorithm>

#include "test_support/cipher.h"

namespace ros2s::cipher {
namespace {

// McGrew and Viega, The Galois/Counter Mode of Operation, test case 16.
TEST(AesGcm, SpecificationVectorMatches) {
    const SecretKey key =
        key_from_hex("feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308");
    const auto plain = from_hex(
        "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e2449"
        "a6b525b16aedf5aa0de657ba637b39");
    const auto authenticated = from_hex("feedfacedeadbeeffeedfacedeadbeefabaddad2");
    Nonce nonce;
    std::ranges::copy(from_hex("cafebabefacedbaddecaf888"), nonce.begin());
    Gcm gcm(key);
    std::vector<std::byte> sealed(plain.size());
    Tag tag;
    // Twice, because the schedule is reused.
    for (int i = 0; i < 2; ++i) {
        gcm.seal(nonce, authenticated, plain, sealed, tag);
        EXPECT_EQ(sealed, from_hex("522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1a"
                                   "a8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662"));
        EXPECT_EQ(std::vector(tag.begin(), tag.end()),
                  from_hex("76fc6ece0f4e1768cddf8853bb2d551b"));
    }
    std::vector<std::byte> opened(plain.size());
    Tag other = tag;
    other[3] ^= std::byte{1};
    EXPECT_FALSE(gcm.open(nonce, authenticated, sealed, opened, other));
    EXPECT_TRUE(gcm.open(nonce, authenticated, sealed, opened, tag));
    EXPECT_EQ(opened, plain);
}

// OpenSSL's own GCM, whatever library Gcm uses.
std::vector<std::byte> by_openssl(const SecretKey& key, const Nonce& nonce,
                                  ConstBytes authenticated, ConstBytes plain, Tag& tag) {
    const auto of = [](const std::byte* bytes) {
        return reinterpret_cast<const unsigned char*>(bytes);
    };
    std::vector<std::byte> sealed(plain.size());
    auto* const out = reinterpret_cast<unsigned char*>(sealed.data());
    EVP_CIPHER_CTX* const context = EVP_CIPHER_CTX_new();
    int length = 0;
    EXPECT_EQ(EVP_EncryptInit_ex(context, EVP_aes_256_gcm(), nullptr, of(key.bytes().data()),
                                 of(nonce.data())),
              1);
    EXPECT_EQ(EVP_EncryptUpdate(context, nullptr, &length, of(authenticated.data()),
                                static_cast<int>(authenticated.size())),
              1);
    EXPECT_EQ(
        EVP_EncryptUpdate(context, out, &length, of(plain.data()), static_cast<int>(plain.size())),
        1);
    EXPECT_EQ(EVP_EncryptFinal_ex(context, out + length, &length), 1);
    EXPECT_EQ(EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_GET_TAG, tag_bytes, tag.data()), 1);
    EVP_CIPHER_CTX_free(context);
    return sealed;
}

TEST(AesGcm, SealedTextMatchesOpenssl) {
    const SecretKey key = counting_key(3);
    Gcm gcm(key);
    std::vector<std::byte> text(block_bytes);
    for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<std::byte>(i * 7 + i / 256);
    Nonce nonce{};
    for (size_t bytes = 1; bytes <= block_bytes; bytes += bytes < 600 ? 1 : 119) {
        nonce[11] = static_cast<std::byte>(bytes);
        const ConstBytes plain = ConstBytes(text).first(bytes);
        const ConstBytes authenticated = ConstBytes(text).first(bytes % 301);
        std::vector<std::byte> sealed(bytes), opened(bytes);
        Tag tag{}, expected{};
        gcm.seal(nonce, authenticated, plain, sealed, tag);
        ASSERT_EQ(sealed, by_openssl(key, nonce, authenticated, plain, expected)) << bytes;
        ASSERT_EQ(tag, expected) << bytes;
        ASSERT_TRUE(gcm.open(nonce, authenticated, sealed, opened, tag)) << bytes;
        ASSERT_TRUE(std::ranges::equal(opened, plain)) << bytes;
        sealed[bytes / 2] ^= std::byte{1};
        ASSERT_FALSE(gcm.open(nonce, authenticated, sealed, opened, tag)) << bytes;
    }
}

}  // namespace
}  // namespace ros2s::cipher
