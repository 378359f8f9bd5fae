#include "keyed_digest.h"

#include <gtest/gtest.h>

#include "test_support/cipher.h"

namespace ros2s::cipher {
namespace {

// Computed by another implementation (Python's cryptography).
TEST(KeyedDigests, BytesMatchTheFormat) {
    KeyedDigest digests(counting_key(16));
    EXPECT_EQ(digests.of({.client = {{7}}, .slot = 3, .sequence = 9, .digest = 0x1234}),
              0xc419150cbad56a47U);
}

}  // namespace
}  // namespace ros2s::cipher
