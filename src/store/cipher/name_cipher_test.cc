#include "name_cipher.h"

#include <gtest/gtest.h>

#include <set>

#include "ros2s/base/random.h"
#include "test_support/cipher.h"

namespace ros2s::cipher {
namespace {

// Computed by another implementation (Python's cryptography).
TEST(NameCiphers, BytesMatchTheFormat) {
    NameCipher names(counting_key(16));
    const auto hex = [](std::string_view text) {
        const auto bytes = from_hex(text);
        return std::string(as_text(bytes));
    };
    EXPECT_EQ(names.seal("a"), hex("b3"));
    EXPECT_EQ(names.seal("key-1"), hex("5a482fc580"));
    std::string longest(64, '\0');
    for (size_t i = 0; i < longest.size(); ++i) longest[i] = static_cast<char>(i);
    EXPECT_EQ(names.seal(longest),
              hex("91484547101eaf8304c4fca2a41213b8a28e6c90cc52feda6c50f423d70e03a7"
                  "25d4633e370abea71092b2f598c9fa67d0670907ada0e070e62c9fa25445bfe8"));
    object::BlockHead head{.crc = 0, .length = 7};
    names.turn(head, names.seal("key-1"));
    EXPECT_EQ(head.crc, 0x56f5095cU);
    EXPECT_EQ(head.length, 7U);
}

TEST(NameCiphers, KeysOfAllLengthsOpenAndDiffer) {
    NameCipher names(counting_key(1)), others(counting_key(2));
    Random random(1);
    std::set<std::string> seen;
    for (size_t bytes = 1; bytes <= object::block_key_bytes_max; ++bytes) {
        std::string key(bytes, '\0');
        for (char& c : key) c = static_cast<char>(random.below(256));
        const std::string sealed = names.seal(key);
        EXPECT_EQ(sealed.size(), bytes);
        EXPECT_EQ(names.open(sealed), key);
        EXPECT_TRUE(seen.insert(sealed).second);
        if (bytes >= 4) {
            EXPECT_NE(sealed, others.seal(key));
            key.back() = static_cast<char>(key.back() ^ 1);
            EXPECT_NE(names.seal(key).substr(0, 4), sealed.substr(0, 4)) << "all bytes change";
        }
    }
}

}  // namespace
}  // namespace ros2s::cipher
